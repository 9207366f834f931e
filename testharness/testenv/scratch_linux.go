package testenv

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	memory = "/dev/shm" // in memory, so writes cost no access to a disk
	enough = 1 << 30    // bytes; in a container there may be only 64 MB

	// held is the name of a file in each such directory. The process that created the directory holds a lock
	// on it, which ends with the process in any case. Child processes do not inherit the lock.
	held = "held"
)

// locks are the files that this process has locked. Go would close, and so unlock, a file without references.
var locks sync.Map

// swept removes the files of earlier processes, once.
var swept sync.Once

// Scratch creates a directory for the data of a server under test: in memory, if there is enough of it.
// remove deletes it. If the process is killed first, the next process that calls Scratch deletes the
// directory, and ends the processes that still run there.
func Scratch(name string) (dir string, remove func(), err error) {
	swept.Do(func() { sweep(memory) }) // first, because it makes room
	place := memory
	var fs syscall.Statfs_t
	if syscall.Statfs(place, &fs) != nil || uint64(fs.Bavail)*uint64(fs.Bsize) < enough {
		place = ""
	}
	return scratchIn(place, name)
}

func scratchIn(place, name string) (dir string, remove func(), err error) {
	dir, err = os.MkdirTemp(place, "verge-"+name+"-")
	if err != nil {
		return "", nil, err
	}
	f, err := hold(dir)
	if err != nil {
		os.RemoveAll(dir)
		return "", nil, err
	}
	locks.Store(dir, f)
	return dir, func() { os.RemoveAll(dir); locks.Delete(dir); f.Close() }, nil
}

// hold creates the file, which gets its name only when it is locked, so that no process finds it in between.
func hold(dir string) (*os.File, error) {
	path := filepath.Join(dir, held)
	f, err := os.OpenFile(path+".new", os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err = errors.Join(err, os.Rename(path+".new", path)); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// sweep removes the directories in place whose processes have ended. It leaves directories that it may not
// remove.
func sweep(place string) {
	files, _ := filepath.Glob(filepath.Join(place, "verge-*", held))
	for _, path := range files {
		f, err := os.OpenFile(path, os.O_WRONLY|syscall.O_NOFOLLOW, 0)
		if err != nil {
			continue
		}
		if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			endAllIn(filepath.Dir(path))
			os.RemoveAll(filepath.Dir(path))
		}
		f.Close()
	}
}

// endAllIn ends the processes that work in a directory. SIGQUIT lets PostgreSQL give back its shared memory.
func endAllIn(dir string) {
	for _, signal := range []os.Signal{syscall.SIGQUIT, syscall.SIGKILL} {
		for range 500 {
			if signalAllIn(dir, signal) == 0 {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
}

// signalAllIn returns how many processes work in a directory, after it has sent them a signal.
func signalAllIn(dir string, signal os.Signal) (n int) {
	all, _ := filepath.Glob("/proc/[0-9]*/cwd")
	for _, cwd := range all {
		pid, err := strconv.Atoi(strings.Split(cwd, "/")[2])
		if err != nil {
			continue
		}
		p, err := os.FindProcess(pid) // first, so that the signal reaches the process that works there
		if err != nil {
			continue
		}
		if at, err := os.Readlink(cwd); err == nil && strings.HasPrefix(at+"/", dir+"/") {
			n++
			p.Signal(signal)
		}
		p.Release()
	}
	return n
}
