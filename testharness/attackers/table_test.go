package attackers

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/verge-id/verge/testharness/internal/proof"
)

var update = flag.Bool("update", false, "write ATTACKERS.md")

// foothold is the position of an attacker, or a limit of the guarantees.
type foothold struct {
	name string // begins its bullet in SECURITY.md
	rows []row
}

// row is one attempt of an attacker.
type row struct {
	says  string // a sentence of SECURITY.md, valid for this row and the next rows without one
	tries string
	gets  string

	// One of the two: do makes the attempt, or proof names tests elsewhere.
	do    func(t *testing.T)
	proof []string
}

var parts = []struct {
	title     string
	footholds []foothold
}{
	{"Threats",
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
			openIDRequests,
			othersKey,
			consoleSite,
			member,
			ticket,
			receiver,
			reader,
			writer,
			replacedRing,
			currentRing,
			filesReader,
			signedModule,
			unsignedModule,
			viewer,
			stolenToken,
		}},
	{"Not guaranteed", []foothold{earlierKeys, clocks, person, revoked, shared}},
}

// TestAttackers makes the attempts of the tables.
func TestAttackers(t *testing.T) {
	tests := proof.In("../..", "testharness/attackers")
	for _, p := range parts {
		for _, f := range p.footholds {
			for _, r := range f.rows {
				t.Run(f.name+"/"+r.tries, func(t *testing.T) {
					if (r.do == nil) == (len(r.proof) == 0) {
						t.Fatal("a row needs either do or proof")
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

// TestDocuments checks that ATTACKERS.md and the lists of SECURITY.md match the tables.
func TestDocuments(t *testing.T) {
	security, err := os.ReadFile(securityFile)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{"ATTACKERS.md": document(), securityFile: withLists(t, security)}
	for file, want := range files {
		if *update {
			if err := os.WriteFile(file, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s differs from the tables; run go generate ./testharness/attackers (%v)", file, err)
		}
	}
}

const securityFile = "../../SECURITY.md"

// withLists returns SECURITY.md with the generated list of each part below its heading, up to the next
// heading.
func withLists(t *testing.T, text []byte) []byte {
	t.Helper()
	for _, p := range parts {
		before, rest, found := bytes.Cut(text, []byte("\n## "+p.title+"\n"))
		_, after, more := bytes.Cut(rest, []byte("\n## "))
		if !found || !more {
			t.Fatalf("SECURITY.md has no heading %q, or it is the last one", p.title)
		}
		var b bytes.Buffer
		fmt.Fprintf(&b, "%s\n## %s\n\n", before, p.title)
		for _, f := range p.footholds {
			b.WriteString(f.bullet())
		}
		fmt.Fprintf(&b, "\n## %s", after)
		text = b.Bytes()
	}
	return text
}

// bullet returns the name and the sentences of a foothold as an item of a list, in lines of 110 bytes.
func (f foothold) bullet() string {
	var b strings.Builder
	line := "-"
	for word := range strings.FieldsSeq("**" + f.name + ".** " + f.sentences()) {
		if len(line)+1+len(word) > 110 {
			b.WriteString(line + "\n")
			line = " "
		}
		line += " " + word
	}
	return b.String() + line + "\n"
}

func (f foothold) sentences() string {
	var all []string
	for _, r := range f.rows {
		if r.says != "" {
			all = append(all, r.says)
		}
	}
	return strings.Join(all, " ")
}

// document returns ATTACKERS.md.
func document() []byte {
	var b bytes.Buffer
	b.WriteString(`# Attackers by foothold

This file is generated from the tables of this package by ` + "`go generate`: edit those. " +
		"A test tries each row: here, against a" + `
running service, or where the last column says. The guarantees of the service are in
[core/CONTRACT.md](../../core/CONTRACT.md).
`)
	for _, p := range parts {
		fmt.Fprintf(&b, "\n## %s\n", p.title)
		for _, f := range p.footholds {
			fmt.Fprintf(&b, "\n### %s\n\n%s\n\n| tries | gets | seen |\n|---|---|---|\n", f.name,
				f.sentences())
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

// TestTables checks that the tables are complete.
func TestTables(t *testing.T) {
	names, tried := map[string]bool{}, map[string]bool{}
	rows, done := 0, 0
	for _, p := range parts {
		for _, f := range p.footholds {
			if names[f.name] || len(f.rows) == 0 || f.rows[0].says == "" {
				t.Errorf("%s: twice, empty, or its first row has no sentence", f.name)
			}
			names[f.name] = true
			for _, r := range f.rows {
				rows++
				if r.do != nil {
					done++
				}
				if r.tries == "" || r.gets == "" || tried[f.name+r.tries] ||
					strings.Contains(r.tries+r.gets, "|") {
					t.Errorf("%s: an incomplete or duplicate row: %q, %q", f.name, r.tries, r.gets)
				}
				tried[f.name+r.tries] = true
			}
		}
	}
	if rows < 60 || done < 45 {
		t.Errorf("%d rows, of which %d are done here: rows are missing", rows, done)
	}
}
