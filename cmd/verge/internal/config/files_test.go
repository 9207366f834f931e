package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/afero"
)

// TestTooOpen is the rule for the modes of files with secrets.
func TestTooOpen(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		mode                fs.FileMode
		byRoot, secretMount bool
		want                bool
	}{
		{mode: 0o600}, {mode: 0o400}, {mode: 0o700},
		{mode: 0o640, want: true}, {mode: 0o604, want: true}, {mode: 0o444, want: true},
		{mode: 0o640, byRoot: true}, {mode: 0o440, byRoot: true},
		{mode: 0o660, byRoot: true, want: true}, {mode: 0o644, byRoot: true, want: true},
		{mode: 0o604, byRoot: true, want: true}, {mode: 0o650, byRoot: true, want: true},
		{mode: 0o444, secretMount: true}, {mode: 0o644, secretMount: true}, {mode: 0o440, secretMount: true},
		{mode: 0o646, secretMount: true, want: true}, {mode: 0o664, secretMount: true, want: true},
		{mode: 0o777, byRoot: true, secretMount: true, want: true},
	} {
		if got := tooOpen(c.mode, c.byRoot, c.secretMount); got != c.want {
			t.Errorf("mode %04o, owned by root: %v, in a mount for secrets: %v: too open is %v, want %v",
				c.mode, c.byRoot, c.secretMount, got, c.want)
		}
	}
	for _, c := range []struct {
		path               string
		inMemory, readOnly bool
		want               bool
	}{
		{"/etc/secrets/..2026_11_22/ring", true, true, true}, // Kubernetes
		{"/run/secrets/ring", true, true, true},              // Docker Swarm
		{"/run/secrets/ring", true, false, true},             // Podman
		{"/run/secrets/ring", false, true, true},             // Docker Compose: a file of the host
		{"/run/secrets/ring", false, false, false},
		{"/run/secrets-of-mine/ring", true, false, false},
		{"/dev/shm/ring", true, false, false},
		{"/tmp/ring", true, false, false},
		{"/etc/verge/ring", false, true, false}, // a machine whose system is read-only has users, too
		{"/etc/verge/ring", false, false, false},
	} {
		if got := isSecretMount(c.path, c.inMemory, c.readOnly); got != c.want {
			t.Errorf("%s, in memory: %v, read-only: %v: a mount for secrets is %v, want %v",
				c.path, c.inMemory, c.readOnly, got, c.want)
		}
	}
}

// TestReadPrivateOfRoot: a file of root may be read by its group, and by no other users.
func TestReadPrivateOfRoot(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" || os.Getuid() != 0 {
		t.Skip("only root on Linux can make a file of root")
	}
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte("s"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		mode  fs.FileMode
		owner int
		good  bool
	}{
		{0o640, 0, true}, {0o440, 0, true}, {0o600, 4711, true},
		{0o640, 4711, false}, {0o644, 0, false}, {0o660, 0, false},
	} {
		if err := os.Chown(path, c.owner, 4711); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, c.mode); err != nil {
			t.Fatal(err)
		}
		_, err := ReadPrivate(afero.NewOsFs(), path)
		if (err == nil) != c.good || err != nil &&
			!strings.Contains(err.Error(), "make root the owner, with mode 640") {
			t.Errorf("mode %04o of user %d: %v", c.mode, c.owner, err)
		}
	}
}

// TestWritePrivate_Advice: the error has the path of the file and the fix.
func TestWritePrivate_Advice(t *testing.T) {
	err := WritePrivate(afero.NewReadOnlyFs(afero.NewMemMapFs()), "/d/f", nil)
	if err == nil || !strings.Contains(err.Error(), "writing /d/f: ") ||
		!strings.Contains(err.Error(), "as root or as the owner of the directory") {
		t.Errorf("without permission: %v", err)
	}
	if runtime.GOOS != "linux" {
		return
	}
	err = WritePrivate(afero.NewOsFs(), "/proc/f", nil)
	if err == nil || !strings.Contains(err.Error(), "writing /proc/f: ") {
		t.Errorf("a directory without files: %v", err)
	}
}

// TestWritePrivate shows that a failed write leaves the old file and no other.
func TestWritePrivate(t *testing.T) {
	fs := afero.NewMemMapFs()
	if err := WritePrivate(fs, "/d/f", []byte("old")); err != nil {
		t.Fatal(err)
	}
	if err := WritePrivate(fs, "/d/f", []byte("new")); err != nil {
		t.Fatal(err)
	}
	b, err := ReadPrivate(fs, "/d/f")
	if err != nil || string(b) != "new" {
		t.Errorf("%q, %v", b, err)
	}
	if err := WritePrivate(afero.NewReadOnlyFs(fs), "/d/f", []byte("newer")); err == nil {
		t.Error("writing to a read-only file system succeeded")
	}
	names, err := afero.ReadDir(fs, "/d")
	if err != nil || len(names) != 1 {
		t.Errorf("%d files are left, %v", len(names), err)
	}
	if err := fs.Chmod("/d/f", 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadPrivate(fs, "/d/f"); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("ReadPrivate accepted a secret that others can read: %v", err)
	}
}

// The advice fits the cause.
func TestAdvice_ByCause(t *testing.T) {
	for _, c := range []struct {
		rule string
		err  error
		want string
	}{
		{"a read-only file system", &fs.PathError{Op: "open", Path: "/etc/x", Err: syscall.EROFS},
			"mount a volume there"},
		{"a full disk", &fs.PathError{Op: "write", Path: "/etc/x", Err: syscall.ENOSPC}, "free some space"},
		{"no permission", &fs.PathError{Op: "open", Path: "/etc/x", Err: syscall.EACCES}, "its owner"},
	} {
		if got := WithAdvice(c.err); !errors.Is(got, c.err) || !strings.Contains(got.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.rule, got, c.want)
		}
	}
}

// Contract 16: the log of a running server names the ring that cannot be read again.
func TestReadRing_Errors(t *testing.T) {
	t.Parallel()
	sys := testSystem()
	for name, content := range map[string]string{"empty.json": "", "cut.json": `{"version":1,"keys":[`} {
		if err := afero.WriteFile(sys.FS, name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readRing(sys, name); err == nil || !strings.HasPrefix(err.Error(), name+": key ring: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
