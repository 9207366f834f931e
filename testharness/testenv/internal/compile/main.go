// Command compile puts a compiled module into a cache. Tests under the race detector use it, because
// with the detector compiling takes fifteen times as long. It compiles as package wasmhost does: without
// debug information, which the cache's key does not show, and which makes a module larger and slower.
//
//	go run ./testharness/testenv/internal/compile DIR MODULE [interruptible]
package main

import (
	"context"
	"log"
	"os"

	"github.com/tetratelabs/wazero"
)

func main() {
	wasm, err := os.ReadFile(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	cache, err := wazero.NewCompilationCacheWithDir(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	r := wazero.NewRuntimeWithConfig(context.Background(), wazero.NewRuntimeConfigCompiler().
		WithCompilationCache(cache).WithMemoryLimitPages(4096).WithDebugInfoEnabled(false).
		WithCloseOnContextDone(len(os.Args) > 3))
	if _, err := r.CompileModule(context.Background(), wasm); err != nil {
		log.Fatal(err)
	}
}
