// Package bothservers has cases that the native server and the Worker must treat alike. The tests of both
// read them here.
package bothservers

import (
	"embed"
	"encoding/json"
	"testing"
)

//go:embed *.json
var files embed.FS

// Preference is the Prefer of a request, and for how many seconds it may wait.
type Preference struct {
	Prefer  []string
	Seconds int
}

// Path is a path of a listener, and what the log has of it.
type Path struct{ Rule, Listener, Path, Logged string }

// Preferences returns what requests prefer.
func Preferences(t testing.TB) []Preference { t.Helper(); return read[Preference](t, "prefer.json") }

// Paths returns paths that are logged.
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
