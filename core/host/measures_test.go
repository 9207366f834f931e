package host

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestMeasurementsAreOfTheLists(t *testing.T) {
	for _, c := range []struct {
		name string
		give Measurement // as the engine's host reports it
		want Measurement
		told Measurement // if a core tells the same
	}{
		{
			"an event that speaks for itself",
			Measurement{Method: "bankid", Event: "begun"},
			Measurement{Method: "bankid", Event: "begun"},
			Measurement{Method: "bankid", Event: "begun"},
		},
		{
			"a failed attempt with its reason",
			Measurement{Method: "face", Event: "attempt_failed", Reason: "below"},
			Measurement{Method: "face", Event: "attempt_failed", Reason: "below"},
			Measurement{Method: "face", Event: "attempt_failed", Reason: "below"},
		},
		{
			"a fetch, which a core does not measure",
			Measurement{Method: "bankid", Event: MethodFetchFailed, Reason: FetchTimeout, Took: time.Second},
			Measurement{Method: "bankid", Event: "fetch_failed", Reason: "timeout", Took: time.Second},
			Measurement{Method: "bankid", Event: "other", Reason: "timeout"},
		},
		{
			"an event that is not in the list",
			Measurement{Method: "bankid", Event: "svc_sk_secret"},
			Measurement{Method: "bankid", Event: "other"},
			Measurement{Method: "bankid", Event: "other"},
		},
		{
			"a reason that is not in the list",
			Measurement{Method: "bankid", Event: "refused", Reason: "nonce 4711 is not 4712"},
			Measurement{Method: "bankid", Event: "refused", Reason: "other"},
			Measurement{Method: "bankid", Event: "refused", Reason: "other"},
		},
		{
			"texts that are not UTF-8",
			Measurement{Event: "\xff", Reason: "\xfe"},
			Measurement{Event: "other", Reason: "other"},
			Measurement{Event: "other", Reason: "other"},
		},
		{"none", Measurement{}, Measurement{Event: "other"}, Measurement{Event: "other"}},
	} {
		if got := c.give.Listed(); got != c.want {
			t.Errorf("%s: listed as %+v, want %+v", c.name, got, c.want)
		}
		if got := NewMeasurement(c.give.Method, c.give.Event, c.give.Reason); got != c.told {
			t.Errorf("%s: told as %+v, want %+v", c.name, got, c.told)
		}
	}
	for _, list := range [][]string{slices.Concat(methodEvents, fetchEvents), methodReasons} {
		distinct := slices.Compact(slices.Sorted(slices.Values(list)))
		if slices.Contains(list, countOther) || slices.Contains(list, "") || len(distinct) != len(list) {
			t.Errorf("the list has a name twice, none, or the name for all others: %q", list)
		}
	}
}

// TestRejectionsAreOfTheList: a rejection whose reason is not in the list would be counted as "other".
// Reasons are found where a kind of method writes them: in a Rejection or a SettingError, or as the argument
// of a function rejected.
func TestRejectionsAreOfTheList(t *testing.T) {
	reason := func(set *token.FileSet, e ast.Expr) {
		l, ok := e.(*ast.BasicLit)
		if !ok || l.Kind != token.STRING {
			return
		}
		text, err := strconv.Unquote(l.Value)
		if text == "" { // the reason is elsewhere
			return
		}
		if err != nil || !slices.Contains(methodReasons, text) {
			t.Errorf("%s: a refusal has the reason %s: add it to methodReasons in core/host/measures.go",
				set.Position(l.Pos()), l.Value)
		}
	}
	files := 0
	walk := func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		files++
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GenDecl: // a file of reasons has them as constants and in tables
				if n.Tok == token.IMPORT || filepath.Base(path) != "rejection.go" {
					break
				}
				for _, spec := range n.Specs {
					v, ok := spec.(*ast.ValueSpec)
					if !ok { // a type
						continue
					}
					for _, e := range v.Values {
						if table, ok := e.(*ast.CompositeLit); ok {
							for _, row := range table.Elts {
								reason(set, row.(*ast.KeyValueExpr).Value)
							}
						}
						reason(set, e)
					}
				}
			case *ast.CompositeLit:
				if name := nameOf(n.Type); name != "Rejection" && name != "SettingError" {
					break
				}
				for _, e := range n.Elts {
					pair, ok := e.(*ast.KeyValueExpr)
					if ok && nameOf(pair.Key) == "Reason" {
						reason(set, pair.Value)
					}
				}
			case *ast.CallExpr:
				if nameOf(n.Fun) == "rejected" {
					for _, e := range n.Args {
						reason(set, e)
					}
				}
			}
			return true
		})
		return nil
	}
	err := errors.Join(filepath.WalkDir("../method", walk), filepath.WalkDir("../internal/sdjwt", walk))
	if err != nil || files == 0 {
		t.Fatalf("%d files were read: %v", files, err)
	}
}

func nameOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}
