package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spf13/afero"

	"github.com/verge-id/verge/testharness/long"
	"github.com/verge-id/verge/testharness/testenv"
	"github.com/verge-id/verge/testharness/wait"
)

const reported = 1000 // sessions

// Contract 57: the report of a month with 1,000 sessions has their outcomes and no data of users. OpenSSL
// alone verifies its signatures.
func TestReport_Month(t *testing.T) {
	t.Parallel()
	long.Skip(t, "TestReport_Month")
	openssl := testenv.Program(t, "openssl")
	sink := newEvents(t)
	sink.trust(testSecret)
	p := serveFiles(t, map[string]string{
		"/verge.toml": configFor("dev", "memory", sink.URL, "HOOK") +
			"[report]\nprivate_key_file = \"/report.pem\"\n",
		"/report.pem": pemKey(t, newECKey(t)),
	})
	var passed atomic.Int64
	p.Now = func() time.Time { return time.Now().Add(time.Duration(passed.Load())) }
	at, stop := serveHere(t, p, "--config", "/verge.toml")
	defer stop()
	code, out := asOperator(p, at, "key", "create", "--publisher", "pub_example", "--json")
	var created struct{ Key string }
	if code != exitOK || json.Unmarshal([]byte(out), &created) != nil {
		t.Fatalf("exit code %d: %s", code, out)
	}
	pub := newPublisher(readyFile{BaseURL: "http://" + at.Public, seeds: seeds{SecretKey: created.Key}})
	pub.http.Transport = canaryAgent{pub.http.Transport}
	want := map[string]int{}
	first := p.Now()
	for n := 0; n < reported; {
		var walks sync.WaitGroup
		for range min(40, reported-n) {
			user, outcome := n, []string{"approve", "approve", "approve", "reject", "cancel"}[n%5]
			want[outcome]++
			walks.Go(func() {
				if err := walkAs(pub, outcome, user); err != nil {
					t.Error(err)
				}
			})
			n++
		}
		walks.Wait()
		passed.Add(int64(24 * time.Hour))
	}
	dir := t.TempDir()
	passed.Add(int64(time.Hour)) // sessions that were left have expired
	period := []string{"report", "--from", first.UTC().Format(time.DateOnly), "--to",
		p.Now().UTC().Format(time.DateOnly)}
	wait.Until(t, "all sessions in the report", func() bool { // instances store their counts every minute
		time.Sleep(time.Second)
		_, out := asOperator(p, at, append(period, "--json")...)
		return strings.Contains(out, fmt.Sprintf(`\"started\": %d\n`, reported))
	})
	p.FS = afero.NewOsFs()
	if code, out = asOperator(p, at, append(period, "--dir", dir)...); code != exitOK {
		t.Fatalf("exit code %d: %s", code, out)
	}
	document := reportFiles(t, openssl, dir)
	var r struct {
		Outcomes   map[string]int `json:"outcomes"`
		Publishers []struct {
			Integrations []struct {
				Days []any `json:"days"`
			}
		}
	}
	if err := json.Unmarshal(document, &r); err != nil {
		t.Fatal(err)
	}
	if r.Outcomes["started"] != reported || r.Outcomes["completed"] != want["approve"] ||
		r.Outcomes["failed_provider_rejected"] != want["reject"] || r.Outcomes["expired"] != want["cancel"] {
		t.Errorf("the report counts %v, want %v", r.Outcomes, want)
	}
	if days := len(r.Publishers[0].Integrations[0].Days); days < reported/40 {
		t.Errorf("the report has %d days, want at least %d", days, reported/40)
	}
}

// walkAs does one verification whose fields are canaries.
func walkAs(p *publisher, outcome string, n int) error {
	status, _, body, err := p.api("POST", "/api/v1/verify/start", map[string]string{
		"integration_id": testIntegration, "callback_url": "https://shop.example/canary-callback",
		"state": fmt.Sprintf("canary-state-%d", n), "external_user_id": fmt.Sprintf("canary-user-%d", n)})
	var s struct {
		RedirectURL string `json:"redirect_url"`
	}
	if err := errors.Join(err, json.Unmarshal(body, &s)); status != 200 || err != nil {
		return fmt.Errorf("start: %d %s, %w", status, body, err)
	}
	location, err := p.choose(s.RedirectURL, outcome)
	back := strings.HasPrefix(location, "https://shop.example/canary-callback")
	if err == nil && outcome == "approve" && !back {
		return fmt.Errorf("%s: sent to %q", outcome, location)
	}
	return err
}

// canaryAgent is a browser with a name that no report may have.
type canaryAgent struct{ http.RoundTripper }

func (c canaryAgent) RoundTrip(r *http.Request) (*http.Response, error) {
	r.Header.Set("User-Agent", "canary-agent")
	r.Header.Set("Accept-Language", "gsw-canary")
	return c.RoundTripper.RoundTrip(r)
}

// reportFiles verifies the files of a report, and returns the document.
func reportFiles(t *testing.T, openssl, dir string) (document []byte) {
	t.Helper()
	for _, name := range []string{"report.json", "report.html"} {
		file := filepath.Join(dir, name)
		verify := func() (string, error) {
			out, err := exec.Command(openssl, "dgst", "-sha256", "-verify", filepath.Join(dir, "report.pub"),
				"-signature", file+".sig", file).CombinedOutput()
			return string(out), err
		}
		if out, err := verify(); err != nil || out != "Verified OK\n" {
			t.Errorf("%s: openssl prints %q, %v", name, out, err)
		}
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, canary := range []string{"canary", "svc_sess_", testSecret, testToken} {
			if strings.Contains(string(content), canary) {
				t.Errorf("%s contains %q", name, canary)
			}
		}
		changed := strings.Replace(string(content), "1000", "1001", 1)
		if changed == string(content) {
			t.Fatalf("%s does not have the number of sessions: %s", name, content)
		}
		if err := os.WriteFile(file, []byte(changed), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := verify(); err == nil {
			t.Errorf("%s with another number: openssl prints %q", name, out)
		}
		if name == "report.json" {
			document = content
		}
	}
	return document
}

// TestReport_ExistingFile keeps an earlier report. No server is asked.
func TestReport_ExistingFile(t *testing.T) {
	p, _, stderr := testProgram()
	if err := afero.WriteFile(p.FS, "/evidence/report.html.sig", []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	code := run(t.Context(), []string{"report", "--dir", "/evidence"}, p)
	if code != exitFailed || !strings.Contains(stderr.String(), "/evidence/report.html.sig already exists") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}
