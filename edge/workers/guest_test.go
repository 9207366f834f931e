package workers_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/kvadapters/memory"
	"github.com/verge-id/verge/testharness/testenv"
	"github.com/verge-id/verge/testharness/wait"
	"github.com/verge-id/verge/testharness/workerd"
	"github.com/verge-id/verge/wasm/abi"
	"github.com/verge-id/verge/wasm/settings"
)

// on returns a site that runs the server's other module.
func on(t *testing.T, server *workerd.Server, c workerd.Config) (*service, *workerd.Site) {
	t.Helper()
	c.Module = "other"
	site := server.Site(t, c)
	return &service{t: t, client: site.Client(), base: site.BaseURL, admin: site.AdminURL}, site
}

// If a guest fails, its requests return 503, and the next one works.
func TestGuest_Fails(t *testing.T) {
	bad := testenv.Build(t, "github.com/verge-id/verge/edge/wasmhost/testdata/badguest")
	server := workerd.Start(t, &workerd.Options{Other: bad})
	for path, cause := range map[string]string{
		"/trap": "trap", "/memory": "out_of_memory", "/header": "protocol", "/outbox": "protocol",
		"/record": "protocol", "/stranger": "protocol", "/park": "protocol",
	} {
		t.Run(path[1:], func(t *testing.T) {
			s, site := on(t, server, workerd.Config{})
			s.want(s.do("GET", s.base+"/", nil, nil), http.StatusOK, "")
			a := s.do("GET", s.base+path, nil, nil)
			s.want(a, http.StatusServiceUnavailable, "UNAVAILABLE")
			if a.header.Get("Retry-After") != "1" ||
				!strings.HasPrefix(a.header.Get("X-Request-Id"), "req_") {
				t.Errorf("headers %v", a.header)
			}
			const busy = "Not available right now"
			if a := s.wantPage(s.base, path, nil, 503, busy); a.header.Get("Retry-After") != "1" {
				t.Errorf("the page has the header %v", a.header)
			}
			s.want(s.do("GET", s.base+"/", nil, nil), http.StatusOK, "")
			log := site.Logs()
			if !strings.Contains(log, "a guest has failed") || !strings.Contains(log, `"cause":"`+cause+`"`) {
				t.Errorf("the log lacks the failure of a guest, or the cause %s:\n%s", cause, log)
			}
		})
	}
	t.Run("an invalid answer", func(t *testing.T) {
		s, _ := on(t, server, workerd.Config{})
		s.want(s.do("GET", s.base+"/junk", nil, nil), http.StatusInternalServerError, "INTERNAL")
		s.want(s.do("GET", s.base+"/empty", nil, nil), http.StatusInternalServerError, "INTERNAL")
		s.wantPage(s.base, "/junk", nil, 500, "Not available right now")
	})
	t.Run("an unknown effect is rejected", func(t *testing.T) {
		s, _ := on(t, server, workerd.Config{})
		a := s.do("GET", s.base+"/effect", nil, nil)
		if a.status != http.StatusOK || !strings.Contains(string(a.body), "no such effect") {
			t.Errorf("%d %s", a.status, a.body)
		}
	})
	t.Run("a guest with too much memory is replaced", func(t *testing.T) {
		s, site := on(t, server, workerd.Config{Memory: 64 << 20})
		largest := 0
		for range 40 { // 8 MiB each
			s.want(s.do("GET", s.base+"/grow", nil, nil), http.StatusOK, "")
			bytes, _ := site.Guest()
			largest = max(largest, bytes)
		}
		if largest < 16<<20 || largest > 80<<20 {
			t.Errorf("the largest guest had %d bytes", largest)
		}
		if !strings.Contains(site.Logs(), "too much memory") {
			t.Error("the log lacks the replacement")
		}
	})
}

// A guest is tested before it gets a request, as edge/wasmhost does.
func TestModule_Rejected(t *testing.T) {
	server := probe(t)
	rejected := func(t *testing.T, s *service, site *workerd.Site, log string) {
		t.Helper()
		s.want(s.do("GET", s.base+"/echo", nil, nil), http.StatusServiceUnavailable, "UNAVAILABLE")
		if !strings.Contains(site.Logs(), log) {
			t.Errorf("want %q in the log:\n%s", log, site.Logs())
		}
	}
	for lie, log := range map[string]string{
		"zeros": "repeats itself", "short": "repeats itself", "constant": "repeats itself",
		"signed": "misreads the status of an unknown key",
		"clock":  "for the time, and it is", "effect": "does not respond to its test immediately",
		"canary": "status 500 and", "nothing": "status 200 and 0 bytes",
	} {
		t.Run(lie, func(t *testing.T) {
			s, site := on(t, server, workerd.Config{Guest: settings.Config{Host: lie}})
			rejected(t, s, site, log)
		})
	}
	t.Run("an instance that draws the same as its predecessor", func(t *testing.T) {
		s, site := on(t, server, workerd.Config{Guest: settings.Config{Host: "instance"}})
		s.want(s.do("GET", s.base+"/echo", nil, nil), http.StatusOK, "")
		site.Forget()
		rejected(t, s, site, "repeats itself")
	})
	t.Run("the version of the ABI before this one", func(t *testing.T) {
		module := "\x00asm\x01\x00\x00\x00" + // _initialize does nothing, and verge_abi returns 3
			"\x01\x08\x02\x60\x00\x00\x60\x00\x01\x7f" + "\x03\x03\x02\x00\x01" + "\x05\x03\x01\x00\x01" +
			"\x07\x24\x03\x06memory\x02\x00\x0b_initialize\x00\x00\x09verge_abi\x00\x01" +
			"\x0a\x09\x02\x02\x00\x0b\x04\x00\x41\x03\x0b"
		s, site := on(t, workerd.Start(t, &workerd.Options{Other: []byte(module)}), workerd.Config{})
		rejected(t, s, site, "the module speaks version 3 of the ABI, this host 4")
	})
}

// A response has every value of the guest's header, except headers of the connection.
func TestGuest_ResponseHeader(t *testing.T) {
	s, _ := on(t, probe(t), workerd.Config{})
	for path, cookies := range map[string][]string{"/one-value": nil, "/two-values": {"a=1", "b=2"}} {
		a := s.do("GET", s.base+path, nil, nil)
		s.want(a, http.StatusOK, "")
		if got := a.header["X-One"]; !slices.Equal(got, []string{"1"}) {
			t.Errorf("%s: X-One is %q", path, got)
		}
		if got := a.header["Set-Cookie"]; !slices.Equal(got, cookies) {
			t.Errorf("%s: Set-Cookie is %q, want %q", path, got, cookies)
		}
		if got := a.header["Connection"]; got != nil {
			t.Errorf("%s: Connection is %q", path, got)
		}
	}
}

// contract 13: a panic may quote a request.
func TestGuest_PanicNotLogged(t *testing.T) {
	s, site := on(t, probe(t), workerd.Config{})
	s.want(s.do("POST", s.base+"/panic", nil, []byte("hush")), http.StatusServiceUnavailable, "UNAVAILABLE")
	if log := site.Logs(); strings.Contains(log, "hush") || !strings.Contains(log, `"cause":"trap"`) {
		t.Errorf("the log:\n%s", log)
	}
}

func probe(t *testing.T) *workerd.Server {
	t.Helper()
	module := testenv.Build(t, "github.com/verge-id/verge/edge/workers/testdata/probe")
	return workerd.Start(t, &workerd.Options{Other: module})
}

// A guest cannot measure its own computing, as on the real platform: only I/O moves the
// clock.
func TestGuest_Clock(t *testing.T) {
	s, _ := on(t, probe(t), workerd.Config{})
	a := s.do("GET", s.base+"/clock", nil, nil)
	took, err := time.ParseDuration(string(a.body))
	if a.status != http.StatusOK || err != nil || took < time.Millisecond {
		t.Errorf("%d %s: after the effect the guest sees the time that passed", a.status, a.body)
	}
}

func TestFetches(t *testing.T) {
	server := probe(t)
	release := make(chan struct{})
	asked := make(chan *http.Request, 64)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r
		switch r.URL.Path {
		case "/redirect":
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		case "/large":
			w.Write(make([]byte, 1<<20))
		case "/endless":
			for r.Context().Err() == nil {
				w.Write(make([]byte, 1<<16))
			}
		case "/hang":
			select {
			case <-release:
			case <-r.Context().Done():
			}
		case "/stall":
			w.WriteHeader(200)
			w.(http.Flusher).Flush()
			select {
			case <-release:
			case <-r.Context().Done():
			}
		case "/reset":
			c, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				c.Close()
			}
		case "/short":
			w.Header().Set("Content-Length", "10")
			w.Write([]byte("short"))
			http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		default:
			w.WriteHeader(204)
		}
	}))
	defer receiver.Close()
	defer close(release)
	usual, _ := on(t, server, workerd.Config{FetchTimeout: 5 * time.Minute})
	hasty, _ := on(t, server, workerd.Config{FetchTimeout: 400 * time.Millisecond})
	for _, c := range []struct {
		name, url string
		status    int
		body      string
	}{
		{"contract 26: a status is an answer", "/", 204, ""},
		{"contract 26: a redirect is not followed", "/redirect", 307, `Location "/elsewhere"`},
		{"contract 26: at most 64 KiB are read", "/large", 200, "65536 bytes"},
		{"contract 26: nor more of an endless response", "/endless", 200, "65536 bytes"},
		{"contract 26: a receiver that hangs", "/hang", 502, "timeout: "},
		{"contract 26: one that stalls behind its status", "/stall", 502, "timeout: "},
		{"contract 26: one that resets", "/reset", 502, "network_error: "},
		{"contract 26: one that breaks off behind its status", "/short", 502, "incomplete_answer: "},
		{"contract 28: off limits", "http://192.0.2.1/", 502, "destination_not_allowed: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, url := usual, c.url
			if strings.HasPrefix(c.body, "timeout") {
				s = hasty
			}
			if strings.HasPrefix(url, "/") {
				url = receiver.URL + url
			}
			a := s.do("POST", s.base+"/fetch", nil, []byte(url))
			if a.status != c.status || !strings.Contains(string(a.body), c.body) {
				t.Errorf("%d %s, want %d %s", a.status, a.body, c.status, c.body)
			}
			if strings.Contains(string(a.body), receiver.URL) {
				t.Errorf("it tells the URL: %s", a.body)
			}
		})
	}
	for _, path := range []string{"/no-fetch", "/no-header", "/no-method"} {
		t.Run("contract 26: what cannot be sent"+path, func(t *testing.T) {
			a := usual.do("POST", usual.base+path, nil, []byte(receiver.URL))
			text := string(a.body)
			if a.status != 502 || !strings.Contains(text, "network_error: ") ||
				strings.Contains(text, "hush") {
				t.Errorf("%d %s", a.status, a.body)
			}
		})
	}
	for range len(asked) {
		r := wait.For(asked)
		if r.URL.Path == "/elsewhere" {
			t.Error("contract 26: a redirect was followed")
		}
		if r.UserAgent() != "Verge" || r.Header.Get("X-Probe") != "1" {
			t.Errorf("headers %v", r.Header)
		}
	}
}

// Requests that hang take all places until their fetch or their time ends.
func TestDeadline(t *testing.T) {
	server := probe(t)
	release := make(chan struct{})
	hang := func(http.ResponseWriter, *http.Request) { wait.For(release) }
	receiver := httptest.NewServer(http.HandlerFunc(hang))
	defer receiver.Close()
	letGo := sync.OnceFunc(func() { close(release) })
	defer letGo()
	for _, c := range []struct {
		time     time.Duration
		whileAll func(s *service, site *workerd.Site)
		status   int
		body     string
	}{
		{5 * time.Second, nil, 300, "cancelled"}, // what the guest answers at its deadline
		{5 * time.Minute, func(s *service, site *workerd.Site) {
			wait.Until(t, "all places are taken", func() bool { _, live := site.Guest(); return live == 5 })
			s.want(s.do("GET", s.base+"/echo", nil, nil), http.StatusServiceUnavailable, "UNAVAILABLE")
			letGo()
		}, http.StatusOK, ""},
	} {
		s, site := on(t, server,
			workerd.Config{HandleTimeout: c.time, FetchTimeout: 5 * time.Minute, Places: 5})
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				a := s.do("POST", s.base+"/fetch", nil, []byte(receiver.URL))
				if a.status != c.status || !strings.Contains(string(a.body), c.body) {
					t.Errorf("with %s: %d %s, want %d %s", c.time, a.status, a.body, c.status, c.body)
				}
			})
		}
		if c.whileAll != nil {
			c.whileAll(s, site)
		}
		wg.Wait()
		if _, live := site.Guest(); live != 0 {
			t.Errorf("with %s: %d requests are still in the guest", c.time, live)
		}
		s.want(s.do("GET", s.base+"/echo", nil, nil), http.StatusOK, "")
	}
}

// A client that goes away does not leave its request in the guest permanently.
func TestGuest_ClientGone(t *testing.T) {
	server := probe(t)
	reached, release := make(chan struct{}), make(chan struct{})
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		reached <- struct{}{}
		wait.For(release)
	}))
	defer receiver.Close()
	defer close(release)
	const limit = 5 * time.Second
	s, site := on(t, server, workerd.Config{HandleTimeout: limit})
	ctx, leave := context.WithCancel(t.Context())
	body := strings.NewReader(receiver.URL)
	req, err := http.NewRequestWithContext(ctx, "POST", s.base+"/fetch", body)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		wait.For(reached)
		leave()
	}()
	begin := time.Now()
	if _, err := s.client.Do(req); err == nil {
		t.Fatal("it was answered")
	}
	if _, live := site.Guest(); live != 1 && time.Since(begin) < limit {
		t.Errorf("%d requests are in the guest, want the one whose client has gone", live)
	}
	wait.Until(t, "the request ends", func() bool { _, live := site.Guest(); return live == 0 })
	s.want(s.do("GET", s.base+"/echo", nil, nil), http.StatusOK, "")
}

// If the platform has ended a request's context, nothing continues the request. Once
// its deadline is well past, another request takes it out of the guest.
func TestGuest_ContextGone(t *testing.T) {
	receiver := newInbox(t)
	s, site := on(t, probe(t), workerd.Config{Now: time.Now()})
	fetch := abi.Append.Request(nil, &web.Request{Method: "POST", Path: "/fetch", Body: []byte(receiver.URL)})
	site.Abandon(abi.Handle, fetch)
	s.want(s.do("GET", s.base+"/echo", nil, nil), http.StatusOK, "")
	if _, live := site.Guest(); live != 1 {
		t.Fatalf("%d requests are in the guest, want only the abandoned request", live)
	}
	site.Advance(time.Minute)
	s.want(s.do("GET", s.base+"/echo", nil, nil), http.StatusOK, "")
	if _, live := site.Guest(); live != 0 {
		t.Errorf("%d requests are in the guest a minute later", live)
	}
}

// A request may look as if its context were gone, because its isolate was slow or the
// clock jumped. That ends this request and no other.
func TestGuest_AbandonedRequest(t *testing.T) {
	store := &slow{KV: memory.New(memory.Config{}), release: make(chan struct{})}
	s, site := newSite(t, newInbox(t), workerd.Config{Store: store, Now: time.Now()})
	store.hold.Store(true)
	ask := func() chan answer {
		c := make(chan answer, 1)
		go func() { c <- s.do("GET", s.base+web.SessionsPath+"svc_sess_x", bearer(s.key), nil) }()
		return c
	}
	live := func(n int) func() bool {
		return func() bool { _, live := site.Guest(); return live == n }
	}
	late := ask()
	wait.Until(t, "the first is in progress", func() bool { return store.waiting.Load() == 1 && live(1)() })
	site.Advance(time.Minute)
	beside := ask()
	wait.Until(t, "it was abandoned, and another is in progress", func() bool {
		return store.waiting.Load() == 2 && live(1)()
	})
	close(store.release)
	s.want(wait.For(late), http.StatusServiceUnavailable, "UNAVAILABLE")
	s.want(wait.For(beside), http.StatusNotFound, "NOT_FOUND")
	if strings.Contains(site.Logs(), "a guest has failed") {
		t.Error("the guest was discarded")
	}
}

// slow is a store whose gets wait while hold is set.
type slow struct {
	kv.KV
	hold    atomic.Bool
	waiting atomic.Int64
	release chan struct{}
}

// Get implements kv.KV.
func (s *slow) Get(ctx context.Context, k kv.Key) (kv.Item, error) {
	if s.hold.Load() {
		s.waiting.Add(1)
		wait.For(s.release)
	}
	return s.KV.Get(ctx, k)
}

func TestOffLimits(t *testing.T) {
	server := workerd.Shared(t)
	ask := func(url, loopback string) string {
		t.Helper()
		s := &service{t: t, client: server.Client()}
		return string(s.do("POST", "http://control.localhost/off-limits/"+loopback, nil, []byte(url)).body)
	}
	b, err := os.ReadFile("testdata/offlimits.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		URL            string
		Open, Loopback bool // without and with loopback
	}
	if err := json.Unmarshal(b, &cases); err != nil || len(cases) < 40 {
		t.Fatalf("%d cases, %v", len(cases), err)
	}
	for _, c := range cases {
		if got := ask(c.URL, ""); (got == "") != c.Open {
			t.Errorf("contract 28: %s: %q", c.URL, got)
		}
		if got := ask(c.URL, "loopback"); (got == "") != c.Loopback {
			t.Errorf("contract 28, dev: %s: %q", c.URL, got)
		}
	}
}
