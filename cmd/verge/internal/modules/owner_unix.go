//go:build unix

package modules

import (
	"io/fs"
	"os"
	"syscall"
)

// ownedByUs reports whether a file belongs to this process' user or to root,
// which can change any file. Files that are not on a disk belong to us.
func ownedByUs(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return !ok || stat.Uid == 0 || int(stat.Uid) == os.Geteuid()
}
