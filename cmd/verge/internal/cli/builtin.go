package cli

import (
	"bytes"
	"compress/gzip"
	"embed"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"

	"github.com/verge-id/verge/cmd/verge/internal/modules"
)

// builtIn has the module that `make wasm` puts there. Without `make wasm`, the folder is empty.
//
//go:embed all:module
var builtIn embed.FS

const (
	builtInFile   = "module/verge.wasm.gz"
	builtInSource = "built in"

	// roomMax is the maximum number of bytes that are allocated before the module is unpacked.
	roomMax = 32 << 20
)

var errNotBuiltIn = errors.New("this binary has no built-in module: " +
	"run `make build` to build one, or give a file with --module")

// builtInModule returns the module that is part of this binary. It is trusted like the binary.
func builtInModule() (modules.Module, error) { return builtInOf(builtIn) }

func builtInOf(fsys fs.FS) (modules.Module, error) {
	packed, err := fs.ReadFile(fsys, builtInFile)
	if errors.Is(err, fs.ErrNotExist) {
		return modules.Module{}, errNotBuiltIn
	}
	if err != nil {
		return modules.Module{}, err
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return modules.Module{}, fmt.Errorf("built-in module: %w", err)
	}
	// The last four bytes have the size. Without it, the growing buffer would be copied again and again.
	size := binary.LittleEndian.Uint32(packed[len(packed)-4:])
	wasm := bytes.NewBuffer(make([]byte, 0, min(size, roomMax)+bytes.MinRead))
	if _, err := wasm.ReadFrom(z); err != nil {
		return modules.Module{}, fmt.Errorf("built-in module: %w", err)
	}
	return modules.New(wasm.Bytes(), builtInSource)
}
