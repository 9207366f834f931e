package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spf13/afero"

	"github.com/verge-id/verge/core/webhook"
	"github.com/verge-id/verge/testharness/long"
	"github.com/verge-id/verge/testharness/wait"
)

// TestMove_Publisher moves a publisher from one deployment to another one by the steps of OPERATING.md, "Move
// a publisher", while its users walk. Each deployment has its own host, store, key ring and webhook secret.
// No event and no result is lost or doubled, whether a session starts before, during or after the move.
func TestMove_Publisher(t *testing.T) {
	t.Parallel()
	const newSecret = "whsec_of_the_new_deployment_1234"
	sink := newTwoSecrets(t, testSecret, newSecret)
	at := func(name string) string { return "bolt:" + filepath.Join(t.TempDir(), name) }
	retries := unlimited + "[webhooks]\nretries = [\"2s\"" + strings.Repeat(", \"5s\"", 20) + "]\n"
	from := newSite(t, at("old.db"), sink.URL, retries)
	to := newSite(t, at("new.db"), sink.URL, retries)
	to.env, to.key = []string{"HOOK=" + newSecret}, "its key is not created yet"
	block := emptied(t, to)
	m := &moving{t: t, old: from.start(), new: to.start(), begun: map[string]*moved{}}
	m.change(m.old)
	m.walk(4)
	atNew, atOld := movingCommands(t)

	// Step 1: the new deployment gets the publisher, under the same ids, and a key.
	appendTo(t, to.config, block)
	m.new.SecretKey = m.run(m.new, to, newSecret, atNew[:len(atNew)-1])
	m.both.Store(true)
	// Step 2 is the publisher's: m keeps the deployment of each session. Step 3: the webhook test.
	m.run(m.new, to, newSecret, atNew[len(atNew)-1:])
	// Some users have begun at the old deployment and continue after the move. An event waits for its retry.
	resting := m.rest(4)
	sink.failing.Store(true)
	waiting := m.start()
	wait.Until(t, "an event that waits", func() bool { return sink.failed.Load() > 0 })

	m.change(m.new) // step 4
	// Step 5 waits until no session of the old deployment is in progress. Here step 6 comes earlier:
	// archiving ends no session.
	appendArchived(t, from.config)
	m.run(m.old, from, testSecret, atOld)
	sink.failing.Store(false)
	wait.Until(t, "the end of starts at the old deployment", func() bool {
		_, _, err := m.old.start(testIntegration)
		return err != nil && strings.Contains(err.Error(), "start: 404")
	})
	for _, w := range append(resting, waiting) {
		m.finish(w)
	}
	wait.Until(t, "sessions at the new deployment", func() bool {
		return m.count(m.new) >= long.Pick(t, "TestMove_Publisher", 12, 300)
	})
	m.end()
	m.audit(sink)
}

// moved is a session and the deployment that has it.
type moved struct {
	at           *served
	id, redirect string
}

// moving is a publisher during its move. As OPERATING.md advises, it keeps the deployment of each session.
type moving struct {
	t        *testing.T
	old, new *served
	both     atomic.Bool // it has a key of each deployment
	stop     atomic.Bool
	users    sync.WaitGroup

	starting sync.RWMutex // held while a start is in progress
	current  *served      // starts the sessions

	mu    sync.Mutex
	begun map[string]*moved // by session
	ended int
}

// change starts all later sessions at a deployment, and returns when no start is in progress elsewhere.
func (m *moving) change(to *served) {
	m.starting.Lock()
	defer m.starting.Unlock()
	m.current = to
}

func (m *moving) start() *moved {
	m.starting.RLock()
	defer m.starting.RUnlock()
	at := m.current
	id, redirect, err := at.start(testIntegration)
	if err != nil {
		m.t.Errorf("a start during the move: %v", err)
		return nil
	}
	w := &moved{at, id, redirect}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.begun[id] = w
	return w
}

func (m *moving) rest(n int) (all []*moved) {
	for range n {
		all = append(all, m.start())
	}
	return all
}

// finish completes a session and validates its result twice: once at the other deployment first, which must
// not consume it.
func (m *moving) finish(w *moved) {
	if w == nil {
		return
	}
	other := m.old
	if w.at == m.old {
		other = m.new
	}
	result, err := w.at.approve(w.redirect)
	if err != nil {
		m.t.Errorf("session %s: %v", w.id, err)
		return
	}
	if m.both.Load() {
		if valid, status, body := other.validate(result); valid || status != 400 {
			m.t.Errorf("contract 15: the result of another deployment: %d %s", status, body)
		}
		status, _, body, err := other.api("GET", "/api/v1/verify/sessions/"+w.id, nil)
		if err != nil || status != 404 {
			m.t.Errorf("contract 14: a session of another deployment: %d %s, %v", status, body, err)
		}
	}
	if valid, status, body := w.at.validate(result); !valid {
		m.t.Errorf("session %s: validate: %d %s", w.id, status, body)
	}
	if valid, status, _ := w.at.validate(result); valid || status != 409 {
		m.t.Errorf("I1: the result of %s counts twice: %d", w.id, status)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ended++
}

// walk lets n users do one session after the other until end.
func (m *moving) walk(n int) {
	for range n {
		m.users.Go(func() {
			for !m.stop.Load() {
				m.finish(m.start())
				time.Sleep(20 * time.Millisecond)
			}
		})
	}
}

func (m *moving) end() {
	m.stop.Store(true)
	m.users.Wait()
}

// count returns the number of sessions that began at a deployment.
func (m *moving) count(at *served) (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, w := range m.begun {
		if w.at == at {
			n++
		}
	}
	return n
}

// run runs commands of the guide at a deployment, and returns the key that one of them has created.
func (m *moving) run(at *served, s *site, secret string, commands []string) (key string) {
	m.t.Helper()
	p, _, _ := testProgram()
	p.FS = afero.NewOsFs()
	p.Getenv = func(name string) (string, bool) {
		switch name {
		case "VERGE_OPERATOR_TOKEN":
			return testToken, true
		case "HOOK":
			return secret, true
		}
		return "", false
	}
	for _, command := range commands {
		args := strings.Fields(strings.NewReplacer("verge.toml", s.config,
			"5f0c6f0e-3c1c-4c6e-9a52-0d6a3a2f9b11", testIntegration).Replace(command))
		code, out := asOperator(p, at.at, args[1:]...)
		if code != exitOK {
			m.t.Fatalf("%s: exit code %d: %s", command, code, out)
		}
		if _, rest, found := strings.Cut(out, "svc_sk_"); found {
			key = "svc_sk_" + strings.FieldsFunc(rest, func(r rune) bool { return r <= ' ' })[0]
		}
	}
	return key
}

// audit compares the sessions with the events and the states that are left.
func (m *moving) audit(sink *twoSecrets) {
	m.t.Helper()
	within(patience, func() bool { return sink.count() >= 2*len(m.begun) })
	if m.ended != len(m.begun) {
		m.t.Errorf("%d of %d sessions ended with a result", m.ended, len(m.begun))
	}
	sink.mu.Lock()
	defer sink.mu.Unlock()
	for id, w := range m.begun {
		for _, kind := range []string{"started", "completed"} {
			secret := sink.secrets[0]
			if w.at == m.new {
				secret = sink.secrets[1]
			}
			if got := sink.accepted[id+":verification."+kind]; len(got) != 1 || got[0] != secret {
				m.t.Errorf("I3, I4: the event %s of %s was accepted %d times, signed by %q", kind, id,
					len(got), got)
			}
		}
		status, _, body, err := w.at.api("GET", "/api/v1/verify/sessions/"+id, nil)
		if err != nil || status != 200 || !strings.Contains(string(body), `"COMPLETED"`) {
			m.t.Errorf("after the move, the state of %s: %d %s, %v", id, status, body, err)
		}
	}
	if len(sink.wrong) > 0 || len(sink.accepted) != 2*len(m.begun) {
		m.t.Errorf("%d events of %d sessions; rejected: %q", len(sink.accepted), len(m.begun), sink.wrong)
	}
	m.t.Logf("%d sessions, %d of them at the new deployment: %d events, %d attempts failed on purpose",
		len(m.begun), m.count(m.new), len(sink.accepted), sink.failed.Load())
}

// twoSecrets is a receiver that accepts the events of two deployments.
type twoSecrets struct {
	URL     string
	failing atomic.Bool // return 500
	failed  atomic.Int64
	secrets []string

	mu       sync.Mutex
	accepted map[string][]string // the secrets of accepted requests, by idempotency key
	wrong    []string
}

func newTwoSecrets(t *testing.T, secrets ...string) *twoSecrets {
	r := &twoSecrets{secrets: secrets, accepted: map[string][]string{}}
	s := httptest.NewServer(r)
	t.Cleanup(s.Close)
	r.URL = s.URL + "/hooks"
	return r
}

func (r *twoSecrets) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.accepted)
}

func (r *twoSecrets) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return // the sender has left
	}
	var event webhook.Event
	for _, secret := range r.secrets {
		if webhook.Verify(secret, req.Header, body, time.Now(), 0) != nil ||
			json.Unmarshal(body, &event) != nil {
			continue
		}
		if r.failing.Load() {
			r.failed.Add(1)
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		if !event.Test {
			r.mu.Lock()
			r.accepted[event.IdempotencyKey] = append(r.accepted[event.IdempotencyKey], secret)
			r.mu.Unlock()
		}
		w.WriteHeader(http.StatusNoContent)
		return
	}
	// The wrong requests of a webhook test are among these.
	if json.Unmarshal(body, &event) == nil && !event.Test && event.SessionID != "" {
		r.mu.Lock()
		r.wrong = append(r.wrong, fmt.Sprintf("%s %s", event.Type, event.SessionID))
		r.mu.Unlock()
	}
	w.WriteHeader(http.StatusUnauthorized)
}

// emptied replaces the publisher of a configuration by another one, so that the deployment does not know it,
// and returns its blocks. The base URL gets another host.
func emptied(t *testing.T, s *site) (block string) {
	t.Helper()
	text := readText(t, s.config)
	head, rest, _ := strings.Cut(text, "[[publishers]]")
	block, tail, _ := strings.Cut(rest, "\n[limits]")
	head = strings.Replace(head, `base_url = "http://127.0.0.1"`, `base_url = "http://localhost"`, 1)
	others := "[[publishers]]\nid = \"pub_other\"\n"
	if err := os.WriteFile(s.config, []byte(head+others+"\n[limits]"+tail), 0o600); err != nil {
		t.Fatal(err)
	}
	return "\n[[publishers]]" + block + "\n"
}

// appendTo adds text at the end of a file.
func appendTo(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(readText(t, path)+text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// appendArchived archives the integration of a configuration.
func appendArchived(t *testing.T, path string) {
	t.Helper()
	text := strings.Replace(readText(t, path), "[[integrations]]\n", "[[integrations]]\narchived = true\n", 1)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// movingCommands returns the commands of the guide's steps, at the new deployment and at the old one.
func movingCommands(t *testing.T) (atNew, atOld []string) {
	t.Helper()
	_, steps, found := strings.Cut(readText(t, "../../OPERATING.md"), "\n### Move a publisher\n")
	if !found {
		t.Fatal("OPERATING.md does not explain how to move a publisher")
	}
	steps, _, _ = strings.Cut(steps, "\n## ")
	for line := range strings.Lines(steps) {
		if at, command, found := strings.Cut(strings.TrimSpace(line), "$ verge "); found {
			switch strings.TrimSpace(at) {
			case "new":
				atNew = append(atNew, "verge "+command)
			case "old":
				atOld = append(atOld, "verge "+command)
			}
		}
	}
	if len(atNew) < 4 || len(atOld) < 3 {
		t.Fatalf("the steps have too few commands: %q, %q", atNew, atOld)
	}
	return atNew, atOld
}
