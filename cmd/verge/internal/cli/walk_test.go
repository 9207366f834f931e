package cli

import (
	"encoding/json"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestWalkByCurl runs the script that takes a publisher from nothing to a verified session by the operators'
// API.
func TestWalkByCurl(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("SKIP: there is no curl here")
	}
	if err := exec.Command("sed", "--version").Run(); err != nil {
		t.Skip("SKIP: the sed here is not GNU sed")
	}
	t.Parallel()
	dev := startDev(t, t.TempDir(), "--log-level", "warn")
	careless := newEndpoint(t)
	careless.secret.Store(dev.WebhookSecret)
	careless.careless.Store(true)
	walk := exec.Command("sh", "testdata/walk/curl.sh")
	walk.Env = append(os.Environ(), "VERGE_ADMIN_URL="+dev.AdminURL,
		"VERGE_OPERATOR_TOKEN="+dev.OperatorToken,
		"WEBHOOK_URL="+dev.WebhookURL, "WEBHOOK_SECRET="+dev.WebhookSecret,
		"CARELESS_URL="+careless.URL)
	said, err := walk.CombinedOutput()
	if err != nil || !strings.HasSuffix(string(said), "Done.\n") {
		t.Errorf("%v: %s", err, said)
	}
}

// keep puts into a variable what the last command has printed: keep NAME. Or it takes a member of JSON that
// was printed or is in a file: keep NAME MEMBER [FILE]. A member of a member is behind a dot, and a number is
// a place in a list.
func keep(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 3 {
		ts.Fatalf("usage: keep NAME [MEMBER [FILE]]")
	}
	from := "stdout"
	if len(args) == 3 {
		from = args[2]
	}
	text := strings.TrimSpace(ts.ReadFile(from))
	if len(args) > 1 {
		var v any
		ts.Check(json.Unmarshal([]byte(text), &v))
		for name := range strings.SplitSeq(args[1], ".") {
			switch in := v.(type) {
			case map[string]any:
				v = in[name]
			case []any:
				n, err := strconv.Atoi(name)
				if err != nil || n >= len(in) {
					ts.Fatalf("there is no place %s in %s", name, text)
				}
				v = in[n]
			}
		}
		member, ok := v.(string)
		if !ok || member == "" {
			ts.Fatalf("there is no text %s in %s", args[1], text)
		}
		text = member
	}
	ts.Setenv(args[0], text)
}

// chooseOutcome does what a user of the sandbox does: choose OUTCOME BASE_URL REDIRECT_URL.
func chooseOutcome(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: choose OUTCOME BASE_URL REDIRECT_URL")
	}
	_, err := newPublisher(readyFile{BaseURL: args[1]}).choose(args[2], args[0])
	ts.Check(err)
}

// narrow fails if the last command has printed a line of more than 100 characters: narrow.
func narrow(ts *testscript.TestScript, neg bool, _ []string) {
	for line := range strings.Lines(ts.ReadFile("stdout")) {
		if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > 100 && !neg {
			ts.Fatalf("a line has %d characters: %s", n, line)
		}
	}
}
