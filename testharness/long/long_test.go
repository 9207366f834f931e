package long

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const here = "github.com/verge-id/verge/testharness/long"

// source is the use of the long run in the tests of a package.
type source struct {
	tests []string // the test functions of the package
	asked []string // the names in its calls of this package
	wrong []string // violations, with their positions
}

// TestTable_Complete reads the sources of all tests. Each test that does less in the short run has an entry,
// and every entry is used.
func TestTable_Complete(t *testing.T) {
	sources, err := read(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	if len(sources) < 40 {
		t.Fatalf("only %d packages have tests: is this the root of the module?", len(sources))
	}
	asks := map[string]string{} // the entry's test, and the package that asks
	for dir, s := range sources {
		for _, what := range s.wrong {
			t.Error(what)
		}
		for _, name := range s.asked {
			asks[name] = dir
			if !slices.ContainsFunc(Table, func(e entry) bool { return e.Test == name && e.Package == dir }) {
				t.Errorf("%s asks for %s, which has no entry of that package in table.go", dir, name)
			}
		}
	}
	seen := map[string]bool{}
	for _, e := range Table {
		if seen[e.Test] {
			t.Errorf("table.go has two entries for %s", e.Test)
		}
		seen[e.Test] = true
		if asks[e.Test] == "" {
			t.Errorf("table.go has an entry for %s, and no test asks for it", e.Test)
		}
		if s := sources[e.Package]; s == nil || !slices.Contains(s.tests, e.Test) {
			t.Errorf("table.go: %s has no test %s", e.Package, e.Test)
		}
		if e.Only == "" || e.Short == "" {
			t.Errorf("table.go: the entry of %s lacks the addition of the long run, or the "+
				"content of the short run",
				e.Test)
		}
	}
}

// read reads all test files below the module's root, by the folder of their package.
func read(root string) (map[string]*source, error) {
	sources := map[string]*source{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); path != root && (name == "testdata" || name[0] == '.') {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		dir, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		dir = filepath.ToSlash(dir)
		if dir == "testharness/long" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if sources[dir] == nil {
			sources[dir] = new(source)
		}
		return sources[dir].add(path, text)
	})
	return sources, err
}

// add reads one file.
func (s *source) add(path string, text []byte) error {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, text, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	imports := slices.ContainsFunc(file.Imports, func(i *ast.ImportSpec) bool {
		return i.Path.Value == strconv.Quote(here)
	})
	wrong := func(n ast.Node, what string) {
		s.wrong = append(s.wrong, set.Position(n.Pos()).String()+": "+what)
	}
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if ok && f.Recv == nil && (strings.HasPrefix(f.Name.Name, "Test") ||
			strings.HasPrefix(f.Name.Name, "Benchmark")) {
			s.tests = append(s.tests, f.Name.Name)
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit:
			if n.Value == `"VERGE_LONG"` {
				wrong(n, "VERGE_LONG is for make; ask package long")
			}
		case *ast.CallExpr:
			switch from, name := called(n); {
			case from == "testing" && name == "Short":
				wrong(n, "testing.Short says not what is left out; ask package long")
			case from == "long" && imports:
				asked := ""
				if len(n.Args) > 1 {
					if l, ok := n.Args[1].(*ast.BasicLit); ok {
						asked, _ = strconv.Unquote(l.Value)
					}
				}
				if asked == "" {
					wrong(n, "name the entry of package long in quotes, so that a test can find it")
					break
				}
				s.asked = append(s.asked, asked)
			}
		}
		return true
	})
	return nil
}

// called returns the package and the name of a function that is called with its package.
func called(call *ast.CallExpr) (from, name string) {
	f := call.Fun
	if i, ok := f.(*ast.IndexExpr); ok { // with a type
		f = i.X
	}
	if s, ok := f.(*ast.SelectorExpr); ok {
		if x, ok := s.X.(*ast.Ident); ok {
			return x.Name, s.Sel.Name
		}
	}
	return "", ""
}

func TestRead_Source(t *testing.T) {
	const text = `package p
import (
	"os"
	"testing"
	"github.com/verge-id/verge/testharness/long"
)
func TestA(t *testing.T) {
	long.Skip(t, "TestA")
	n := long.Pick[int](t, "TestB", 1, 2)
	if testing.Short() || os.Getenv("VERGE_LONG") == "1" {
		long.Run(t, t.Name())
	}
}
`
	var s source
	if err := s.add("a_test.go", []byte(text)); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(s.tests, []string{"TestA"}) || !slices.Equal(s.asked, []string{"TestA", "TestB"}) {
		t.Errorf("tests %q, asked %q", s.tests, s.asked)
	}
	if len(s.wrong) != 3 {
		t.Fatalf("wrong: %q, want 3", s.wrong)
	}
	for i, want := range []string{
		"a_test.go:10:5: testing.Short", "VERGE_LONG is for make", "a_test.go:11:3: name the entry",
	} {
		if !strings.Contains(s.wrong[i], want) {
			t.Errorf("wrong: %q, want %q in it", s.wrong[i], want)
		}
	}
}
