package core

import (
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// mdLink is a link of a Markdown document: [text](target).
var mdLink = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// Every link from a document to a file of the repository has a target.
func TestLinksOfDocumentsLeadSomewhere(t *testing.T) {
	links := 0
	eachText(t, func(path, text string) {
		if filepath.Ext(path) != ".md" {
			return
		}
		for _, m := range mdLink.FindAllStringSubmatch(text, -1) {
			u, err := url.Parse(m[1])
			if err != nil {
				t.Errorf("%s: the link %q is no URL: %v", path, m[1], err)
				continue
			}
			if u.Scheme != "" {
				continue
			}
			links++
			target := filepath.Join(filepath.Dir(path), filepath.FromSlash(u.Path))
			if u.Path == "" {
				target = path
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: the link %q is broken: there is no %s", path, m[1], target)
			} else if u.Fragment != "" && !hasHeading(t, target, u.Fragment) {
				t.Errorf("%s: the link %q leads to no heading of %s", path, m[1], target)
			}
		}
	})
	if links < 40 {
		t.Errorf("found %d links between documents: the search has lost some", links)
	}
}

// hasHeading reports whether a document has the heading that an anchor names, by GitHub's rule for anchors.
func hasHeading(t *testing.T, path, anchor string) bool {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	other := regexp.MustCompile(`[^a-z0-9 _-]`)
	for line := range strings.Lines(string(b)) {
		title := strings.TrimLeft(line, "#")
		if len(title) == len(line) {
			continue
		}
		title = other.ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), "")
		if strings.ReplaceAll(title, " ", "-") == anchor {
			return true
		}
	}
	return false
}

// Each row of "Find your way" has a link, and the file or folder has the name that the row lists.
func TestFindYourWay(t *testing.T) {
	b, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(b), "## Find your way")
	rows := 0
	for line := range strings.Lines(section) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "| ") || strings.Contains(line, "| name there |") ||
			strings.HasPrefix(line, "| folder |") {
			continue
		}
		rows++
		m := mdLink.FindAllStringSubmatch(line, -1)
		if len(m) != 1 {
			t.Errorf("%d links, want 1: %s", len(m), line)
			continue
		}
		cells := strings.Split(line, "|")
		name := strings.Trim(cells[len(cells)-2], " `")
		if len(cells) == 5 && name != "" && !contains(t, filepath.Join("..", m[0][1]), name) {
			t.Errorf("%s does not contain %s: %s", m[0][1], name, line)
		}
	}
	if rows < 20 {
		t.Errorf("%d rows, want at least 20", rows)
	}
}

// contains reports whether a file, or a file of a folder, has the text in its contents or its name.
func contains(t *testing.T, path, name string) bool {
	t.Helper()
	files := []string{path}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		files, _ = filepath.Glob(filepath.Join(path, "*"))
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err == nil && strings.Contains(filepath.Base(file)+"\n"+string(text), name) {
			return true
		}
	}
	return false
}
