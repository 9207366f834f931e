//go:build !linux && !darwin

package bolt

// diskSpace always returns -1: this system does not report it.
func diskSpace(string) (free, capacity int64) { return -1, -1 }
