package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
)

// word is one token of a source file or of the table.
type word struct {
	text     string
	from, to int  // its bytes
	local    bool // the name of a local variable of its function
}

// Go, JavaScript and Lua differ in what begins a comment, and little else that
// matters here. The first group is what counts for nothing.
var (
	goWords  = regexp.MustCompile(`(\s+|//[^\n]*|(?s:/\*.*?\*/))|` + anyWord)
	luaWords = regexp.MustCompile(`(\s+|--[^\n]*)|` + anyWord)
)

const anyWord = `"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|` + "`[^`]*`|" +
	`\$?[\pL_][\pL\pN_]*|[0-9][\pL\pN_.]*|` +
	`===|!==|\.\.\.|<<=|>>=|&\^=|\?\?=|[-+*/%&|^=!<>:~]=|&&|\|\||\?\?|=>|<-|<<|>>|&\^|\+\+|--|(?s:.)`

// wordsOf splits the text of a file, or a text of the table for such a file. It leaves out the parts that a
// formatter adds and removes: space, comments, semicolons, and the comma at the end of a list.
func wordsOf(file, text string) []word {
	split := goWords
	if filepath.Ext(file) == ".lua" {
		split = luaWords
	}
	var all []word
	for _, at := range split.FindAllStringSubmatchIndex(text, -1) {
		w := word{text: text[at[0]:at[1]], from: at[0], to: at[1]}
		if at[2] >= 0 || w.text == ";" {
			continue
		}
		if n := len(all); n > 0 && all[n-1].text == "," && w.closes() {
			all = all[:n-1]
		}
		all = append(all, w)
	}
	return all
}

func (w word) opens() bool  { return w.text == "(" || w.text == "[" || w.text == "{" }
func (w word) closes() bool { return w.text == ")" || w.text == "]" || w.text == "}" }

// hole reports whether the word of the table stands for any code.
func (w word) hole() bool { return len(w.text) > 1 && w.text[0] == '$' }

// name reports whether the word is an identifier of Go that is no keyword.
func (w word) name() bool { return token.IsIdentifier(w.text) }

// declaration is one of a file's, at the top level.
type declaration struct {
	name     string // "Ring.Seal", "ResultLife"; the file's name where it is not Go
	from, to int
}

// source is one file.
type source struct {
	path         string // below the module's root
	text         string
	words        []word
	declarations []declaration
}

// newSource reads a file, and marks the local variables if it is Go.
func newSource(path, text string) (*source, error) {
	s := &source{path: path, text: text, words: wordsOf(path, text)}
	if filepath.Ext(path) != ".go" {
		s.declarations = []declaration{{filepath.Base(path), 0, len(text)}}
		return s, nil
	}
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			s.declare(files, functionName(d), d)
			s.mark(files, d)
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				// Without brackets, the keyword belongs to the declaration.
				var around ast.Node = spec
				if !d.Lparen.IsValid() {
					around = d
				}
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					s.declare(files, spec.Name.Name, around)
				case *ast.ValueSpec:
					s.declare(files, spec.Names[0].Name, around)
				}
			}
		}
	}
	return s, nil
}

func functionName(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	receiver := f.Recv.List[0].Type
	if star, ok := receiver.(*ast.StarExpr); ok {
		receiver = star.X
	}
	if index, ok := receiver.(*ast.IndexExpr); ok {
		receiver = index.X
	}
	if id, ok := receiver.(*ast.Ident); ok {
		return id.Name + "." + f.Name.Name
	}
	return f.Name.Name
}

func (s *source) declare(files *token.FileSet, name string, node ast.Node) {
	s.declarations = append(s.declarations,
		declaration{name, files.Position(node.Pos()).Offset, files.Position(node.End()).Offset})
}

// mark finds the names that the function declares, and marks its words that
// are one of them. A field or a method of such a name is not marked.
func (s *source) mark(files *token.FileSet, function *ast.FuncDecl) {
	locals := map[string]bool{}
	add := func(e ast.Expr) {
		if id, ok := e.(*ast.Ident); ok && id.Name != "_" {
			locals[id.Name] = true
		}
	}
	ast.Inspect(function, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.StructType, *ast.InterfaceType:
			return false
		case *ast.Field:
			for _, name := range n.Names {
				add(name)
			}
		case *ast.ValueSpec:
			for _, name := range n.Names {
				add(name)
			}
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				for _, e := range n.Lhs {
					add(e)
				}
			}
		case *ast.RangeStmt:
			if n.Tok == token.DEFINE {
				add(n.Key)
				add(n.Value)
			}
		}
		return true
	})
	from, to := files.Position(function.Pos()).Offset, files.Position(function.End()).Offset
	for i := range s.words {
		w := &s.words[i]
		if w.from >= from && w.to <= to && locals[w.text] && (i == 0 || s.words[i-1].text != ".") {
			w.local = true
		}
	}
}

// around returns the name of the declaration that contains the byte.
func (s *source) around(at int) string {
	for _, d := range s.declarations {
		if d.from <= at && at < d.to {
			return d.name
		}
	}
	return ""
}

// line returns the number of the line that contains the byte.
func (s *source) line(at int) int { return 1 + strings.Count(s.text[:at], "\n") }
