// Package guestcode shares the machine code of modules among the tests of all packages, so that a module is
// compiled once. It is not part of package testenv, because a linker needs a second to include wazero.
package guestcode

import (
	"sync"
	"testing"

	"github.com/tetratelabs/wazero"

	"github.com/verge-id/verge/testharness/testenv"
)

// Cache returns a cache that has the machine code of a module. It is for modules that testenv's Module,
// ModuleWith and Build return. A test that makes hundreds of modules keeps their code to itself.
func Cache(t testing.TB, module []byte) wazero.CompilationCache {
	t.Helper()
	dir := testenv.CompiledIn(t, module)
	if dir == "" {
		return wazero.NewCompilationCache()
	}
	once, _ := opened.LoadOrStore(dir, sync.OnceValues(func() (wazero.CompilationCache, error) {
		return wazero.NewCompilationCacheWithDir(dir)
	}))
	cache, err := once.(func() (wazero.CompilationCache, error))()
	if err != nil {
		t.Fatal(err)
	}
	return cache // it lives as long as the process, like a module that several tests share
}

var opened sync.Map // func() (wazero.CompilationCache, error), by directory
