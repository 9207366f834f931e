package conformance_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/testharness"
)

// from is a request's header with the address that a trusted proxy reports.
func from(addr string, header http.Header) http.Header {
	if header == nil {
		header = http.Header{}
	}
	return also(header, "X-Forwarded-For", addr)
}

// spend sends n requests that must not be rejected, and then one that must be.
func spend(t testing.TB, n int, ask func(turn int) *testharness.Response) *testharness.Response {
	t.Helper()
	for turn := range n {
		if r := ask(turn); r.Status == 429 {
			t.Fatalf("request %d of %d was limited", turn+1, n)
		}
	}
	r := ask(n)
	wantError(t, r, 429, "RATE_LIMITED")
	if after, err := strconv.Atoi(r.Header.Get("Retry-After")); err != nil || after < 1 {
		t.Errorf("Retry-After %q", r.Header.Get("Retry-After"))
	}
	return r
}

func TestLimits(t *testing.T) {
	t.Run("spec: 60 public-key requests a minute from one IP", func(t *testing.T) {
		h := newHarness(t, nil)
		b := string(h.StartBody(body{"public_key": h.Publisher.L1.PublicKey}))
		r := spend(t, 60, func(int) *testharness.Response { return start(h, from("192.0.2.1", nil), b) })
		after, _ := strconv.Atoi(r.Header.Get("Retry-After"))
		wantStatus(t, start(h, from("192.0.2.2", nil), b), 200)
		h.Pause(time.Duration(after) * time.Second)
		wantStatus(t, start(h, from("192.0.2.1", nil), b), 200)
		h.Pause(time.Minute)
		spend(t, 60, func(int) *testharness.Response { return start(h, from("192.0.2.1", nil), b) })
	})
	t.Run("spec: 600 public-key requests a minute with one key", func(t *testing.T) {
		h := newHarness(t, nil)
		b := string(h.StartBody(body{"public_key": h.Publisher.L1.PublicKey}))
		addr := func(turn int) string { return fmt.Sprintf("198.51.100.%d", turn%20) }
		spend(t, 600, func(turn int) *testharness.Response { return start(h, from(addr(turn), nil), b) })
		other := string(h.StartBody(body{"public_key": h.Publisher.L2.PublicKey,
			"integration_id": h.Publisher.L2.ID}))
		wantStatus(t, start(h, from("203.0.113.1", nil), other), 200)
		wantError(t, start(h, from("203.0.113.1", nil), b), 429, "RATE_LIMITED")
	})
	t.Run("spec: 600 secret-key requests a minute from one IP, over all endpoints", func(t *testing.T) {
		h := newHarness(t, nil)
		b := string(h.StartBody(nil))
		id := h.Do("POST", web.StartPath, from("192.0.2.9", with(h)), []byte(b)).Text("session_id")
		at := from("192.0.2.1", with(h))
		spend(t, 600, func(turn int) *testharness.Response {
			switch turn % 12 {
			case 0:
				return h.Do("GET", web.SessionsPath+id, at, nil)
			case 1:
				return h.ValidateAs(at, "svc_rt_x")
			}
			return start(h, at, b)
		})
		wantError(t, h.ValidateAs(at, "svc_rt_x"), 429, "RATE_LIMITED")
		wantError(t, h.Do("GET", web.SessionsPath+id, at, nil), 429, "RATE_LIMITED")
		wantStatus(t, start(h, from("192.0.2.2", with(h)), b), 200)
		// A public key's requests are counted apart.
		wantStatus(t, start(h, from("192.0.2.1",
			nil), string(h.StartBody(body{"public_key": h.Publisher.L1.PublicKey}))), 200)
	})
	t.Run("contract 21: 120 reconciles a minute with one secret key", func(t *testing.T) {
		h := newHarness(t, nil)
		id := h.Start(nil).SessionID
		spend(t, 120, func(turn int) *testharness.Response {
			return h.Do("GET", web.SessionsPath+id, from(fmt.Sprintf("192.0.2.%d", turn%7), with(h)), nil)
		})
		wantStatus(t, h.TryStart(nil), 200)
		wantError(t, h.Do("GET", web.SessionsPath+id, testharness.Bearer(h.Other.SecretKey), nil), 404,
			"NOT_FOUND")
	})
	t.Run("contract 30: failures without credential count against the IP", func(t *testing.T) {
		h := newHarness(t, nil)
		spend(t, 60, func(int) *testharness.Response { return start(h, from("192.0.2.1", nil), "{}") })
		spend(t, 600, func(turn int) *testharness.Response {
			return h.ValidateAs(from("192.0.2.1", testharness.Bearer(fmt.Sprintf("svc_sk_%d", turn))), "x")
		})
	})
	t.Run("spec: a preflight is no public-key request and counts against none", func(t *testing.T) {
		h := newHarness(t, nil)
		for range 61 {
			wantStatus(t, h.Do("OPTIONS", web.StartPath, from("192.0.2.1",
				headers("Origin", h.Publisher.L1.BrowserOrigin, "Access-Control-Request-Method", "POST")),
				nil), 204)
		}
		spend(t, 60, func(int) *testharness.Response { return start(h, from("192.0.2.1", nil), "{}") })
	})
	t.Run("contract 5: Retry-After is enough", func(t *testing.T) {
		h := newHarness(t, nil)
		id := h.Start(nil).SessionID
		ask := func(int) *testharness.Response { return h.Reconcile(id) }
		r := spend(t, 120, ask)
		after, _ := strconv.Atoi(r.Header.Get("Retry-After"))
		h.Pause(time.Duration(after) * time.Second)
		wantStatus(t, ask(0), 200)
	})
}

func TestLimitHeaders(t *testing.T) {
	h := newHarness(t, nil)
	id := h.Start(nil).SessionID
	h.Advance(time.Minute)
	r := h.Reconcile(id)
	if p := r.Header.Get("RateLimit-Policy"); p != `"secret-ip";q=600;w=60, "reconcile-key";q=120;w=60` {
		t.Errorf("contract 30: RateLimit-Policy %s", p)
	}
	if v := r.Header.Get("RateLimit"); v != `"secret-ip";r=599;t=1, "reconcile-key";r=119;t=1` {
		t.Errorf("contract 30: RateLimit %s", v)
	}
	for name, r := range map[string]*testharness.Response{
		"start": h.TryStart(nil), "start, bad": h.TryStart(body{"state": 1}),
		"start, public": start(h, nil, string(h.StartBody(body{"public_key": h.Publisher.L1.PublicKey}))),
		"start, nobody": start(h, nil, "{}"), "validate": h.Validate("x"),
		"validate, nobody": h.ValidateAs(nil, "x"),
	} {
		if r.Header.Get("RateLimit") == "" || r.Header.Get("RateLimit-Policy") == "" {
			t.Errorf("contract 30: %s: no rate headers: %v", name, r.Header)
		}
	}
	clientSide := start(h, nil, string(h.StartBody(body{"public_key": h.Publisher.L1.PublicKey})))
	p := clientSide.Header.Get("RateLimit-Policy")
	if p != `"public-ip";q=60;w=60, "public-key";q=600;w=60` {
		t.Errorf("contract 30: RateLimit-Policy of a public key %s", p)
	}
}

func TestClientAddress(t *testing.T) {
	h := newHarness(t, nil)
	b := string(h.StartBody(body{"public_key": h.Publisher.L1.PublicKey}))
	at := func(addr string) *testharness.Response { return start(h, from(addr, nil), b) }
	full := func(addr string) {
		for range 60 {
			at(addr)
		}
	}
	full("2001:db8:1:2::1")
	full("192.0.2.1")
	for _, c := range []struct {
		name, forwarded string
		status          int
	}{
		{"contract 30: the same /64 is the same client", "2001:db8:1:2:ffff:ffff:ffff:ffff", 429},
		{"contract 30: the next /64 is another", "2001:db8:1:3::1", 200},
		{"contract 30: the right-most untrusted entry counts", "203.0.113.5, 192.0.2.1", 429},
		{"contract 30: entries of a client to the left have no effect", "8.8.8.8, 9.9.9.9, 192.0.2.1", 429},
		{"contract 30: trusted proxies are looked through", "192.0.2.1, 127.0.0.5", 429},
		{"contract 30: another address is another client", "192.0.2.2", 200},
		{"contract 30: IPv4 in IPv6 is the same client", "::ffff:192.0.2.1", 429},
		{"contract 30: with a port", "192.0.2.1:4711", 429},
	} {
		t.Run(c.name, func(t *testing.T) { wantStatus(t, at(c.forwarded), c.status) })
	}
	t.Run("contract 30: a bare minute later all are served again", func(t *testing.T) {
		h.Pause(time.Minute)
		wantStatus(t, at("192.0.2.1"), 200)
	})
	t.Run("contract 13: no address in an error", func(t *testing.T) {
		full("192.0.2.77")
		if r := at("192.0.2.77"); strings.Contains(string(r.Body), "192.0.2") {
			t.Errorf("the error has the address: %s", r.Body)
		}
	})
}
