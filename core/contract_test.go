package core

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Citations of CONTRACT.md, as its introduction describes them.
var (
	// ruleCited is "contract 5", "Contract 3, 5" or "contract 21 and 30".
	ruleCited = regexp.MustCompile(`(?i)\bcontract,? ?(\d+(?:(?:, ?| and | to | or )\d+)*)`)

	// partCited is "contract, Load".
	partCited = regexp.MustCompile(`\b[Cc]ontract, ([A-Z][a-z]+)`)

	// chapterCited is "spec, Limits" or "spec Delivery 3". Without a capital it is a member's name.
	chapterCited = regexp.MustCompile(`\bspec,? ([A-Z][a-z]+(?: [a-z]+)*)(?: (\d+))?`)
)

// lineBreak of a comment or of text, which may come in the middle of a citation.
var lineBreak = regexp.MustCompile(`\n[\t ]*(?:// )?`)

// maxRule is greater than the number of any rule. A larger number after a rule is an HTTP status: "contract
// 5, 401".
const maxRule = 100

// contract has the citable parts of CONTRACT.md: rules by number, chapters with their own numbered rules.
type contract struct {
	rules    map[int]bool
	untested map[int]string   // rules with the reason why no test cites them
	chapters map[string][]int // of the first part, and unnumbered ones of the second
}

// readContract reads the headings of CONTRACT.md. "### 5. Title" is a rule, any other heading a chapter.
func readContract(text string) contract {
	c := contract{rules: map[int]bool{}, untested: map[int]string{}, chapters: map[string][]int{}}
	var (
		heading = regexp.MustCompile(`^#+ (?:(\d+)\. )?(.+)$`)
		item    = regexp.MustCompile(`^(\d+)\. `)
		rule    = 0
		chapter = ""
	)
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if m := heading.FindStringSubmatch(line); m != nil {
			rule, chapter = 0, ""
			if m[1] == "" {
				chapter = strings.ToLower(m[2])
				c.chapters[chapter] = nil
			} else {
				rule, _ = strconv.Atoi(m[1])
				c.rules[rule] = true
			}
			continue
		}
		if m := item.FindStringSubmatch(line); m != nil && chapter != "" {
			n, _ := strconv.Atoi(m[1])
			c.chapters[chapter] = append(c.chapters[chapter], n)
		}
		if why, ok := strings.CutPrefix(line, "Not tested: "); ok {
			c.untested[rule] = why
		}
	}
	return c
}

// has reports whether the text of a citation begins with a chapter's name, and
// whether that chapter has the number.
func (c contract) has(cited string, number int) (chapter, numbered bool) {
	longest := ""
	for name := range c.chapters {
		if strings.HasPrefix(strings.ToLower(cited)+" ", name+" ") && len(name) > len(longest) {
			longest = name
		}
	}
	return longest != "", longest != "" && (number == 0 || slices.Contains(c.chapters[longest], number))
}

// citedRules returns the numbers of the rules that a text cites.
func citedRules(text string) (rules []int) {
	for _, m := range ruleCited.FindAllStringSubmatch(text, -1) {
		for number := range strings.FieldsFuncSeq(m[1], func(r rune) bool { return r < '0' || r > '9' }) {
			if n, err := strconv.Atoi(number); err == nil && n < maxRule {
				rules = append(rules, n)
			}
		}
	}
	return rules
}

// Every rule and chapter that the repository cites is in CONTRACT.md, and tests cite every rule.
func TestContract_Citations(t *testing.T) {
	text, err := os.ReadFile("CONTRACT.md")
	if err != nil {
		t.Fatal(err)
	}
	contract := readContract(string(text))
	tested, citations := map[int]bool{}, 0
	eachText(t, func(path, text string) {
		isTest := strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, ".txtar")
		unknown := map[int]bool{}
		for _, n := range citedRules(text) {
			citations++
			tested[n] = tested[n] || isTest
			if !contract.rules[n] && !unknown[n] {
				t.Errorf("%s cites contract %d, which CONTRACT.md does not have", path, n)
				unknown[n] = true
			}
		}
		for _, m := range partCited.FindAllStringSubmatch(text, -1) {
			citations++
			if chapter, _ := contract.has(m[1], 0); !chapter {
				t.Errorf("%s cites %q, but CONTRACT.md has no chapter of that name", path, m[0])
			}
		}
		for _, m := range chapterCited.FindAllStringSubmatch(text, -1) {
			citations++
			number, _ := strconv.Atoi(m[2])
			switch chapter, numbered := contract.has(m[1], number); {
			case !chapter:
				t.Errorf("%s cites %q, but CONTRACT.md has no chapter of that name", path, m[0])
			case !numbered:
				t.Errorf("%s cites %q, but that chapter of CONTRACT.md has no rule %d", path, m[0], number)
			}
		}
	})
	for n := range contract.rules {
		why, untested := contract.untested[n]
		switch {
		case !tested[n] && !untested:
			t.Errorf("no test cites contract %d: name the rule in the test that guards it, "+
				"or write \"Not tested: \" and the reason under it in CONTRACT.md", n)
		case untested && why == "":
			t.Errorf("CONTRACT.md lacks the reason why contract %d is not tested", n)
		case tested[n] && untested:
			t.Errorf("tests cite contract %d, which CONTRACT.md says is not tested", n)
		}
	}
	if citations < 1000 {
		t.Errorf("found %d citations in the whole repository: the search has lost some", citations)
	}
}

// eachText calls visit with every text of the repository that may cite the contract.
func eachText(t *testing.T, visit func(path, text string)) {
	t.Helper()
	kinds := []string{".go", ".md", ".txtar", ".js", ".lua", ".templ", ".yaml", ".toml", ".jsonc",
		".css", ".html"}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != ".." &&
			(d.Name() == "dist" || d.Name() == "node_modules" || strings.HasPrefix(d.Name(), ".")):
			return filepath.SkipDir
		case d.IsDir() || !slices.Contains(kinds, filepath.Ext(path)) || d.Name() == "contract_test.go":
			return nil
		}
		b, err := os.ReadFile(path)
		if err == nil {
			visit(path, lineBreak.ReplaceAllString(string(b), " "))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestCitedRules(t *testing.T) {
	for text, want := range map[string][]int{
		"as contract 5 says":              {5},
		"contract 5, 401: none":           {5},
		"Contract 3, 5; contract 8":       {3, 5, 8},
		"contract 21 and 30":              {21, 30},
		"contract 15 to 17":               {15, 17},
		"TestBodies/contract 3: a body":   {3},
		"the contract, 5 of them were so": {5},
		"the contract's nine":             nil,
	} {
		if got := citedRules(text); !slices.Equal(got, want) {
			t.Errorf("%q cites %v, want %v", text, got, want)
		}
	}
}

func TestReadContract(t *testing.T) {
	c := readContract("# Part\n\n## Data by event\n\n1. One.\n2. Two.\n\n" +
		"### 7. A rule\n\n1. No chapter's.\n\nNot tested: no clock.\n")
	for _, k := range []struct {
		cited             string
		number            int
		chapter, numbered bool
	}{
		{"Data by event", 0, true, true},
		{"Data by event", 2, true, true},
		{"Data by event", 3, true, false},
		{"Data by event is", 0, true, true},
		{"Data", 0, false, false},
		{"A rule", 0, false, false},
		{"Parts", 0, false, false},
	} {
		if chapter, numbered := c.has(k.cited, k.number); chapter != k.chapter || numbered != k.numbered {
			t.Errorf("%q, rule %d: found %v, %v", k.cited, k.number, chapter, numbered)
		}
	}
	if !c.rules[7] || len(c.rules) != 1 || c.untested[7] != "no clock." {
		t.Errorf("rules %v, untested %v", c.rules, c.untested)
	}
}
