//go:build unix

package bolt

import (
	"os"
	"syscall"
)

// sameOwner gives a file the owner and the group of another one, if they differ.
func sameOwner(path string, as os.FileInfo) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	has, ok := info.Sys().(*syscall.Stat_t)
	want, wanted := as.Sys().(*syscall.Stat_t)
	if !ok || !wanted || has.Uid == want.Uid && has.Gid == want.Gid {
		return nil
	}
	return os.Chown(path, int(want.Uid), int(want.Gid))
}
