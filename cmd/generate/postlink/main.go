// Command postlink optimizes the file of a WebAssembly module that `go build` has written. See wasm/postlink.
// `make module` runs it.
package main

import (
	"fmt"
	"os"

	"github.com/verge-id/verge/wasm/postlink"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("usage: postlink MODULE, the file that is rewritten")
	}
	wasm, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	if wasm, err = postlink.Module(wasm); err != nil {
		return fmt.Errorf("%s: %w", args[0], err)
	}
	return os.WriteFile(args[0], wasm, 0o644)
}
