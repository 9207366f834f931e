package config

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/afero"

	"github.com/verge-id/verge/core/keyring"
)

// ReadKeyring reads the key ring in a file that only its owner can read.
func ReadKeyring(fsys afero.Fs, path string) (keyring.File, error) {
	b, err := ReadPrivate(fsys, path)
	return parseKeyring(b, path, err)
}

// readRing reads the file of a running server's ring again. Its errors name the file.
func readRing(sys *System, path string) ([]byte, error) {
	b, err := sys.ReadSecretFile(path)
	if err != nil {
		return nil, err
	}
	if _, err := keyring.Parse(b); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return b, nil
}

// parseKeyring reads a ring from b, which was read from path with that error.
func parseKeyring(b []byte, path string, err error) (keyring.File, error) {
	if errors.Is(err, fs.ErrNotExist) {
		return keyring.File{}, fmt.Errorf("no key ring at %s: "+
			"`verge keyring generate %s` creates one", path, path)
	}
	if err != nil {
		return keyring.File{}, fmt.Errorf("key ring: %w", err)
	}
	ring, err := keyring.Parse(b)
	if err != nil {
		return ring, fmt.Errorf("%s: %w", path, err)
	}
	return ring, nil
}
