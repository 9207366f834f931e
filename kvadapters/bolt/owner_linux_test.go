package bolt

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/verge-id/verge/testharness/wait"
)

// asUser calls f in a thread of another user, if this process is root.
func asUser(t *testing.T, uid uintptr, f func()) {
	t.Helper()
	if os.Getuid() != 0 {
		f()
		return
	}
	done := make(chan syscall.Errno, 1)
	go func() {
		runtime.LockOSThread() // the thread ends with this goroutine
		_, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, ^uintptr(0), uid, ^uintptr(0))
		if errno == 0 {
			f()
		}
		done <- errno
	}()
	if errno := wait.For(done); errno != 0 {
		t.Fatal(errno)
	}
}

// A server without privileges starts with a file of another owner or group, and root gives the log to the
// file's owner.
func TestCreateLog_ForeignOwner(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{dir, filepath.Dir(dir)} {
		if err := os.Chmod(name, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, "verge.db"+logSuffix)
	like, err := os.Stat("/") // root's
	if err != nil {
		t.Fatal(err)
	}
	create := func(uid uintptr) {
		asUser(t, uid, func() {
			l, err := createLog(path, Disk{Open: os.OpenFile, Append: writeAndSync}, like)
			if err != nil {
				t.Errorf("user %d: %v", uid, err)
				return
			}
			if err := l.close(); err != nil {
				t.Error(err)
			}
		})
		if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
			t.Errorf("contract 58: user %d: %v, %v", uid, info, err)
		}
	}
	create(4711)
	if os.Getuid() != 0 {
		return
	}
	if uid, _ := ownerOf(t, path); uid != 4711 {
		t.Errorf("the log belongs to %d", uid)
	}
	file := filepath.Join(dir, "verge.db")
	writing(filled(t))(t, file)
	if err := os.Chown(file, 4711, 4712); err != nil {
		t.Fatal(err)
	}
	if like, err = os.Stat(file); err != nil {
		t.Fatal(err)
	}
	create(0)
	if uid, gid := ownerOf(t, path); uid != 4711 || gid != 4712 {
		t.Errorf("the log that root has created belongs to %d:%d", uid, gid)
	}
}
