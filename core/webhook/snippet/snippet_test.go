package snippet

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/verge-id/verge/testharness/kit"
	"github.com/verge-id/verge/testharness/long"
)

// vector is a request of signature_vectors.json as a check gets it: a header that came twice has both values,
// with a comma between, as RFC 9110 puts them together.
type vector struct {
	name      string
	want      string
	Secret    string  `json:"secret"`
	Signature *string `json:"signature"`
	Timestamp *string `json:"timestamp"`
	Body      string  `json:"body"`
	Now       int64   `json:"now"`
}

func readVectors(t *testing.T) []vector {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "testdata", "signature_vectors.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Vectors []struct {
			Name, Secret string
			Headers      map[string][]string
			Body         string `json:"body_base64"`
			Now          int64
			Tolerance    int `json:"tolerance_seconds"`
			Step         int
		}
	}
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	var all []vector
	for _, v := range file.Vectors {
		if v.Tolerance != 0 {
			continue // the checks have the tolerance of the specification
		}
		one := vector{name: v.Name, want: "refused", Secret: v.Secret, Body: v.Body, Now: v.Now}
		if v.Step == 0 {
			one.want = "accepted"
		}
		for name, lines := range v.Headers {
			value := strings.Join(lines, ", ")
			switch {
			case strings.EqualFold(name, "X-Service-Signature"):
				one.Signature = &value
			case strings.EqualFold(name, "X-Service-Timestamp"):
				one.Timestamp = &value
			}
		}
		all = append(all, one)
	}
	if len(all) < 60 {
		t.Fatalf("only %d vectors", len(all))
	}
	return all
}

func asJSON(t *testing.T, all []vector) []byte {
	t.Helper()
	text, err := json.Marshal(map[string]any{"vectors": all})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// asLines is for languages that read no JSON by themselves.
func asLines(_ *testing.T, all []vector) []byte {
	field := func(s *string) string {
		if s == nil {
			return "-"
		}
		return base64.StdEncoding.EncodeToString([]byte(*s))
	}
	var b bytes.Buffer
	for _, v := range all {
		fmt.Fprintf(&b, "%s\t%s\t%s\t%s\t%d\n", field(&v.Secret), field(v.Signature), field(v.Timestamp),
			v.Body, v.Now)
	}
	return b.Bytes()
}

// runs says how the check of each language is run. Its code stands before the driver's.
var runs = map[string]struct {
	driver   string
	file     string   // what both together are called
	before   string   // what the file begins with
	needs    []string // programs, of which the first is run
	optional bool     // CI does not have it
	feed     func(*testing.T, []vector) []byte
	commands [][]string
}{
	"node": {driver: "drive.js", file: "check.js", needs: []string{"node"},
		commands: [][]string{{"node", "check.js"}}},
	"python": {driver: "drive.py", file: "check.py", needs: []string{"python3"},
		commands: [][]string{{"python3", "check.py"}}},
	"php": {driver: "drive.php", file: "check.php", before: "<?php\n", needs: []string{"php"},
		commands: [][]string{{"php", "check.php"}}},
	"ruby": {driver: "drive.rb", file: "check.rb", needs: []string{"ruby"},
		commands: [][]string{{"ruby", "check.rb"}}},
	"go": {driver: "drive.go.txt", file: "drive.go", needs: []string{"go"},
		commands: [][]string{{"go", "run", "check.go", "drive.go"}}},
	"java": {driver: "Drive.java", file: "Drive.java", needs: []string{"javac", "java"}, optional: true,
		feed:     asLines,
		commands: [][]string{{"javac", "Check.java", "Drive.java"}, {"java", "-cp", ".", "Drive"}}},
	"csharp": {driver: "Drive.cs", file: "Drive.cs", needs: []string{"mcs", "mono"}, feed: asLines,
		commands: [][]string{{"mcs", "-out:check.exe", "Check.cs", "Drive.cs"}, {"mono", "check.exe"}}},
}

// own are the languages whose check is a file beside the driver.
var own = map[string]string{"go": "check.go", "java": "Check.java", "csharp": "Check.cs"}

// spec, Signature: the check of each language accepts exactly the vectors that are to be accepted.
func TestChecksAcceptWhatTheVectorsSay(t *testing.T) {
	vectors := readVectors(t)
	for _, s := range All() {
		t.Run(s.ID, func(t *testing.T) {
			if s.ID != "go" {
				long.Skip(t, "TestChecksAcceptWhatTheVectorsSay")
			}
			got := strings.Fields(run(t, s, vectors))
			if len(got) != len(vectors) {
				t.Fatalf("%d answers to %d vectors: %q", len(got), len(vectors), got)
			}
			for i, v := range vectors {
				if got[i] != v.want {
					t.Errorf("spec, Signature: %s: %s, want %s", v.name, got[i], v.want)
				}
			}
		})
	}
}

// run returns what the driver says to each vector.
func run(t *testing.T, s Snippet, vectors []vector) string {
	t.Helper()
	how, ok := runs[s.ID]
	if !ok {
		t.Fatal("nobody knows how to run it")
	}
	for _, program := range how.needs {
		if _, err := exec.LookPath(program); err != nil && how.optional {
			t.Skipf("SKIP: there is no %s to run the check in %s; CI does not need it", program, s.Name)
		}
		kit.Program(t, program)
	}
	driver, err := os.ReadFile(filepath.Join("testdata", how.driver))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{how.file: how.before + s.Code + string(driver)}
	if name := own[s.ID]; name != "" {
		code := s.Code
		if s.ID == "go" {
			code = "package main\n\n" + code
		}
		files = map[string]string{name: code, how.file: string(driver)}
	}
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	feed := how.feed
	if feed == nil {
		feed = asJSON
	}
	var said []byte
	for _, args := range how.commands {
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Dir, cmd.Stdin = dir, bytes.NewReader(feed(t, vectors))
		var wrong bytes.Buffer
		cmd.Stderr = &wrong
		if said, err = cmd.Output(); err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, &wrong)
		}
	}
	return string(said)
}

func TestSnippetsAreFitToShow(t *testing.T) {
	var ids []string
	for _, s := range All() {
		ids = append(ids, s.ID)
		if s.Name == "" || !strings.HasSuffix(s.Code, "\n") || strings.HasPrefix(s.Code, "\n") {
			t.Errorf("%s: the code of %q begins or ends wrongly", s.ID, s.Name)
		}
		if m := regexp.MustCompile(`\[/?(check|end|[a-z]+_[a-z]+)\]\n`).FindString(s.Code); m != "" {
			t.Errorf("%s: the mark %q is in the code", s.ID, m)
		}
		for line := range strings.Lines(s.Code) {
			if len(strings.TrimRight(line, "\n")) > 120 {
				t.Errorf("%s: the line is too long: %s", s.ID, line)
			}
		}
	}
	want := []string{"node", "python", "php", "go", "ruby", "java", "csharp"}
	if !slices.Equal(ids, want) {
		t.Errorf("the languages are %q, want %q", ids, want)
	}
}
