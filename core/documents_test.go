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

// Every link from one document of the repository to a file of it leads there.
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
				t.Errorf("%s: the link %q leads nowhere: there is no %s", path, m[1], target)
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
