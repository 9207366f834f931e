package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/verge-id/verge/core/webhook"
	"github.com/verge-id/verge/testharness"
	"github.com/verge-id/verge/testharness/stores"
	"github.com/verge-id/verge/testharness/wait"
)

// inbox is a developer's receiver. It accepts events signed with its secret.
type inbox struct {
	*httptest.Server
	mu     sync.Mutex
	secret string
	got    []string // types, in the order they came
}

func newInbox(t *testing.T) *inbox {
	in := &inbox{}
	in.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		in.mu.Lock()
		defer in.mu.Unlock()
		if err == nil {
			err = webhook.Verify(in.secret, r.Header, body, time.Now(), 0)
		}
		if err != nil {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, rest, _ := strings.Cut(string(body), `"type":"`)
		typ, _, _ := strings.Cut(rest, `"`)
		in.got = append(in.got, typ)
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(in.Close)
	return in
}

func (in *inbox) types() []string {
	in.mu.Lock()
	defer in.mu.Unlock()
	return slices.Clone(in.got)
}

// contract 49: the command posts what a service says, signed with the secret that it prints, until it is
// stopped.
func TestListen(t *testing.T) {
	t.Parallel()
	h := testharness.New(t, nil)
	in := newInbox(t)
	p, stdout, stderr := testProgram()
	p.Getenv = func(name string) (string, bool) {
		return h.Publisher.SecretKey, name == secretKeyVariable
	}
	in.secret = listenSecret(h.Publisher.SecretKey, h.Publisher.L1.ID)
	before := h.Admin("POST", "/admin/v1/integrations/"+h.Publisher.L1.ID+"/test-event",
		map[string]any{"type": webhook.TypeExpired})
	if before.Status != 200 {
		t.Fatal(before.Status)
	}
	h.Advance(time.Minute)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	done := make(chan error, 1)
	between := newBetween(t, h.BaseURL)
	go func() {
		done <- execute(ctx, []string{"listen", "--url", between.URL, "--integration", h.Publisher.L1.ID,
			"--forward", in.URL, "--since", "2m"}, p)
	}()
	wait.Until(t, "the event of a minute ago", func() bool { return len(in.types()) == 1 })
	for n, typ := range []string{webhook.TypeStarted, webhook.TypeCompleted} {
		wait.Until(t, "a question that is held", func() bool { return between.held() })
		h.Advance(time.Second)
		h.Admin("POST", "/admin/v1/integrations/"+h.Publisher.L1.ID+"/test-event",
			map[string]any{"type": typ})
		wait.Until(t, "one event more", func() bool { return len(in.types()) == n+2 })
		if !between.broughtWhileHeld(typ) {
			t.Errorf("contract 49: the question that was held has not brought %s", typ)
		}
	}
	stop()
	if err := wait.For(done); err != nil {
		t.Errorf("it ends with %v", err)
	}
	want := []string{webhook.TypeExpired, webhook.TypeStarted, webhook.TypeCompleted}
	if got := in.types(); !slices.Equal(got, want) {
		t.Errorf("contract 49: the receiver has %q, want %q", got, want)
	}
	if got := stdout.String(); got != in.secret+"\n" {
		t.Errorf("contract 47: standard output is %q, want the secret alone", got)
	}
	if strings.Contains(stderr.String(), h.Publisher.SecretKey) || !strings.Contains(stderr.String(), "204") {
		t.Errorf("standard error: %s", stderr)
	}
}

// contract 49: a service that drains or is killed while a request waits loses no event of the listener, which
// continues automatically when a service runs at that address again.
func TestListenSurvivesARestart(t *testing.T) {
	t.Parallel()
	receiver := newEvents(t)
	receiver.trust(testSecret)
	site := newSite(t, "bolt:"+filepath.Join(t.TempDir(), "verge.db"), receiver.URL, "")
	site.listen = fmt.Sprintf("127.0.0.1:%d", stores.FreePort(t))
	service := site.start()
	in := newInbox(t)
	in.secret = listenSecret(site.key, testIntegration)
	p, _, stderr := testProgram()
	p.Getenv = func(name string) (string, bool) { return site.key, name == secretKeyVariable }
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- execute(ctx, []string{"listen", "--url", "http://" + site.listen,
			"--integration", testIntegration, "--forward", in.URL}, p)
	}()
	held := func() {
		t.Helper()
		wait.Until(t, "a question that is held",
			func() bool { return strings.HasSuffix(service.metric(t, "verge_http_waiting"), " 1") })
	}
	held()
	operator, _, _ := testProgram()
	operator.Getenv = func(string) (string, bool) { return testToken, true }
	want := []string{webhook.TypeStarted, webhook.TypeFailed, webhook.TypeCompleted}
	for n, end := range []os.Signal{syscall.SIGTERM, syscall.SIGKILL, nil} {
		if n > 0 {
			service = site.start()
		}
		if code, out := asOperator(operator, service.at, "event", "trigger", want[n], "--integration",
			testIntegration); code != exitOK {
			t.Fatal(out)
		}
		wait.Until(t, "event "+want[n], func() bool { return len(in.types()) == n+1 })
		held()
		if end != nil {
			service.cmd.Process.Signal(end)
			wait.For(service.ended)
		}
	}
	stop()
	if err := wait.For(done); err != nil {
		t.Errorf("it ends with %v", err)
	}
	if got := in.types(); !slices.Equal(got, want) {
		t.Errorf("contract 49: the receiver has %q, want %q", got, want)
	}
	// The service that drained may have been available again before the next request.
	if n := strings.Count(stderr.String(), "responds again"); n < 1 || n > 2 {
		t.Errorf("it says %d times that the service responds again, want once or twice: %s", n, stderr)
	}
}

// between passes the questions of a listener on to a service, and remembers those that the service may hold.
type between struct {
	*httptest.Server
	mu      sync.Mutex
	asking  int
	brought []string // their results
}

func newBetween(t *testing.T, service string) *between {
	b := &between{}
	to, err := url.Parse(service)
	if err != nil {
		t.Fatal(err)
	}
	pass := httputil.NewSingleHostReverseProxy(to)
	pass.ErrorHandler = func(http.ResponseWriter, *http.Request, error) {} // the listener has left
	pass.ModifyResponse = func(resp *http.Response) error {
		body, err := io.ReadAll(resp.Body)
		resp.Body = io.NopCloser(bytes.NewReader(body))
		if resp.Request.Header.Get("If-None-Match") != "" && resp.Request.Header.Get("Prefer") == "wait=20" {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.brought = append(b.brought, string(body))
		}
		return err
	}
	b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		count := func(change int) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.asking += change
		}
		if r.Header.Get("If-None-Match") != "" {
			count(+1)
			defer count(-1)
		}
		pass.ServeHTTP(w, r)
	}))
	t.Cleanup(b.Close)
	return b
}

func (b *between) held() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.asking > 0
}

// broughtWhileHeld reports whether a question that the service may hold has brought an event of the type.
func (b *between) broughtWhileHeld(typ string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.ContainsFunc(b.brought, func(body string) bool { return strings.Contains(body, typ) })
}

// pacing is a clock that moves when a caller sleeps.
type pacing struct {
	mu  sync.Mutex
	at  time.Time
	all []time.Duration // the sleeps
}

func newPacing() *pacing { return &pacing{at: testharness.Epoch} }

func (p *pacing) now() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.at
}

func (p *pacing) sleep(_ context.Context, d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at = p.at.Add(d)
	p.all = append(p.all, d)
}

// contract 49: a listener to which nothing comes asks 3 times a minute if the service holds its questions,
// and never more than 60 times a minute.
func TestListenIsQuiet(t *testing.T) {
	for _, c := range []struct {
		rule        string
		answer      func(w http.ResponseWriter, r *http.Request, clock *pacing)
		least, most int // in ten minutes
	}{
		{"a service that holds", func(w http.ResponseWriter, r *http.Request, clock *pacing) {
			if r.Header.Get("If-None-Match") == `W/"1"` && r.Header.Get("Prefer") == "wait=20" {
				clock.sleep(r.Context(), 20*time.Second)
				w.WriteHeader(http.StatusNotModified)
				return
			}
			w.Header().Set("Etag", `W/"1"`)
			fmt.Fprintf(w, `{"events":[],"now":"2026-11-20T22:10:00.000Z","more":false}`)
		}, 30, 33},
		{"a proxy that does not hold", func(w http.ResponseWriter, r *http.Request, clock *pacing) {
			if r.Header.Get("If-None-Match") != "" {
				w.WriteHeader(http.StatusNotModified)
				return
			}
			w.Header().Set("Etag", `"1"`)
			fmt.Fprintf(w, `{"events":[],"now":"2026-11-20T22:10:00.000Z","more":false}`)
		}, 590, 601},
		{"a service of an earlier release", func(w http.ResponseWriter, _ *http.Request, _ *pacing) {
			fmt.Fprintf(w, `{"events":[],"now":"2026-11-20T22:10:00.000Z","more":false}`)
		}, 590, 601},
		{"a service that fails", func(w http.ResponseWriter, r *http.Request, clock *pacing) {
			w.WriteHeader(http.StatusBadGateway)
		}, 40, 50},
	} {
		t.Run(c.rule, func(t *testing.T) {
			clock, asked := newPacing(), 0
			ctx, stop := context.WithCancel(t.Context())
			end := clock.now().Add(10 * time.Minute)
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if clock.now().After(end) {
					stop()
					return
				}
				asked++
				c.answer(w, r, clock)
			}))
			defer s.Close()
			l := &listener{base: s.URL, integration: "i", key: "k", out: io.Discard, now: clock.now,
				sleep: clock.sleep, http: s.Client(), seen: map[string]time.Time{}}
			if err := l.run(ctx, 0); err != nil {
				t.Fatal(err)
			}
			if asked < c.least || asked > c.most {
				t.Errorf("contract 49: it asked %d times in ten minutes, want %d to %d", asked, c.least,
					c.most)
			}
		})
	}
}

// fakeService answers the questions of a listener with a script.
func fakeService(t *testing.T, script []func(w http.ResponseWriter, since string)) *httptest.Server {
	n := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n == len(script) {
			t.Error("it asks more often than it should")
			return
		}
		n++
		if r.Header.Get("Prefer") != "wait=20" {
			t.Errorf("contract 49: it prefers %q", r.Header.Get("Prefer"))
		}
		if tag := r.Header.Get("If-None-Match"); tag != "" {
			script[n-1](w, r.URL.Query().Get("since")+" "+tag)
			return
		}
		script[n-1](w, r.URL.Query().Get("since"))
	}))
	t.Cleanup(s.Close)
	return s
}

// contract 49: requests that fail, and an event that arrives after a newer event, lose
// none and double none.
func TestListenLosesNothing(t *testing.T) {
	t.Parallel()
	const minute = "2026-11-20T22:1%d:00.000Z"
	event := func(id, at string) string {
		return fmt.Sprintf(`{"id":"evt_%s","type":%q,"created_at":%q,"test":true}`, id, id, at)
	}
	asks := func(got, want string) {
		if got != want {
			t.Errorf("contract 49: it asks since %s, want %s", got, want)
		}
	}
	tag := func(events []string) string { return fmt.Sprintf(`W/"%d"`, len(events)) }
	say := func(want string, events ...string) func(http.ResponseWriter, string) {
		return func(w http.ResponseWriter, since string) {
			if want != "" {
				asks(since, want)
			}
			w.Header().Set("Etag", tag(events))
			fmt.Fprintf(w, `{"events":[%s],"now":%q,"more":false}`, strings.Join(events, ","), fmt.Sprintf(minute, 2))
		}
	}
	at := func(name string, n int) string { return event(name, fmt.Sprintf(minute, n)) }
	a, b, c := at("a", 3), at("b", 4), at("c", 9)
	in := newInbox(t)
	service := fakeService(t, []func(http.ResponseWriter, string){
		say(""), // the time alone
		func(w http.ResponseWriter, _ string) {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusServiceUnavailable)
		},
		say("2026-11-20T22:12:00.000Z", b),
		func(http.ResponseWriter, string) { panic(http.ErrAbortHandler) },
		func(w http.ResponseWriter, since string) {
			asks(since, `2026-11-20T22:12:00.000Z W/"1"`)
			w.WriteHeader(http.StatusNotModified)
		},
		func(w http.ResponseWriter, since string) { // the service ends in the middle of its answer
			asks(since, `2026-11-20T22:12:00.000Z W/"1"`)
			w.Header().Set("Content-Length", "1000")
			w.Header().Set("Etag", tag([]string{a, b}))
			io.WriteString(w, `{"events":[`+a)
		},
		say(`2026-11-20T22:12:00.000Z W/"1"`, a, b), // a was created first, and its receiver answered last
		say(`2026-11-20T22:12:00.000Z W/"2"`, a, b, c),
		say("2026-11-20T22:14:00.000Z", b, c), // the tag was for the question before
		func(w http.ResponseWriter, since string) { // of an earlier release, without tags
			asks(since, `2026-11-20T22:14:00.000Z W/"2"`)
			fmt.Fprintf(w, `{"events":[%s,%s],"now":%q,"more":false}`, b, c, fmt.Sprintf(minute, 2))
		},
		say("2026-11-20T22:14:00.000Z", b, c),
		func(w http.ResponseWriter, _ string) {
			w.WriteHeader(http.StatusUnauthorized)
			io.WriteString(w, `{"code":"UNAUTHORIZED","error":"No."}`)
		},
	})
	in.secret = "whsec_only_for_tests"
	var out bytes.Buffer
	clock := newPacing()
	l := &listener{base: service.URL, forward: in.URL, secret: in.secret, integration: "i", key: "k",
		out: &out,
		now: time.Now, sleep: clock.sleep, http: service.Client(), seen: map[string]time.Time{}}
	err := l.run(t.Context(), 0)
	if err == nil || !strings.Contains(err.Error(), "UNAUTHORIZED") {
		t.Errorf("a rejected key ends it: %v", err)
	}
	if got := in.types(); !slices.Equal(got, []string{"b", "a", "c"}) {
		t.Errorf("contract 49: the receiver has %q, want each event once: %s", got, &out)
	}
	for _, words := range []string{"does not respond", "responds again"} {
		// If the connection ends before a response begins, net/http repeats the request.
		if n := strings.Count(out.String(), words); n != 2 {
			t.Errorf("contract 49: %q is said %d times, and the service was away twice:\n%s", words, n, &out)
		}
	}
	said := out.String()
	if strings.Index(said, "responds again") > strings.Index(said, "evt_b") {
		t.Errorf("it says only after the event that the service responds again:\n%s", said)
	}
	if len(l.seen) != 2 {
		t.Errorf("it remembers %v, and only b and c can come again", l.seen)
	}
}

// contract 49: a rejected event is printed with the first line of the response, which has the receiver's
// reason.
func TestListen_ReceiverReason(t *testing.T) {
	for _, c := range []struct {
		rule, body, want string
		status           int
	}{
		{"a reason", "\n  bad signature \x1b[2J\nstack", "401 Unauthorized: bad signature  [2J\n", 401},
		{"no reason", "", "500 Internal Server Error\n", 500},
		{"a long one", strings.Repeat("é", 5000),
			"400 Bad Request: " + strings.Repeat("é", 199) + "…\n", 400},
		{"an accepted event needs none", "thanks", "200 OK\n", 200},
	} {
		t.Run(c.rule, func(t *testing.T) {
			receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(c.status)
				io.WriteString(w, c.body)
			}))
			defer receiver.Close()
			var out bytes.Buffer
			l := &listener{forward: receiver.URL, secret: testSecret, http: http.DefaultClient, now: time.Now,
				out: &out}
			l.post(t.Context(), webhook.Event{ID: "evt_1", Type: webhook.TypeFailed}, []byte("{}"))
			if want := webhook.TypeFailed + " evt_1  " + c.want; out.String() != want {
				t.Errorf("contract 49: it prints %q, want %q", &out, want)
			}
		})
	}
}

func TestListenRejects(t *testing.T) {
	for _, c := range []struct {
		rule, want string
		args       []string
		key        string
	}{
		{"contract 49: verge dev runs in another directory",
			"there is no /none); change to the directory where",
			[]string{"--forward", "http://localhost:3000/"}, "k"},
		{"no key", "no secret key", []string{"--forward", "http://localhost:3000/", "--url",
			"https://v.example"}, ""},
		{"no integration", "no integration", []string{"--forward", "http://localhost:3000/", "--url",
			"https://v.example"}, "k"},
		{"a key in the clear", "unencrypted", []string{"--forward", "http://localhost:3000/", "--url",
			"http://v.example", "--integration", "i"}, "k"},
		{"a time without a unit", `"10" is not a duration: write it like`,
			[]string{"--forward", "http://localhost:3000/", "--since", "10"}, "k"},
		{"no URL", "is not a URL", []string{"--forward", "localhost:3000", "--url", "https://v.example",
			"--integration", "i"}, "k"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			p, _, _ := testProgram()
			p.Getenv = func(name string) (string, bool) { return c.key, name == secretKeyVariable }
			err := execute(t.Context(), append([]string{"listen", "--ready-file", "/none"}, c.args...), p)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}
