// Package long reports whether this is the long run, and lists the tests that only the long run covers.
//
// The short run is `make test`, and `go test -short`. It runs before each commit: it tests every promise
// once, on every installed store and engine. Only the slowest tests take turns there. In a real browser it
// does a walk with the sandbox, a walk with a wallet, and hops. Layout, and independent wallets, proxies and
// languages, belong to the long run. The long run is `VERGE_LONG=1 make test`, as in CI, and `go test`
// without -short. It has all seeds, all kills and the whole matrix.
//
// A test that does less in the short run calls this package, and has an entry in Table. A test of this
// package finds calls without an entry, entries without a call, and tests that decide without this package.
package long

import "testing"

// entry describes the part of a test that only the long run has.
type entry struct {
	Package string // that the test is in, below the module's root
	Test    string // its function
	Only    string // the cases of the long run only
	Short   string // the cases of the short run instead
}

// Run reports whether this is the long run. The name is the test's name in its entry.
func Run(t testing.TB, name string) bool {
	t.Helper()
	find(t, name)
	return !testing.Short()
}

// Skip ends a test, or a case of one, that is for the long run alone.
func Skip(t testing.TB, name string) {
	t.Helper()
	if e := find(t, name); testing.Short() {
		t.Skipf("SKIP: only VERGE_LONG=1 covers %s", e.Only)
	}
}

// Pick returns the first value in the short run and the second one in the long run.
func Pick[T any](t testing.TB, name string, short, long T) T {
	t.Helper()
	if Run(t, name) {
		return long
	}
	return short
}

func find(t testing.TB, name string) entry {
	t.Helper()
	for _, e := range Table {
		if e.Test == name {
			return e
		}
	}
	t.Fatalf("%s has no entry in testharness/long/table.go; say there what only the long run covers", name)
	return entry{}
}
