// Command plain finds English that readers stumble over: vague references, verbs of speech for software,
// words with two meanings. It reads comments, strings, documents, pages and the names of mutants.
//
//	go run ./cmd/generate/plain PATH…   list the findings of files and folders
//	go run ./cmd/generate/plain         compare the number of findings with the limit, which make check does
//	go run ./cmd/generate/plain -lower  write the present number as the limit, if it is lower
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// limitFile has the number of findings that the repository may have. It only falls.
const limitFile = "cmd/generate/plain/limit.txt"

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "plain:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	lower := len(args) == 1 && args[0] == "-lower"
	if len(args) > 0 && !lower {
		_, err := check(args, out)
		return err
	}
	found, err := check(nil, io.Discard)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(limitFile)
	if err != nil {
		return fmt.Errorf("run it in the root of the repository: %w", err)
	}
	limit, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return fmt.Errorf("%s: %w", limitFile, err)
	}
	fmt.Fprintf(out, "%d findings, limit %d\n", found, limit)
	switch {
	case found > limit:
		return errors.New("more findings than before; list those of the files you changed: " +
			"go run ./cmd/generate/plain FILE…")
	case lower && found < limit:
		return os.WriteFile(limitFile, fmt.Appendln(nil, found), 0o644)
	}
	return nil
}

var (
	// read are the names of files with prose.
	read = regexp.MustCompile(`\.(?:go|templ|js|mjs|css|md|yaml|yml|toml)$|^testharness/mutants/table/.*\.txt$`)
	// skipped are generated files, the files of tests, and the rules, which consist of bad examples.
	skipped = regexp.MustCompile(`_templ\.go$|(?:^|/)testdata/|^cmd/generate/plain/`)
)

// check writes the findings of paths, or of all files in the repository, and returns their number.
func check(paths []string, out io.Writer) (found int, err error) {
	list, err := exec.Command("git", append([]string{"ls-files", "-z", "--"}, paths...)...).Output()
	if err != nil {
		return 0, fmt.Errorf("git ls-files: %w", err)
	}
	for name := range strings.SplitSeq(string(list), "\x00") {
		if !read.MatchString(name) || skipped.MatchString(path.Clean(name)) {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return 0, err
		}
		for _, f := range findings(name, string(text)) {
			fmt.Fprintf(out, "%s:%d: %s -> %s\n", name, f.line, f.phrase, f.better)
			found++
		}
	}
	return found, nil
}

type finding struct {
	line           int
	phrase, better string
}

// findings returns the findings of a file, each phrase once. Generated files have none.
func findings(name, text string) (out []finding) {
	if head, _, _ := strings.Cut(text, "\npackage "); strings.Contains(head, "Code generated") {
		return nil
	}
	for _, p := range proseOf(name, text) {
		joined := p.String()
		for _, r := range rules {
			for _, m := range r.pattern.FindAllStringIndex(joined, -1) {
				out = append(out, finding{p.at(m[0]), strings.Trim(joined[m[0]:m[1]], ".:;!?, "), r.better})
			}
		}
	}
	return out
}
