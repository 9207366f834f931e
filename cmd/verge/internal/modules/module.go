package modules

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/spf13/afero"
)

// Module is a guest as it was read, not yet compiled.
type Module struct {
	WASM      []byte
	Digest    string     // SHA-256 of WASM, in hex
	Signature *Signature // nil: none
	Version   int64      // from a signature that Trust has checked; 0: none
	Source    string     // where it came from, for people: a file's path, for example
}

// maxSize is the largest size of a module. It is five times the size of the module that `make wasm` builds.
const maxSize = 32 << 20

// New makes a Module of bytes. It rejects files of another kind, but only compiling shows whether the
// bytes really are a module.
func New(wasm []byte, source string) (Module, error) {
	if !bytes.HasPrefix(wasm, []byte("\x00asm\x01\x00\x00\x00")) {
		return Module{}, fmt.Errorf("%s is not a WebAssembly module", source)
	}
	return Module{WASM: wasm, Digest: digestOf(wasm), Source: source}, nil
}

// digestOf returns the SHA-256 that identifies a module.
func digestOf(wasm []byte) string {
	sum := sha256.Sum256(wasm)
	return hex.EncodeToString(sum[:])
}

// Read reads the module in a file, and the signature file next to it, if it exists.
func Read(fsys afero.Fs, path string) (Module, error) {
	m, err := ReadUnsigned(fsys, path)
	if err != nil {
		return m, err
	}
	b, err := readAtMost(fsys, SignatureFile(path), 1<<10)
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil
	}
	if err != nil {
		return m, err
	}
	if m.Signature, err = parseSignature(string(b)); err != nil {
		err = fmt.Errorf("%s: %w", SignatureFile(path), err)
	}
	return m, err
}

// ReadUnsigned reads the module in a file, and no signature.
func ReadUnsigned(fsys afero.Fs, path string) (Module, error) {
	wasm, err := readAtMost(fsys, path, maxSize)
	if err != nil {
		return Module{}, err
	}
	return New(wasm, path)
}

// SignatureFile is where the signature of the module in a file is.
func SignatureFile(path string) string { return path + ".sig" }

func readAtMost(fsys afero.Fs, path string, n int64) ([]byte, error) {
	f, err := fsys.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, n+1))
	if err == nil && int64(len(b)) > n {
		err = fmt.Errorf("%s is larger than %d bytes", path, n)
	}
	return b, err
}
