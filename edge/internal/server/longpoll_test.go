package server

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/edge/internal/bothservers"
	"github.com/verge-id/verge/testharness/wait"
)

// pace controls the time of long polls. The test decides when a request asks again, and when its time is
// over.
type pace struct{ turn, end chan time.Time }

func newPace() *pace { return &pace{make(chan time.Time), make(chan time.Time)} }

func (p *pace) after(d time.Duration) <-chan time.Time {
	if d == pollInterval {
		return p.turn
	}
	return p.end
}

// news is an engine for long polls. It has no news until the test sets them.
type news struct {
	fake
	status atomic.Int32
	asked  atomic.Int32
	again  atomic.Int32 // how many of the asked requests have Again
	block  sync.Mutex   // held by the test: no response
}

func newNews() *news {
	n := &news{}
	n.status.Store(http.StatusNotModified)
	n.handle = func(_ context.Context, req *web.Request) *web.Response {
		if req.Path != web.TestsPath {
			return ok("{}")
		}
		n.block.Lock()
		defer n.block.Unlock()
		asked, again := n.asked.Add(1), int32(0)
		resp := &web.Response{Status: int(n.status.Load()),
			Header: web.Header{"X-Request-Id": {fmt.Sprint("req_", asked)}}}
		if req.Again {
			again = n.again.Add(1)
		} else {
			resp.Header.Set("Ratelimit", fmt.Sprint("reconcile-key;r=", asked))
			resp.Header.Set("Ratelimit-Policy", "policy")
		}
		if resp.Status == http.StatusOK {
			resp.Body = fmt.Append(nil, again)
		}
		return resp
	}
	return n
}

// waiting returns the number of waiting requests.
func (l *listener) waiting() int {
	l.waits.mu.Lock()
	defer l.waits.mu.Unlock()
	return l.waits.waiting
}

// patience is the maximum time that a test waits for an event.
const patience = 20 * time.Second

// answered is a response whose body was read.
type answered struct {
	*http.Response
	body string
	err  error
}

// askFor asks for news, and returns a channel for the response.
func askFor(ctx context.Context, client *http.Client, url string, headers ...string) <-chan answered {
	to := make(chan answered, 1)
	go func() {
		req, err := http.NewRequestWithContext(ctx, "GET", url, nil)
		if err != nil {
			to <- answered{err: err}
			return
		}
		req.Header.Set("Prefer", "wait=20")
		for i := 0; i < len(headers); i += 2 {
			req.Header.Set(headers[i], headers[i+1])
		}
		resp, err := client.Do(req)
		if err != nil {
			to <- answered{err: err}
			return
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		to <- answered{resp, string(body), err}
	}()
	return to
}

func (a answered) want(t *testing.T, status int, applied string) {
	t.Helper()
	if a.err != nil {
		t.Fatal(a.err)
	}
	if got := a.Header.Get("Preference-Applied"); a.StatusCode != status || got != applied {
		t.Errorf("contract 49: %d with Preference-Applied %q, want %d with %q", a.StatusCode, got, status,
			applied)
	}
}

// newClient returns a client with its own connections.
func newClient(t *testing.T) *http.Client {
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// contract, Load: a waiting request uses no place. If all are taken when it has to ask again, it continues
// to wait.
func TestLongPoll_UsesNoPlace(t *testing.T) {
	engine, p := newNews(), newPace()
	s, base, _ := run(t, Config{Engine: engine, MaxConcurrent: 1, after: p.after})
	client := newClient(t)
	var all []<-chan answered
	for n := range 3 {
		all = append(all, askFor(t.Context(), client, base+web.TestsPath))
		wait.Until(t, "one more waits", func() bool {
			if len(all[n]) > 0 {
				t.Errorf("contract, Load: with %d waiting requests, no place: %+v", n, wait.For(all[n]))
			}
			return s.public.waiting() == n+1
		})
	}
	for range 5 {
		if resp, err := client.Get(base + "/verify"); err != nil || resp.StatusCode != 200 {
			t.Fatalf("contract, Load: with 3 waiting requests: %v, %v", resp, err)
		}
	}
	engine.status.Store(200)
	engine.block.Lock()
	p.turn <- time.Time{} // one asks, and has the place
	wait.Until(t, "the place is taken", func() bool { return len(s.public.slots) == 1 })
	for range 4 {
		p.turn <- time.Time{} // another one finds no place
	}
	if n := s.public.waiting(); n != 3 {
		t.Errorf("contract 49: %d of 3 wait, and none has a response", n)
	}
	engine.block.Unlock()
	go func() {
		for t.Context().Err() == nil {
			select {
			case p.turn <- time.Time{}:
			case <-t.Context().Done():
			}
		}
	}()
	for _, one := range all {
		a := wait.For(one)
		a.want(t, 200, "wait=20")
	}
}

// waiting is one waiting request, and the means to end it.
type waiting struct {
	*pace
	*news
	leave func()
	stop  func() error
}

// contract 49: a request waits until there is news, its time is over, its client leaves or the server drains.
func TestLongPoll_End(t *testing.T) {
	for rule, c := range map[string]struct {
		end    func(t *testing.T, w waiting)
		status int // 0: the client has disconnected
	}{
		"news": {func(t *testing.T, w waiting) {
			w.turn <- time.Time{}
			w.turn <- time.Time{}
			wait.Until(t, "it asks twice", func() bool { return w.again.Load() == 2 })
			w.status.Store(200)
			w.turn <- time.Time{}
		}, 200},
		"a key that is revoked during the wait": {func(_ *testing.T, w waiting) {
			w.status.Store(401)
			w.turn <- time.Time{}
		}, 401},
		"its time": {func(_ *testing.T, w waiting) {
			w.turn <- time.Time{}
			w.end <- time.Time{}
		}, 304},
		"its client leaves": {func(_ *testing.T, w waiting) { w.leave() }, 0},
		"the server drains": {func(t *testing.T, w waiting) {
			go func() {
				if err := w.stop(); err != nil {
					t.Error(err)
				}
			}()
		}, 304},
	} {
		for _, protocol := range []string{"HTTP/1.1", "HTTP/2.0"} {
			t.Run(rule+" over "+protocol, func(t *testing.T) {
				engine, p := newNews(), newPace()
				config, client := Config{Engine: engine, after: p.after}, newClient(t)
				transport := client.Transport.(*http.Transport)
				if protocol == "HTTP/2.0" {
					config.TLS, transport.TLSClientConfig = secure(t)
					transport.ForceAttemptHTTP2 = true
				}
				s, base, stop := run(t, config)
				if config.TLS != nil {
					base = strings.Replace(base, "http:", "https:", 1)
				}
				ctx, leave := context.WithTimeout(t.Context(), patience)
				defer leave()
				answer := askFor(ctx, client, base+web.TestsPath)
				wait.Until(t, "it waits", func() bool { return s.public.waiting() == 1 })
				c.end(t, waiting{p, engine, leave, stop})
				a := wait.For(answer)
				if c.status != 0 {
					if a.want(t, c.status, "wait=20"); a.Proto != protocol {
						t.Errorf("it is %s", a.Proto)
					}
				}
				wait.Until(t, "nobody waits", func() bool { return s.public.waiting() == 0 })
				transport.CloseIdleConnections()
				if err := stop(); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// contract 49: other requests get their response immediately, and the engine is asked once.
func TestLongPoll_Immediate(t *testing.T) {
	for _, c := range []struct {
		rule    string
		path    string
		status  int32
		headers []string
	}{
		{"news at once", web.TestsPath, 200, nil},
		{"an error", web.TestsPath, 401, nil},
		{"no preference", web.TestsPath, 304, []string{"Prefer", ""}},
		{"no seconds", web.TestsPath, 304, []string{"Prefer", "wait=0"}},
		{"a preference that cannot be read", web.TestsPath, 304, []string{"Prefer", "wait=1.5"}},
		{"another route", "/verify", 304, nil},
	} {
		t.Run(c.rule, func(t *testing.T) {
			engine := newNews()
			engine.status.Store(c.status)
			handle := engine.handle
			engine.handle = func(ctx context.Context, req *web.Request) *web.Response {
				req.Path = web.TestsPath // for any path
				return handle(ctx, req)
			}
			base, _ := start(t, Config{Engine: engine, after: func(time.Duration) <-chan time.Time {
				t.Error("it waits")
				return nil
			}})
			a := wait.For(askFor(t.Context(), newClient(t), base+c.path, c.headers...))
			a.want(t, int(c.status), "")
			if n := engine.again.Load(); n != 0 {
				t.Errorf("contract 49: it was asked again %d times", n)
			}
		})
	}
}

// contract 49: in a drain no request begins to wait.
func TestLongPoll_Draining(t *testing.T) {
	engine := newNews()
	s, base, stop := run(t, Config{Engine: engine, IdleGrace: time.Minute,
		after: func(time.Duration) <-chan time.Time {
			t.Error("it waits")
			return nil
		}})
	client := newClient(t)
	a := wait.For(askFor(t.Context(), client, base+"/verify")) // keeps a connection for the next request
	a.want(t, 200, "")
	ended := make(chan error, 1)
	go func() { ended <- stop() }()
	wait.Until(t, "the server drains", s.draining.Load)
	a = wait.For(askFor(t.Context(), client, base+web.TestsPath))
	a.want(t, 304, "")
	if err := wait.For(ended); err != nil {
		t.Error(err)
	}
}

// contract 30: the host marks repeated calls of the engine, and no client can. The response has the rate
// limit headers of the first one.
func TestLongPoll_Again(t *testing.T) {
	engine, p := newNews(), newPace()
	s, base, _ := run(t, Config{Engine: engine, after: p.after})
	answer := askFor(t.Context(), newClient(t), base+web.TestsPath, "Again", "true", "X-Again", "1", "Prefer",
		`wait=2, again, "Again"`)
	wait.Until(t, "it waits", func() bool { return s.public.waiting() == 1 })
	if asked, again := engine.asked.Load(), engine.again.Load(); asked != 1 || again != 0 {
		t.Errorf("contract 30: asked %d times, again %d times, and the client asks for the first time", asked,
			again)
	}
	p.turn <- time.Time{}
	wait.Until(t, "it asks", func() bool { return engine.asked.Load() == 2 })
	engine.status.Store(200)
	p.turn <- time.Time{}
	a := wait.For(answer)
	a.want(t, 200, "wait=2")
	if a.body != "2" {
		t.Errorf("contract 30: %s of 2 were asked again", a.body)
	}
	if a.Header.Get("Ratelimit") != "reconcile-key;r=1" || a.Header.Get("Ratelimit-Policy") != "policy" ||
		a.Header.Get("X-Request-Id") != "req_3" {
		t.Errorf("contract 4, 30: %v", a.Header)
	}
}

// contract, Load: maximum of waiting requests, per client and in total. Another one gets its response
// immediately.
func TestLongPoll_Limits(t *testing.T) {
	for rule, c := range map[string]struct {
		config  Config
		clients []string
		most    int
	}{
		"of a client":          {Config{}, []string{"192.0.2.1"}, maxWaitingPerClient},
		"of a network in IPv6": {Config{}, []string{"2001:db8::1", "2001:db8::2"}, maxWaitingPerClient},
		"of all":               {Config{MaxConns: 80}, []string{"192.0.2.1", "192.0.2.2", "192.0.2.3"}, 20},
	} {
		t.Run(rule, func(t *testing.T) {
			engine, p := newNews(), newPace()
			c.config.Engine, c.config.after = engine, p.after
			c.config.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
			s, base, _ := run(t, c.config)
			client := newClient(t)
			from := func(n int) string { return c.clients[n%len(c.clients)] }
			for n := range c.most {
				askFor(t.Context(), client, base+web.TestsPath, "X-Forwarded-For", from(n))
				wait.Until(t, "one more waits", func() bool { return s.public.waiting() == n+1 })
			}
			for n := range 3 {
				answer := askFor(t.Context(), client, base+web.TestsPath, "X-Forwarded-For", from(n))
				wait.Until(t, "an immediate response", func() bool {
					if waits := s.public.waiting(); waits > c.most {
						t.Errorf("contract, Load: %d wait, and %d may", waits, c.most)
					}
					return len(answer) > 0
				})
				a := wait.For(answer)
				a.want(t, 304, "")
			}
			if n := engine.again.Load(); n != 0 {
				t.Errorf("the engine was asked again %d times", n)
			}
			p.end <- time.Time{}
			wait.Until(t, "one has ended", func() bool { return s.public.waiting() == c.most-1 })
			for n := range c.clients { // at least one of them may
				askFor(t.Context(), client, base+web.TestsPath, "X-Forwarded-For", from(n))
			}
			wait.Until(t, "another one waits", func() bool { return s.public.waiting() == c.most })
		})
	}
}

// contract, Load: a connection whose request waits is not closed for a new one, and its response may take
// longer than others.
func TestLongPoll_NotEvicted(t *testing.T) {
	engine, p := newNews(), newPace()
	const usual = 50 * time.Millisecond
	s, base, _ := run(t, Config{Engine: engine, after: p.after, MaxConnsPerIP: 4, WriteTimeout: usual,
		HandleTimeout: time.Millisecond, ReadTimeout: usual, DrainTimeout: time.Millisecond,
		IdleGrace: time.Nanosecond})
	answer := askFor(t.Context(), newClient(t), base+web.TestsPath)
	wait.Until(t, "it waits", func() bool { return s.public.waiting() == 1 })
	for range 12 {
		dial(t, base)
	}
	time.Sleep(3 * usual)
	engine.status.Store(200)
	p.turn <- time.Time{}
	a := wait.For(answer)
	a.want(t, 200, "wait=20")
}

// contract 48: a long poll is logged once, with the whole time. Its waiting time is not part of the metrics
// of request durations.
func TestLongPoll_LogAndMetrics(t *testing.T) {
	var logs lockedBuffer
	engine, p, ops := newNews(), newPace(), listen(t)
	s, base, stop := run(t, Config{Engine: engine, after: p.after, Ops: ops,
		Log: slog.New(slog.NewJSONHandler(&logs, nil))})
	metric := func(name string) (value float64) {
		t.Helper()
		_, text := getter(t)("http://" + ops.Addr().String() + "/metrics")
		for line := range strings.Lines(text) {
			if rest, ok := strings.CutPrefix(line, name+" "); ok {
				if _, err := fmt.Sscan(rest, &value); err != nil {
					t.Fatal(err)
				}
				return value
			}
		}
		t.Fatalf("there is no %s", name)
		return 0
	}
	answer := askFor(t.Context(), newClient(t), base+web.TestsPath)
	wait.Until(t, "it waits", func() bool { return metric("verge_http_waiting") == 1 })
	if n := metric("verge_http_in_flight"); n != 0 {
		t.Errorf("%v requests are in flight, and one waits", n)
	}
	const slept = 100 * time.Millisecond
	time.Sleep(slept)
	p.turn <- time.Time{}
	p.end <- time.Time{}
	a := wait.For(answer)
	a.want(t, 304, "wait=20")
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(logs.String(), `"msg":"request"`); n != 1 {
		t.Fatalf("contract 48: %d lines:\n%s", n, logs.String())
	}
	var line struct {
		Took float64 `json:"took_ms"`
	}
	for text := range strings.Lines(logs.String()) {
		if err := json.Unmarshal([]byte(text), &line); strings.Contains(text, `"msg":"request"`) &&
			err != nil {
			t.Fatal(err)
		}
	}
	if line.Took < slept.Seconds()*1000 {
		t.Errorf("contract 48: took_ms is %v, and the request waited %v", line.Took, slept)
	}
	var sum float64
	text := scraped(s.metrics, `verge_http_request_seconds_sum{route="testevents"}`)
	if _, err := fmt.Sscanf(text, `verge_http_request_seconds_sum{route="testevents"} %g`, &sum); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if most := line.Took/1000 - slept.Seconds(); sum > most {
		t.Errorf("the metric has %v s, want %v s at most, without the time of waiting", sum, most)
	}
}

func TestPreferredWait(t *testing.T) {
	for _, c := range bothservers.Preferences(t) {
		if got := preferredWait(web.Header{"Prefer": c.Prefer}); got != c.Seconds {
			t.Errorf("RFC 7240: %q is %d seconds, want %d", c.Prefer, got, c.Seconds)
		}
	}
}
