package main

import (
	"bytes"
	"compress/gzip"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/spf13/afero"
)

// module is a guest as it was read, not yet compiled.
type module struct {
	wasm      []byte
	digest    string
	signature *signature // nil: none
	version   int64      // that a checked signature says; 0: none
	source    string     // a file, or builtInSource
}

// maxModule bounds a module: five times what `make wasm` builds.
const maxModule = 32 << 20

// newModule takes bytes that may be a module. Whether they are one shows when
// they are compiled; this much tells a file taken for another one.
func newModule(wasm []byte, source string) (module, error) {
	if !bytes.HasPrefix(wasm, []byte("\x00asm\x01\x00\x00\x00")) {
		return module{}, fmt.Errorf("%s is no WebAssembly module: it does not begin like one", source)
	}
	return module{wasm: wasm, digest: digestOf(wasm), source: source}, nil
}

// readModule reads the module in a file, and the signature beside it if there is one.
func readModule(fsys afero.Fs, path string) (module, error) {
	wasm, err := readAtMost(fsys, path, maxModule)
	if err != nil {
		return module{}, err
	}
	m, err := newModule(wasm, path)
	if err != nil {
		return m, err
	}
	b, err := readAtMost(fsys, signatureFile(path), 1<<10)
	if isMissing(err) {
		return m, nil
	}
	if err != nil {
		return m, err
	}
	if m.signature, err = parseSignature(string(b)); err != nil {
		err = fmt.Errorf("%s: %w", signatureFile(path), err)
	}
	return m, err
}

// says is the version in the module's signature, which may be anybody's.
func (m module) says() int64 {
	if m.signature == nil {
		return 0
	}
	return m.signature.version
}

// signatureFile is where the signature of the module in a file is.
func signatureFile(path string) string { return path + ".sig" }

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

// builtIn holds the module that `make wasm` has put there, if it has.
//
//go:embed all:module
var builtIn embed.FS

const (
	builtInFile   = "module/verge.wasm.gz"
	builtInSource = "built in"
)

var errNotBuiltIn = errors.New("this binary has no module built in: `make build` builds one that has, or name a file with --module")

// builtInModule is the module that came with this binary, and is trusted as the binary is.
func builtInModule() (module, error) { return builtInOf(builtIn) }

func builtInOf(fsys fs.FS) (module, error) {
	packed, err := fs.ReadFile(fsys, builtInFile)
	if errors.Is(err, fs.ErrNotExist) {
		return module{}, errNotBuiltIn
	}
	if err != nil {
		return module{}, err
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return module{}, fmt.Errorf("built-in module: %w", err)
	}
	wasm, err := io.ReadAll(z)
	if err != nil {
		return module{}, fmt.Errorf("built-in module: %w", err)
	}
	return newModule(wasm, builtInSource)
}
