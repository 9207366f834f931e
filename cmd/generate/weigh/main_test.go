package main

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/verge-id/verge/core/method/kinds"
)

// TestWeigh_List: weigh takes the list of this release apart as it stands.
func TestWeigh_List(t *testing.T) {
	source, err := os.ReadFile(filepath.Join("../../..", list))
	if err != nil {
		t.Fatal(err)
	}
	names, err := kindsOf(source)
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, k := range kinds.All {
		want = append(want, k.Name)
	}
	if !slices.Equal(names, want) {
		t.Fatalf("the list has %q, want %q; the package of a kind has the kind's name", names, want)
	}
	for _, kind := range names {
		less, err := without(source, kind)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(less), kind+".Kind") || strings.Contains(string(less), "/"+kind+`"`) {
			t.Errorf("without %s, the module still has it:\n%s", kind, less)
		}
		rest, err := kindsOf(less)
		want := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == kind })
		if err != nil || !slices.Equal(rest, want) {
			t.Errorf("without %s: %q, %v; want %q", kind, rest, err, want)
		}
	}
}

func TestRunRejects(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	module := filepath.Join(here, "main.go")
	for _, c := range []struct{ name, source, wrong string }{
		{"another directory", "", "run it in the root of the repository"},
		{"no Go", "x", "expected 'package'"},
		{"no list", "package kinds\n", "no list with the name All"},
		{"a kind that is made in place", "package kinds\nvar All = []K{{}}\n", "not the Kind of a package"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			if c.source != "" {
				if err := os.MkdirAll(filepath.Dir(list), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(list, []byte(c.source), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := run([]string{module}, io.Discard); err == nil ||
				!strings.Contains(err.Error(), c.wrong) {
				t.Errorf("%v, want %q", err, c.wrong)
			}
		})
	}
	if err := run(nil, io.Discard); err == nil || !strings.Contains(err.Error(), "usage: weigh MODULE") {
		t.Errorf("no module is named: %v", err)
	}
}
