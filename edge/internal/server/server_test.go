package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/edge/engine"
	"github.com/verge-id/verge/edge/internal/bothservers"
	"github.com/verge-id/verge/testharness/wait"
)

// fake is an engine that responds by its functions; both may be nil.
type fake struct {
	engine.Engine // nil: the server needs only the methods below

	handle func(context.Context, *web.Request) *web.Response
	ready  func() error
}

func (e fake) Handle(ctx context.Context, r *web.Request) *web.Response {
	if e.handle == nil {
		return ok("{}")
	}
	return e.handle(ctx, r)
}

func (e fake) Ready(context.Context) error {
	if e.ready == nil {
		return nil
	}
	return e.ready()
}

// store is the health of a store.
type store struct {
	failing error
	wait    int
}

func (s *store) Failing() error  { return s.failing }
func (s *store) RetryAfter() int { return s.wait }

// If the store fails, the word of a health check changes, and its status does not. A restart would not
// repair the store, and would interrupt the responses that need no write.
func TestHealth_FailingStore(t *testing.T) {
	st := &store{failing: errors.New("the disk at 10.1.2.3 is full")}
	ops := listen(t)
	base, stop := start(t, Config{Engine: fake{}, Ops: ops, Store: st})
	defer stop()
	get := getter(t)
	for _, path := range []string{"/healthz", "/readyz"} {
		s, b := get(base + path)
		if s != 200 || !strings.Contains(b, `"degraded"`) || strings.Contains(b, "10.1.2.3") {
			t.Errorf("public %s: %d %s", path, s, b)
		}
		s, b = get("http://" + ops.Addr().String() + path)
		if s != 200 || !strings.Contains(b, `"degraded"`) || !strings.Contains(b, "10.1.2.3") {
			t.Errorf("ops %s: %d %s", path, s, b)
		}
	}
	st.failing = nil
	for _, path := range []string{"/healthz", "/readyz"} {
		if s, b := get(base + path); s != 200 || !strings.Contains(b, `"ok"`) {
			t.Errorf("%s after the store has recovered: %d %s", path, s, b)
		}
	}
}

// verge_ready is the result of /readyz, which an alert watches.
func TestMetrics_Ready(t *testing.T) {
	ops := listen(t)
	var mu sync.Mutex
	var away error
	ready := func() error {
		mu.Lock()
		defer mu.Unlock()
		return away
	}
	_, stop := start(t, Config{Engine: fake{ready: ready}, Ops: ops})
	defer stop()
	get := getter(t)
	shows := func(want string) bool {
		s, b := get("http://" + ops.Addr().String() + "/metrics")
		return s == 200 && strings.Contains(b, "\nverge_ready "+want+"\n")
	}
	if !shows("1") {
		t.Error("verge_ready is not 1 while the instance is ready")
	}
	mu.Lock()
	away = errors.New("away")
	mu.Unlock()
	wait.Until(t, "verge_ready is 0", func() bool { return shows("0") })
}

// The check for balancers returns 503 only for a fault of this instance, and does not ask the store.
func TestHealth_ReadyWithoutStore(t *testing.T) {
	var alone error
	asked := 0
	ready := func() error { asked++; return errors.New("away") }
	s, base, stop := run(t, Config{Engine: fake{ready: ready}, IdleGrace: time.Minute,
		ReadyAlone: func(context.Context) error { return alone }})
	get := getter(t)
	const path = "/readyz?store=ignore"
	if s, b := get(base + path + "&x=%"); s != 200 || !strings.Contains(b, `"ok"`) || asked != 0 {
		t.Errorf("without the store: %d %s, and the store was asked %d times", s, b, asked)
	}
	if s, _ := get(base + "/readyz"); s != 503 || asked != 1 {
		t.Errorf("/readyz without the store: %d, asked %d times", s, asked)
	}
	alone = errors.New("a key is missing")
	if s, b := get(base + path); s != 503 || !strings.Contains(b, `"unavailable"`) {
		t.Errorf("without a key: %d %s", s, b)
	}
	alone = nil
	ended := make(chan error, 1)
	go func() { ended <- stop() }()
	wait.Until(t, "the server drains", s.draining.Load)
	if s, b := get(base + path); s != 503 || !strings.Contains(b, `"draining"`) { // on the kept connection
		t.Errorf("a server that drains: %d %s", s, b)
	}
	if err := wait.For(ended); err != nil {
		t.Error(err)
	}
}

// Contract 5: health checks accept only GET and HEAD, on either listener.
func TestHealth_Methods(t *testing.T) {
	ops := listen(t)
	base, stop := start(t, Config{Engine: fake{}, Ops: ops})
	defer stop()
	for _, base := range []string{base, "http://" + ops.Addr().String()} {
		for _, path := range []string{"/healthz", "/readyz"} {
			for _, method := range []string{"GET", "HEAD", "POST", "PUT", "OPTIONS"} {
				req, err := http.NewRequest(method, base+path, strings.NewReader("{}"))
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("X-Correlation-Id", "c-1")
				resp, err := http.DefaultClient.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				b, _ := io.ReadAll(resp.Body)
				resp.Body.Close()
				if method == "GET" || method == "HEAD" {
					if resp.StatusCode != 200 || (len(b) > 0) != (method == "GET") {
						t.Errorf("%s %s: %d %s", method, path, resp.StatusCode, b)
					}
					continue
				}
				var e struct {
					Code        string
					RequestID   string `json:"request_id"`
					Correlation string `json:"correlation_id"`
				}
				if err := json.Unmarshal(b, &e); err != nil || resp.StatusCode != 405 ||
					e.Code != "METHOD_NOT_ALLOWED" || resp.Header.Get("Allow") != "GET, HEAD" ||
					e.RequestID == "" || e.RequestID != resp.Header.Get("X-Request-Id") ||
					e.Correlation != "c-1" || resp.Header.Get("X-Correlation-Id") != "c-1" {
					t.Errorf("contract 5: %s %s%s: %d %v %s", method, base, path, resp.StatusCode,
						resp.Header, b)
				}
			}
		}
	}
}

// Contract 5: an escaped slash belongs to a segment. So the path differs from the one with a slash, and has
// no route.
func TestPath_EscapedSlash(t *testing.T) {
	admin := listen(t)
	var asked []string
	handle := func(_ context.Context, req *web.Request) *web.Response {
		asked = append(asked, req.Path)
		return ok("{}")
	}
	stream := func(ctx context.Context, req *web.Request, _ io.Reader) *web.Response {
		return handle(ctx, req)
	}
	base, stop := start(t, Config{Engine: fake{handle: handle}, Admin: handle, AdminListener: admin,
		AdminStreams: map[string]Stream{"/a/b": stream}})
	defer stop()
	get := getter(t)
	for _, base := range []string{base, "http://" + admin.Addr().String()} {
		for path, want := range map[string]string{"/a%2Fb": "/a%2Fb", "/a%2fb": "/a%2fb",
			"/a/b%2F": "/a/b%2F", "/a/b": "/a/b", "/%61/b": "/a/b", "/a%20b": "/a b", "/a?b=c%2Fd": "/a"} {
			asked = nil
			if s, b := get(base + path); s != 200 || !slices.Equal(asked, []string{want}) {
				t.Errorf("contract 5: %s: %d %s, the engine was asked for %q, want %q", path, s, b, asked,
					want)
			}
		}
	}
}

func TestRetryAfter_FailingStore(t *testing.T) {
	st := &store{}
	status := 503
	handle := func(context.Context, *web.Request) *web.Response {
		resp := ok("{}")
		resp.Status = status
		resp.Header.Set("Retry-After", "2")
		return resp
	}
	base, stop := start(t, Config{Store: st, Engine: fake{handle: handle}})
	defer stop()
	for _, c := range []struct {
		status, wait int
		want         string
	}{{503, 0, "2"}, {503, 1, "2"}, {503, 17, "17"}, {429, 17, "2"}} {
		st.wait, status = c.wait, c.status
		resp, err := http.Get(base + "/x")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if got := resp.Header.Get("Retry-After"); got != c.want {
			t.Errorf("%d, and the store returns %d: Retry-After %s, want %s", c.status, c.wait, got, c.want)
		}
	}
}

// Contract 4, 48: a health check has the ids of every response, and is logged only at level DEBUG.
func TestHealth_LoggedAtDebug(t *testing.T) {
	for _, level := range []slog.Level{slog.LevelDebug, slog.LevelInfo} {
		t.Run(level.String(), func(t *testing.T) {
			var logs lockedBuffer
			ops := listen(t)
			base, stop := start(t, Config{Engine: fake{}, Ops: ops,
				Log: slog.New(slog.NewJSONHandler(&logs, &slog.HandlerOptions{Level: level}))})
			var want []string
			bases := map[string]string{"public": base, "ops": "http://" + ops.Addr().String()}
			for listener, base := range bases {
				for _, path := range []string{"/healthz", "/readyz"} {
					req, err := http.NewRequest("GET", base+path, nil)
					if err != nil {
						t.Fatal(err)
					}
					req.Header.Set("X-Correlation-Id", "c-1")
					resp, err := http.DefaultClient.Do(req)
					if err != nil {
						t.Fatal(err)
					}
					resp.Body.Close()
					if got := resp.Header.Get("X-Correlation-Id"); got != "c-1" {
						t.Errorf("%s of %s echoes %q", path, listener, got)
					}
					want = append(want, fmt.Sprint(listener, path, 200, resp.Header.Get("X-Request-Id")))
				}
			}
			stop()
			var got []string
			for line := range strings.Lines(logs.String()) {
				var l struct {
					Msg, Level, Listener, Method, Path, Client string
					Status                                     int
					ID                                         string   `json:"request_id"`
					Took                                       *float64 `json:"took_ms"`
				}
				if err := json.Unmarshal([]byte(line), &l); err != nil {
					t.Fatal(err)
				}
				if l.Msg != "request" {
					continue
				}
				got = append(got, fmt.Sprint(l.Listener, l.Path, l.Status, l.ID))
				if l.Level != "DEBUG" || l.Method != "GET" || l.Client != "127.0.0.1" || l.Took == nil {
					t.Errorf("the line is %s", line)
				}
			}
			if level > slog.LevelDebug {
				want = nil
			}
			slices.Sort(want)
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("lines %q, want %q", got, want)
			}
		})
	}
}

// getter returns a function that fetches a health or metrics document.
func getter(t *testing.T) func(url string) (status int, body string) {
	return func(url string) (int, string) {
		resp, err := http.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		id := resp.Header.Get("X-Request-Id")
		if !strings.HasPrefix(id, "req_") && !strings.HasSuffix(url, "/metrics") {
			t.Errorf("contract 4: %s has X-Request-Id %q", url, id)
		}
		b, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(b)
	}
}

func ok(body string) *web.Response {
	return &web.Response{Status: 200, Body: []byte(body), Header: web.Header{
		"Content-Type": {"application/json; charset=utf-8"}, "X-Request-Id": {"req_engine"}}}
}

func listen(t testing.TB) net.Listener {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// start runs a server, with the core's routes and a new listener unless c has its own. stop drains it and
// returns Run's error.
func start(t testing.TB, c Config) (base string, stop func() error) {
	_, base, stop = run(t, c)
	return base, stop
}

// run is start, and also returns the server.
func run(t testing.TB, c Config) (s *Server, base string, stop func() error) {
	if c.Public == nil {
		c.Public = listen(t)
	}
	if c.Routes == nil {
		c.Routes = core.Routes(core.Config{})
	}
	if c.Admin != nil && c.AdminRoutes == nil {
		c.AdminRoutes = core.AdminRoutes()
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	s = New(c)
	go func() { done <- s.Run(ctx) }()
	stop = sync.OnceValue(func() error { cancel(); return wait.For(done) })
	t.Cleanup(func() { stop() })
	return s, "http://" + c.Public.Addr().String(), stop
}

// raw sends bytes and returns the first response.
func raw(t *testing.T, base, text string) *http.Response {
	conn, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	io.WriteString(conn, text)
	return read(t, conn)
}

func TestServer_RequestReachesEngine(t *testing.T) {
	var got web.Request
	base, _ := start(t, Config{
		TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		Engine: fake{handle: func(ctx context.Context, r *web.Request) *web.Response {
			got = *r
			if _, limited := ctx.Deadline(); !limited {
				t.Error("no deadline")
			}
			return &web.Response{Status: 201, Body: []byte("made"), Header: web.Header{
				"X-Two": {"a", "b"}, "Connection": {"upgrade"}, "Transfer-Encoding": {"gzip"},
				"Content-Length": {"99"}}}
		}}})
	req, _ := http.NewRequest("POST", base+"/a%20b/c?x=1&y=%20", strings.NewReader("body"))
	req.Header.Set("X-Forwarded-For", "8.8.8.8")
	req.Header.Set("Authorization", "Bearer k")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	if got.Method != "POST" || got.Path != "/a b/c" || got.Query != "x=1&y=%20" ||
		string(got.Body) != "body" ||
		got.Header.Get("Authorization") != "Bearer k" || got.Client != netip.MustParseAddr("8.8.8.8") {
		t.Errorf("the engine got %+v", got)
	}
	if resp.StatusCode != 201 || string(body) != "made" || resp.ContentLength != 4 ||
		len(resp.Header["X-Two"]) != 2 || resp.Header.Get("Connection") != "" ||
		resp.TransferEncoding != nil || resp.Header.Get("Content-Type") != "" {
		t.Errorf("the client got %d %q %v", resp.StatusCode, body, resp.Header)
	}
}

func TestHead(t *testing.T) {
	base, _ := start(t, Config{Engine: fake{handle: func(_ context.Context, r *web.Request) *web.Response {
		if r.Path == "/with" {
			return ok("12345")
		}
		return ok("")
	}}})
	for path, length := range map[string]int64{"/with": 5, "/without": -1} {
		resp, err := http.Head(base + path)
		if err != nil || resp.StatusCode != 200 || resp.ContentLength != length {
			t.Errorf("HEAD %s: %v, length %d, want %d", path, err, resp.ContentLength, length)
		}
	}
}

// Responses without the engine have the format of contract 5.
func TestRejections(t *testing.T) {
	long := strings.Repeat("x", web.MaxURL)
	var handled atomic.Int64
	var logs lockedBuffer
	base, _ := start(t, Config{
		ReadTimeout: 100 * time.Millisecond,
		Log:         slog.New(slog.NewJSONHandler(&logs, nil)),
		Engine: fake{handle: func(_ context.Context, r *web.Request) *web.Response {
			handled.Add(1)
			switch r.Path {
			case "/panic":
				panic("svc_sk_canary")
			case "/nil":
				return nil
			case "/impossible":
				return &web.Response{Status: 99}
			case "/failed":
				return &web.Response{Status: 500}
			case "/gone":
				return &web.Response{Status: 503}
			}
			return ok("{}")
		}}})
	for _, c := range []struct {
		rule, request string
		status        int
		code          string
		engine        bool
	}{
		{"URL over the limit", "GET /?" + long + " HTTP/1.1\r\nHost: x\r\n\r\n", 414, "URI_TOO_LONG", false},
		{"URL over the limit in its path, encoded",
			"GET /" + strings.Repeat("%41", web.MaxURL/3+1) + " HTTP/1.1\r\nHost: x\r\n\r\n",
			414, "URI_TOO_LONG", false},
		{"body that never arrives",
			"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab", 408, "REQUEST_TIMEOUT", false},
		{"invalid chunk",
			"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400, "INVALID_REQUEST",
			false},
		{"engine panics", "GET /panic HTTP/1.1\r\nHost: x\r\n\r\n", 500, "INTERNAL", true},
		{"engine returns nil", "GET /nil HTTP/1.1\r\nHost: x\r\n\r\n", 500, "INTERNAL", true},
		{"engine returns a bare failure", "GET /failed HTTP/1.1\r\nHost: x\r\n\r\n", 500, "INTERNAL",
			true},
		{"engine is briefly unavailable", "GET /gone HTTP/1.1\r\nHost: x\r\n\r\n", 503, "UNAVAILABLE", true},
		{"engine returns an invalid status", "GET /impossible HTTP/1.1\r\nHost: x\r\n\r\n", 500, "INTERNAL",
			true},
	} {
		t.Run(c.rule, func(t *testing.T) {
			before := handled.Load()
			resp := raw(t, base, strings.Replace(c.request, "\r\n\r\n",
				"\r\nX-Correlation-Id: corr-1\r\n\r\n", 1))
			b := wantRejection(t, resp, c.status, c.code)
			if b["correlation_id"] != "corr-1" || resp.Header.Get("X-Correlation-Id") != "corr-1" {
				t.Errorf("contract 4: got %v %v", resp.Header, b)
			}
			if (handled.Load() > before) != c.engine {
				t.Errorf("the engine was asked: %v", !c.engine)
			}
		})
	}
	if log := logs.String(); strings.Contains(log, "canary") ||
		!strings.Contains(log, "panic in the engine") {
		t.Errorf("contract 13: the panic is not logged correctly:\n%s", log)
	}
}

// Contract 3, 5: the engine must be able to detect a body that is too long, and receives no more of it.
func TestBodyLimit(t *testing.T) {
	var n int
	base, _ := start(t, Config{Engine: fake{handle: func(_ context.Context, r *web.Request) *web.Response {
		n = len(r.Body)
		return ok("{}")
	}}})
	for _, size := range []int{0, 1, web.MaxBody, web.MaxBody + 1, web.MaxBody + 2, 1 << 20} {
		sent := strings.Repeat("x", size)
		// Only the first body has a known length.
		for _, body := range []io.Reader{strings.NewReader(sent), io.MultiReader(strings.NewReader(sent))} {
			resp, err := http.Post(base, "application/json", body)
			if err != nil || resp.StatusCode != 200 || n != min(size, web.MaxBody+1) {
				t.Errorf("%d bytes: the engine saw %d, %v", size, n, err)
			}
		}
	}
}

// Each route has its own body limit. The engine receives one byte more. A route that the table does not
// contain has the usual limit.
func TestBodyLimit_Route(t *testing.T) {
	var got []byte
	base, _ := start(t, Config{
		Routes: web.Table{
			{Methods: []string{"POST"}, Pattern: "/photo/{name}", Label: "photo", MaxBody: 1 << 20},
			{Methods: []string{"POST"}, Pattern: "/word", Label: "word", MaxBody: 10},
			{Pattern: "{...}", Label: "other"},
		},
		Engine: fake{handle: func(_ context.Context, r *web.Request) *web.Response {
			got = r.Body
			return ok("{}")
		}}})
	for _, c := range []struct {
		method, path string
		limit        int
	}{
		{"POST", "/photo/x", 1 << 20}, {"PUT", "/photo/x", web.MaxBody}, {"POST", "/photo/x/y", web.MaxBody},
		{"POST", "/word", 10}, {"POST", "/other", web.MaxBody},
	} {
		for _, size := range []int{0, 1, c.limit - 1, c.limit, c.limit + 1, c.limit + 2, c.limit + 40<<10} {
			sent := make([]byte, size)
			for i := range sent {
				sent[i] = byte(i >> 8 * 7)
			}
			for _, body := range []io.Reader{bytes.NewReader(sent), io.MultiReader(bytes.NewReader(sent))} {
				req, err := http.NewRequest(c.method, base+c.path, body)
				if err != nil {
					t.Fatal(err)
				}
				resp, err := http.DefaultClient.Do(req)
				if err != nil || resp.StatusCode != 200 {
					t.Fatalf("%s %s with %d bytes: %v, %v", c.method, c.path, size, resp, err)
				}
				resp.Body.Close()
				if !bytes.Equal(got, sent[:min(size, c.limit+1)]) {
					t.Errorf("%s %s with %d bytes: the engine saw %d, or others", c.method, c.path, size,
						len(got))
				}
			}
		}
	}
}

// The read deadline ends with the request. If it stayed on the connection, it would cancel an engine that
// takes longer.
func TestReadTimeout_EngineContinues(t *testing.T) {
	handle := func(ctx context.Context, _ *web.Request) *web.Response {
		select {
		case <-ctx.Done():
			return &web.Response{Status: 503}
		case <-time.After(250 * time.Millisecond):
			return ok("{}")
		}
	}
	base, _ := start(t, Config{ReadTimeout: 50 * time.Millisecond, Engine: fake{handle: handle}})
	resp, err := http.Post(base, "application/json", strings.NewReader("{}"))
	if err != nil || resp.StatusCode != 200 {
		t.Errorf("got %v, %v", resp, err)
	}
}

func TestServer_PanicKeepsConnection(t *testing.T) {
	base, _ := start(t, Config{Engine: fake{handle: func(_ context.Context, r *web.Request) *web.Response {
		if r.Path == "/panic" {
			panic(1)
		}
		return ok("{}")
	}}})
	conn, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, c := range []struct {
		path   string
		status int
	}{{"/panic", 500}, {"/", 200}, {"/panic", 500}} {
		fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", c.path)
		if resp := read(t, conn); resp.StatusCode != c.status {
			t.Errorf("%s: got %d", c.path, resp.StatusCode)
		}
	}
}

func TestMaxConcurrent(t *testing.T) {
	release, entered := make(chan struct{}), make(chan struct{}, 2)
	hold := func(context.Context, *web.Request) *web.Response {
		entered <- struct{}{}
		wait.For(release)
		return ok("{}")
	}
	base, _ := start(t, Config{MaxConcurrent: 2, Engine: fake{handle: hold}})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			if resp, err := http.Get(base); err != nil || resp.StatusCode != 200 {
				t.Errorf("got %v, %v", resp, err)
			}
		})
		wait.For(entered)
	}
	resp, err := http.Get(base)
	if err != nil || resp.StatusCode != 503 || resp.Header.Get("Retry-After") != "1" {
		t.Errorf("contract 5: a request over the limit: %v, %v", resp, err)
	}
	if resp, err := http.Get(base + "/healthz"); err != nil || resp.StatusCode != 200 {
		t.Errorf("a health check without a free place: %v, %v", resp, err)
	}
	close(release)
	wg.Wait()
	go func() { wait.For(entered) }()
	if resp, err := http.Get(base); err != nil || resp.StatusCode != 200 {
		t.Errorf("after places are free again: %v, %v", resp, err)
	}
}

func TestHealth(t *testing.T) {
	var down atomic.Bool
	var asked atomic.Int64
	ops := listen(t)
	ready := func() error {
		asked.Add(1)
		if down.Load() {
			return errors.New("kv: store unavailable at 10.1.2.3")
		}
		return nil
	}
	server, base, stop := run(t, Config{Ops: ops, IdleGrace: time.Minute, Engine: fake{ready: ready}})
	opsBase := "http://" + ops.Addr().String()
	get := getter(t)

	for range 50 {
		if s, _ := get(base + "/readyz"); s != 200 {
			t.Fatalf("readyz: %d", s)
		}
	}
	if n := asked.Load(); n > 5 {
		t.Errorf("the KV was asked %d times for 50 requests", n)
	}
	down.Store(true)
	time.Sleep(readyKept + 50*time.Millisecond)
	if s, b := get(base + "/readyz"); s != 503 || strings.Contains(b, "10.1.2.3") {
		t.Errorf("public readyz: %d %s", s, b)
	}
	if s, b := get(opsBase + "/readyz"); s != 503 || !strings.Contains(b, "10.1.2.3") {
		t.Errorf("ops readyz: %d %s", s, b)
	}
	for _, u := range []string{base, opsBase} {
		if s, _ := get(u + "/healthz"); s != 200 {
			t.Errorf("healthz with the KV down: %d", s)
		}
	}
	if _, b := get(base + "/metrics"); strings.Contains(b, "verge_") {
		t.Error("metrics on the public listener")
	}
	s, b := get(opsBase + "/metrics")
	if s != 200 || !strings.Contains(b, "verge_http_in_flight") || !strings.Contains(b, "go_goroutines") {
		t.Errorf("ops metrics: %d", s)
	}
	down.Store(false)
	time.Sleep(readyKept + 50*time.Millisecond)
	if s, b := get(base + "/readyz"); s != 200 {
		t.Errorf("readyz once the KV is back: %d %s", s, b)
	}
	go stop()
	wait.Until(t, "the server drains", server.draining.Load)
	for _, u := range []string{opsBase, base} { // on the kept connections; the end of base's ends the drain
		if s, b := get(u + "/readyz"); s != 503 || !strings.Contains(b, "draining") {
			t.Errorf("readyz while draining: %d %s", s, b)
		}
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func TestAdminListener(t *testing.T) {
	admin := listen(t)
	base, _ := start(t, Config{Engine: fake{}, AdminListener: admin,
		Admin: func(_ context.Context, r *web.Request) *web.Response { return ok("admin " + r.Path) }})
	operators := "http://" + admin.Addr().String()
	for u, want := range map[string]string{operators + "/healthz": "admin /healthz", base + "/x": "{}"} {
		resp, err := http.Get(u)
		if err != nil {
			t.Fatal(err)
		}
		if b, _ := io.ReadAll(resp.Body); string(b) != want {
			t.Errorf("%s: got %q", u, b)
		}
	}
}

// A body for a stream may be larger than the core's bodies, and may take AdminTimeout to arrive.
func TestAdminStreams(t *testing.T) {
	admin := listen(t)
	const size = 10 * web.MaxBody
	base, _ := start(t, Config{Engine: fake{handle: func(context.Context, *web.Request) *web.Response {
		return &web.Response{Status: 404, Header: web.Header{}}
	}},
		AdminListener: admin, ReadTimeout: 300 * time.Millisecond,
		Admin: func(context.Context, *web.Request) *web.Response { return ok(`{"admin":true}`) },
		AdminStreams: map[string]Stream{
			"/stream": func(ctx context.Context, req *web.Request, body io.Reader) *web.Response {
				_, limited := ctx.Deadline()
				if !limited || req.Body != nil || req.Header.Get("Authorization") != "Bearer k" {
					t.Errorf("the stream got %+v", req)
				}
				b, err := io.ReadAll(body)
				return ok(fmt.Sprintf(`{"bytes":%d,"error":"%v"}`, len(b), err))
			},
			"/panic": func(context.Context, *web.Request, io.Reader) *web.Response { panic("no") },
		}})
	for _, c := range []struct {
		url    string
		status int
		says   string
	}{
		{"http://" + admin.Addr().String() + "/stream", 200, fmt.Sprintf(`{"bytes":%d,"error":"<nil>"}`, size)},
		{"http://" + admin.Addr().String() + "/panic", 500, `"code":"INTERNAL"`},
	} {
		body, late := io.Pipe()
		go func() {
			late.Write(make([]byte, size/2))
			time.Sleep(600 * time.Millisecond)
			late.Write(make([]byte, size/2))
			late.Close()
		}()
		req, _ := http.NewRequest("POST", c.url, body)
		req.Header.Set("Authorization", "Bearer k")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		got, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != c.status || !strings.Contains(string(got), c.says) {
			t.Errorf("%s: %d %s", c.url, resp.StatusCode, got)
		}
	}
	public, err := http.Post(base+"/stream", "text/plain", strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	public.Body.Close()
	if public.StatusCode != 404 {
		t.Errorf("the public listener has the stream too: %d", public.StatusCode)
	}
	resp, err := http.Get("http://" + admin.Addr().String() + "/other")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got, _ := io.ReadAll(resp.Body); string(got) != `{"admin":true}` {
		t.Errorf("beside the streams: %s", got)
	}
}

// Contract 13: canary secrets in every place where a client can put one.
func TestLogsAndMetrics_NoSecrets(t *testing.T) {
	const canary = "CaNaRy7"
	var logs lockedBuffer
	ops := listen(t)
	metrics := NewMetrics()
	base, stop := start(t, Config{Ops: ops, Metrics: metrics,
		Log: slog.New(slog.NewJSONHandler(&logs, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Engine: fake{handle: func(_ context.Context, r *web.Request) *web.Response {
			metrics.Count("session_completed")
			if strings.Contains(r.Query, "panic") {
				panic(fmt.Errorf("cannot open %s", r.Query))
			}
			resp := ok(`{"result_token":"svc_rt_` + canary + `"}`)
			resp.Header.Set("Location", "https://publisher.example/?result_token=svc_rt_"+canary)
			return resp
		}}})
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	noFollow := &http.Client{CheckRedirect: stay}
	for _, c := range []struct{ method, path string }{
		{"POST", "/api/v1/verify/start?state=" + canary},
		{"POST", "/api/v1/verify/start?panic=" + canary},
		{"GET", "/api/v1/verify/sessions/svc_sk_" + canary},
		{"GET", "/api/v1/verify/sessions/svc_rt_" + canary},
		{"GET", "/api/v1/verify/sessions/svc_sess_svc_sk_" + canary},
		{"GET", "/api/v1/verify/sessions/svc_sess_abc%3Fstate=" + canary},
		{"GET", "/verify/" + strings.Repeat("x", 60) + canary},
		{"GET", "/" + canary + "@publisher.example"},
		{"GET", "/" + canary},
		{"GET", "/docs/" + canary},
		{"GET", "/api/v1/verify/sessions/" + canary},
		{"GET", "/a/b/c/d/e/f/g/h/i/j/k/l/m/" + canary},
		{canary, "/"},
		{"POST", "/" + strings.Repeat("x", web.MaxURL) + canary},
	} {
		req, err := http.NewRequest(c.method, base+c.path, strings.NewReader(`{"state":"`+canary+`"}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer svc_sk_"+canary)
		req.Header.Set("Cookie", canary)
		req.Header.Set("Referer", "https://x.example/?"+canary)
		req.Header.Set("User-Agent", canary)
		req.Header.Set("X-Forwarded-For", canary)
		req.Header.Set("X-Correlation-Id", "user-"+canary)
		resp, err := noFollow.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	raw(t, base, "GET / HTTP/1.1\r\nHost: "+canary+" "+canary+"\r\nX: \x00"+canary+"\r\n\r\n")
	resp, err := http.Get("http://" + ops.Addr().String() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	scraped, _ := io.ReadAll(resp.Body)
	stop()
	for name, text := range map[string]string{"log": logs.String(), "metrics": string(scraped)} {
		if i := strings.Index(strings.ToLower(text), strings.ToLower(canary)); i >= 0 {
			t.Errorf("contract 13: the %s hold a secret: …%s…", name,
				text[max(0, i-200):min(len(text), i+50)])
		}
	}
	for _, want := range []string{
		`verge_http_requests_total{route="sessions",status="200"} 5`,
		`verge_http_requests_total{route="start",status="500"} 1`,
		`verge_http_requests_total{route="verify",status="200"} 1`,
		`verge_http_requests_total{route="other",status="414"} 1`,
		`verge_events_total{event="session_completed"} 13`, "go_goroutines", "process_open_fds", "go_build_info",
	} {
		if !strings.Contains(string(scraped), want) {
			t.Errorf("metrics lack %s", want)
		}
	}
}

// Every label comes from the tables, regardless of the request.
func TestMetrics_LabelsOfTables(t *testing.T) {
	ops, admin := listen(t), listen(t)
	base, _ := start(t, Config{Engine: fake{}, Ops: ops, AdminListener: admin,
		Admin: func(context.Context, *web.Request) *web.Response { return ok("{}") }})
	operators := "http://" + admin.Addr().String()
	known := map[string]bool{routeNone: true}
	get := getter(t)
	for _, side := range []struct {
		base   string
		routes web.Table
	}{{base, core.Routes(core.Config{})}, {operators, core.AdminRoutes()}} {
		for _, r := range side.routes {
			known[r.Label] = true
			before, _, after := web.Placeholder(r.Pattern)
			john := before + "john" + after
			for _, path := range []string{before + after, john, john + "/smith", "/john"} {
				get(side.base + "/" + strings.TrimPrefix(path, "/"))
			}
		}
	}
	_, scraped := get("http://" + ops.Addr().String() + "/metrics")
	seen := map[string]bool{}
	labels := regexp.MustCompile(`(?m)^verge_http_\w+{.*route="([^"]*)".* (\d+)`)
	for _, m := range labels.FindAllStringSubmatch(scraped, -1) {
		if m[2] != "0" {
			seen[m[1]] = true
		}
		if !known[m[1]] {
			t.Errorf("the label is in no table: %q", m[1])
		}
	}
	for label := range known {
		if !seen[label] && label != routeNone {
			t.Errorf("no request was counted as %q", label)
		}
	}
}

// aSession has the form of a session id.
var aSession = "svc_sess_" + strings.Repeat("AbC-1_z9", 10)

func TestAccessLog(t *testing.T) {
	var logs lockedBuffer
	s := New(Config{Public: listen(t), Engine: fake{}, Routes: core.Routes(core.Config{}),
		Log: slog.New(slog.NewJSONHandler(&logs, nil))})
	r := httptest.NewRequest("GET", "/api/v1/verify/sessions/"+aSession, nil)
	r.RemoteAddr = "[2001:db8::1]:5"
	r.Header.Set("X-Correlation-Id", "5F0C6F0E-3c1c-4c6e-9a52-0d6a3a2f9b11")
	s.public.ServeHTTP(httptest.NewRecorder(), r)
	var line map[string]any
	if err := json.Unmarshal([]byte(logs.String()), &line); err != nil {
		t.Fatal(err)
	}
	for k, want := range map[string]any{
		"listener": "public", "method": "GET", "route": "sessions",
		"path":   "/api/v1/verify/sessions/" + aSession,
		"status": 200.0, "bytes": 2.0, "client": "2001:db8::1", "request_id": "req_engine",
		"correlation_id": "5F0C6F0E-3c1c-4c6e-9a52-0d6a3a2f9b11",
	} {
		if line[k] != want {
			t.Errorf("%s: got %v, want %v", k, line[k], want)
		}
	}
}

// Contract 13: the path and the correlation id are the caller's text.
func TestAccessLog_CallersText(t *testing.T) {
	s := New(Config{Engine: fake{}, Public: listen(t), Routes: core.Routes(core.Config{}),
		AdminRoutes: core.AdminRoutes(), AdminListener: listen(t),
		Admin:        func(context.Context, *web.Request) *web.Response { return nil },
		AdminStreams: map[string]Stream{"/admin/v1/module": nil}})
	own := bothservers.Path{Rule: "the host's own path", Listener: "admin", Path: "/admin/v1/module",
		Logged: "/admin/v1/module"}
	for _, c := range append(bothservers.Paths(t), own) {
		l := s.public
		if c.Listener == "admin" {
			l = s.admin
		}
		if got := l.logPath(l.routes.At("GET", c.Path).Pattern, c.Path); got != c.Logged {
			t.Errorf("%s: %q is logged as %q, want %q", c.Rule, c.Path, got, c.Logged)
		}
	}
	for _, c := range []struct {
		rule, id string
		shown    bool
	}{
		{"a UUID", "5f0c6f0e-3c1c-4c6e-9a52-0d6a3a2f9b11", true},
		{"a trace id", "4bf92f3577b34da6a3ce929d0e0e4736", true},
		{"a user's id", "user-4711", false},
		{"a key", "svc_sk_canary", false},
		{"nearly a UUID", "5f0c6f0e-3c1c-4c6e-9a52-0d6a3a2f9b1g", false},
		{"a UUID with a hyphen in another place", "5f0c6f0e-3c1c-4c6e-9a520-d6a3a2f9b11", false},
		{"nearly a trace id", "4bf92f3577b34da6a3ce929d0e0e473", false},
	} {
		want := c.id
		if !c.shown {
			want = fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(c.id)))[:23]
		}
		if got := logCorrelation(c.id); got != want {
			t.Errorf("%s: %q is logged as %q, want %q", c.rule, c.id, got, want)
		}
	}
}

// lockedBuffer is a log that several goroutines may write to.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestOpsServer_Idle: connections that send nothing end, so that they do not use up the files of the process.
func TestOpsServer_Idle(t *testing.T) {
	ops := New(Config{Public: listen(t), Engine: fake{}, Routes: core.Routes(core.Config{}),
		IdleTimeout: time.Second, ReadTimeout: 2 * time.Second}).opsServer()
	if ops.IdleTimeout != time.Second || ops.ReadTimeout != 2*time.Second {
		t.Errorf("idle %s, read %s", ops.IdleTimeout, ops.ReadTimeout)
	}
}
