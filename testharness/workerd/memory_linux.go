package workerd

import "syscall"

// inMemory is a directory in memory, or "" if there is none with enough room: in
// a container it may have only 64 MB. Durable Objects with SQLite are always
// files, and every answer waits until they are written.
func inMemory() string {
	const place, enough = "/dev/shm", 1 << 30
	var fs syscall.Statfs_t
	if syscall.Statfs(place, &fs) != nil || uint64(fs.Bavail)*uint64(fs.Bsize) < enough {
		return ""
	}
	return place
}
