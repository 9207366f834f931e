package server

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2/hpack"

	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/testharness/wait"
)

const postStart = "POST /api/v1/verify/start HTTP/1.1\r\nHost: x\r\n"

// halves are incomplete requests, by how much of them was sent.
var halves = map[string]string{
	"nothing":       "",
	"half a head":   postStart + "Content-",
	"a head":        postStart + "Content-Length: 100\r\n\r\n",
	"half a body":   postStart + "Content-Length: 100\r\n\r\n{\"integration_id\"",
	"half a chunk":  postStart + "Transfer-Encoding: chunked\r\n\r\n64\r\n{",
	"a 100 awaited": postStart + "Content-Length: 100\r\nExpect: 100-continue\r\n\r\n",
}

func dial(t *testing.T, base string) net.Conn {
	t.Helper()
	_, address, _ := strings.Cut(base, "://")
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// Contract, Load: a slow peer uses none of the places for requests.
func TestLoad_SlowPeers(t *testing.T) {
	for rule, half := range halves {
		t.Run(rule, func(t *testing.T) {
			base, _ := start(t, Config{Engine: fake{}, MaxConcurrent: 1,
				ReadHeaderTimeout: time.Minute, ReadTimeout: time.Minute,
				DrainTimeout: time.Millisecond, IdleGrace: time.Nanosecond})
			for range 20 {
				io.WriteString(dial(t, base), half)
			}
			for range 20 { // some of them after the halves were read
				resp, err := http.Post(base+"/api/v1/verify/start", "application/json",
					strings.NewReader("{}"))
				if err != nil {
					t.Fatal(err)
				}
				resp.Body.Close()
				if resp.StatusCode != 200 {
					t.Fatalf("contract, Load: %d with 20 peers that have sent %s", resp.StatusCode, rule)
				}
				time.Sleep(time.Millisecond)
			}
		})
	}
}

// activeConns returns the number of connections with an active request.
func (l *connLimiter) activeConns() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	idle := 0
	for _, p := range l.peers {
		idle += p.idle.Len()
	}
	return l.open - idle
}

// Contract, Load: at the limit of an address and at the total limit, an idle connection is evicted, and an
// active one is not.
func TestConnLimit_EvictsIdle(t *testing.T) {
	for rule, c := range map[string]Config{
		"of the address": {MaxConnsPerIP: 4},
		"of all":         {MaxConns: 4},
	} {
		t.Run(rule, func(t *testing.T) {
			var logs lockedBuffer
			entered, release := make(chan struct{}), make(chan struct{})
			c.Log = slog.New(slog.NewJSONHandler(&logs, nil))
			c.Metrics = NewMetrics()
			c.DrainTimeout, c.IdleGrace = time.Millisecond, time.Nanosecond // silent connections are left
			c.Engine = fake{handle: func(_ context.Context, r *web.Request) *web.Response {
				if r.Path == "/held" {
					entered <- struct{}{}
					wait.For(release)
				}
				return ok("{}")
			}}
			s, base, stop := run(t, c)
			begin := time.Now()
			held := dial(t, base)
			io.WriteString(held, "POST /held HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
			wait.For(entered)
			for range 100 {
				dial(t, base)
				conn := dial(t, base)
				io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
				if resp := read(t, conn); resp.StatusCode != 200 {
					t.Fatalf("a new one: %d", resp.StatusCode)
				}
				// The client can have a response before the server knows that it is written.
				for s.public.conns.activeConns() > 1 {
					time.Sleep(time.Millisecond)
				}
			}
			close(release)
			if resp := read(t, held); resp.StatusCode != 200 {
				t.Errorf("the active one: %d", resp.StatusCode)
			}
			stop()
			most := 1 + int(time.Since(begin)/samplePeriod)
			if n := strings.Count(logs.String(), "too many connections"); n < 1 || n > most {
				t.Errorf("contract, Load: %d lines in the log, want 1 to %d:\n%s", n, most, logs.String())
			}
			if strings.Contains(logs.String(), `"connection":"refused"`) {
				t.Errorf("a new one was rejected although others were idle:\n%s", logs.String())
			}
		})
	}
}

// If all connections are active, another one is rejected and not read.
func TestConnLimit_AllActive(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	hold := func(context.Context, *web.Request) *web.Response {
		entered <- struct{}{}
		wait.For(release)
		return ok("{}")
	}
	base, _ := start(t, Config{MaxConns: 2, Engine: fake{handle: hold}})
	var conns []net.Conn
	for range 2 {
		conn := dial(t, base)
		io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		wait.For(entered)
		conns = append(conns, conn)
	}
	resp := read(t, dial(t, base))
	wantRejection(t, resp, 503, "UNAVAILABLE")
	if resp.Header.Get("Retry-After") != "1" {
		t.Errorf("contract 5: %v", resp.Header)
	}
	close(release)
	for _, conn := range conns {
		if resp := read(t, conn); resp.StatusCode != 200 {
			t.Errorf("in hand: %d", resp.StatusCode)
		}
	}
}

// wantRejection checks a response of the server itself by contract 1, 4 and 5. It returns the body.
func wantRejection(t *testing.T, resp *http.Response, status int, code string) map[string]string {
	t.Helper()
	var b map[string]string
	if err := json.NewDecoder(resp.Body).Decode(&b); err != nil {
		t.Fatalf("contract 5: status %d, %v", resp.StatusCode, err)
	}
	id := resp.Header.Get("X-Request-Id")
	if resp.StatusCode != status || b["code"] != code || b["error_code"] != code ||
		b["error"] == "" || b["message"] != b["error"] {
		t.Errorf("contract 5: %d %v, want %d %s", resp.StatusCode, b, status, code)
	}
	if !strings.HasPrefix(id, "req_") || b["request_id"] != id {
		t.Errorf("contract 4: %v %v", resp.Header, b)
	}
	if resp.Header.Get("Content-Type") != "application/json; charset=utf-8" ||
		resp.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("contract 1: %v", resp.Header)
	}
	return b
}

// secure returns a configuration with a certificate for 127.0.0.1, and a client configuration that trusts
// it.
func secure(t *testing.T) (server, client *tls.Config) {
	s := httptest.NewTLSServer(nil)
	t.Cleanup(s.Close)
	client = s.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	client.ServerName = "127.0.0.1"
	return &tls.Config{Certificates: s.TLS.Certificates}, client
}

// A connection that negotiates a protocol of Config.TLS, as an authority's check of a host does, is closed
// after the handshake, and uses no place. HTTP remains the first choice.
func TestTLS_OtherProtocol(t *testing.T) {
	server, client := secure(t)
	server.NextProtos = []string{"acme-tls/1"}
	base, _ := start(t, Config{TLS: server, Engine: fake{}})
	for protocol, closes := range map[string]bool{"acme-tls/1": true, "http/1.1": false} {
		c := client.Clone()
		c.NextProtos = []string{protocol}
		conn, err := tls.Dial("tcp", strings.TrimPrefix(base, "http://"), c)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if got := conn.ConnectionState().NegotiatedProtocol; got != protocol {
			t.Errorf("the protocol is %q, want %q", got, protocol)
		}
		limit := 5 * time.Minute
		if !closes {
			limit = time.Second
		}
		conn.SetReadDeadline(time.Now().Add(limit))
		_, err = conn.Read(make([]byte, 1))
		if closed := errors.Is(err, io.EOF); closed != closes {
			t.Errorf("%s: closed by the server: %v (%v), want %v", protocol, closed, err, closes)
		}
	}
}

// Contract 4, 5: responses of net/http itself, before a request exists, are replaced by our text with an
// id. Each is the last response on its connection.
func TestNetHTTP_Responses(t *testing.T) {
	const rest = " HTTP/1.1\r\nHost: x\r\n\r\n"
	server, client := secure(t)
	for listener, c := range map[string]Config{"in the clear": {}, "over TLS": {TLS: server}} {
		c.Engine = fake{}
		base, _ := start(t, c)
		c.ReadHeaderTimeout = 5 * time.Second // limits the handshake and the good request, too
		impatient, _ := start(t, c)
		for _, tt := range []struct {
			rule, request string
			status        int
			code          string
		}{
			{"an invalid escape", "GET /%zz" + rest, 400, "INVALID_REQUEST"},
			{"no Host", "GET / HTTP/1.1\r\n\r\n", 400, "INVALID_REQUEST"},
			{"an invalid Host", "GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400, "INVALID_REQUEST"},
			{"two Hosts", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400, "INVALID_REQUEST"},
			{"an invalid name of a header", "GET / HTTP/1.1\r\nHost: x\r\nA b: c\r\n\r\n", 400,
				"INVALID_REQUEST"},
			{"an invalid value of a header", "GET / HTTP/1.1\r\nHost: x\r\nA: \x00\r\n\r\n", 400,
				"INVALID_REQUEST"},
			{"no HTTP", "hello\r\n\r\n", 400, "INVALID_REQUEST"},
			{"an invalid Content-Length",
				"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: a\r\n\r\n", 400, "INVALID_REQUEST"},
			{"a header over the limit",
				"GET / HTTP/1.1\r\nHost: x\r\nA: " + strings.Repeat("a", 60<<10) + "\r\n\r\n", 431,
				"INVALID_REQUEST"},
			{"a URL over the header's limit", "GET /" + strings.Repeat("a", 60<<10) + rest, 414,
				"URI_TOO_LONG"},
			{"an expectation", "GET / HTTP/1.1\r\nHost: x\r\nExpect: gold\r\n\r\n", 417, "INVALID_REQUEST"},
			{"a transfer coding",
				"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n", 501, "INVALID_REQUEST"},
			{"a version", "GET / HTTP/3.0\r\nHost: x\r\n\r\n", 505, "INVALID_REQUEST"},
			{"a head that does not arrive in time", "GET / HTTP/1.1\r\nHost:", 408, "REQUEST_TIMEOUT"},
		} {
			t.Run(listener+"/"+tt.rule, func(t *testing.T) {
				t.Parallel()
				base := base
				if tt.status == 408 {
					base = impatient
				}
				conn := dial(t, base)
				if c.TLS != nil {
					conn = tls.Client(conn, client)
				}
				// A request before it gets its usual response.
				io.WriteString(conn, "GET /"+rest)
				in := bufio.NewReader(conn)
				first, err := http.ReadResponse(in, nil)
				if err != nil || first.StatusCode != 200 || first.Header.Get("X-Request-Id") != "req_engine" {
					t.Fatalf("a good request: %v, %v", first, err)
				}
				if _, err := io.ReadAll(first.Body); err != nil {
					t.Fatal(err)
				}
				io.WriteString(conn, tt.request)
				resp, err := http.ReadResponse(in, nil)
				if err != nil {
					t.Fatal(err)
				}
				wantRejection(t, resp, tt.status, tt.code)
				if !resp.Close {
					t.Error("the connection stays")
				}
			})
		}
	}
	t.Run("plain HTTP on a TLS listener", func(t *testing.T) {
		base, _ := start(t, Config{TLS: server, Engine: fake{}})
		wantRejection(t, raw(t, base, "GET /"+rest), 400, "INVALID_REQUEST")
	})
	t.Run("a connection on which no bytes come is closed without a response", func(t *testing.T) {
		base, _ := start(t, Config{ReadHeaderTimeout: 50 * time.Millisecond, Engine: fake{}})
		if said, err := io.ReadAll(dial(t, base)); err != nil || len(said) > 0 {
			t.Errorf("%q, %v", said, err)
		}
	})
}

// Contract 22: a user gets a page for a request that net/http rejects, if the head shows that a browser
// asks for a page.
func TestNetHTTP_RejectionPages(t *testing.T) {
	const browser = "Host: x\r\nAccept: text/html,*/*;q=0.8\r\nAccept-Language: it\r\n"
	large := "Cookie: " + strings.Repeat("a", 60<<10) + "\r\n\r\n"
	server, client := secure(t)
	for listener, c := range map[string]Config{"in the clear": {}, "over TLS": {TLS: server}} {
		c.Engine = fake{}
		c.Page = func(status int, req *web.Request) *web.Response {
			return &web.Response{Status: status,
				Header: web.Header{"Content-Type": {"text/html; charset=utf-8"}},
				Body:   []byte(req.Path + " " + req.Header.Get("Accept-Language"))}
		}
		base, _ := start(t, c)
		for _, tt := range []struct {
			rule, request string
			status        int
			page          string // "": JSON
		}{
			{"a link with half an escape", "GET /verify%?flow=x HTTP/1.1\r\n" + browser + "\r\n", 400,
				"/verify% it"},
			{"a header over the limit", "GET /verify HTTP/1.1\r\n" + browser + large, 431, "/verify it"},
			{"names of headers in lower case", "GET /% HTTP/1.1\r\nhost: x\r\naccept: text/html\r\n\r\n", 400,
				"/% "},
			{"a path of the API", "GET /api/% HTTP/1.1\r\n" + browser + "\r\n", 400, ""},
			{"a program", "GET /% HTTP/1.1\r\nHost: x\r\nAccept: */*\r\n\r\n", 400, ""},
			{"Accept comes too late", "GET / HTTP/1.1\r\n" + large[:3000] + "\r\n" + browser + large, 431,
				""},
			{"a link over the head's limit", "GET /verify?flow=" + strings.Repeat("a", 60<<10) +
				" HTTP/1.1\r\n" + browser + "\r\n", 414, ""},
		} {
			t.Run(listener+"/"+tt.rule, func(t *testing.T) {
				conn := dial(t, base)
				if c.TLS != nil {
					conn = tls.Client(conn, client)
				}
				in := bufio.NewReader(conn)
				// The head of the previous request must not count.
				io.WriteString(conn, "GET /before HTTP/1.1\r\n"+browser+"\r\n")
				before, err := http.ReadResponse(in, nil)
				if err != nil {
					t.Fatal(err)
				}
				io.Copy(io.Discard, before.Body)
				io.WriteString(conn, tt.request)
				resp, err := http.ReadResponse(in, nil)
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(resp.Body)
				page := strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html")
				if err != nil || resp.StatusCode != tt.status || resp.Header.Get("X-Request-Id") == "" ||
					resp.Header.Get("Cache-Control") != "no-store" ||
					page != (tt.page != "") || page && string(body) != tt.page {
					t.Errorf("%d %v %s (%v), want %d and the page %q", resp.StatusCode, resp.Header, body,
						err, tt.status, tt.page)
				}
			})
		}
	}
}

// An engine's response arrives unchanged, even if it looks like net/http's own: after any number of
// requests, in any size, after 100 Continue.
func TestNetHTTP_EngineResponsesUnchanged(t *testing.T) {
	const lookalike = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n" +
		"Connection: close\r\n\r\n400 Bad Request"
	base, _ := start(t, Config{Engine: fake{handle: func(_ context.Context, r *web.Request) *web.Response {
		return ok(strings.Repeat(lookalike, len(r.Body)))
	}}})
	conn := dial(t, base)
	in := bufio.NewReader(conn)
	for _, n := range []int{1, 100, 0, 1000} {
		for _, expect := range []string{"", "Expect: 100-continue\r\n"} {
			fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\n%sContent-Length: %d\r\n\r\n%s",
				expect, n, strings.Repeat("x", n))
			resp, err := http.ReadResponse(in, nil)
			if err == nil && resp.StatusCode == http.StatusContinue {
				resp, err = http.ReadResponse(in, nil)
			}
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			if err != nil || resp.StatusCode != 200 || string(body) != strings.Repeat(lookalike, n) {
				t.Errorf("%d times: %d, %d bytes, %v", n, resp.StatusCode, len(body), err)
			}
		}
	}
}

// Contract, Load, over HTTP/2: bodies that do not arrive count as connections, so that one connection has
// no more of them than its address may. The test also checks HTTP/2 itself, and the statuses 408 and 414.
func TestHTTP2(t *testing.T) {
	server, client := secure(t)
	open := func(readTimeout time.Duration) (base string) {
		base, _ = start(t, Config{TLS: server, ReadTimeout: readTimeout, MaxConcurrent: 1, MaxConnsPerIP: 8,
			DrainTimeout: time.Millisecond, IdleGrace: time.Nanosecond, Engine: fake{}})
		return strings.Replace(base, "http:", "https:", 1)
	}
	base, patient := open(500*time.Millisecond), open(time.Minute)
	transport := func() *http.Client {
		c := client.Clone()
		c.NextProtos = []string{"h2"}
		tr := &http.Transport{TLSClientConfig: c, ForceAttemptHTTP2: true}
		t.Cleanup(tr.CloseIdleConnections)
		return &http.Client{Transport: tr}
	}
	half := func(ctx context.Context, c *http.Client, base string) (status int, err error) {
		body, w := io.Pipe()
		defer w.Close()
		go io.WriteString(w, "{")
		req, err := http.NewRequestWithContext(ctx, "POST", base+"/", body)
		if err != nil {
			return 0, err
		}
		resp, err := c.Do(req)
		if err != nil {
			return 0, err
		}
		defer resp.Body.Close()
		if resp.ProtoMajor != 2 {
			t.Errorf("spoken: %s", resp.Proto)
		}
		code := map[int]string{408: "REQUEST_TIMEOUT", 503: "UNAVAILABLE"}[resp.StatusCode]
		wantRejection(t, resp, resp.StatusCode, code)
		return resp.StatusCode, nil
	}

	slow, other := transport(), transport()
	for _, c := range []*http.Client{slow, other} {
		for _, base := range []string{base, patient} { // one connection each
			resp, err := c.Get(base)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
		}
	}
	var wg sync.WaitGroup
	ctx, leave := context.WithCancel(t.Context())
	for range 6 {
		wg.Go(func() { half(ctx, slow, patient) })
		wg.Go(func() {
			if status, err := half(t.Context(), slow, base); err != nil || status != 408 {
				t.Errorf("a body that does not arrive: %d, %v", status, err)
			}
		})
	}
	for range 20 {
		resp, err := other.Post(patient+"/", "application/json", strings.NewReader("{}"))
		if err != nil || resp.StatusCode != 200 || resp.ProtoMajor != 2 {
			t.Fatalf("beside it: %v, %v", resp, err)
		}
		resp.Body.Close()
	}
	leave()
	wg.Wait()
	resp, err := other.Get(base + "/" + strings.Repeat("a", web.MaxURL))
	if err != nil {
		t.Fatal(err)
	}
	wantRejection(t, resp, 414, "URI_TOO_LONG")

	// More bodies than the address may have connections: the connection with them is closed.
	cut := 0
	var mu sync.Mutex
	for range 20 {
		wg.Go(func() {
			if _, err := half(t.Context(), slow, base); err != nil {
				mu.Lock()
				defer mu.Unlock()
				cut++
			}
		})
	}
	wg.Wait()
	if cut == 0 {
		t.Error("contract, Load: one connection had 20 bodies, and the limit is 8 connections")
	}
}

// Contract 22: the page that a user gets if the server rejects a request.
func TestPage(t *testing.T) {
	const browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
	entered, release := make(chan struct{}), make(chan struct{})
	c := Config{MaxConcurrent: 1, ReadTimeout: 100 * time.Millisecond,
		Engine: fake{handle: func(_ context.Context, r *web.Request) *web.Response {
			switch r.Path {
			case "/hold":
				entered <- struct{}{}
				wait.For(release)
			case "/panic", "/api/panic", "/no-page", "/page-panics":
				panic("no")
			case "/gone":
				return &web.Response{Status: 503}
			}
			return ok("{}")
		}},
		Page: func(status int, r *web.Request) *web.Response {
			switch r.Path {
			case "/no-page":
				return nil
			case "/page-panics":
				panic("no")
			}
			return &web.Response{Status: 200,
				Body: fmt.Appendf(nil, "<p>%d %s", status, r.Header.Get("Accept-Language")),
				Header: web.Header{"Content-Type": {"text/html; charset=utf-8"},
					"Content-Security-Policy": {"default-src 'none'"}}}
		}}
	admin := listen(t)
	c.AdminListener, c.Admin = admin, c.Engine.Handle
	base, _ := start(t, c)
	ask := func(t *testing.T, base, request, accept string) *http.Response {
		header := "Host: x\r\nX-Correlation-Id: c-1\r\nAccept-Language: de\r\nAccept: " + accept + "\r\n"
		return raw(t, base, strings.Replace(request, "\r\n", " HTTP/1.1\r\n"+header, 1))
	}
	long := "GET /verify?flow=" + strings.Repeat("a", 9000) + "\r\n\r\n"
	for _, tt := range []struct {
		rule, request, accept string
		status                int
		page                  bool
	}{
		{"a link that is too long", long, browser, 414, true},
		{"a program's", long, "*/*", 414, false},
		{"JSON is preferred", long, "text/html;q=0.5, application/json", 414, false},
		{"a form that does not arrive", "POST /verify\r\nContent-Length: 9\r\n\r\na", browser, 408, true},
		{"our fault", "GET /panic\r\n\r\n", browser, 500, true},
		{"not just now", "GET /gone\r\n\r\n", browser, 503, true},
		{"never below /api", "GET /api/panic\r\n\r\n", browser, 500, false},
		{"never where programs post responses", "POST /verify/box/a\r\nContent-Length: 9\r\n\r\na", browser,
			408, false},
		{"no page for this", "GET /no-page\r\n\r\n", browser, 500, false},
		{"a page that fails", "GET /page-panics\r\n\r\n", browser, 500, false},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			wantPage(t, ask(t, base, tt.request, tt.accept), tt.status, tt.page)
		})
	}
	t.Run("operators get JSON", func(t *testing.T) {
		wantPage(t, ask(t, "http://"+admin.Addr().String(), "GET /panic\r\n\r\n", browser), 500, false)
	})
	t.Run("under load", func(t *testing.T) {
		held := dial(t, base)
		io.WriteString(held, "GET /hold HTTP/1.1\r\nHost: x\r\n\r\n")
		wait.For(entered)
		resp := ask(t, base, "GET /verify\r\n\r\n", browser)
		wantPage(t, resp, 503, true)
		if resp.Header.Get("Retry-After") != "1" {
			t.Errorf("contract 5: %v", resp.Header)
		}
		close(release)
		read(t, held)
	})
}

func wantPage(t *testing.T, resp *http.Response, status int, page bool) {
	t.Helper()
	body, _ := io.ReadAll(resp.Body)
	isPage := string(body) == fmt.Sprintf("<p>%d de", status) &&
		resp.Header.Get("Content-Security-Policy") != ""
	if resp.StatusCode != status || isPage != page || json.Valid(body) == page {
		t.Errorf("contract 22: %d %s", resp.StatusCode, body)
	}
	if !strings.HasPrefix(resp.Header.Get("X-Request-Id"), "req_") ||
		resp.Header.Get("X-Correlation-Id") != "c-1" || resp.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("contract 4: %v", resp.Header)
	}
}

// Many rejections of one kind are logged once per period, not one by one.
func TestLogSampling_Rejections(t *testing.T) {
	var logs lockedBuffer
	begin := time.Now()
	server, _ := secure(t)
	base, stop := start(t, Config{ReadTimeout: 50 * time.Millisecond,
		ReadHeaderTimeout: 50 * time.Millisecond,
		Log:               slog.New(slog.NewJSONHandler(&logs, nil)), Engine: fake{}})
	secured, stopSecured := start(t, Config{TLS: server, ReadHeaderTimeout: 50 * time.Millisecond,
		Log: slog.New(slog.NewJSONHandler(&logs, nil)), Engine: fake{}})
	var conns []net.Conn
	for range 20 {
		for _, half := range halves {
			conn := dial(t, base)
			io.WriteString(conn, half)
			conns = append(conns, conn)
		}
		conn := dial(t, secured)
		io.WriteString(conn, "hello, this is not TLS")
		conns = append(conns, conn)
	}
	for _, conn := range conns {
		io.ReadAll(conn) // until it is closed
	}
	stop()
	stopSecured()
	// One line per period for heads, one for bodies and one for handshakes. In addition, each server logs
	// two about its draining.
	most := 4 + 3*(1+int(time.Since(begin)/samplePeriod))
	if n := strings.Count(logs.String(), "\n"); n > most {
		t.Errorf("%d lines for %d refusals, want at most %d:\n%s", n, len(conns), most, logs.String())
	}
	for _, want := range []string{`"status":408`, "TLS handshake failed"} {
		if !strings.Contains(logs.String(), want) {
			t.Errorf("the log lacks %s:\n%s", want, logs.String())
		}
	}
}

func TestLogSampling(t *testing.T) {
	s := lineSampler{period: time.Second}
	at := time.Unix(0, 0)
	for i, want := range []struct {
		after   time.Duration
		ok      bool
		skipped int
	}{
		{0, true, 0}, {1, false, 0}, {999 * time.Millisecond, false, 0}, {time.Second, true, 2},
		{3 * time.Second, true, 0},
	} {
		if skipped, ok := s.allow(at.Add(want.after)); ok != want.ok || skipped != want.skipped {
			t.Errorf("take %d: %d, %v", i, skipped, ok)
		}
	}
}

// The limit per address does not apply to a trusted proxy, which forwards many clients.
func TestConnLimit_TrustedProxies(t *testing.T) {
	base, _ := start(t, Config{Engine: fake{}, MaxConnsPerIP: 2,
		TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	var conns []net.Conn
	for range 20 {
		conns = append(conns, dial(t, base))
	}
	for _, conn := range conns {
		io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		if resp := read(t, conn); resp.StatusCode != 200 {
			t.Errorf("got %d", resp.StatusCode)
		}
	}
}

// For HTTP/2, net/http does not allow us to replace its responses. The package's documentation lists them.
// The test writes frames itself, because Go's client knows the limits, and repeats a request whose stream
// was reset.
func TestNetHTTP_ResponsesOverHTTP2(t *testing.T) {
	server, client := secure(t)
	base, _ := start(t, Config{TLS: server, Engine: fake{}})
	large := strings.Repeat("a", 1<<10)
	for _, c := range []struct {
		rule, path string
		headers    int
		want       string // the frame of the response, and its status or code
	}{
		{"a good request", "/", 0, "HEADERS 200"},
		{"an invalid escape", "/%zz", 0, "RST_STREAM PROTOCOL_ERROR"},
		{"no path", "", 0, "RST_STREAM PROTOCOL_ERROR"},
		{"a header over the limit", "/", 60, "HEADERS 431"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			conn := dialHTTP2(t, base, client)
			fields := pseudo("GET", c.path)
			for range c.headers { // all but the first are references, of few bytes
				fields = append(fields, hpack.HeaderField{Name: "a", Value: large})
			}
			conn.headers(1, true, fields...)
			got, id := conn.answer()
			if got != c.want || (id != "") != (c.want == "HEADERS 200") {
				t.Errorf("got %s with id %q, want %s: see the package's documentation", got, id,
					c.want)
			}
		})
	}
}
