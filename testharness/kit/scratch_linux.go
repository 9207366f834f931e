package kit

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
	memory = "/dev/shm" // what a test writes there costs no access to a disk
	enough = 1 << 30    // bytes; in a container there may be only 64 MB

	// held is a file of each such directory. The process that has made the directory holds a lock on it,
	// which ends with the process, however it ends. What the process has started does not inherit the lock.
	held = "held"
)

// locks are the files that this process has locked. Go would close, and so unlock, a file that nobody has any
// more.
var locks sync.Map

// swept removes once what earlier processes have left.
var swept sync.Once

// Scratch makes a directory for what a server under test writes: in memory, if there is enough of it. remove
// removes it. If the process is killed first, the next one that calls Scratch removes it, and ends what still
// runs there.
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

// hold makes the file, which has its name only when it is locked: nobody may find it in between.
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

// sweep removes the directories in place whose processes have ended. What it may not remove stays.
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
		p, err := os.FindProcess(pid) // first, so that what is signalled is what works there
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
