package workerd

import "syscall"

// inMemory is where files cost no disk, "" if there is no such place with room
// enough: in a container it may have 64 MB. Durable Objects with SQLite are
// always in files, and every answer waits for them.
func inMemory() string {
	const place, enough = "/dev/shm", 1 << 30
	var fs syscall.Statfs_t
	if syscall.Statfs(place, &fs) != nil || uint64(fs.Bavail)*uint64(fs.Bsize) < enough {
		return ""
	}
	return place
}
