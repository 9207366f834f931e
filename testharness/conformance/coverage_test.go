package conformance_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/verge-id/verge/testharness/internal/proof"
)

// SPEC_COVERAGE.md names only existing tests. Each of its rows names one or gives the reason why none exists.
// Each of its chapters is one of CONTRACT.md.
func TestSpecCoverage(t *testing.T) {
	text, err := os.ReadFile("SPEC_COVERAGE.md")
	if err != nil {
		t.Fatal(err)
	}
	contract, err := os.ReadFile("../../core/CONTRACT.md")
	if err != nil {
		t.Fatal(err)
	}
	tests := proof.In("../..", "testharness/conformance")
	rows := 0
	for n, line := range strings.Split(string(text), "\n") {
		chapter, ok := strings.CutPrefix(line, "## ")
		if ok && !strings.Contains(string(contract), "# "+chapter+"\n") {
			t.Errorf("line %d: CONTRACT.md has no chapter %q", n+1, chapter)
		}
		cells := strings.Split(line, "|")
		if len(cells) != 4 || strings.Contains(line, "---") || strings.TrimSpace(cells[1]) == "sentence" {
			if strings.HasPrefix(line, "|") && len(cells) != 4 {
				t.Errorf("line %d is no row of two cells", n+1)
			}
			continue
		}
		rows++
		cell := strings.TrimSpace(cells[2])
		named := findTests(t, tests, n+1, cell)
		if named == 0 && !strings.HasPrefix(cell, "Not testable: ") {
			t.Errorf("line %d: no test and no reason: %s", n+1, cells[1])
		}
	}
	if rows < 155 {
		t.Errorf("%d rows, there are more sentences than that", rows)
	}
}

// findTests looks for each test that a cell names, and returns how many there are.
func findTests(t *testing.T, tests *proof.Finder, line int, cell string) (named int) {
	t.Helper()
	quoted := strings.Split(cell, "`")
	for i := 1; i < len(quoted); i += 2 {
		err := tests.Find(quoted[i])
		if errors.Is(err, proof.ErrNoName) {
			continue // some other word
		}
		named++
		if err != nil {
			t.Errorf("line %d: %v", line, err)
		}
	}
	return named
}

// Each row of the table in edge/deploy/README.md names at least one test, and every named test exists.
func TestDeployTable_NamesTests(t *testing.T) {
	text, err := os.ReadFile("../../edge/deploy/README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "\n# Tests\n")
	_, table, _ = strings.Cut(table, "\n|---|---|\n")
	tests := proof.In("../..", "edge/deploy")
	rows := strings.Split(strings.TrimSpace(table), "\n")
	for n, row := range rows {
		cells := strings.Split(row, "|")
		if len(cells) != 4 || findTests(t, tests, n+1, cells[2]) == 0 {
			t.Errorf("row %d has no test: %s", n+1, row)
		}
	}
	if len(rows) < 24 {
		t.Errorf("%d rows, there were more", len(rows))
	}
}
