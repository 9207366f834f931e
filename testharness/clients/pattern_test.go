package clients

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/verge-id/verge/testharness/long"
	"github.com/verge-id/verge/testharness/testenv"
)

// texts are the inputs for the patterns: examples of each, and characters that regular expressions treat
// differently.
var texts = []string{
	"", "a", "é", "😀", "\u0085", "\u009f", "\u00a0", "\x00", "\x1f", "\x7f", " ", "~", "a b", "a\nb",
	"a\u2028b",
	"svc_sess_aB-9_", "svc_sess_é", "svc_rt_x", "svc_rt_",
	"svc_pk_0000000000000000000000000000000000000000000EXAMPL",
	"svc_pk_short", "https://p.example/a", "HTTP://p.example/é", "https://p.example/#",
	"https://p.example/a b",
	"https://p.example/\\", "https://p.example/\u00a0", "3f0e6a52-6f0a-4c1e-9a53-0d6c2f3b7a11",
	"3F0E6A52-6F0A-4C1E-9A53-0D6C2F3B7A11", "int_3f0e6a52-6f0a-4c1e-9a53-0d6c2f3b7a11",
	"evt_3f0e6a52-6f0a-4c1e-9a53-0d6c2f3b7a11", "pub_1", "pub_", "req_a-1", "1795212600", "１７９５",
	"svc_sess_1:verification.started", "svc_sess_1:verification.other",
	"t=1795212600,v1=9ce0a27c4629337e4126a857045e7fd47643e99b5e2223bbcf8c9aea19c2b354", "t=1,v1=x",
	"v1,nOCifEYpM35Bp+hXBF5/1kdkPpm1XiIju/jJrqGcKzU=", "v1,nOCifEYpM35Bp+hXBF5/1kdkPpm1XiIju/jJrqGcKz_=",
	`W/"9ce0a27c4629337e4126a857045e7fd4"`, `"9ce0a27c4629337e4126a857045e7fd4"`, "wait=20", "wait=２０",
}

// matchers are programs that apply a pattern like each language's validators of JSON Schema.
var matchers = map[string][]string{
	"node": {"-e", `const {patterns, texts} = JSON.parse(require('fs').readFileSync(0, 'utf8'));
for (const p of patterns) console.log(texts.map((t) => new RegExp(p, 'u').test(t) ? '1' : '0').join(''));`},
	"python3": {"-c", `import json, re, sys
d = json.load(sys.stdin)
for p in d["patterns"]:
    print("".join("1" if re.search(p, t) else "0" for t in d["texts"]))`},
	"php": {"-r", `$d = json_decode(file_get_contents('php://stdin'), true);
foreach ($d['patterns'] as $p) {
    foreach ($d['texts'] as $t) echo preg_match('/' . str_replace('/', '\/', $p) . '/u', $t) === 1 ? '1' : '0';
    echo "\n";
}`},
}

// Each pattern accepts the same texts in Go, JavaScript, Python and PHP. In Python and PHP, $ also matches
// before a final line feed, which no pattern can prevent; the service rejects it.
func TestPatterns_SameInEachLanguage(t *testing.T) {
	long.Skip(t, "TestPatterns_SameInEachLanguage")
	patterns := patternsOf(t)
	var want []string
	for _, p := range patterns {
		re, err := regexp.Compile(p)
		if err != nil {
			t.Fatalf("Go does not read %s: %v", p, err)
		}
		var row strings.Builder
		for _, text := range texts {
			if re.MatchString(text) {
				row.WriteByte('1')
			} else {
				row.WriteByte('0')
			}
		}
		if s := row.String(); !strings.Contains(s, "1") || !strings.Contains(s, "0") {
			t.Errorf("%s takes all of the texts or none: add one", p)
		}
		want = append(want, row.String())
	}
	feed, err := json.Marshal(map[string]any{"patterns": patterns, "texts": texts})
	if err != nil {
		t.Fatal(err)
	}
	for name, args := range matchers {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command(testenv.Program(t, name), args...)
			var wrong bytes.Buffer
			cmd.Stdin, cmd.Stderr = bytes.NewReader(feed), &wrong
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v\n%s", err, &wrong)
			}
			got := strings.Fields(string(out))
			if len(got) != len(want) {
				t.Fatalf("%d rows, want %d: %s%s", len(got), len(want), out, &wrong)
			}
			for i, p := range patterns {
				for n, text := range texts {
					if got[i][n] != want[i][n] {
						t.Errorf("%s of %q: %c, and Go says %c", p, text, got[i][n], want[i][n])
					}
				}
			}
		})
	}
}

// patternsOf returns every pattern of the description once.
func patternsOf(t *testing.T) []string {
	t.Helper()
	var document any
	if err := yaml.Unmarshal([]byte(description(t)), &document); err != nil {
		t.Fatal(err)
	}
	var found []string
	var look func(any)
	look = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if p, ok := v["pattern"].(string); ok {
				found = append(found, p)
			}
			for _, inner := range v {
				look(inner)
			}
		case []any:
			for _, inner := range v {
				look(inner)
			}
		case map[any]any:
			t.Fatal(fmt.Sprint("a key is no text: ", v))
		}
	}
	look(document)
	slices.Sort(found)
	found = slices.Compact(found)
	if len(found) < 12 {
		t.Fatalf("only %d patterns: %q", len(found), found)
	}
	return found
}
