package bolt

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// syncData writes a file's data to disk, and its size. Unlike File.Sync, it leaves out the times.
func syncData(f *os.File) error {
	for {
		err := unix.Fdatasync(int(f.Fd()))
		if err == nil {
			return nil
		}
		if !errors.Is(err, unix.EINTR) {
			return &os.PathError{Op: "fdatasync", Path: f.Name(), Err: err}
		}
	}
}
