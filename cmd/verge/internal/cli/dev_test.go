package cli

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/afero"

	"github.com/verge-id/verge/cmd/verge/internal/adminclient"
	"github.com/verge-id/verge/cmd/verge/internal/config"
	"github.com/verge-id/verge/cmd/verge/internal/demo"
	"github.com/verge-id/verge/core/operate"
	"github.com/verge-id/verge/testharness/wait"
)

// testProgram returns a program with its files in memory.
func testProgram() (p *program, stdout, stderr *bytes.Buffer) {
	stdout, stderr = new(bytes.Buffer), new(bytes.Buffer)
	authorities := x509.NewCertPool()
	authorities.AddCert(new(x509.Certificate))
	return &program{stdin: bytes.NewReader(nil), stdout: stdout, stderr: stderr,
		name: "verge",
		System: config.System{FS: afero.NewMemMapFs(), Getenv: os.LookupEnv, Now: time.Now,
			Random:    rand.Reader,
			Roots:     func() (*x509.CertPool, error) { return authorities, nil },
			Variables: knownVariables, Module: builtInModule, Version: thisBuild().Version}}, stdout, stderr
}

// devHere runs `verge dev` inside the test. stop ends it as a signal would and returns the exit code.
func devHere(t *testing.T, p *program, args ...string) (pub *publisher, stop func() int) {
	t.Helper()
	const told = "/told/ready.json"
	if err := p.FS.MkdirAll(filepath.Dir(told), 0o700); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	exit := make(chan int, 1)
	go func() {
		exit <- run(ctx, append([]string{"dev", "--addr", "127.0.0.1:0", "--demo-addr", "127.0.0.1:0",
			"--kv", "memory", "--data", "/data", "--ready-file", told}, args...), p)
	}()
	var ready readyFile
	wait.Until(t, "the ready file", func() bool {
		if len(exit) > 0 {
			t.Fatalf("verge dev ended with %d: %s", wait.For(exit), p.stderr)
		}
		var err error
		ready, err = readReady(p.FS, told)
		return err == nil
	})
	pub = newPublisher(ready)
	return pub, func() int {
		leave(pub.http)
		cancel()
		return wait.For(exit)
	}
}

// leave closes the connections that clients of this process keep. A server that ends waits a while for them.
func leave(clients ...*http.Client) {
	for _, c := range append(clients, http.DefaultClient) {
		c.CloseIdleConnections()
	}
}

func TestDevWalk(t *testing.T) {
	t.Parallel()
	p, stdout, stderr := testProgram()
	pub, stop := devHere(t, p)

	id, redirect, err := pub.start(pub.IntegrationID)
	if err != nil {
		t.Fatal(err)
	}
	token, err := pub.approve(redirect)
	if err != nil {
		t.Fatal(err)
	}
	if valid, status, body := pub.validate(token); !valid {
		t.Errorf("validate: %d %s", status, body)
	}
	if valid, status, _ := pub.validate(token); valid || status != http.StatusConflict {
		t.Errorf("spec, Result token, single use: the second validation answered %d", status)
	}
	// The other integration works too. Here the provider rejects the user.
	rejected, redirect, err := pub.start(pub.IntegrationIDL2)
	if err != nil {
		t.Fatal(err)
	}
	location, err := pub.choose(redirect, "reject")
	if err != nil || strings.Contains(location, "result_token") {
		t.Errorf("a rejected session leads to %q, %v", location, err)
	}

	want := map[string]bool{id + ":verification.started": true, id + ":verification.completed": true,
		rejected + ":verification.started": true, rejected + ":verification.failed": true}
	wait.Until(t, "four events in the demo's inbox", func() bool { return len(inboxOf(t, pub)) == 4 })
	for _, d := range inboxOf(t, pub) {
		if !d.Verified || !want[d.IdempotencyKey] {
			t.Errorf("in the inbox: %+v", d)
		}
	}

	if code := stop(); code != exitOK {
		t.Errorf("SIGTERM drains and exits 0: exit code %d: %s", code, stderr)
	}
	for _, path := range []string{"/told/ready.json", "/data/ready.json"} {
		if ok, _ := afero.Exists(p.FS, path); ok {
			t.Errorf("%s still exists, but the service has ended", path)
		}
	}
	if bytes.Contains(stdout.Bytes(), []byte(pub.SecretKey)) ||
		bytes.Contains(stderr.Bytes(), []byte(pub.SecretKey)) {
		t.Error("contract 13: the secret key was printed to an output that is not a terminal")
	}
}

// Contract 41: verge dev prints no log line. The log is a file in the data directory, whose path is printed.
// The console's address signs in each time that it is opened, and a session counts in the console a moment
// later.
func TestDev_FirstHour(t *testing.T) {
	t.Parallel()
	p, stdout, stderr := testProgram()
	pub, stop := devHere(t, p)
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	defer leave(client)
	links := map[string]bool{}
	for range 2 {
		resp, err := client.Get(pub.DemoURL + demo.ConsolePath)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		to := resp.Header.Get("Location")
		if resp.StatusCode != 303 || !strings.HasPrefix(to, pub.ConsoleURL+"/link?link=") || links[to] {
			t.Errorf("contract 41: the console's address answers %d and leads to %q", resp.StatusCode, to)
		}
		links[to] = true
	}
	req, err := http.NewRequest("GET", pub.DemoURL+demo.ConsolePath, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = "attacker.example"
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 404 {
		t.Errorf("a name of another site gets a sign-in link: %d", resp.StatusCode)
	}

	_, redirect, err := pub.start(pub.Integrations["camera"])
	if err != nil {
		t.Fatal(err)
	}
	if _, page, err := pub.page(redirect); err != nil ||
		!strings.Contains(page, "no real check takes place") {
		t.Errorf("contract 41: the page of a method that pretends has no test banner: %v, %s", err, page)
	}
	_, redirect, err = pub.start(pub.IntegrationID)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pub.approve(redirect); err != nil {
		t.Fatal(err)
	}
	operator, err := adminclient.New(adminclient.Config{URL: pub.AdminURL, Token: pub.OperatorToken})
	if err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "the step of sessions", func() bool {
		seen, err := adminclient.Do(t.Context(), operator, operate.ReadOverview, pub.PublisherID)
		if err != nil {
			t.Fatal(err)
		}
		done := map[string]bool{}
		for _, step := range seen.Steps {
			done[step.Name] = step.Done
		}
		if done[operate.StepMethod] {
			t.Fatal("contract 41: the console says that dev verifies people")
		}
		return done[operate.StepSession]
	})
	if code := stop(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	if said := stdout.String() + stderr.String(); strings.Contains(said, "level=") ||
		!strings.Contains(said, "/data/dev.log") || !strings.Contains(said, "curl "+pub.BaseURL) {
		t.Errorf("contract 41: verge dev prints\n%s", said)
	}
	if log, err := afero.ReadFile(p.FS, "/data/dev.log"); err != nil ||
		!bytes.Contains(log, []byte("msg=request")) {
		t.Errorf("contract 41: the log is %q, %v", log, err)
	}
}

type inboxEntry struct {
	Verified       bool   `json:"verified"`
	IdempotencyKey string `json:"idempotency_key"`
	Type           string `json:"type"`
	Test           bool   `json:"test"`
}

func inboxOf(t *testing.T, pub *publisher) (all []inboxEntry) {
	t.Helper()
	resp, err := pub.http.Get(pub.DemoURL + "/inbox.json")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || json.Unmarshal(b, &all) != nil {
		t.Fatalf("inbox: %v %s", err, b)
	}
	return all
}

func TestDevReadyFile(t *testing.T) {
	p, _, _ := testProgram()
	pub, stop := devHere(t, p)
	defer stop()

	info, err := p.FS.Stat("/told/ready.json")
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("ready file: mode %v, %v", info.Mode(), err)
	}
	b, err := afero.ReadFile(p.FS, "/told/ready.json")
	if err != nil {
		t.Fatal(err)
	}
	var members map[string]any
	if err := json.Unmarshal(b, &members); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"base_url", "demo_url", "console_url", "operator_token", "publisher_id",
		"integration_id", "integration_id_l2", "integration_id_all", "secret_key", "public_key",
		"webhook_secret", "webhook_url", "engine", "kv", "pid",
	} {
		if v := members[name]; v == nil || v == "" || v == 0.0 {
			t.Errorf("the ready file's %s is %v", name, v)
		}
	}
	for _, name := range []string{"sandbox", "bank", "camera", "wallet"} {
		if pub.Integrations[name] == "" {
			t.Errorf("contract 41: the ready file's integrations have no %s: %v", name, pub.Integrations)
		}
	}
	if pub.Integrations["sandbox"] != pub.IntegrationID || len(pub.Integrations) != 4 {
		t.Errorf("contract 41: the ready file's integrations are %v", pub.Integrations)
	}
	if !strings.HasPrefix(pub.BaseURL, "http://localhost:") ||
		!strings.HasPrefix(pub.DemoURL, "http://127.0.0.1:") {
		t.Errorf("contract 41: the service is at %s, the demo at %s", pub.BaseURL, pub.DemoURL)
	}
	resp, err := pub.http.Get(pub.DemoURL + demo.ConsolePath) // asks the admin listener
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	in := &served{at: serving{Ops: strings.TrimPrefix(pub.OpsURL, "http://")}}
	wait.Until(t, "that `verge dev` keeps no connection, for which a drain would wait", func() bool {
		return strings.HasSuffix(in.metric(t, `verge_http_connections{listener="admin"}`), " 0")
	})
	if pub.WebhookURL != pub.DemoURL+"/webhooks" || pub.Engine != "native" || pub.KV != "memory" ||
		pub.PID != os.Getpid() {
		t.Errorf("the ready file says %+v", pub.readyFile)
	}
}

// TestDevPublicKey starts sessions from a page of the demo's origin, which its integration allows, and
// from another origin.
func TestDevPublicKey(t *testing.T) {
	t.Parallel()
	p, _, _ := testProgram()
	pub, stop := devHere(t, p)
	defer stop()
	for _, tt := range []struct {
		name, origin, integration string
		status                    int
	}{
		{"the demo's origin", pub.DemoURL, pub.IntegrationID, 200},
		{"the page /docs of the service", pub.BaseURL, pub.IntegrationID, 200},
		{"contract 5: another origin", "http://127.0.0.1:1", pub.IntegrationID, 403},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b, err := json.Marshal(map[string]string{"integration_id": tt.integration,
				"public_key": pub.PublicKey, "callback_url": pub.DemoURL + "/callback"})
			if err != nil {
				t.Fatal(err)
			}
			req, err := http.NewRequest("POST", pub.BaseURL+"/api/v1/verify/start", bytes.NewReader(b))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Origin", tt.origin)
			if status, _, body, err := pub.do(req); err != nil || status != tt.status {
				t.Errorf("%d, %v: %s", status, err, body)
			}
		})
	}
}

// TestDev_PortInUse starts a second `verge dev` with the same data directory, and one with another.
func TestDev_PortInUse(t *testing.T) {
	t.Parallel()
	p, _, _ := testProgram()
	pub, stop := devHere(t, p)
	defer stop()
	second, _, errs := testProgram()
	second.FS = p.FS
	at := strings.TrimPrefix(pub.DemoURL, "http://")
	for data, want := range map[string]string{
		"/data": at + " is in use, probably by the `verge dev` of process " + strconv.Itoa(pub.PID) +
			": open " + pub.DemoURL + "/",
		"/other": at + " is in use by another program: choose another port with --demo-addr",
	} {
		errs.Reset()
		code := run(t.Context(), []string{"dev", "--kv", "memory", "--data", data, "--addr", "127.0.0.1:0",
			"--demo-addr", at}, second)
		if code != exitFailed || !strings.Contains(errs.String(), want) {
			t.Errorf("--data %s: exit code %d, %s, want: %s", data, code, errs, want)
		}
	}
}

// TestDev_StoreInUse starts a second `verge dev` on other ports, with the same data directory. The log of the
// first one stays unchanged.
func TestDev_StoreInUse(t *testing.T) {
	t.Parallel()
	p, _, _ := testProgram()
	data := t.TempDir() // of the store; other files are in the memory of p.FS
	pub, stop := devHere(t, p, "--kv", "bolt", "--data", data)
	defer stop()
	logged := func() string {
		text, err := afero.ReadFile(p.FS, filepath.Join(data, logFile))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	resp, err := pub.http.Get(pub.BaseURL + "/verify")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	wait.Until(t, "the log message of the request", func() bool { return logged() != "" })
	before := logged()
	second, _, errs := testProgram()
	second.FS = p.FS
	code := run(t.Context(), []string{"dev", "--data", data, "--addr", "127.0.0.1:0",
		"--demo-addr", "127.0.0.1:0"}, second)
	want := data + " is in use by the `verge dev` of process " + strconv.Itoa(pub.PID) + ": open " +
		pub.DemoURL + "/, or choose another directory with --data"
	if code != exitFailed || !strings.Contains(errs.String(), want) {
		t.Errorf("exit code %d, %s, want: %s", code, errs, want)
	}
	if after := logged(); !strings.HasPrefix(after, before) {
		t.Errorf("the log has changed from %q to %q", before, after)
	}
}

// TestDevSeedsStay restarts on the same data directory. The values that a developer has copied stay
// valid.
func TestDevSeedsStay(t *testing.T) {
	t.Parallel()
	p, _, _ := testProgram()
	first, stop := devHere(t, p)
	if code := stop(); code != exitOK {
		t.Fatalf("exit code %d", code)
	}
	second, stop := devHere(t, p)
	defer stop()
	if first.seeds != second.seeds || !maps.Equal(first.Integrations, second.Integrations) {
		t.Errorf("seeds changed from %+v to %+v", first.readyFile, second.readyFile)
	}
	for _, name := range []string{seedsFile, keyringFile} {
		if info, err := p.FS.Stat("/data/" + name); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	if _, _, err := second.start(second.IntegrationID); err != nil {
		t.Errorf("after the restart: %v", err)
	}
}

// TestSeedsOfAnEarlierRelease adds what an earlier release has not invented, and keeps the rest.
func TestSeedsOfAnEarlierRelease(t *testing.T) {
	p, _, _ := testProgram()
	const old = `{"operator_token":"op_old","publisher_id":"pub_old",
		"integration_id":"id-1","integration_id_l2":"id-2","secret_key":"svc_sk_old","public_key":"svc_pk_old","webhook_secret":"whsec_old"}`
	if err := afero.WriteFile(p.FS, "/data/dev.json", []byte(old), 0o600); err != nil {
		t.Fatal(err)
	}
	first, err := loadSeeds(p.FS, "/data", p.Random, []string{"sandbox", "bank"})
	if err != nil {
		t.Fatal(err)
	}
	want := seeds{OperatorToken: "op_old", PublisherID: "pub_old", IntegrationID: "id-1",
		IntegrationIDL2: "id-2", IntegrationIDAll: first.IntegrationIDAll,
		SecretKey: "svc_sk_old", PublicKey: "svc_pk_old",
		WebhookSecret: "whsec_old"}
	if first.seeds != want || first.Integrations["sandbox"] != "id-1" {
		t.Errorf("the seeds became %+v", first)
	}
	for name, value := range map[string]string{"bank's id": first.Integrations["bank"],
		"all methods' id": first.IntegrationIDAll, "bank's secret": first.BankSecret,
		"camera's token": first.CameraToken} {
		if len(value) < 32 {
			t.Errorf("the %s is %q", name, value)
		}
	}
	second, err := loadSeeds(p.FS, "/data", p.Random, []string{"sandbox", "eid"})
	if err != nil {
		t.Fatal(err)
	}
	if second.seeds != first.seeds || second.BankSecret != first.BankSecret ||
		second.Integrations["bank"] != first.Integrations["bank"] || second.Integrations["eid"] == "" {
		t.Errorf("with other methods the seeds became %+v, they were %+v", second, first)
	}
}

// The welcome is one screen. It prints the secret key to a terminal, and never into a log. The call works
// there, too.
func TestWelcome(t *testing.T) {
	const oneScreen, columns = 24, 100
	p, stdout, _ := testProgram()
	var s seedFile
	if err := s.complete(p.Random, []string{"sandbox", "bank"}); err != nil {
		t.Fatal(err)
	}
	ready := readyFile{
		BaseURL:      "http://localhost:8080",
		DemoURL:      "http://127.0.0.1:8090",
		ConsoleURL:   "http://localhost:8080/console",
		WebhookURL:   "http://127.0.0.1:8090/webhooks",
		AdminURL:     "http://127.0.0.1:40201",
		seeds:        s.seeds,
		Integrations: s.Integrations,
	}
	others := []string{s.PublicKey, s.PublisherID, s.Integrations["bank"] + "   bank\n", ready.AdminURL,
		s.IntegrationIDAll + "   all methods\n"}
	const oneClick = "http://127.0.0.1:8090/console   signs you in"
	const call = "curl http://localhost:8080/api/v1/verify/start "
	for _, c := range []struct {
		rule      string
		cmd       devCmd
		exposed   []string
		want, not []string
	}{
		{"contract 41: one screen", devCmd{}, nil, []string{oneClick, "http://127.0.0.1:8090/inbox", call,
			"/data/dev.json", "Log            /data/dev.log\n", "--verbose",
			s.IntegrationID + "   L1, challenge age 25, sandbox"},
			append(others, "OpenID", "Other machines")},
		{"contract 41: --verbose prints the rest", devCmd{Verbose: true}, nil, append(others, oneClick, call),
			[]string{"--verbose"}},
		{"contract 41: another machine cannot sign in", devCmd{}, []string{"0.0.0.0:8080"},
			[]string{"http://localhost:8080/console   sign in with the operator token\n",
				"Other machines can reach 0.0.0.0:8080"}, []string{"signs you in"}},
		{"contract 50: values for an OpenID client",
			devCmd{RedirectURI: []string{"http://localhost:3000/callback"}}, nil,
			[]string{"issuer         http://localhost:8080/oidc\n",
				"redirect URI   http://localhost:3000/callback\n",
				"export CLIENT_ID=" + s.IntegrationID + "\n", "export CLIENT_SECRET="}, []string{call}},
	} {
		for _, p.terminal = range []bool{true, false} {
			stdout.Reset()
			c.cmd.Data = "/data"
			p.welcome(ready, &c.cmd, c.exposed)
			shown := stdout.String()
			if secret := strings.Contains(shown, s.SecretKey); secret != p.terminal {
				t.Errorf(
					"%s: contract 13: on a terminal: %v, the secret key is shown: %v",
					c.rule,
					p.terminal,
					secret,
				)
			}
			for _, want := range c.want {
				if !strings.Contains(shown, want) {
					t.Errorf("%s: the welcome does not contain %q: %s", c.rule, want, shown)
				}
			}
			for _, not := range c.not {
				if strings.Contains(shown, not) {
					t.Errorf("%s: the welcome contains %q: %s", c.rule, not, shown)
				}
			}
			if lines := strings.Count(shown, "\n"); lines > oneScreen && !c.cmd.Verbose {
				t.Errorf("%s: %d lines, want at most %d: %s", c.rule, lines, oneScreen, shown)
			}
			for line := range strings.Lines(shown) {
				if n := len([]rune(line)) - 1; n > columns {
					t.Errorf("%s: %d columns, want at most %d: %s", c.rule, n, columns, line)
				}
			}
		}
	}
}
