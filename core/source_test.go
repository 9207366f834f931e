package core

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// eachFile parses every Go file of the repository. The path has slashes and begins at the repository's root.
func eachFile(t *testing.T, do func(path string, set *token.FileSet, file *ast.File)) {
	t.Helper()
	files := 0
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch name := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() && path != ".." &&
			(strings.HasPrefix(name, ".") || name == "node_modules" || name == "testdata"):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go"):
			return nil
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, 0)
		if err == nil {
			files++
			do(strings.TrimPrefix(filepath.ToSlash(path), "../"), set, file)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 300 {
		t.Fatalf("read %d files; the repository has more", files)
	}
}

// A reader should see a test's setup, action and expectation together. Split longer tests into a table, or
// into several tests with small helpers.
func TestNoTestIsLong(t *testing.T) {
	const most = 100
	eachFile(t, func(path string, set *token.FileSet, file *ast.File) {
		if !strings.HasSuffix(path, "_test.go") && !strings.HasPrefix(path, "testharness/") &&
			!strings.HasPrefix(path, "kvadapters/kvtest/") {
			return
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if n := set.Position(f.End()).Line - set.Position(f.Pos()).Line + 1; n > most {
				t.Errorf("%s: %s has %d lines, more than %d; make a table of it, or several tests",
					path, f.Name.Name, n, most)
			}
		}
	})
}

// A line fits on a page of code beside another, where a tab is four columns. A raw string may be longer: a
// line break would be part of it, and the tag of a field can have none. So may a comment of one word,
// such as an example's output.
func TestNoLineIsLong(t *testing.T) {
	const most = 110
	eachFile(t, func(path string, set *token.FileSet, file *ast.File) {
		if strings.HasSuffix(path, "_templ.go") {
			return // generated
		}
		raw := map[int]bool{}
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.BasicLit); ok && strings.HasPrefix(s.Value, "`") {
				for line := set.Position(s.Pos()).Line; line <= set.Position(s.End()).Line; line++ {
					raw[line] = true
				}
			}
			return true
		})
		text, err := os.ReadFile(filepath.Join("..", filepath.FromSlash(path)))
		if err != nil {
			t.Fatal(err)
		}
		number := 0
		for line := range strings.Lines(string(text)) {
			number++
			line = strings.TrimSuffix(line, "\n")
			n := utf8.RuneCountInString(strings.ReplaceAll(line, "\t", "    "))
			word := !strings.Contains(strings.TrimPrefix(strings.TrimSpace(line), "// "), " ")
			if n > most && !raw[number] && !word {
				t.Errorf("%s:%d has %d columns, more than %d: break the line", path, number, n, most)
			}
			if strings.Contains(line, "// "+"// ") {
				t.Errorf("%s:%d has a comment in a comment", path, number)
			}
		}
	})
}

// A service is put together by edge.Open, so that tests run the operators' service. New is called only where
// an edge is impossible: in the guest, in replays, in which every effect is recorded, and in the simulator,
// which schedules them.
func TestServicesArePutTogetherInOnePlace(t *testing.T) {
	allowed := []string{"edge/edge.go", "edge/transcript/stage.go", "testharness/corpus/recording_test.go",
		"testharness/internal/simulation/instance.go", "wasm/guest/configure.go",
		"wasm/settings/settings_test.go"}
	seen := map[string]bool{}
	eachFile(t, func(path string, set *token.FileSet, file *ast.File) {
		ast.Inspect(file, func(n ast.Node) bool {
			s, ok := n.(*ast.SelectorExpr)
			if !ok || s.Sel.Name != "New" {
				return true
			}
			if x, ok := s.X.(*ast.Ident); ok && x.Name == "core" {
				seen[path] = true
				if !slices.Contains(allowed, path) {
					t.Errorf("%s puts a service together by core.New; use edge.Open", set.Position(n.Pos()))
				}
			}
			return true
		})
	})
	for _, path := range allowed {
		if !seen[path] {
			t.Errorf("%s does not call core.New any more; take it off this test's list", path)
		}
	}
}
