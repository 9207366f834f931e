package cli

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/afero"

	"github.com/verge-id/verge/cmd/verge/internal/config"
	"github.com/verge-id/verge/testharness/agenttest"
	"github.com/verge-id/verge/testharness/long"
	"github.com/verge-id/verge/testharness/testenv"
	"github.com/verge-id/verge/testharness/wait"
)

// keyless is a deployment without a private key in a file that its configuration names: its keys are in an
// SSH agent, and a program prints its ring.
type keyless struct {
	*site
	program string // prints the ring
	state   string // what the program does
}

// newKeyless writes its configuration. The OpenID provider's keys have these names.
func newKeyless(t *testing.T, keys ...string) *keyless {
	t.Helper()
	dir, sink := t.TempDir(), newEvents(t)
	sink.trust(testSecret)
	s := &keyless{site: newSite(t, "bolt:"+filepath.Join(dir, "verge.db"), sink.URL, unlimited),
		program: filepath.Join(dir, "print"), state: filepath.Join(dir, "state")}
	s.does("cat " + s.ring)
	script := "#!/bin/sh\necho hush >&2\n[ -z \"$VERGE_OPERATOR_TOKEN\" ] || exit 9\n. " + s.state + "\n"
	if err := os.WriteFile(s.program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(s.site.config)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(whole), fmt.Sprintf("keyring = %q", s.ring),
		fmt.Sprintf("keyring_command = [%q]", s.program), 1)
	text = strings.Replace(
		text,
		"webhook_url",
		"redirect_uris = [\"https://shop.example/back\"]\nwebhook_url",
		1,
	)
	if len(keys) > 0 {
		text += fmt.Sprintf("[oidc_provider]\nprivate_key_files = [%q]\n", keys[0])
	}
	if err := os.WriteFile(s.site.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

// does sets the script that prints the ring.
func (s *keyless) does(script string) {
	s.t.Helper()
	if err := config.WritePrivate(afero.NewOsFs(), s.state, []byte(script+"\n")); err != nil {
		s.t.Fatal(err)
	}
}

// fails starts a process that ends with that message, and does not leak.
func (s *keyless) fails(when, says string) {
	s.t.Helper()
	in := s.launch()
	wait.For(in.ended)
	if code := in.cmd.ProcessState.ExitCode(); code != exitUsage ||
		!strings.Contains(in.logs.String(), says) {
		s.t.Errorf("%s: exit code %d: %s, want %q", when, code, in.logs, says)
	}
	s.discreet(in)
}

// discreet checks that neither the ring nor a message of the program is in the log.
func (s *keyless) discreet(in *served) {
	s.t.Helper()
	for _, k := range readRing(s.t, s.ring).Keys {
		for _, secret := range []string{"hush", base64.RawURLEncoding.EncodeToString(k.Secret), `"secret"`} {
			if strings.Contains(in.logs.String(), secret) {
				s.t.Errorf("contract 59: the log has %q: %s", secret, in.logs)
			}
		}
	}
}

// code returns an authorization code of the OpenID provider.
func (s *keyless) code(in *served) string {
	s.t.Helper()
	at := "http://" + in.at.Public + "/oidc/authorize?response_type=code&scope=openid&client_id=" +
		testIntegration + "&redirect_uri=" + url.QueryEscape("https://shop.example/back")
	browser := &testenv.Browser{Client: &http.Client{Transport: toPort{in.at.Public},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	back, err := browser.Verify(at, "https://shop.example/back", "approve", nil)
	if err != nil {
		s.t.Fatalf("%v: %s", err, in.logs)
	}
	u, err := url.Parse(back)
	if err != nil || u.Query().Get("code") == "" {
		s.t.Fatalf("no code: %s", back)
	}
	return u.Query().Get("code")
}

// toPort sends all requests to one address.
type toPort struct{ address string }

func (t toPort) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.URL.Host = t.address
	return http.DefaultTransport.RoundTrip(req)
}

// redeem exchanges a code, and returns the status.
func (s *keyless) redeem(in *served, code string) int {
	s.t.Helper()
	form := url.Values{"grant_type": {"authorization_code"}, "code": {code}, "client_id": {testIntegration},
		"client_secret": {s.key}, "redirect_uri": {"https://shop.example/back"}}
	resp, err := http.PostForm("http://"+in.at.Public+"/oidc/token", form)
	if err != nil {
		s.t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}

// TestServe_KeysInAgent has the OpenID provider's key in a token by PKCS#11, behind OpenSSH's agent.
func TestServe_KeysInAgent(t *testing.T) {
	long.Skip(t, "TestServe_KeysInAgent")
	t.Parallel()
	agent := agenttest.Start(t)
	key := agent.AddToken()
	s := newKeyless(t, key)
	s.env = []string{"SSH_AUTH_SOCK=" + agent.Socket}
	in := s.start()
	failing := func() string { return in.metric(t, "verge_private_key_failing{") }
	wait.Until(t, "the metric", func() bool { return strings.HasSuffix(failing(), " 0") })
	if status := s.redeem(in, s.code(in)); status != http.StatusOK {
		t.Fatalf("contract 59: an ID token by a key in a token: %d: %s", status, in.logs)
	}

	code := s.code(in)
	agent.RemoveToken()
	if status := s.redeem(in, code); status != http.StatusServiceUnavailable {
		t.Errorf("contract 59: without the token: %d", status)
	}
	wait.Until(t, "the metric and the log", func() bool {
		return strings.HasSuffix(failing(), " 1") &&
			strings.Contains(in.logs.String(), "private key failing")
	})
	if got := in.metric(t, "verge_ready "); !strings.HasSuffix(got, " 1") {
		t.Errorf("contract 59: without a private key the instance is not ready: %s", got)
	}
	agent.InsertToken()
	wait.Until(t, "the end of the failure", func() bool {
		return strings.HasSuffix(failing(), " 0") &&
			strings.Contains(in.logs.String(), "private key signs again")
	})
	if status := s.redeem(in, code); status != http.StatusOK {
		t.Errorf("contract 59: the code after the failure: %d", status)
	}
	s.discreet(in)
	in.kill()
	wait.For(in.ended)

	agent.Stop()
	s.fails("contract 59: the agent is away at start", "the SSH agent cannot be reached")
	agent.Restart()
	s.fails("contract 59: the agent has no such key", "the SSH agent has no such key among its 0")
	s.env = nil
	s.fails("contract 59: no agent", "set key_agent")
}

// TestServe_KeyringCommand: the program that prints the ring fails, prints something else, and hangs.
func TestServe_KeyringCommand(t *testing.T) {
	t.Parallel()
	s := newKeyless(t)
	for _, c := range []struct{ rule, script, says string }{
		{"contract 59: an error", "exit 3", "exit status 3; run it as Verge's user"},
		{"contract 59: no ring", "echo hush", "not JSON"},
		{"contract 59: nothing", ":", "not JSON"},
		{"contract 59: too much", "yes hush", "it printed more than 262144 bytes"},
		{"contract 59: too long", "sleep 60 & wait", "it did not end within 10 seconds"},
	} {
		s.does(c.script)
		s.fails(c.rule, c.says)
	}
	s.does("cat " + s.ring)
	in := s.start()
	p := onDisk()
	rotate := []string{"keyring", "rotate", s.ring, "--seals-in", "0s"}
	if code := run(t.Context(), rotate, p); code != exitOK {
		t.Fatalf("rotate: exit code %d", code)
	}
	in.hangUp(t)
	wait.Until(t, "the new key", func() bool {
		return strings.Contains(in.metric(t, "verge_keyring_sealing_key"), newest(t, s.ring))
	})
	s.does("exit 3")
	changed := strings.Replace(readText(t, s.site.config), "challenge_age = 25", "challenge_age = 30", 1)
	if err := os.WriteFile(s.site.config, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	in.hangUp(t)
	wait.Until(t, "the metric", func() bool {
		return strings.HasSuffix(in.metric(t, "verge_keyring_unreadable "), " 1")
	})
	if _, _, err := in.publisher.start(testIntegration); err != nil {
		t.Errorf("contract 59: while the program fails, a start fails: %v", err)
	}
	wait.Until(t, "the first attempt", func() bool {
		return strings.Contains(in.logs.String(), "SIGHUP: keyring_command failed")
	})
	s.does("cat " + s.ring)
	wait.Until(t, "contract 59: the change", func() bool {
		return strings.Contains(in.logs.String(), "configuration changed")
	})
	in.hangUp(t)
	wait.Until(t, "the end of the failure", func() bool {
		return strings.HasSuffix(in.metric(t, "verge_keyring_unreadable "), " 0")
	})
	s.discreet(in)
}

// A SIGHUP while the server still reads its configuration is handled after the start.
func TestServe_HangUpDuringStart(t *testing.T) {
	t.Parallel()
	s := newKeyless(t)
	begun, goOn := s.state+".begun", s.state+".continue"
	s.does(fmt.Sprintf("touch %s; until [ -e %s ]; do sleep 0.05; done; cat %s", begun, goOn, s.ring))
	in := s.launch()
	wait.Until(t, "the program that prints the ring", func() bool {
		_, err := os.Stat(begun)
		return err == nil
	})
	in.hangUp(t)
	time.Sleep(200 * time.Millisecond) // a process that the signal stops has received it
	if err := os.WriteFile(goOn, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.ready(in)
	wait.Until(t, "the files are read again", func() bool {
		return strings.Contains(in.logs.String(), "SIGHUP: publishers and integrations were read again")
	})
}
