//go:build unix

package config

import (
	"io/fs"
	"syscall"
)

// nonblock opens a pipe that has no writer.
const nonblock = syscall.O_NONBLOCK

func ownerOf(info fs.FileInfo) owner {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return owner{}
	}
	return owner{uid: int(stat.Uid), gid: int(stat.Gid)}
}
