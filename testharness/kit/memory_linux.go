package kit

import "syscall"

// InMemory is a directory in memory, or "" if there is none with enough room: in a container it may have only
// 64 MB. What a test writes there costs no access to a disk. A process that is killed loses none of it.
func InMemory() string {
	const place, enough = "/dev/shm", 1 << 30
	var fs syscall.Statfs_t
	if syscall.Statfs(place, &fs) != nil || uint64(fs.Bavail)*uint64(fs.Bsize) < enough {
		return ""
	}
	return place
}
