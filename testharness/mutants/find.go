package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// tree reads the module's packages, each once.
type tree struct {
	root     string
	packages map[string][]*source
}

func newTree(root string) *tree { return &tree{root, map[string][]*source{}} }

// sources are the files of a package, or of another directory, without tests.
func (t *tree) sources(pkg string) ([]*source, error) {
	if known, ok := t.packages[pkg]; ok {
		return known, nil
	}
	entries, err := os.ReadDir(filepath.Join(t.root, pkg))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf(
			"there is no package %s: if it was moved or renamed, move its file of the table too", pkg)
	}
	if err != nil {
		return nil, err
	}
	var all []*source
	for _, e := range entries {
		if !slices.Contains([]string{".go", ".js", ".lua"}, filepath.Ext(e.Name())) ||
			strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		path := filepath.Join(pkg, e.Name())
		text, err := os.ReadFile(filepath.Join(t.root, path))
		if err != nil {
			return nil, err
		}
		s, err := newSource(path, string(text))
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	t.packages[pkg] = all
	return all, nil
}

// place is where the code of a mutant stands.
type place struct {
	*source
	match
}

func (p place) String() string {
	at := p.words[p.from].from
	return fmt.Sprintf("%s:%d in %s", p.path, p.line(at), p.around(at))
}

// find returns the one place of the package that reads like m.old.
//
// Names of local variables count only if they tell two places apart: code
// that differs from m.old in nothing else is found where no code is equal.
func (t *tree) find(m mutant) (place, error) {
	sources, err := t.sources(m.pkg)
	if err != nil {
		return place{}, err
	}
	if m.of != "" && !declares(sources, m.of) {
		return place{}, fmt.Errorf("%s declares no %s: if it was renamed, write its new name to of, "+
			"and nothing if the code stands only once in the package", m.pkg, m.of)
	}
	var nearest near
	for _, exact := range []bool{true, false} {
		var found []place
		for _, s := range sources {
			old := wordsOf(s.path, m.old)
			if n := len(old); n > 0 && old[n-1].text == "," {
				old = old[:n-1]
			}
			switch {
			case len(old) == 0:
				return place{}, errors.New("old is empty: it is the code that the mutant changes")
			case old[0].hole():
				return place{}, errors.New("old begins with a hole, which could begin anywhere: " +
					"write the code in front of it, too")
			}
			for i := range s.words {
				if m.of != "" && s.around(s.words[i].from) != m.of {
					continue
				}
				match, reached := matchAt(s.words, i, old, exact)
				if match != nil {
					found = append(found, place{s, *match})
				}
				nearest.note(s, old, i, reached, exact)
			}
		}
		switch {
		case len(found) == 1:
			return found[0], nil
		case len(found) > 1:
			return place{}, tooMany(m, found)
		}
	}
	return place{}, nearest.error(m)
}

// where returns the description of the searched code.
func (m mutant) where() string {
	if m.of != "" {
		return m.of + " of " + m.pkg
	}
	return m.pkg
}

func declares(sources []*source, name string) bool {
	return slices.ContainsFunc(sources, func(s *source) bool {
		return slices.ContainsFunc(s.declarations, func(d declaration) bool { return d.name == name })
	})
}

func tooMany(m mutant, found []place) error {
	var places []string
	for _, p := range found {
		places = append(places, p.String())
	}
	return fmt.Errorf("the code of old is in %s %d times: name the declaration that is meant in of, "+
		"or write more of the code around it to old\n\t%s", m.where(), len(found),
		strings.Join(places, "\n\t"))
}

// near is the place with the longest match.
type near struct {
	renamed    bool // all agrees but the names of local variables
	source     *source
	old        []word
	at         int // in source.words, where the agreement begins
	here, want int // where it ends: in source.words, and in old
}

func (n *near) note(s *source, old []word, at int, reached reach, exact bool) {
	switch {
	case exact && (n.source == nil || reached.old > n.want):
		*n = near{false, s, old, at, reached.word, reached.old}
	case !exact && n.want > 0 && reached.old == len(old):
		n.renamed, n.source, n.at = true, s, at
	}
}

func (n *near) error(m mutant) error {
	if n.source == nil || n.want == 0 {
		return fmt.Errorf("no code of %s begins like old, with %q: if it was moved to another package, "+
			"move the mutant to that file of the table; if it was removed, rewrite the mutant for the code "+
			"that replaced it",
			m.where(), firstOf(m.old))
	}
	p := place{n.source, match{from: n.at}}
	if n.renamed {
		return fmt.Errorf("%s reads like old but for the names of variables, and has too little else "+
			"to be known by: write the new names to old", p)
	}
	return fmt.Errorf("no code of %s reads like old; the nearest is %s\n\tboth begin with  %s\n"+
		"\tthen the code has %s\n\tand the table has %s", m.where(), p,
		excerpt(n.source.words[n.at:n.here]),
		excerpt(n.source.words[n.here:min(n.here+8, len(n.source.words))]),
		excerpt(n.old[n.want:min(n.want+8, len(n.old))]))
}

func firstOf(old string) string {
	first, _, _ := strings.Cut(strings.TrimSpace(old), "\n")
	return first
}

// excerpt is the words on one line, with a space where their text has any.
func excerpt(words []word) string {
	var b strings.Builder
	for i, w := range words {
		if i > 0 && words[i-1].to != w.from {
			b.WriteByte(' ')
		}
		b.WriteString(w.text)
	}
	line := b.String()
	if len(line) > 90 {
		line = "…" + strings.ToValidUTF8(line[len(line)-90:], "")
	}
	return line
}

// match is the range of words of a source that match old.
type match struct {
	from, to int               // the words
	holes    map[string][2]int // what each $name of old stands for: words from, to
	names    [][2]string       // locals of other names: in old, in the source
}

// reach is how far a comparison came.
type reach struct{ word, old int }

// matcher compares old with a source from one of its words on.
type matcher struct {
	match
	words, old []word
	exact      bool
	reached    reach
}

// matchAt compares old with the words from at on. It returns nil if they do
// not stand for it, and how far they did.
func matchAt(words []word, at int, old []word, exact bool) (*match, reach) {
	m := &matcher{match: match{from: at, holes: map[string][2]int{}}, words: words, old: old, exact: exact}
	m.reached = reach{at, 0}
	if !m.step(at, 0) || !m.telling() {
		return nil, m.reached
	}
	return &m.match, m.reached
}

// step reports whether the words from at on stand for old from its word i on.
func (m *matcher) step(at, i int) bool {
	if i > m.reached.old {
		m.reached = reach{at, i}
	}
	switch {
	case i == len(m.old):
		m.to = at
		return true
	case m.old[i].hole():
		return m.fill(at, i)
	case at == len(m.words):
		return false
	}
	before := len(m.names)
	if m.same(m.words[at], at, i) && m.step(at+1, i+1) {
		return true
	}
	m.names = m.names[:before]
	return false
}

// fill tries what the hole may stand for, the shortest code first. Brackets
// in it come in pairs.
func (m *matcher) fill(at, i int) bool {
	name := m.old[i].text
	if known, ok := m.holes[name]; ok {
		n := known[1] - known[0]
		return at+n <= len(m.words) && slices.EqualFunc(m.words[known[0]:known[1]], m.words[at:at+n],
			func(a, b word) bool { return a.text == b.text }) && m.step(at+n, i+1)
	}
	depth := 0
	for end := at; ; end++ {
		if depth == 0 {
			m.holes[name] = [2]int{at, end}
			if m.step(end, i+1) {
				return true
			}
		}
		if end == len(m.words) {
			break
		}
		if m.words[end].opens() {
			depth++
		}
		if m.words[end].closes() {
			if depth--; depth < 0 {
				break
			}
		}
	}
	delete(m.holes, name)
	return false
}

// same compares one word. Unless the comparison is exact, a local variable
// may have another name, if it is the same name wherever it stands.
func (m *matcher) same(w word, at, i int) bool {
	want := m.old[i]
	field := i > 0 && m.old[i-1].text == "."
	if m.exact || !w.local || !want.name() || field {
		return w.text == want.text
	}
	for _, n := range m.names {
		if n[0] == want.text || n[1] == w.text {
			return n[0] == want.text && n[1] == w.text
		}
	}
	m.names = append(m.names, [2]string{want.text, w.text})
	return true
}

// telling reports whether the match is specific enough. If names differ, it needs at least two words that
// are not variables.
func (m *matcher) telling() bool {
	if m.exact {
		return true
	}
	rest := 0
	for _, w := range m.words[m.from:m.to] {
		if !w.local && (w.name() && !predeclared[w.text] ||
			strings.ContainsAny(w.text[:1], "\"'`0123456789")) {
			rest++
		}
	}
	return rest >= 2
}

// predeclared are names of Go that occur in any code.
var predeclared = map[string]bool{
	"nil": true, "true": true, "false": true, "error": true, "string": true, "byte": true, "int": true,
	"len": true, "append": true, "err": true, "errors": true,
}

// apply returns the file that m changes, and its new content.
func (t *tree) apply(m mutant) (file string, mutated []byte, err error) {
	p, err := t.find(m)
	if err != nil {
		return "", nil, err
	}
	instead, err := p.render(m.new)
	if err != nil {
		return "", nil, err
	}
	from, to := p.words[p.from].from, p.words[p.to-1].to
	if instead == "" { // of a list, its comma goes too
		if behind := strings.TrimLeft(p.text[to:], " \t\n"); strings.HasPrefix(behind, ",") {
			to = len(p.text) - len(behind) + 1
		}
	}
	return p.path, []byte(p.text[:from] + instead + p.text[to:]), nil
}

// render returns the mutant's code, with the values of the holes and the names of the local variables in this
// place.
func (p place) render(text string) (string, error) {
	var b strings.Builder
	words, copied := wordsOf(p.path, text), 0
	for i, w := range words {
		instead := w.text
		if w.hole() {
			code, ok := p.holes[w.text]
			if !ok {
				return "", fmt.Errorf("new has %s, and old has not", w.text)
			}
			instead = ""
			if code[0] < code[1] {
				instead = p.text[p.words[code[0]].from:p.words[code[1]-1].to]
			}
		} else if i == 0 || words[i-1].text != "." {
			for _, n := range p.names {
				if n[0] == w.text {
					instead = n[1]
					break
				}
			}
		}
		b.WriteString(text[copied:w.from])
		b.WriteString(instead)
		copied = w.to
	}
	b.WriteString(text[copied:])
	return strings.TrimSuffix(strings.TrimSpace(b.String()), ","), nil
}
