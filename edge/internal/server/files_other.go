//go:build !unix

package server

// OpenFiles always returns 0: this system does not report the limit.
func OpenFiles() uint64 { return 0 }
