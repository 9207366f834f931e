package surface

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write exported.txt")

// TestExportedNames compares exported.txt with the sources.
func TestExportedNames(t *testing.T) {
	names, err := exportedNames("../../..")
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("exported.txt", []byte(strings.Join(names, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile("exported.txt")
	if err != nil {
		t.Fatal(err)
	}
	listed := strings.Fields(string(text))
	for _, name := range names {
		if !slices.Contains(listed, name) {
			t.Errorf("%s is exported and not in exported.txt. Can it be private, or internal? "+
				"If not, run go generate ./testharness/internal/surface", name)
		}
	}
	for _, name := range listed {
		if !slices.Contains(names, name) {
			t.Errorf("%s is in exported.txt and not exported; "+
				"run go generate ./testharness/internal/surface", name)
		}
	}
}

// TestExportedNames_Kinds tests one declaration of each kind.
func TestExportedNames_Kinds(t *testing.T) {
	root := t.TempDir()
	write(t, root, map[string]string{
		"a/a.go": "package a\nfunc F() {}\nfunc f() {}\ntype T struct{}\nfunc (T) M() {}\n" +
			"const (\n\tC = 1\n\tc = 2\n)\nvar V, v int\n",
		"a/a_test.go":       "package a\nfunc InTest() {}\n",
		"a/internal/b/b.go": "package b\nfunc Internal() {}\n",
		"a/testdata/x.go":   "package x\nfunc Data() {}\n",
		"cmd/main.go":       "package main\nfunc Command() {}\n",
	})
	got, err := exportedNames(root)
	if want := []string{"a.C", "a.F", "a.T", "a.V"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
}

// write writes files below a folder.
func write(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for file, text := range files {
		path := filepath.Join(root, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// exportedNames returns the exported top-level names below a folder, as "core/kv.Tx", sorted.
func exportedNames(root string) (names []string, err error) {
	skipped := []string{"internal", "testdata", "node_modules", ".git"}
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains(skipped, entry.Name()):
			return filepath.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil || file.Name.Name == "main" {
			return err
		}
		folder, err := filepath.Rel(root, filepath.Dir(path))
		for _, name := range exportedOf(file) {
			names = append(names, filepath.ToSlash(folder)+"."+name)
		}
		return err
	})
	slices.Sort(names)
	return slices.Compact(names), err
}

func exportedOf(file *ast.File) (names []string) {
	add := func(all ...*ast.Ident) {
		for _, name := range all {
			if name.IsExported() {
				names = append(names, name.Name)
			}
		}
	}
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				add(d.Name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					add(s.Name)
				case *ast.ValueSpec:
					add(s.Names...)
				}
			}
		}
	}
	return names
}
