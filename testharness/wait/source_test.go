package wait_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// TestSources_BoundedReceives reads all tests of the module. A receive outside of a select has no limit, so a
// test uses wait.For, except for the end of a context, which has its own limit.
func TestSources_BoundedReceives(t *testing.T) {
	files := 0
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		files++
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, at := range unboundedReceives(file) {
			t.Errorf("%s: a receive without a limit; use wait.For", set.Position(at))
		}
		return nil
	})
	if err != nil || files < 100 {
		t.Errorf("%d files read: %v", files, err)
	}
}

func TestUnboundedReceives(t *testing.T) {
	for _, c := range []struct {
		rule, body string
		want       int
	}{
		{"a statement", "<-c", 1},
		{"a value", "v := <-c; _ = v", 1},
		{"two values", "v, ok := <-c; _, _ = v, ok", 1},
		{"in a condition", "if err := <-c; err != nil {}", 1},
		{"in the body of a case", "select { case <-c: <-c; default: }", 1},
		{"the cases of a select", "select { case <-c: case v := <-c: _ = v }", 0},
		{"the end of a context", "<-ctx.Done()", 0},
		{"a timer", "<-time.After(limit)", 0},
		{"a send", "c <- 1", 0},
	} {
		t.Run(c.rule, func(t *testing.T) {
			file, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\nfunc f() {"+c.body+"}", 0)
			if err != nil {
				t.Fatal(err)
			}
			if got := len(unboundedReceives(file)); got != c.want {
				t.Errorf("%d receives found, want %d", got, c.want)
			}
		})
	}
}

// unboundedReceives returns the positions of receives that wait without a limit.
func unboundedReceives(file *ast.File) (found []token.Pos) {
	bounded := map[ast.Node]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		if clause, ok := n.(*ast.CommClause); ok && clause.Comm != nil {
			ast.Inspect(clause.Comm, func(n ast.Node) bool { bounded[n] = true; return true })
		}
		receive, ok := n.(*ast.UnaryExpr)
		if ok && receive.Op == token.ARROW && !bounded[n] && !endsAlone(receive.X) {
			found = append(found, receive.Pos())
		}
		return true
	})
	return found
}

// endsAlone reports whether a channel belongs to a context or a timer.
func endsAlone(channel ast.Expr) bool {
	call, ok := channel.(*ast.CallExpr)
	if !ok {
		return false
	}
	called, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	of, _ := called.X.(*ast.Ident)
	return called.Sel.Name == "Done" || of != nil && of.Name == "time"
}
