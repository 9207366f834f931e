package cli

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// TestVariablesAreKnown: every variable that a text or a program of this repository names is one that
// checkVariables knows.
func TestVariablesAreKnown(t *testing.T) {
	t.Parallel()
	known, err := knownVariables()
	if err != nil {
		t.Fatal(err)
	}
	foreign := []string{"VERGE_SITE", "VERGE_SITE_2", // of Workers
		"VERGE_RELEASE_KEY", "VERGE_RELEASE_PASSWORD"} // of releases
	mistyped := []string{"variables_test.go", "secrets.txtar"} // these try names that there are not
	name := regexp.MustCompile(`\bVERGE(_[A-Z0-9]+)+\b`)
	found := map[string]bool{}
	err = filepath.WalkDir("../../../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && slices.Contains([]string{".git", "dist", "node_modules", ".verge"},
			d.Name()) {
			if d != nil && d.IsDir() {
				return filepath.SkipDir
			}
			return err
		}
		texts := []string{".go", ".md", ".toml", ".txtar", ".yaml", ".service"}
		if slices.Contains(mistyped, d.Name()) || !slices.Contains(texts, filepath.Ext(path)) {
			return nil
		}
		b, err := os.ReadFile(path)
		for _, v := range name.FindAllString(string(b), -1) {
			found[v] = true
			if !slices.Contains(known, v) && !slices.Contains(foreign, v) {
				t.Errorf("%s names %s, which is no variable; add it to the table in "+
					"variables.go, or correct it", path, v)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range variables {
		if !found[v] {
			t.Errorf("nothing names %s", v)
		}
	}
}
