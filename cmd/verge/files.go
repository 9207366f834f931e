package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/spf13/afero"
)

// writePrivate writes b to path, readable by its owner only, as a whole or not at all: a reader gets the old
// file or the new one.
func writePrivate(fsys afero.Fs, path string, b []byte) (err error) {
	f, err := afero.TempFile(fsys, filepath.Dir(path), "."+filepath.Base(path)+".*") // 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			fsys.Remove(f.Name())
		}
	}()
	_, err = f.Write(b)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return fsys.Rename(f.Name(), path)
}

// readPrivate reads a file that holds a secret. It refuses a file that others may read: they may know the
// secret, so it has to be replaced.
func readPrivate(fsys afero.Fs, path string) ([]byte, error) {
	info, err := fsys.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return nil, fmt.Errorf("%s is a directory", path)
	}
	if open := info.Mode().Perm() & 0o077; open != 0 {
		return nil, fmt.Errorf("%s can be read by others (mode %04o): run `chmod 600 %s`, "+
			"and replace what is in it if others could", path, info.Mode().Perm(), path)
	}
	return afero.ReadFile(fsys, path)
}

func isMissing(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// writable tries to write into dir. If dir does not exist, it tries the nearest directory above it
// that does, because the store makes missing directories itself.
func writable(fsys afero.Fs, dir string) error {
	for {
		info, err := fsys.Stat(dir)
		if err == nil && !info.IsDir() {
			return errors.New("it is not a directory")
		}
		if err == nil {
			break
		}
		if !isMissing(err) || dir == filepath.Dir(dir) {
			return err
		}
		dir = filepath.Dir(dir)
	}
	f, err := afero.TempFile(fsys, dir, ".verge-check-*")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), fsys.Remove(f.Name()))
}
