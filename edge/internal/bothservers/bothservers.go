// Package bothservers contains test cases for which the native server and the Worker must have the same
// results. The tests of both use them.
package bothservers

import (
	"embed"
	"encoding/json"
	"testing"
)

//go:embed *.json
var files embed.FS

// Preference is the Prefer header of a request, and the number of seconds that it may wait.
type Preference struct {
	Prefer  []string
	Seconds int
}

// Path is a path of a listener, and its loggable form.
type Path struct{ Rule, Listener, Path, Logged string }

// Preferences returns the cases of Prefer.
func Preferences(t testing.TB) []Preference { t.Helper(); return read[Preference](t, "prefer.json") }

// Paths returns the cases of logged paths.
func Paths(t testing.TB) []Path { t.Helper(); return read[Path](t, "paths.json") }

func read[T any](t testing.TB, name string) (cases []T) {
	t.Helper()
	b, err := files.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &cases); err != nil || len(cases) < 20 {
		t.Fatalf("%s: %d cases, %v", name, len(cases), err)
	}
	return cases
}
