//go:build linux || darwin

package bolt

import "golang.org/x/sys/unix"

// diskSpace returns the bytes that the disk of the file still accepts and its size, or -1 if they are
// unknown. Bytes that are reserved for root do not count.
func diskSpace(path string) (free, capacity int64) {
	var fs unix.Statfs_t
	if err := unix.Statfs(path, &fs); err != nil {
		return -1, -1
	}
	block := int64(fs.Bsize)
	return int64(fs.Bavail) * block, int64(fs.Blocks) * block
}
