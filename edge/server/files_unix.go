//go:build unix

package server

import "golang.org/x/sys/unix"

// OpenFiles is how many files this process may have open, 0 if that is not known.
func OpenFiles() uint64 {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	return uint64(limit.Cur)
}
