package oidc_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/testharness/oidctest"
)

func TestDiscoveryDocuments(t *testing.T) {
	for _, c := range []struct {
		rule   string
		change func(d map[string]any)
		reason string // "": it is accepted
	}{
		{"another issuer", func(d map[string]any) { d["issuer"] = "https://attacker.example" },
			"discovery_issuer_differs"},
		{"the issuer with a slash", func(d map[string]any) { d["issuer"] = d["issuer"].(string) + "/" },
			"discovery_issuer_differs"},
		{"no issuer", func(d map[string]any) { delete(d, "issuer") }, "discovery_issuer_differs"},
		{"no token endpoint", func(d map[string]any) { delete(d, "token_endpoint") }, "discovery_member"},
		{"a token endpoint that is a number", func(d map[string]any) { d["token_endpoint"] = 1 },
			"discovery_member"},
		{"a token endpoint by http",
			func(d map[string]any) { d["token_endpoint"] = "http://id.example/token" }, "discovery_member"},
		{"a token endpoint with a user name",
			func(d map[string]any) { d["token_endpoint"] = "https://a@id.example/" },
			"discovery_member"},
		{"an authorization endpoint that is a script",
			func(d map[string]any) { d["authorization_endpoint"] = "javascript:alert(1)" },
			"discovery_member"},
		{"an authorization endpoint with a fragment",
			func(d map[string]any) { d["authorization_endpoint"] = "https://id.example/#a" },
			"discovery_member"},
		{"no key set", func(d map[string]any) { delete(d, "jwks_uri") }, "discovery_member"},
		{"no userinfo endpoint though the method needs it", func(d map[string]any) {
			delete(d, "userinfo_endpoint")
		},
			"discovery_member"},
		{"pushed requests required, and no address for them",
			func(d map[string]any) { d["require_pushed_authorization_requests"] = true }, "discovery_member"},
		{"an address for pushed requests by http",
			func(d map[string]any) { d["pushed_authorization_request_endpoint"] = "http://id.example/par" },
			"discovery_member"},
		{"no address for pushed requests but an empty text",
			func(d map[string]any) { d["pushed_authorization_request_endpoint"] = "" }, ""},
		{"pushed requests required, and an empty text", func(d map[string]any) {
			d["require_pushed_authorization_requests"], d["pushed_authorization_request_endpoint"] = true, ""
		}, "discovery_member"},
		{"a userinfo endpoint that is an empty text", func(d map[string]any) { d["userinfo_endpoint"] = "" },
			"discovery_member"},
		{"endpoints on another host",
			func(d map[string]any) { d["token_endpoint"] = "https://token.example/" }, ""},
		{"an authorization endpoint with a query",
			func(d map[string]any) { d["authorization_endpoint"] = "https://id.example/login?tenant=1" }, ""},
		{"announces with a text", func(d map[string]any) {
			d["authorization_response_iss_parameter_supported"] = "true"
		}, ""},
	} {
		t.Run(c.rule, func(t *testing.T) {
			w := newWalk(t, oidctest.Config{}, settings{"userinfo": true})
			document := w.provider.Discovery()
			c.change(document)
			w.provider.Fault(oidctest.DiscoveryPath, oidctest.Fault{Body: string(encode(t, document))})
			err := w.method.Begin(context.Background(), w.session)
			if c.reason == "" {
				if err != nil {
					t.Errorf("%s: %v", c.rule, err)
				}
				return
			}
			wantRejection(t, c.rule, method.Decision{}, err, c.reason)
			if d, err := w.leave(); err == nil {
				t.Errorf("it sends the browser to %s", d.Leave.URL)
			}
		})
	}

	w := newWalk(t, oidctest.Config{}, nil)
	document := w.provider.Discovery()
	document["authorization_endpoint"] = "https://id.example/login?tenant=1"
	document["userinfo_endpoint"] = "/userinfo" // which the method does not use
	w.provider.Fault(oidctest.DiscoveryPath, oidctest.Fault{Body: string(encode(t, document))})
	if d := w.mustLeave(); !strings.HasPrefix(d.Leave.URL, "https://id.example/login?tenant=1&") {
		t.Errorf("RFC 6749, 3.1: a query of the endpoint's own is lost: %s", d.Leave.URL)
	}
}

// TestKept: documents live for ten minutes.
func TestKept(t *testing.T) {
	w := newWalk(t, oidctest.Config{}, nil)
	count := func() (discovery, keys int) {
		discovery, keys = w.provider.Count(oidctest.DiscoveryPath), w.provider.Count(oidctest.KeysPath)
		w.provider.Requests()
		return discovery, keys
	}
	for _, c := range []struct {
		rule            string
		after           time.Duration
		discovery, keys int
	}{
		{"the first login", 0, 1, 1},
		{"the second login", 0, 0, 0},
		{"a login after almost ten minutes", 10*time.Minute - time.Second, 0, 0},
		{"a login after ten minutes", time.Second, 1, 1},
		{"a login after a clock that went back", -time.Hour, 1, 1},
	} {
		w.advance(c.after)
		d, err := w.login()
		wantVerdict(t, c.rule, d, err, method.Approved)
		if discovery, keys := count(); discovery != c.discovery || keys != c.keys {
			t.Errorf("%s: asks %d times for discovery and %d for keys, want %d and %d", c.rule, discovery,
				keys, c.discovery, c.keys)
		}
	}
}

// TestRotation has the rows of a key set that changes while people log in.
func TestRotation(t *testing.T) {
	w := newWalk(t, oidctest.Config{}, nil)
	d, err := w.login()
	wantVerdict(t, "before", d, err, method.Approved)
	w.provider.Requests()

	w.provider.Rotate()
	d, err = w.login()
	wantVerdict(t, "a rotation between login and exchange", d, err, method.Approved)
	if n := w.provider.Count(oidctest.KeysPath); n != 1 {
		t.Errorf("the key set is asked for %d times", n)
	}

	w.provider.Tamper(func(h, _ map[string]any) { h["kid"] = "unknown" })
	for range 3 {
		d, err = w.login()
		wantRejection(t, "a second unknown kid within 60 s", d, err, "jwt_no_key")
	}
	if n := w.provider.Count(oidctest.KeysPath); n != 1 {
		t.Errorf("contract 36: the key set is asked for %d times in a minute", n)
	}
	w.advance(time.Minute)
	d, err = w.login()
	wantRejection(t, "an unknown kid after a minute", d, err, "jwt_no_key")
	if n := w.provider.Count(oidctest.KeysPath); n != 2 {
		t.Errorf("contract 36: the key set is asked for %d times, want 2", n)
	}

	w.open()
	w.provider.Requests()
	d, err = w.login()
	wantRejection(t, "an unknown kid when the key set was just fetched", d, err, "jwt_no_key")
	if n := w.provider.Count(oidctest.KeysPath); n != 1 {
		t.Errorf("the key set is asked for %d times, want 1", n)
	}
}

// TestReplacedKey: contract 36: a provider that replaces a key and keeps its id, or has no ids, loses no
// login. The key set is fetched again once a minute at most.
func TestReplacedKey(t *testing.T) {
	for _, c := range []struct {
		rule   string
		noID   bool
		keysOf func(key map[string]any)
	}{
		{"under the same kid", false, func(key map[string]any) { key["kid"] = "same" }},
		{"without a kid", true, func(key map[string]any) { delete(key, "kid") }},
	} {
		t.Run(c.rule, func(t *testing.T) {
			w := newWalk(t, oidctest.Config{}, nil)
			w.provider.Tamper(func(h, _ map[string]any) {
				h["kid"] = "same"
				if c.noID {
					delete(h, "kid")
				}
			})
			serve := func() { // the newest key alone
				all := w.provider.KeySet()["keys"].([]any)
				key := all[len(all)-1].(map[string]any)
				c.keysOf(key)
				w.provider.Fault(oidctest.KeysPath,
					oidctest.Fault{Body: string(encode(t, map[string]any{"keys": []any{key}}))})
			}
			serve()
			d, err := w.login()
			wantVerdict(t, "before", d, err, method.Approved)
			w.provider.Requests()

			w.provider.Rotate()
			serve()
			d, err = w.login()
			wantVerdict(t, "after", d, err, method.Approved)
			if n := w.provider.Count(oidctest.KeysPath); n != 1 {
				t.Errorf("the key set is fetched %d times, want 1", n)
			}

			w.provider.Rotate() // the set still has the key before
			for range 3 {
				d, err = w.login()
				wantRejection(t, "within the minute", d, err, "jwt_signature")
			}
			if n := w.provider.Count(oidctest.KeysPath); n != 1 {
				t.Errorf("contract 36: the key set is fetched %d times in a minute, want 1", n)
			}
			w.advance(time.Minute)
			d, err = w.login()
			wantRejection(t, "a set without the key", d, err, "jwt_signature")
			if n := w.provider.Count(oidctest.KeysPath); n != 2 {
				t.Errorf("after a minute the key set was fetched %d times, want 2", n)
			}
			w.advance(time.Minute)
			serve()
			d, err = w.login()
			wantVerdict(t, "the set has the key", d, err, method.Approved)
		})
	}

	w := newWalk(t, oidctest.Config{}, nil)
	w.provider.Rewrite(func(token string) string { return token[:len(token)-2] })
	d, err := w.login()
	wantRejection(t, "a bad signature, and a set that was just fetched", d, err, "jwt_signature")
	if n := w.provider.Count(oidctest.KeysPath); n != 1 {
		t.Errorf("the key set is fetched %d times, want 1", n)
	}
	w.provider.Fault(oidctest.KeysPath, oidctest.Fault{Status: 500})
	d, err = w.login()
	wantRejection(t, "a bad signature, and a set that cannot be fetched", d, err, "status")
}

// TestNoStampede: many visitors of a provider that does not answer do not all ask it.
func TestNoStampede(t *testing.T) {
	w := newWalk(t, oidctest.Config{}, nil)
	w.provider.Fault(oidctest.DiscoveryPath, oidctest.Fault{Status: 500})
	visit := func() {
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				if err := w.method.Begin(context.Background(), w.session); err == nil {
					t.Error("it begins")
				}
			})
		}
		all.Wait()
	}
	visit()
	first := w.provider.Count(oidctest.DiscoveryPath)
	if first > 64 {
		t.Errorf("100 visitors ask %d times, want at most 64", first)
	}
	w.advance(5 * time.Second)
	visit()
	if n := w.provider.Count(oidctest.DiscoveryPath) - first; n != 4 {
		t.Errorf("contract 36: after a failure, 100 visitors ask %d times, want 4", n)
	}

	w.advance(5 * time.Second)
	w.provider.Heal()
	if err := w.method.Begin(context.Background(), w.session); err != nil {
		t.Fatalf("the provider is back: %v", err)
	}
	w.provider.Requests()
	w.provider.Fault(oidctest.DiscoveryPath, oidctest.Fault{Status: 500})
	w.advance(10 * time.Minute)
	if err := w.method.Begin(context.Background(), w.session); err == nil {
		t.Error("a new request starts with the old document")
	}
	if err := w.method.Begin(context.Background(), w.session); err != nil {
		t.Errorf("another visitor in these seconds does not continue with the old document: %v", err)
	}
	if n := w.provider.Count(oidctest.DiscoveryPath); n != 1 {
		t.Errorf("%d visitors ask for the document that has just expired", n)
	}
	w.advance(6 * time.Second)
	if err := w.method.Begin(context.Background(), w.session); err == nil {
		t.Error("a document serves longer than ten minutes and five seconds")
	}
}
