package host

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestCountName(t *testing.T) {
	for _, c := range []struct{ name, event, want string }{
		{"a name of the list", "late_answer_ignored", "late_answer_ignored"},
		{"a name that is not in the list", "svc_sk_secret", "other"},
		{"a name that is not UTF-8", "\xff", "other"},
		{"none", "", "other"},
		{"another spelling of a name of the list", strings.ToUpper("late_answer_ignored"), "other"},
	} {
		if got := CountName(c.event); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	distinct := slices.Compact(slices.Sorted(slices.Values(counts)))
	if slices.Contains(counts, countOther) || len(distinct) != len(counts) {
		t.Errorf("the list has a name twice, or it has the name for all others: %q", counts)
	}
}

// TestCount_KnownNames: a name that is not in the list would be counted as "other".
func TestCount_KnownNames(t *testing.T) {
	calls := 0
	err := filepath.WalkDir("..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) != 1 {
				return true
			}
			if f, ok := call.Fun.(*ast.SelectorExpr); !ok || f.Sel.Name != "Count" && f.Sel.Name != "count" {
				return true
			}
			calls++
			ast.Inspect(call.Args[0], func(n ast.Node) bool {
				if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
					t.Errorf("%s: Count gets the text %s: add a constant to core/host/counts.go",
						set.Position(l.Pos()), l.Value)
				}
				return true
			})
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if calls < 5 {
		t.Errorf("only %d calls found", calls)
	}
}
