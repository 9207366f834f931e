// Command weigh prints the size that each kind of verification method adds to the WebAssembly module of `make
// wasm`: it builds the module again without the kind. Code that two kinds share is in neither number, because
// the module needs it for either.
package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/verge-id/verge/wasm/postlink"
)

// list is the file with the list of kinds, seen from the root of the repository.
const list = "core/method/kinds/kinds.go"

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "weigh:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	if len(args) != 1 {
		return errors.New("usage: weigh MODULE, which was built from the source in the current directory")
	}
	module, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	source, err := os.ReadFile(list)
	if err != nil {
		return fmt.Errorf("run it in the root of the repository: %w", err)
	}
	kinds, err := kindsOf(source)
	if err != nil {
		return fmt.Errorf("%s: %w", list, err)
	}
	dir, err := os.MkdirTemp("", "verge-weigh-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	whole, err := packed(module)
	if err != nil {
		return err
	}
	for _, kind := range kinds {
		less, err := without(source, kind)
		if err != nil {
			return fmt.Errorf("%s: %w", list, err)
		}
		smaller, err := build(dir, less)
		if err != nil {
			return fmt.Errorf("without %s: %w", kind, err)
		}
		rest, err := packed(smaller)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(out, "  of these, %-9s adds %7d bytes, %6d with gzip\n",
			kind, len(module)-len(smaller), whole-rest); err != nil {
			return err
		}
	}
	return nil
}

// build builds the module with another list of kinds.
func build(dir string, kinds []byte) ([]byte, error) {
	file, err := filepath.Abs(list)
	if err != nil {
		return nil, err
	}
	replacement, overlay, wasm := filepath.Join(dir, "kinds.go"), filepath.Join(dir, "overlay.json"),
		filepath.Join(dir, "verge.wasm")
	paths, err := json.Marshal(map[string]any{"Replace": map[string]string{file: replacement}})
	if err != nil {
		return nil, err
	}
	err = errors.Join(os.WriteFile(replacement, kinds, 0o600), os.WriteFile(overlay, paths, 0o600))
	if err != nil {
		return nil, err
	}
	// As make wasm does it.
	args := append([]string{"build", "-buildmode=c-shared", "-trimpath", "-ldflags=-s -w",
		"-overlay", overlay, "-o", wasm}, postlink.Gcflags()...)
	cmd := exec.Command("go", append(args, "./wasm/guest")...)
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, text)
	}
	b, err := os.ReadFile(wasm)
	if err != nil {
		return nil, err
	}
	return postlink.Module(b)
}

// packed is how many bytes gzip makes of b.
func packed(b []byte) (int, error) {
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return 0, err
	}
	if _, err := z.Write(b); err != nil {
		return 0, err
	}
	err = z.Close()
	return out.Len(), err
}

// kindsOf returns the packages that the list names, in its order.
func kindsOf(source []byte) ([]string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), "", source, 0)
	if err != nil {
		return nil, err
	}
	all, err := elements(file)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(all.Elts))
	for i, e := range all.Elts {
		if names[i] = packageOf(e); names[i] == "" {
			return nil, errors.New("an element of All is not the Kind of a package")
		}
	}
	return names, nil
}

// without returns the source of the list without one kind, and without its import.
func without(source []byte, kind string) ([]byte, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "", source, 0)
	if err != nil {
		return nil, err
	}
	all, err := elements(file)
	if err != nil {
		return nil, err
	}
	all.Elts = slices.DeleteFunc(all.Elts, func(e ast.Expr) bool { return packageOf(e) == kind })
	for _, d := range file.Decls {
		if d, ok := d.(*ast.GenDecl); ok && d.Tok == token.IMPORT {
			d.Specs = slices.DeleteFunc(d.Specs, func(s ast.Spec) bool {
				path, err := strconv.Unquote(s.(*ast.ImportSpec).Path.Value)
				return err == nil && path[strings.LastIndexByte(path, '/')+1:] == kind
			})
		}
	}
	var b bytes.Buffer
	err = format.Node(&b, fset, file)
	return b.Bytes(), err
}

// elements returns the list that the variable All has.
func elements(file *ast.File) (*ast.CompositeLit, error) {
	for _, d := range file.Decls {
		d, ok := d.(*ast.GenDecl)
		if !ok || d.Tok != token.VAR {
			continue
		}
		for _, s := range d.Specs {
			if v := s.(*ast.ValueSpec); len(v.Names) == 1 && v.Names[0].Name == "All" && len(v.Values) == 1 {
				if all, ok := v.Values[0].(*ast.CompositeLit); ok {
					return all, nil
				}
			}
		}
	}
	return nil, errors.New("there is no list with the name All")
}

// packageOf returns p for the expression p.Kind, and "" for any other.
func packageOf(e ast.Expr) string {
	s, ok := e.(*ast.SelectorExpr)
	if !ok || s.Sel.Name != "Kind" {
		return ""
	}
	if p, ok := s.X.(*ast.Ident); ok {
		return p.Name
	}
	return ""
}
