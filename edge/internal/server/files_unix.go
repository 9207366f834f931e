//go:build unix

package server

import "golang.org/x/sys/unix"

// OpenFiles returns the maximum number of files that this process may open, or 0 if it is unknown.
func OpenFiles() uint64 {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	return uint64(limit.Cur)
}
