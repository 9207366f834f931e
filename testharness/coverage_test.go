package testharness_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var testName = regexp.MustCompile(`^(?:([a-z/]+):)?(Test\w+)(?:/(.+))?$`)

// Every test that SPEC_COVERAGE.md names exists, and each of its rows names one or says why there is none.
func TestSpecCoverage(t *testing.T) {
	text, err := os.ReadFile("SPEC_COVERAGE.md")
	if err != nil {
		t.Fatal(err)
	}
	sources := map[string][]string{}
	source := func(dir string) []string {
		if _, read := sources[dir]; !read {
			files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range files {
				b, err := os.ReadFile(f)
				if err != nil {
					t.Fatal(err)
				}
				sources[dir] = append(sources[dir], string(b))
			}
		}
		return sources[dir]
	}
	exists := func(dir, name, part string) bool {
		for _, file := range source(dir) {
			_, body, found := strings.Cut(file, "func "+name+"(t *testing.T) {")
			if found && strings.Contains(body, part) {
				return true
			}
		}
		return false
	}
	rows := 0
	for n, line := range strings.Split(string(text), "\n") {
		cells := strings.Split(line, "|")
		if len(cells) != 4 || strings.Contains(line, "---") || strings.TrimSpace(cells[1]) == "sentence" {
			if strings.HasPrefix(line, "|") && len(cells) != 4 {
				t.Errorf("line %d is no row of two cells", n+1)
			}
			continue
		}
		rows++
		proof := strings.TrimSpace(cells[2])
		named := 0
		quoted := strings.Split(proof, "`")
		for i := 1; i < len(quoted); i += 2 {
			m := testName.FindStringSubmatch(quoted[i])
			if m == nil {
				continue // some other word
			}
			named++
			dir := "."
			if m[1] != "" {
				dir = "../" + m[1]
			}
			part := strings.TrimPrefix(strings.TrimPrefix(m[3], "validate/"), "reconcile/")
			if !exists(dir, m[2], part) {
				t.Errorf("line %d: there is no test %s", n+1, quoted[i])
			}
		}
		if named == 0 && !strings.HasPrefix(proof, "Not testable: ") {
			t.Errorf("line %d: no test and no reason: %s", n+1, cells[1])
		}
	}
	if rows < 130 {
		t.Errorf("%d rows, there are more sentences than that", rows)
	}
}
