package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/afero"

	"github.com/verge-id/verge/core/webhook"
	"github.com/verge-id/verge/testharness/wait"
)

// patience is how long a test waits for what must happen.
const patience = 60 * time.Second

func waitForFile(ts *testscript.TestScript, neg bool, args []string) {
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		_, err := os.Stat(ts.MkAbs(args[0]))
		if (err == nil) != neg {
			return
		}
		if time.Now().After(end) {
			ts.Fatalf("waited in vain for %s", args[0])
		}
	}
}

// checkMode compares a file's permissions: mode 0600 FILE.
func checkMode(ts *testscript.TestScript, neg bool, args []string) {
	info, err := os.Stat(ts.MkAbs(args[1]))
	ts.Check(err)
	if got := fmt.Sprintf("%04o", info.Mode().Perm()); (got == args[0]) == neg {
		ts.Fatalf("%s has mode %s", args[1], got)
	}
}

// publisher uses a running service as a publisher and its users do.
type publisher struct {
	readyFile
	http *http.Client
}

func newPublisher(r readyFile) *publisher {
	return &publisher{readyFile: r, http: &http.Client{
		Transport: &http.Transport{MaxIdleConnsPerHost: 64},
		Timeout:   30 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}}
}

// api makes one call and returns status and body.
func (p *publisher) api(
	method, path string, in any,
) (status int, header http.Header, body []byte, err error) {
	raw, err := json.Marshal(in)
	if err != nil {
		return 0, nil, nil, err
	}
	req, err := http.NewRequest(method, p.BaseURL+path, bytes.NewReader(raw))
	if err != nil {
		return 0, nil, nil, err
	}
	req.Header.Set("Authorization", "Bearer "+p.SecretKey)
	req.Header.Set("Content-Type", "application/json")
	return p.do(req)
}

func (p *publisher) do(req *http.Request) (status int, header http.Header, body []byte, err error) {
	resp, err := p.http.Do(req)
	if err != nil {
		return 0, nil, nil, err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(resp.Body)
	return resp.StatusCode, resp.Header, body, err
}

// start returns a session that the service has acknowledged.
func (p *publisher) start(integration string) (id, redirect string, err error) {
	status, _, body, err := p.api("POST", "/api/v1/verify/start", map[string]string{
		"integration_id": integration, "callback_url": "https://shop.example/callback", "state": "the state"})
	if err != nil {
		return "", "", err
	}
	var s struct {
		SessionID   string `json:"session_id"`
		RedirectURL string `json:"redirect_url"`
	}
	if status != 200 || json.Unmarshal(body, &s) != nil {
		return "", "", fmt.Errorf("start: %d %s", status, body)
	}
	return s.SessionID, s.RedirectURL, nil
}

var (
	hiddenInput = regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)">`)
	hopLink     = regexp.MustCompile(`<a data-hop[^>]* href="([^"]*)"`)
)

// page asks for a page.
func (p *publisher) page(target string) (status int, page string, err error) {
	req, err := http.NewRequest("GET", target, nil)
	if err != nil {
		return 0, "", err
	}
	status, _, body, err := p.do(req)
	return status, string(body), err
}

// choose opens the page at redirect and submits the form of outcome. It returns the address to which
// the next page sends the browser, or "" if the browser stays.
func (p *publisher) choose(redirect, outcome string) (location string, err error) {
	u, err := url.Parse(redirect)
	if err != nil {
		return "", err
	}
	base, err := url.Parse(p.BaseURL) // a restart may have brought another port
	if err != nil {
		return "", err
	}
	u.Host = base.Host
	status, page, err := p.page(u.String())
	if err != nil {
		return "", err
	}
	_, form, found := strings.Cut(page, `data-outcome="`+outcome+`"`)
	if status != 200 || !found {
		return "", fmt.Errorf("the page (%d) has no form %s: %s", status, outcome, page)
	}
	form, _, _ = strings.Cut(form, "</form>")
	fields := url.Values{}
	for _, input := range hiddenInput.FindAllStringSubmatch(form, -1) {
		fields.Set(html.UnescapeString(input[1]), html.UnescapeString(input[2]))
	}
	req, err := http.NewRequest("POST", p.BaseURL+"/verify", strings.NewReader(fields.Encode()))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	status, header, _, err := p.do(req)
	if err != nil {
		return "", err
	}
	if status != http.StatusSeeOther {
		return "", fmt.Errorf("submitting %s: %d", outcome, status)
	}
	status, page, err = p.page(p.BaseURL + header.Get("Location"))
	if err != nil {
		return "", err
	}
	if status >= 500 {
		return "", fmt.Errorf("the page after %s: %d", outcome, status)
	}
	hop := hopLink.FindStringSubmatch(page)
	if hop == nil {
		return "", nil
	}
	return html.UnescapeString(hop[1]), nil
}

// approve completes the session and returns the result token.
func (p *publisher) approve(redirect string) (token string, err error) {
	location, err := p.choose(redirect, "approve")
	if err != nil {
		return "", err
	}
	u, err := url.Parse(location)
	if err != nil || !strings.HasPrefix(location, "https://shop.example/callback?") {
		return "", fmt.Errorf("sent to %q", location)
	}
	return u.Query().Get("result_token"), nil
}

// validate reports whether the token was consumed; status 0 means that there was no answer.
func (p *publisher) validate(token string) (valid bool, status int, body string) {
	status, _, raw, err := p.api("POST", "/api/v1/verify/validate", map[string]string{"result_token": token})
	if err != nil {
		return false, 0, err.Error()
	}
	var facts struct{ Valid bool }
	return status == 200 && json.Unmarshal(raw, &facts) == nil && facts.Valid, status, string(raw)
}

// events is a webhook receiver that remembers every verified event.
type events struct {
	URL string

	mu     sync.Mutex
	secret string
	byKey  map[string]webhook.Event
	bodies map[string]string
	wrong  []string // what is wrong with requests that came

	hang    chan struct{} // if not nil, all requests wait until it is closed
	hanging atomic.Int64
}

func newEvents(t *testing.T) *events {
	e := &events{byKey: map[string]webhook.Event{}, bodies: map[string]string{}}
	s := httptest.NewServer(e)
	t.Cleanup(s.Close)
	e.URL = s.URL + "/hooks"
	return e
}

func (e *events) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the sender is gone
	}
	if e.hang != nil {
		e.hanging.Add(1)
		wait.For(e.hang)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	var event webhook.Event
	err = errors.Join(webhook.Verify(e.secret, r.Header, body, time.Now(), 0), json.Unmarshal(body, &event))
	if err != nil {
		e.wrong = append(e.wrong, err.Error())
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if first, seen := e.bodies[event.IdempotencyKey]; seen && first != string(body) {
		e.wrong = append(e.wrong, "the bytes of "+event.IdempotencyKey+" changed between attempts")
	}
	e.byKey[event.IdempotencyKey], e.bodies[event.IdempotencyKey] = event, string(body)
	w.WriteHeader(http.StatusNoContent)
}

// trust sets the secret that events are signed with.
func (e *events) trust(secret string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.secret = secret
}

func (e *events) complaints() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.wrong
}

func (e *events) has(session, kind string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, ok := e.byKey[session+":verification."+kind]
	return ok
}

// process is a `verge dev` in a separate process.
type process struct {
	*publisher
	cmd  *exec.Cmd
	logs *bytes.Buffer
}

// startDev runs `verge dev` on dir and returns once it is ready.
func startDev(t *testing.T, dir string, args ...string) *process {
	t.Helper()
	path := filepath.Join(dir, "told.json")
	cmd := exec.Command("verge", append([]string{"dev", "--addr", "127.0.0.1:0", "--demo-addr", "127.0.0.1:0",
		"--data", filepath.Join(dir, "data"), "--ready-file", path, "--log-file", "-"}, args...)...)
	logs := new(bytes.Buffer)
	cmd.Stderr = logs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	var ready readyFile
	wait.Until(t, "the ready file", func() bool {
		if cmd.Process.Signal(syscall.Signal(0)) != nil {
			t.Fatalf("verge dev ended: %s", logs)
		}
		var err error
		ready, err = readReady(afero.NewOsFs(), path)
		return err == nil && ready.PID == cmd.Process.Pid // a killed process may have left an older file
	})
	return &process{newPublisher(ready), cmd, logs}
}
