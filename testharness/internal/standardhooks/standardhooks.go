// Package standardhooks verifies webhook requests with libraries of Standard Webhooks: npm standardwebhooks,
// npm svix and the Go library. Tests use it as the counterpart of core/webhook (contract 51).
package standardhooks

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/verge-id/verge/testharness/testenv"
)

// Modules is where .ci/install puts the npm libraries.
const Modules = "/usr/local/lib/webhooks/node_modules"

// Request is a webhook request, and whether each library must accept it.
type Request struct {
	Name     string            `json:"name"`
	Secret   string            `json:"secret"`
	Headers  map[string]string `json:"headers"`
	Body     []byte            `json:"body_base64"`
	Now      int64             `json:"now"`
	Accepted bool              `json:"accepted"`
}

//go:embed verify.cjs
var script string

// CheckGo reports each request that the Go library judges otherwise.
func CheckGo(t *testing.T, requests []Request) {
	t.Helper()
	for _, r := range requests {
		if got := goVerdict(t, r); got != r.Accepted {
			t.Errorf("contract 51: Go: %s: accepted is %v", r.Name, got)
		}
	}
}

// CheckNode reports each request that an npm library judges otherwise.
func CheckNode(t *testing.T, requests []Request) {
	t.Helper()
	var verdicts map[string][]bool
	if err := json.Unmarshal(Node(t, script, requests), &verdicts); err != nil {
		t.Fatal(err)
	}
	for _, library := range []string{"standardwebhooks", "svix"} {
		if len(verdicts[library]) != len(requests) {
			t.Fatalf("%s: %d verdicts of %d requests", library, len(verdicts[library]), len(requests))
		}
		for n, r := range requests {
			if verdicts[library][n] != r.Accepted {
				t.Errorf("contract 51: %s: %s: accepted is %v", library, r.Name, verdicts[library][n])
			}
		}
	}
}

// Node returns the output of a script that finds the npm libraries, and the requests as JSON in its input.
func Node(t *testing.T, script string, requests []Request) []byte {
	t.Helper()
	node := testenv.Program(t, "node")
	testenv.File(t, filepath.Join(Modules, "svix/package.json"))
	input, err := json.Marshal(requests)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "script.cjs"), []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(Modules, filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(node, "script.cjs")
	cmd.Dir, cmd.Stdin = dir, bytes.NewReader(input)
	var failed bytes.Buffer
	cmd.Stderr = &failed
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, &failed)
	}
	return out
}

// goVerdict verifies a request with the Go library, whose clock is the bubble's.
func goVerdict(t *testing.T, r Request) (accepted bool) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Unix(r.Now, 0)))
		hook, err := standardwebhooks.NewWebhook(r.Secret)
		if err != nil {
			t.Fatal(err)
		}
		header := http.Header{}
		for name, value := range r.Headers {
			header.Set(name, value)
		}
		accepted = hook.Verify(r.Body, header) == nil
	})
	return accepted
}
