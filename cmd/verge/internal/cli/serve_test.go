package cli

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/verge-id/verge/cmd/verge/internal/config"
	"github.com/verge-id/verge/core/keyring"
	"github.com/verge-id/verge/testharness/wait"
)

// lines is an output that a test can read while the program writes it.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// serving is the log line of a server that serves.
type serving struct {
	Msg    string `json:"msg"`
	Public string `json:"public"`
	Admin  string `json:"admin"`
	Ops    string `json:"ops"`
	Engine string `json:"engine"`
	Module string `json:"module"`
}

const (
	testToken       = "the-operator-token-of-tests"
	testIntegration = "5f0c6f0e-3c1c-4c6e-9a52-0d6a3a2f9b11"
	testSecret      = "whsec_Jx2m9QpL0vTzR4kW7nBd"
)

// serveFiles writes the files that `verge serve` reads and returns a program that has them.
func serveFiles(t *testing.T, files map[string]string) *program {
	t.Helper()
	p, _, _ := testProgram()
	p.Getenv = func(name string) (string, bool) {
		v, ok := map[string]string{
			"VERGE_OPERATOR_TOKEN": testToken,
			"HOOK":                 testSecret,
			"HOOK2":                testSecret + "-another",
		}[name]
		return v, ok
	}
	ring, err := keyring.Generate(p.Random, p.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := writeKeyring(p, "/ring.json", ring); err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		if err := config.WritePrivate(p.FS, name, []byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// serveHere runs `verge serve` inside the test. stop ends it as a signal would and returns the exit code.
func serveHere(t *testing.T, p *program, args ...string) (at serving, stop func() int) {
	t.Helper()
	log := new(lines)
	running := *p
	running.stderr = log
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	exit := make(chan int, 1)
	go func() {
		exit <- run(ctx, append([]string{"serve", "--listen", "127.0.0.1:0",
			"--admin-listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0"}, args...), &running)
	}()
	wait.Until(t, "the server", func() bool {
		if len(exit) > 0 {
			t.Fatalf("verge serve ended with %d: %s", wait.For(exit), log)
		}
		for line := range strings.Lines(log.String()) {
			if json.Unmarshal([]byte(line), &at) == nil && at.Msg == "serving" {
				return true
			}
		}
		return false
	})
	return at, func() int {
		leave()
		cancel()
		code := wait.For(exit)
		if strings.Contains(log.String(), testSecret) || strings.Contains(log.String(), testToken) {
			t.Errorf("contract 13: the log holds a secret: %s", log)
		}
		return code
	}
}

// asOperator runs an operator's command against the server.
func asOperator(p *program, at serving, args ...string) (code int, out string) {
	var b bytes.Buffer
	asked := *p
	asked.stdout, asked.stderr = &b, &b
	code = run(context.Background(), append(args, "--admin-url", "http://"+at.Admin), &asked)
	return code, b.String()
}

func configFor(mode, kv, webhookURL, secretEnv string) string {
	base := "https://verify.example.com"
	if mode == "dev" {
		base = "http://127.0.0.1"
	}
	return fmt.Sprintf(`
mode = %q
base_url = %q
kv = %q
keyring = "/ring.json"
[[publishers]]
id = "pub_example"
[[integrations]]
id = %q
publisher = "pub_example"
level = "L1"
challenge_age = 25
method = "sandbox"
webhook_url = %q
secret_env = %q
`, mode, base, kv, testIntegration, webhookURL, secretEnv)
}

// TestServeReadiness shows that every start applies the configuration. An integration that did not
// change stays ready. An integration with another URL or secret does not (contract 29).
func TestServeReadiness(t *testing.T) {
	t.Parallel()
	sink := newEvents(t)
	sink.trust(testSecret)
	kv := "bolt:" + filepath.Join(t.TempDir(), "verge.db")
	p := serveFiles(t, map[string]string{
		"/same.toml":   configFor("dev", kv, sink.URL, "HOOK"),
		"/secret.toml": configFor("dev", kv, sink.URL, "HOOK2"),
		"/url.toml":    configFor("dev", kv, sink.URL+"/elsewhere", "HOOK"),
	})
	if err := p.FS.MkdirAll(filepath.Dir(strings.TrimPrefix(kv, "bolt:")), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, config string
		ready        bool
	}{
		{"never tested", "/same.toml", false},
		{"tested, then restarted with the same configuration", "/same.toml", true},
		{"contract 29: changing the secret resets it", "/secret.toml", false},
		{"the tested secret again", "/same.toml", true},
		{"contract 29: changing the URL resets it", "/url.toml", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			at, stop := serveHere(t, p, "--config", tt.config)
			code, out := asOperator(p, at, "integration", "list", "--json")
			var all []struct{ Ready bool }
			if code != exitOK || json.Unmarshal([]byte(out), &all) != nil || len(all) != 1 ||
				all[0].Ready != tt.ready {
				t.Errorf("exit code %d: %s", code, out)
			}
			if tt.name == "never tested" {
				code, out := asOperator(p, at, "integration", "test", testIntegration)
				if code != exitOK || !strings.Contains(out, "Ready.") {
					t.Errorf("test: exit code %d: %s", code, out)
				}
			}
			if code := stop(); code != exitOK {
				t.Errorf("exit code %d", code)
			}
		})
	}
}

// TestServeNotReady shows that mode test answers INTEGRATION_NOT_READY, as production does (contract 5).
func TestServeNotReady(t *testing.T) {
	t.Parallel()
	p := serveFiles(t, map[string]string{
		"/verge.toml": configFor("test", "memory", "https://shop.example.com/hooks", "HOOK"),
	})
	at, stop := serveHere(t, p, "--config", "/verge.toml")
	defer stop()
	code, out := asOperator(p, at, "key", "create", "--publisher", "pub_example", "--json")
	var created struct{ Key string }
	if code != exitOK || json.Unmarshal([]byte(out), &created) != nil {
		t.Fatalf("exit code %d: %s", code, out)
	}
	pub := newPublisher(readyFile{BaseURL: "http://" + at.Public, seeds: seeds{SecretKey: created.Key}})
	_, _, err := pub.start(testIntegration)
	if err == nil || !strings.Contains(err.Error(), "INTEGRATION_NOT_READY") {
		t.Errorf("start: %v", err)
	}
}

// TestServeDeadDeliveries lets a receiver reject an event. An operator finds the event and sends it
// again.
func TestServeDeadDeliveries(t *testing.T) {
	t.Parallel()
	sink := newEvents(t) // it has no secret yet, so it returns 401
	p := serveFiles(t, map[string]string{"/verge.toml": configFor("dev", "memory", sink.URL, "HOOK")})
	at, stop := serveHere(t, p, "--config", "/verge.toml")
	defer stop()
	_, out := asOperator(p, at, "key", "create", "--publisher", "pub_example", "--json")
	var created struct{ Key string }
	if err := json.Unmarshal([]byte(out), &created); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	pub := newPublisher(readyFile{BaseURL: "http://" + at.Public, seeds: seeds{SecretKey: created.Key}})
	id, _, err := pub.start(testIntegration)
	if err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "the dead event", func() bool {
		_, out = asOperator(p, at, "delivery", "list")
		return strings.Contains(out, id)
	})
	if !strings.Contains(out, "verification.started") || !strings.Contains(out, "refused") ||
		!strings.Contains(out, "status 401") {
		t.Errorf("list: %s", out)
	}
	code, out := asOperator(p, at, "integration", "test", testIntegration)
	if code != exitFailed || !strings.Contains(out, "NOT_READY:") {
		t.Errorf("test of a receiver that refuses everything: exit code %d: %s", code, out)
	}

	sink.trust(testSecret)
	code, out = asOperator(p, at, "delivery", "resend", "--all")
	if code != exitOK || !strings.Contains(out, "scheduled") {
		t.Errorf("resend: exit code %d: %s", code, out)
	}
	wait.Until(t, "the event", func() bool { return sink.has(id, "started") })
	wait.Until(t, "an empty list", func() bool {
		_, out = asOperator(p, at, "delivery", "list")
		return strings.Contains(out, "No failed events")
	})
}

// TestServeShowsWhatIsDown shows an operator's view of a receiver that is down. The integration's
// test names the cause once, and the list shows the events that wait.
func TestServeShowsWhatIsDown(t *testing.T) {
	t.Parallel()
	down := "http://" + freeAddr(t)
	p := serveFiles(t, map[string]string{"/verge.toml": configFor("dev", "memory", down, "HOOK")})
	at, stop := serveHere(t, p, "--config", "/verge.toml")
	defer stop()
	code, out := asOperator(p, at, "delivery", "list")
	if code != exitOK || !strings.Contains(out, "none waiting for a retry") {
		t.Errorf("list: exit code %d: %s", code, out)
	}
	code, out = asOperator(p, at, "integration", "test", testIntegration)
	if code != exitFailed || strings.Count(out, "connection_refused") != 1 ||
		strings.Contains(out, "altered_body") || strings.Contains(out, "webhook secret") {
		t.Errorf("test: exit code %d: %s", code, out)
	}
	_, out = asOperator(p, at, "key", "create", "--publisher", "pub_example", "--json")
	var created struct{ Key string }
	if err := json.Unmarshal([]byte(out), &created); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	pub := newPublisher(readyFile{BaseURL: "http://" + at.Public, seeds: seeds{SecretKey: created.Key}})
	id, _, err := pub.start(testIntegration)
	if err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "the event that waits", func() bool {
		_, out = asOperator(p, at, "delivery", "list")
		return strings.Contains(out, id)
	})
	for _, want := range []string{
		"Waiting for a retry:",
		"verification.started",
		"connection_refused",
		"No failed events.",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("list does not contain %q: %s", want, out)
		}
	}
	_, out = asOperator(p, at, "delivery", "list", "--json")
	var all []struct {
		State, Event, Last, Due string
		Attempts                int
	}
	err = json.Unmarshal([]byte(out), &all)
	if err != nil || len(all) != 1 || all[0].State != "waiting" || all[0].Last != "connection_refused" ||
		all[0].Attempts < 1 || all[0].Due == "" {
		t.Errorf("%v: %s", err, out)
	}
}

// TestServeTLS shows that a certificate makes the listeners speak TLS, except for that of the metrics and for
// an operators' listener on loopback: the commands reach that as OPERATING.md says, with a certificate and
// without.
func TestServeTLS(t *testing.T) {
	t.Parallel()
	cert, key, pool := selfSigned(t, aCertificate())
	client := &http.Client{
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}},
		Timeout:   patience,
	}
	for name, c := range map[string]struct{ admin, plain, secure string }{
		"operators on loopback":     {"127.0.0.1:0", "401", "none"},
		"operators beyond loopback": {"0.0.0.0:0", "400", "401"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := serveFiles(t, map[string]string{"/tls.crt": cert, "/tls.key": key,
				"/verge.toml": configFor("test", "memory", "https://shop.example.com/hooks", "HOOK")})
			at, stop := serveHere(t, p, "--config", "/verge.toml", "--tls-cert", "/tls.crt", "--tls-key",
				"/tls.key", "--admin-listen", c.admin)
			defer stop()
			admin := "127.0.0.1" + at.Admin[strings.LastIndex(at.Admin, ":"):]
			for url, want := range map[string]string{
				"https://" + at.Public + "/readyz":          "200",
				"http://" + at.Public + "/readyz":           "400",
				"http://" + at.Ops + "/metrics":             "200",
				"https://" + admin + "/admin/v1/deliveries": c.secure,
				"http://" + admin + "/admin/v1/deliveries":  c.plain,
			} {
				got := "none"
				if resp, err := client.Get(url); err == nil {
					resp.Body.Close()
					got = strconv.Itoa(resp.StatusCode)
				}
				if got != want {
					t.Errorf("%s: %s, want %s", url, got, want)
				}
			}
		})
	}
}

// TestServePortInUse shows that the error names the setting to change, and that the command closes the
// listeners that it had opened.
func TestServePortInUse(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	p := serveFiles(t, map[string]string{
		"/verge.toml": configFor("test", "memory", "https://shop.example.com/hooks", "HOOK"),
	})
	stderr := new(bytes.Buffer)
	p.stderr = stderr
	code := run(context.Background(), []string{"serve", "--config", "/verge.toml",
		"--listen", "127.0.0.1:0", "--admin-listen", taken.Addr().String()}, p)
	if code != exitFailed || !strings.Contains(stderr.String(), "listen.admin (--admin-listen)") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

// TestServe_SecurityText: the binary serves the contact of its file to those who found a weakness (RFC 9116).
func TestServe_SecurityText(t *testing.T) {
	t.Parallel()
	s := newSite(t, "bolt:"+filepath.Join(t.TempDir(), "verge.db"), "https://shop.example.com/hooks", "")
	config := readText(t, s.config)
	for contact, status := range map[string]int{"mailto:security@example.com": 200, "": 404} {
		text := fmt.Sprintf("security_contact = %q\n", contact) + config
		if err := os.WriteFile(s.config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		in := s.start()
		resp, err := http.Get("http://" + in.at.Public + "/.well-known/security.txt")
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != status ||
			status == 200 && !strings.HasPrefix(string(body), "Contact: "+contact+"\nExpires: ") {
			t.Errorf("contact %q: %d %s, %v", contact, resp.StatusCode, body, err)
		}
		in.cmd.Process.Signal(syscall.SIGTERM)
		wait.For(in.ended)
	}
}

// Contract 59: a certificate of a setting is warned of daily, as soon as fewer than 14 days are left.
func TestWarnDaily(t *testing.T) {
	var log bytes.Buffer
	now := time.Date(2026, 11, 26, 0, 0, 0, 0, time.UTC)
	pl := plan{Plan: config.Plan{Expiries: map[string]time.Time{"store.cert": now.AddDate(0, 0, 15)}},
		log: slog.New(slog.NewTextHandler(&log, nil)), now: func() time.Time { return now }}
	ctx, cancel := context.WithCancel(t.Context())
	days := 0
	pl.warnDaily(ctx, func(pause time.Duration) <-chan time.Time {
		now = now.Add(pause)
		if days++; days > 3 {
			cancel()
			return nil
		}
		day := make(chan time.Time, 1)
		day <- now
		return day
	})
	if n := strings.Count(log.String(), "store.cert: the certificate expires at"); n != 2 {
		t.Errorf("contract 59: %d warnings in 3 days, want 2:\n%s", n, log.String())
	}
}
