package snippet

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
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

	"github.com/verge-id/verge/testharness/long"
	"github.com/verge-id/verge/testharness/testenv"
)

// vector is a request of signature_vectors.json as a check gets it: a header that came twice has both values,
// with a comma between, as RFC 9110 puts them together.
type vector struct {
	name      string
	want      string
	Secret    string  `json:"secret"`
	ID        *string `json:"id"` // of Standard Webhooks
	Signature *string `json:"signature"`
	Timestamp *string `json:"timestamp"`
	Body      string  `json:"body"`
	Now       int64   `json:"now"`
}

func readVectors(t *testing.T) []vector {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "webhook", "testdata", "signature_vectors.json"))
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

// readStandard returns the requests of standard_vectors.json, and two with a secret of another form.
func readStandard(t *testing.T) []vector {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "webhook", "testdata", "standard_vectors.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Vectors []struct {
			Name, Secret string
			Headers      map[string]string
			Body         string `json:"body_base64"`
			Now          int64
			Accepted     bool
		}
	}
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	var all []vector
	for _, v := range file.Vectors {
		one := vector{name: v.Name, want: "refused", Secret: v.Secret, Body: v.Body, Now: v.Now}
		if v.Accepted {
			one.want = "accepted"
		}
		for name, field := range map[string]**string{"webhook-id": &one.ID,
			"webhook-timestamp": &one.Timestamp, "webhook-signature": &one.Signature} {
			if value, ok := v.Headers[name]; ok {
				*field = &value
			}
		}
		all = append(all, one)
	}
	if len(all) < 30 {
		t.Fatalf("only %d vectors", len(all))
	}
	// Anyone can sign with an empty key.
	for _, secret := range []string{"whsec_", ""} {
		id, ts, body := "evt_1", "1795212600", []byte("{}")
		h := hmac.New(sha256.New, nil)
		h.Write([]byte(id + "." + ts + "." + string(body)))
		signature := "v1," + base64.StdEncoding.EncodeToString(h.Sum(nil))
		all = append(all, vector{name: fmt.Sprintf("the key of %q is empty", secret), want: "refused",
			Secret: secret, ID: &id, Timestamp: &ts, Signature: &signature,
			Body: base64.StdEncoding.EncodeToString(body), Now: 1795212600})
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

// asLines is for languages whose standard library reads no JSON.
func asLines(_ *testing.T, all []vector) []byte {
	field := func(s *string) string {
		if s == nil {
			return "-"
		}
		return base64.StdEncoding.EncodeToString([]byte(*s))
	}
	var b bytes.Buffer
	for _, v := range all {
		fmt.Fprintf(&b, "%s\t%s\t%s\t%s\t%d\t%s\n", field(&v.Secret), field(v.Signature), field(v.Timestamp),
			v.Body, v.Now, field(v.ID))
	}
	return b.Bytes()
}

// language is the way to run a check. Its code and the driver are one file, unless the check has its own.
type language struct {
	driver   string
	file     string   // name of the driver, with the check before it
	own      string   // name of the check, if it has its own file
	before   string   // begins the file of the check
	needs    []string // programs; the first is run
	optional bool     // CI does not have it
	feed     func(*testing.T, []vector) []byte
	commands [][]string
}

func script(driver, file, program string) language {
	return language{driver: driver, file: file, needs: []string{program}, feed: asJSON,
		commands: [][]string{{program, file}}}
}

func php(driver string) language {
	l := script(driver, "check.php", "php")
	l.before = "<?php\n"
	return l
}

func golang(driver string) language {
	return language{driver: driver, file: "drive.go", own: "check.go", before: "package main\n\n",
		needs: []string{"go"}, feed: asJSON, commands: [][]string{{"go", "run", "check.go", "drive.go"}}}
}

func java(driver, check string) language {
	return language{driver: driver + ".java", file: driver + ".java", own: check + ".java",
		needs: []string{"javac", "java"}, optional: true, feed: asLines,
		commands: [][]string{{"javac", check + ".java", driver + ".java"}, {"java", "-cp", ".", driver}}}
}

func csharp(driver, check string) language {
	return language{driver: driver + ".cs", file: "Drive.cs", own: check + ".cs",
		needs: []string{"mcs", "mono"}, feed: asLines,
		commands: [][]string{{"mcs", "-out:check.exe", check + ".cs", "Drive.cs"}, {"mono", "check.exe"}}}
}

// runs has the ways to run Snippet.Code and Snippet.Standard, by language.
var runs = map[string][2]language{
	"node":   {script("drive.js", "check.js", "node"), script("standard.js", "check.js", "node")},
	"python": {script("drive.py", "check.py", "python3"), script("standard.py", "check.py", "python3")},
	"php":    {php("drive.php"), php("standard.php")},
	"ruby":   {script("drive.rb", "check.rb", "ruby"), script("standard.rb", "check.rb", "ruby")},
	"go":     {golang("drive.go.txt"), golang("standard.go.txt")},
	"java":   {java("Drive", "Check"), java("DriveStandard", "CheckStandard")},
	"csharp": {csharp("Drive", "Check"), csharp("DriveStandard", "CheckStandard")},
}

// spec, Signature, and contract 51: the checks of each language accept exactly the vectors that are valid.
func TestChecksAcceptWhatTheVectorsSay(t *testing.T) {
	own, standard := readVectors(t), readStandard(t)
	for _, s := range All() {
		for i, c := range []struct {
			rule, code string
			vectors    []vector
		}{{"spec, Signature", s.Code, own}, {"contract 51", s.Standard, standard}} {
			t.Run(s.ID+"/"+c.rule, func(t *testing.T) {
				if s.ID != "go" {
					long.Skip(t, "TestChecksAcceptWhatTheVectorsSay")
				}
				got := strings.Fields(run(t, runs[s.ID][i], c.code, c.vectors))
				if len(got) != len(c.vectors) {
					t.Fatalf("%d verdicts of %d vectors: %q", len(got), len(c.vectors), got)
				}
				for i, v := range c.vectors {
					if got[i] != v.want {
						t.Errorf("%s: %s: %s, want %s", c.rule, v.name, got[i], v.want)
					}
				}
			})
		}
	}
}

// run returns the driver's verdicts of the vectors.
func run(t *testing.T, how language, code string, vectors []vector) string {
	t.Helper()
	for _, program := range how.needs {
		if _, err := exec.LookPath(program); err != nil && how.optional {
			t.Skipf("SKIP: %s is missing; CI does not need it", program)
		}
		testenv.Program(t, program)
	}
	driver, err := os.ReadFile(filepath.Join("testdata", how.driver))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{how.file: how.before + code + string(driver)}
	if how.own != "" {
		files = map[string]string{how.own: how.before + code, how.file: string(driver)}
	}
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out []byte
	for _, args := range how.commands {
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Dir, cmd.Stdin = dir, bytes.NewReader(how.feed(t, vectors))
		var failed bytes.Buffer
		cmd.Stderr = &failed
		if out, err = cmd.Output(); err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, &failed)
		}
	}
	return string(out)
}

func TestSnippetsAreFitToShow(t *testing.T) {
	var ids []string
	for _, s := range All() {
		ids = append(ids, s.ID)
		for _, code := range []string{s.Code, s.Standard} {
			if s.Name == "" || !strings.HasSuffix(code, "\n") || strings.HasPrefix(code, "\n") {
				t.Errorf("%s: the code of %q begins or ends wrongly", s.ID, s.Name)
			}
		}
		if m := regexp.MustCompile(`\[/?(check|end|[a-z]+_[a-z]+)\]\n`).FindString(s.Code); m != "" {
			t.Errorf("%s: the mark %q is in the code", s.ID, m)
		}
		for line := range strings.Lines(s.Code + s.Standard) {
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
