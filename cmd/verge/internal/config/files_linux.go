package config

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/spf13/afero"
	"golang.org/x/sys/unix"
)

func ownedByRoot(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && stat.Uid == 0
}

// inSecretMount reports whether an open file is in a mount for secrets; see isSecretMount.
func inSecretMount(f afero.File) bool {
	file, ok := f.(*os.File)
	if !ok {
		return false
	}
	path, err := filepath.EvalSymlinks(file.Name())
	if err != nil {
		return false
	}
	var stat unix.Statfs_t
	if err := unix.Fstatfs(int(file.Fd()), &stat); err != nil {
		return false
	}
	inMemory := stat.Type == unix.TMPFS_MAGIC || stat.Type == unix.RAMFS_MAGIC
	return isSecretMount(path, inMemory, stat.Flags&unix.ST_RDONLY != 0)
}
