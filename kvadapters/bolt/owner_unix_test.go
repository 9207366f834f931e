//go:build unix

package bolt

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// ownerOf returns the user and the group of a file.
func ownerOf(t *testing.T, path string) (uid, gid uint32) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	stat := info.Sys().(*syscall.Stat_t)
	return stat.Uid, stat.Gid
}

// A server of another user can open the file that root has restored or compacted.
func TestReplacedFile_KeepsOwner(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can give a file to another user")
	}
	dir := t.TempDir()
	path, backup := filepath.Join(dir, "verge.db"), filepath.Join(dir, "backup")
	good := filled(t)
	writing(good)(t, path)
	writing(good)(t, backup)
	if err := os.Chown(path, 4711, 4712); err != nil {
		t.Fatal(err)
	}
	for name, replace := range map[string]func() error{
		"restore": func() error { return second(Restore(t.Context(), backup, path, time.Now())) },
		"compact": func() error { return second(Compact(t.Context(), path)) },
	} {
		if err := replace(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if uid, gid := ownerOf(t, path); uid != 4711 || gid != 4712 {
			t.Errorf("%s: the file belongs to %d:%d", name, uid, gid)
		}
	}
}
