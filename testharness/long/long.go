// Package long tells a test whether this is the long run, and says what only the long run covers.
//
// The short run is `make test`, and `go test -short`. It is there to be run before each commit: it walks
// every promise once, on every store and engine that is installed. Only the slowest tests take turns there.
// In a real browser it does a walk with the sandbox, one with a wallet, and hops. Layout, and wallets,
// proxies and languages that others have made come with the long run.
// The long run is `VERGE_LONG=1 make test`, as CI does it, and `go test` without -short. It has all seeds,
// all kills and the whole matrix.
//
// A test that does less in the short run asks this package, and has an entry in Table. A test of this package
// finds those that ask without an entry, the entries that no test asks for, and the tests that decide by
// themselves.
package long

import "testing"

// entry describes the part of a test that only the long run has.
type entry struct {
	Package string // that the test is in, below the module's root
	Test    string // its function
	Only    string // what only the long run covers
	Short   string // what the short run does instead
}

// Run reports whether this is the long run. The name is that of an entry's test.
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
