package surface

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/verge-id/verge/"

// published lists the packages for programs outside of this module, and the purpose of each. Their exported
// names need no user here.
var published = map[string]string{
	"core":             "embeds the core in another edge",
	"core/host":        "implements the core's environment",
	"core/integration": "has the types of publishers and integrations",
	"core/kv":          "implements a store",
	"core/method":      "implements a kind of verification",
	"core/keyring":     "stores a key ring",
	"core/webhook":     "verifies events, or tests a receiver",
	"edge":             "runs a service",
	"kvadapters":       "opens a store",
	"testharness":      "tests a publisher's server",
}

// TestExportedNames_Users fails for a name that only its own top-level folder uses. Such a name belongs in an
// internal package, or can be private.
func TestExportedNames_Users(t *testing.T) {
	unused, err := withoutUsers("../../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range unused {
		folder := name[:strings.LastIndexByte(name, '.')]
		if published[folder] == "" && !slices.Contains(remaining, name) {
			t.Errorf("%s has no user outside of %s: make it private or internal", name, topOf(folder))
		}
	}
	for _, name := range remaining {
		if !slices.Contains(unused, name) {
			t.Errorf("%s is in remaining, and has a user or no longer exists: remove it", name)
		}
	}
}

// TestWithoutUsers tests each way in which another folder uses a name.
func TestWithoutUsers(t *testing.T) {
	root := t.TempDir()
	write(t, root, map[string]string{
		"a/x/x.go": "package x\nfunc Called(p Parameter) Result { return Result{} }\ntype Parameter int\n" +
			"type Result struct { Field Element; hidden Hidden }\ntype Element string\ntype Hidden int\n" +
			"const (\n\tFirst Element = \"1\"\n\tOther = 2\n)\n" +
			"const (\n\tRoleOne = 1\n\tRoleTwo = 2\n)\n" +
			"func (Result) Method(o Option) {}\ntype Option int\n" +
			"func OwnFolder() {}\n",
		"a/y/y.go": "package y\nimport \"" + module + "a/x\"\nvar V = x.OwnFolder\n",
		"b/b.go": "package b\nimport renamed \"" + module + "a/x\"\n" +
			"func f() { renamed.Called(renamed.RoleOne) }\n",
	})
	got, err := withoutUsers(root)
	want := []string{"a/x.Hidden", "a/x.Other", "a/x.OwnFolder", "a/y.V"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
}

// declared is the declaration of exported names.
type declared struct {
	used    bool
	mention []string // the names in the part of the declaration that users see
}

// withoutUsers returns the exported names that no other top-level folder uses. A name counts as used if the
// declaration of a used name mentions it, since callers then have its values.
func withoutUsers(root string) ([]string, error) {
	names, err := exportedNames(root)
	if err != nil {
		return nil, err
	}
	all := map[string]*declared{}
	for _, name := range names {
		all[name] = &declared{}
	}
	used := []string{}
	err = eachFile(root, func(folder string, file *ast.File, test bool) {
		imports := importsOf(file)
		ast.Inspect(file, func(n ast.Node) bool {
			name := qualified(n, imports)
			if all[name] != nil && topOf(name) != topOf(folder) {
				used = append(used, name)
			}
			return true
		})
		if !test {
			mentions(folder, file, imports, all)
		}
	})
	for len(used) > 0 {
		name := used[0]
		used = used[1:]
		if d := all[name]; d != nil && !d.used {
			d.used = true
			used = append(used, d.mention...)
		}
	}
	return slices.DeleteFunc(names, func(name string) bool { return all[name].used }), err
}

// mentions records which names the declarations of a file mention.
func mentions(folder string, file *ast.File, imports map[string]string, all map[string]*declared) {
	record := func(name string, part ast.Node) {
		d := all[folder+"."+name]
		if d == nil {
			return
		}
		hidden := map[*ast.Field]bool{}
		ast.Inspect(part, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.StructType:
				for _, f := range n.Fields.List {
					hidden[f] = len(f.Names) > 0 && !slices.ContainsFunc(f.Names, (*ast.Ident).IsExported)
				}
			case *ast.Field:
				if hidden[n] {
					return false
				}
			}
			if id, ok := n.(*ast.Ident); ok {
				d.mention = append(d.mention, folder+"."+id.Name)
			}
			if name := qualified(n, imports); name != "" {
				d.mention = append(d.mention, name)
			}
			return true
		})
	}
	for _, decl := range file.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			switch {
			case !decl.Name.IsExported():
			case decl.Recv == nil:
				record(decl.Name.Name, decl.Type)
			default:
				record(receiver(decl.Recv.List[0].Type), decl.Type)
			}
		case *ast.GenDecl:
			ofType, enumeration := "", enumerationOf(decl)
			for _, spec := range decl.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					record(spec.Name.Name, spec.Type)
				case *ast.ValueSpec:
					ofType = typeOf(spec, ofType)
					for _, name := range spec.Names {
						record(name.Name, spec)
						if ofType != "" { // users of a type compare its values with the constants
							record(ofType, name)
						}
						for _, other := range enumeration {
							record(name.Name, other)
						}
					}
				}
			}
		}
	}
}

// enumerationOf returns the constants of a declaration if their names begin with the same word, such as
// RoleAdmin and RoleViewer. They are the values of one thing, so a user of one of them needs all.
func enumerationOf(decl *ast.GenDecl) (all []*ast.Ident) {
	for _, spec := range decl.Specs {
		if s, ok := spec.(*ast.ValueSpec); ok && decl.Tok == token.CONST {
			all = append(all, s.Names...)
		}
	}
	word := regexp.MustCompile(`^[A-Z][a-z]+`)
	for _, name := range all {
		if first := word.FindString(name.Name); first == "" || first != word.FindString(all[0].Name) {
			return nil
		}
	}
	return all
}

// typeOf returns the name of the type of a value, or "".
func typeOf(spec *ast.ValueSpec, before string) string {
	if id, ok := spec.Type.(*ast.Ident); ok {
		return id.Name
	}
	if spec.Type == nil && len(spec.Values) == 0 {
		return before // repeated, as with iota
	}
	return ""
}

// receiver returns the name of a receiver's type.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// qualified returns the name that a node such as kv.Tx refers to, as "core/kv.Tx", or "".
func qualified(n ast.Node, imports map[string]string) string {
	selector, ok := n.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	id, ok := selector.X.(*ast.Ident)
	if !ok || imports[id.Name] == "" {
		return ""
	}
	return imports[id.Name] + "." + selector.Sel.Name
}

// importsOf returns the folders of this module that a file imports, by their local names.
func importsOf(file *ast.File) map[string]string {
	imports := map[string]string{}
	for _, i := range file.Imports {
		full, err := strconv.Unquote(i.Path.Value)
		folder, ours := strings.CutPrefix(full, module)
		if err != nil || !ours {
			continue
		}
		name := path.Base(folder)
		if i.Name != nil {
			name = i.Name.Name
		}
		imports[name] = folder
	}
	return imports
}

func topOf(folder string) string {
	top, _, _ := strings.Cut(folder, "/")
	top, _, _ = strings.Cut(top, ".")
	return top
}

// eachFile calls visit for each Go file below root, including tests and internal packages.
func eachFile(root string, visit func(folder string, file *ast.File, test bool)) error {
	return filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && slices.Contains([]string{"node_modules", ".git"}, entry.Name()) {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(name, ".go") || strings.Contains(filepath.ToSlash(name), "/testdata/") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		folder, err := filepath.Rel(root, filepath.Dir(name))
		visit(filepath.ToSlash(folder), file, strings.HasSuffix(name, "_test.go"))
		return err
	})
}
