package cli

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/afero"

	"github.com/verge-id/verge/testharness/testenv"
)

// overstruck matches what a terminal's bold print repeats.
var overstruck = regexp.MustCompile(`.\x08`)

// TestManPages writes all pages, and has a formatter of manual pages read them.
func TestManPages(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := onDisk()
	if code, said := runFor(t, p, []string{"man", dir}); code != exitOK ||
		!strings.Contains(said, "pages to "+dir) {
		t.Fatalf("exit code %d: %s", code, said)
	}
	parser, _, err := newParser(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	files, err := afero.Glob(p.FS, filepath.Join(dir, "*.1"))
	leaves := parser.Model.Leaves(true)
	if err != nil || len(files) != len(leaves)+1 {
		t.Errorf("%d pages of %d commands (%v)", len(files), len(leaves), err)
	}
	for _, leaf := range leaves {
		page := readText(t, filepath.Join(dir, pageOf(leaf)+".1"))
		for _, group := range leaf.AllFlags(true) {
			for _, flag := range group {
				if strings.Contains(flag.Help, "''") || strings.Contains(flag.Help, "``") {
					t.Errorf("--%s of %s: --help would print one typographic quote for two quotes",
						flag.Name, leaf.Path())
				}
				if !strings.Contains(page, `\-\-`+escape(flag.Name)) {
					t.Errorf("%s(1) lacks --%s", pageOf(leaf), flag.Name)
				}
			}
		}
		if !strings.Contains(page, escape(leaf.Help[:10])) {
			t.Errorf("%s(1) does not say %q", pageOf(leaf), leaf.Help)
		}
	}
	if page := readText(t, filepath.Join(dir, "verge.1")); !strings.Contains(page, `verge\-kv\-backup(1)`) {
		t.Errorf("verge(1) does not lead to the other pages:\n%s", page)
	}
	mandoc := testenv.Program(t, "mandoc")
	if out, err := exec.Command(mandoc, append([]string{"-T", "lint", "-W", "error"}, files...)...).
		CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("mandoc: %v\n%s", err, out)
	}
	out, err := exec.Command(mandoc, "-T", "utf8", filepath.Join(dir, "verge-kv-restore.1")).Output()
	shown := overstruck.ReplaceAllString(string(out), "")
	for _, says := range []string{"verge kv restore", "--config=FILE", "Variable: VERGE_KV.",
		"runuser -u verge -- verge"} {
		if err != nil || !strings.Contains(shown, says) {
			t.Errorf("a reader does not see %q (%v):\n%s", says, err, shown)
		}
	}
}

// TestManPagesAreText: nothing in a help text becomes a command of roff.
func TestManPagesAreText(t *testing.T) {
	for text, want := range map[string]string{
		"plain":          "plain",
		".SH is no head": `\&.SH is no head`,
		"'tis":           `\&'tis`,
		`a\fB`:           `a\efB`,
		"--flag":         `\-\-flag`,
	} {
		if got := escape(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}
