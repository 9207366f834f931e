package main

import (
	"bytes"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestTable checks that the table matches the code, in every run of the tests. Trying the mutants takes
// minutes and has its own command.
func TestTable(t *testing.T) {
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	table, err := readTable(tableFiles)
	if err != nil {
		t.Fatal(err)
	}
	if len(table) < 30 {
		t.Errorf("%d mutants; at least 30 are promised", len(table))
	}
	tree := newTree(root)
	seen := map[string]bool{}
	for _, m := range table {
		if seen[m.breaks] {
			t.Errorf("%s: another mutant breaks the same: %s", m.at, m.breaks)
		}
		seen[m.breaks] = true
		file, mutated, err := tree.apply(m)
		if err != nil {
			t.Errorf("%s: %v", m.at, err)
			continue
		}
		if filepath.Ext(file) == ".go" {
			if _, err := parser.ParseFile(token.NewFileSet(), file, mutated, 0); err != nil {
				t.Errorf("%s: the mutated file does not parse: %v", m.at, err)
			}
		}
		if strings.TrimSpace(m.old) == strings.TrimSpace(m.new) {
			t.Errorf("%s: new changes nothing", m.at)
		}
		if len(m.ask) == 0 {
			t.Errorf("%s: no test is named in ask", m.at)
		}
		for _, ask := range m.ask {
			pkg, tests, _ := strings.Cut(ask, " ")
			for name := range strings.SplitSeq(tests, "|") {
				if !hasTest(t, filepath.Join(root, pkg), name) {
					t.Errorf("%s: %s has no test that begins with %q", m.at, pkg, name)
				}
			}
		}
	}
}

// TestTable_SimulationReport checks that MUTANTS.md of the simulation names mutants as the table does.
func TestTable_SimulationReport(t *testing.T) {
	table, err := readTable(tableFiles)
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, m := range table {
		known[path.Base(m.pkg)+": "+m.breaks] = true
	}
	report, err := os.ReadFile("../internal/simulation/MUTANTS.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile(`(?m)^\| (\w+: .*?) \|`).FindAllStringSubmatch(string(report), -1)
	if len(rows) < 10 {
		t.Fatalf("%d rows with mutants; is the format of the table still the same?", len(rows))
	}
	for _, row := range rows {
		if !known[row[1]] {
			t.Errorf("no mutant of the table has the package and the breaks %q", row[1])
		}
	}
}

// hasTest reports whether a test of the directory begins with name.
func hasTest(t *testing.T, dir, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	name, _, _ = strings.Cut(name, "/")
	declared := []byte("\nfunc " + orAny(strings.TrimPrefix(name, "^")))
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(b, declared) {
			return true
		}
	}
	return false
}

func orAny(name string) string {
	if name == "" {
		return "Test"
	}
	return name
}

// Output of go test -json, shortened to the parts that are read.
func TestRead(t *testing.T) {
	const (
		run  = `{"Action":"run","Test":"TestA"}` + "\n"
		sub  = `{"Action":"fail","Test":"TestA/contract_8"}` + "\n"
		fail = `{"Action":"fail","Test":"TestA"}` + "\n"
		pkg  = `{"Action":"fail"}` + "\n"
		pass = `{"Action":"pass","Test":"TestA"}` + "\n"
		hung = `{"Action":"output","Test":"TestA","Output":"panic: test timed out after 1m0s\n"}` + "\n"
		skip = `{"Action":"output","Test":"TestB","Output":"    b_test.go:9: SKIP: psql is not installed\n"}` +
			"\n" + `{"Action":"skip","Test":"TestB"}` + "\n"
		header = `{"Action":"output","Test":"TestB","Output":"--- SKIP: TestB (0.00s)\n"}` + "\n"
		build  = `{"Action":"build-output","Output":"# core/internal/api\n"}` + "\n" +
			`{"Action":"build-output","Output":"x.go:1:1: no\n"}` + "\n" +
			`{"Action":"build-fail"}` + "\n" + `{"Action":"fail","FailedBuild":"core/internal/api"}` + "\n"
	)
	for _, c := range []struct {
		name, in string
		want     outcome
		wrong    string
	}{
		{"all pass", run + pass, outcome{}, ""},
		{"the subtest is named, not its test", run + sub + fail + pkg, outcome{failed: "TestA/contract_8"},
			""},
		{"a process that dies has failed", run + pkg, outcome{failed: "(the test binary ended)"}, ""},
		{"a time that ran out is no failure like others",
			run + hung + fail + pkg, outcome{failed: "TestA", hung: true}, ""},
		{"a failure before the time ran out is one",
			run + sub + hung + fail + pkg, outcome{failed: "TestA/contract_8"}, ""},
		{"a program that is missing", run + pass + skip, outcome{skipped: "psql is not installed"}, ""},
		{"a test skipped for another reason is passed over", run + pass + header, outcome{}, ""},
		{"what does not compile is not caught", build, outcome{},
			"does not compile: # core/internal/api x.go:1:1: no"},
		{"a name that matches no test", "", outcome{}, "no test matches what the table asks"},
	} {
		got, err := read(strings.NewReader(c.in))
		wrong := ""
		if err != nil {
			wrong = err.Error()
		}
		if got != c.want || wrong != c.wrong {
			t.Errorf("%s: %+v, %q, want %+v, %q", c.name, got, wrong, c.want, c.wrong)
		}
	}
}
