package attackers

import (
	"bytes"
	"flag"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"

	"github.com/verge-id/verge/testharness/internal/proof"
)

var update = flag.Bool("update", false, "write ATTACKERS.md")

// foothold is a place from which somebody attacks, or something that is not guaranteed.
type foothold struct {
	name string // begins its bullet in the doc comment of package core
	rows []row
}

// row is one thing that an attacker tries.
type row struct {
	says  string // a sentence of core's doc comment, which this and the next rows without one show
	tries string
	gets  string

	// One of the two: do tries it, or proof names tests elsewhere that do.
	do    func(t *testing.T)
	proof []string
}

// The parts of core's doc comment, in the order of the tables.
const (
	threats       = "Threats"
	notGuaranteed = "Not guaranteed"
)

var parts = []struct {
	title     string
	intro     string // above the bullets
	footholds []foothold
}{
	{threats, "What each attacker gets; testharness/attackers tries every sentence.",
		[]foothold{
			network,
			browser,
			sibling,
			estimates,
			boxHolder,
			wallet,
			codeSender,
			phone,
			passkeys,
			publicKey,
			othersKey,
			consoleSite,
			member,
			ticket,
			receiver,
			reader,
			writer,
			replacedRing,
			currentRing,
			signedModule,
			unsignedModule,
			viewer,
			stolenToken,
		}},
	{notGuaranteed, "", []foothold{earlierKeys, clocks, person, revoked, shared}},
}

// TestAttackers does what the tables say.
func TestAttackers(t *testing.T) {
	tests := proof.In("../..", "testharness/attackers")
	for _, p := range parts {
		for _, f := range p.footholds {
			for _, r := range f.rows {
				t.Run(f.name+"/"+r.tries, func(t *testing.T) {
					if (r.do == nil) == (len(r.proof) == 0) {
						t.Fatal("a row either does it or names the tests that do")
					}
					for _, name := range r.proof {
						if err := tests.Find(name); err != nil {
							t.Error(err)
						}
					}
					if r.do != nil {
						r.do(t)
					}
				})
			}
		}
	}
}

// TestTheDocuments checks that ATTACKERS.md and core's doc comment say what the
// tables say, no more and no less.
func TestTheDocuments(t *testing.T) {
	want := document()
	if *update {
		if err := os.WriteFile("ATTACKERS.md", want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile("ATTACKERS.md"); err != nil || !bytes.Equal(got, want) {
		t.Errorf("ATTACKERS.md is not what the tables say; run go generate ./testharness/attackers (%v)", err)
	}

	file, err := parser.ParseFile(token.NewFileSet(), "../../core/doc.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range parts {
		said, wanted := bullets(file.Doc.Text(), p.title), map[string]bool{p.intro: true}
		for _, f := range p.footholds {
			wanted[f.bullet()] = true
			if !said[f.bullet()] {
				t.Errorf("core/doc.go does not say under %s, word for word:\n%s", p.title, f.bullet())
			}
		}
		for b := range said {
			if !wanted[b] {
				t.Errorf("core/doc.go says under %s what is in no table:\n%s", p.title, b)
			}
		}
	}
}

// bullet is what core's doc comment says of a foothold, on one line.
func (f foothold) bullet() string {
	text := f.name + ":"
	for _, r := range f.rows {
		if r.says != "" {
			text += " " + r.says
		}
	}
	return text
}

// bullets returns the bullets of a part of a doc comment, each on one line, and
// the text above them.
func bullets(doc, title string) map[string]bool {
	_, rest, _ := strings.Cut(doc, "# "+title+"\n")
	part, _, _ := strings.Cut(rest, "\n# ")
	out := map[string]bool{}
	for text := range strings.SplitSeq("\n"+part, "\n  - ") {
		if words := strings.Fields(text); len(words) > 0 {
			out[strings.Join(words, " ")] = true
		}
	}
	return out
}

// document is ATTACKERS.md.
func document() []byte {
	var b bytes.Buffer
	b.WriteString(`# What one foothold is worth

Made from the tables of this package by ` + "`go generate`: edit those. " +
		"A test tries each row: here, against a" + `
running service, or where the last column says. What the service promises everybody is in
[core/CONTRACT.md](../../core/CONTRACT.md).
`)
	for _, p := range parts {
		fmt.Fprintf(&b, "\n## %s\n", p.title)
		for _, f := range p.footholds {
			fmt.Fprintf(&b, "\n### %s\n\n%s\n\n| tries | gets | seen |\n|---|---|---|\n", f.name,
				strings.TrimPrefix(f.bullet(), f.name+": "))
			for _, r := range f.rows {
				seen := "here, against a running service"
				if len(r.proof) > 0 {
					seen = "`" + strings.Join(r.proof, "`, `") + "`"
				}
				fmt.Fprintf(&b, "| %s | %s | %s |\n", r.tries, r.gets, seen)
			}
		}
	}
	return b.Bytes()
}

// TestTheTables checks that the tables are complete.
func TestTheTables(t *testing.T) {
	names, tried := map[string]bool{}, map[string]bool{}
	rows, done := 0, 0
	for _, p := range parts {
		for _, f := range p.footholds {
			if names[f.name] || len(f.rows) == 0 || f.rows[0].says == "" {
				t.Errorf("%s: twice, empty, or its first row holds nothing to anything", f.name)
			}
			names[f.name] = true
			for _, r := range f.rows {
				rows++
				if r.do != nil {
					done++
				}
				if r.tries == "" || r.gets == "" || tried[f.name+r.tries] ||
					strings.Contains(r.tries+r.gets, "|") {
					t.Errorf("%s: a row that is not whole, or twice: %q, %q", f.name, r.tries, r.gets)
				}
				tried[f.name+r.tries] = true
			}
		}
	}
	if rows < 60 || done < 45 {
		t.Errorf("%d rows, of which %d are done here: something is lost", rows, done)
	}
}
