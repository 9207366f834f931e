package api

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/ratelimit"
	"github.com/verge-id/verge/core/reply"
	"github.com/verge-id/verge/core/web"
)

// counted notes what each step of the rate limits charges, and the reads of
// the directory.
type counted struct {
	ratelimit.Store
	kv.KV
	steps [][]string
	reads int
}

func (c *counted) Spend(ctx context.Context, now time.Time, charges []kv.Charge) ([]time.Time, error) {
	var names []string
	for _, ch := range charges {
		name, _, _ := strings.Cut(ch.Name, "/")
		names = append(names, name)
	}
	c.steps = append(c.steps, names)
	return c.Store.Spend(ctx, now, charges)
}

func (c *counted) Get(ctx context.Context, key kv.Key) (kv.Item, error) {
	c.reads++
	return c.KV.Get(ctx, key)
}

// forget empties the directory's cache, as in an instance that has just begun.
func (c *counted) forget(w *world) {
	h := w.Host.Host
	h.KV = c
	w.Directory = integration.NewDirectory(h)
}

// TestARequestCostsOneStepOfTheLimits: on a store that instances share, every
// step is a round trip.
func TestARequestCostsOneStepOfTheLimits(t *testing.T) {
	w := newWorld(t)
	many := ratelimit.PerMinute(1000)
	w.Limits = Limits{
		PublicPerIP:     many,
		PublicPerKey:    many,
		SecretPerIP:     many,
		ReconcilePerKey: many,
		PreflightsPerIP: many,
		PagesPerIP:      many,
	}
	c := &counted{Store: w.Limiter.Store, KV: w.Store}
	w.Limiter = &ratelimit.Limiter{Store: c}
	unknown := map[string]string{}
	for _, prefix := range []string{integration.SecretPrefix, integration.PublicPrefix} {
		text, err := integration.GenerateKey(prefix, w.Random)
		coretest.Must(t, err)
		unknown[prefix] = text
	}
	revoked := w.key(t, "pub_a", testUUID, nil)
	revokedID := integration.Present(integration.PublicPrefix, revoked).ID()
	_, err := w.Directory.RevokeKey(ctx, revokedID)
	coretest.Must(t, err)
	id, result := w.completed(t)
	text, err := id.Format(w.Sealer)
	coretest.Must(t, err)
	session := SessionsPath + text

	var (
		secret    = []string{"secret-ip"}
		reconcile = []string{"secret-ip", "reconcile-key"}
		public    = []string{"public-ip"}
		both      = []string{"public-ip", "public-key"}
		preflight = []string{"preflight-ip"}
		page      = []string{"page-ip"}
	)
	const own, other = "https://www.publisher.example", "https://evil.example"
	key := func(text string) string { return startBody(`"public_key":"` + text + `"`) }
	for _, x := range []struct {
		name         string
		handler      Handler
		path         string
		header       web.Header
		body         string
		want         reply.Code
		fresh, later []string // charged while the key was not seen yet, and afterwards
		told         []string // policies that the answer names
	}{
		{"start, secret key", Start, StartPath, bearer(w.sk), startBody(), "", secret, secret, secret},
		{"start, public key", Start, StartPath, nil, key(w.pk), "", both, both, both},
		{"start, public key, from a page", Start, StartPath, web.Header{"Origin": {own}}, key(w.pk), "",
			both, both, both},
		{"validate", Validate, ValidatePath, bearer(w.sk), `{"result_token":"` + result + `"}`, "",
			secret, secret, secret},
		{"reconcile", Reconcile, session, bearer(w.sk), "", "", reconcile, reconcile, reconcile},

		{"preflight", Preflight, StartPath, web.Header{"Origin": {own}, "Access-Control-Request-Method": {"POST"}},
			"", "", preflight, preflight, preflight},
		{"preflight, from another page", Preflight, StartPath,
			web.Header{"Origin": {other}, "Access-Control-Request-Method": {"POST"}}, "",
			reply.Forbidden, preflight, preflight, preflight},
		{"preflight that is none", Preflight, StartPath, nil, "", reply.MethodNotAllowed,
			preflight, preflight, preflight},
		{"a hosted page", Page(func() *web.Response { return &web.Response{Status: 200} }), HostedPath, nil, "", "",
			page, page, page},

		{"start, unknown secret key", Start, StartPath, bearer(unknown["svc_sk_"]), startBody(), reply.Unauthorized,
			secret, secret, secret},
		{"validate, unknown key", Validate, ValidatePath, bearer(unknown["svc_sk_"]), "{}", reply.Unauthorized,
			secret, secret, secret},
		{"validate, no key", Validate, ValidatePath, nil, "{}", reply.Unauthorized, secret, secret, secret},
		{"reconcile, unknown key", Reconcile, session, bearer(unknown["svc_sk_"]), "", reply.Unauthorized,
			reconcile, reconcile, secret},
		{"reconcile, mistyped key", Reconcile, session, bearer(w.sk + "x"), "", reply.Unauthorized,
			secret, secret, secret},
		{"reconcile, public key", Reconcile, session, bearer(w.pk), "", reply.Forbidden, secret, secret, secret},
		{"reconcile, from a page", Reconcile, session, with(bearer(w.sk), "Origin", own), "", reply.Forbidden,
			secret, secret, secret},
		{"start, nobody", Start, StartPath, nil, startBody(), reply.Unauthorized, public, public, public},
		{"start, unknown public key", Start, StartPath, nil, key(unknown["svc_pk_"]), reply.Unauthorized,
			both, both, public},
		{"start, mistyped public key", Start, StartPath, nil, key(w.pk + "x"), reply.Unauthorized,
			public, public, public},
		{"start, public key of another type", Start, StartPath, nil, startBody(`"public_key":7`),
			reply.InvalidRequest, public, public, public},
		{"start, no JSON", Start, StartPath, nil, "{", reply.InvalidRequest, public, public, public},
		{"start, revoked public key", Start, StartPath, nil, key(revoked), reply.Unauthorized,
			both, public, public},
		{"start, from another page", Start, StartPath, web.Header{"Origin": {other}}, key(w.pk), reply.Forbidden,
			both, public, public},
	} {
		t.Run(x.name, func(t *testing.T) {
			c.forget(w)
			for turn, charged := range [][]string{x.fresh, x.later} {
				c.steps = nil
				header := x.header
				if header == nil {
					header = web.Header{}
				}
				_, told, err := w.Serve(ctx, &web.Request{Method: "POST", Path: x.path, Header: header,
					Body: []byte(x.body), Client: netip.MustParseAddr("192.0.2.1")}, web.MaxBody, x.handler)
				var e *reply.Error
				errors.As(err, &e)
				if want := x.want; code(e) != want && !(turn == 1 && code(e) == reply.AlreadyUsed) {
					t.Errorf("turn %d: %v, want %q", turn+1, err, want)
				}
				if len(c.steps) != 1 || !slices.Equal(c.steps[0], charged) {
					t.Errorf("turn %d: %v is charged, want %v in one step", turn+1, c.steps, charged)
				}
				var policies []string
				for _, p := range strings.Split(told.Get("Ratelimit-Policy"), ", ") {
					name, _, _ := strings.Cut(strings.TrimPrefix(p, `"`), `"`)
					policies = append(policies, name)
				}
				if !slices.Equal(policies, x.told) || strings.Count(told.Get("Ratelimit"), ";r=") != len(x.told) {
					t.Errorf("contract 30: turn %d: RateLimit-Policy %q, RateLimit %q, want %v",
						turn+1, told.Get("Ratelimit-Policy"), told.Get("Ratelimit"), x.told)
				}
			}
		})
	}
}

func TestADenialChargesNothingAndReadsNothing(t *testing.T) {
	w := newWorld(t)
	c := &counted{Store: w.Limiter.Store, KV: w.Store}
	w.Limiter = &ratelimit.Limiter{Store: c}
	w.Limits.PublicPerIP, w.Limits.PublicPerKey = ratelimit.PerMinute(4), ratelimit.PerMinute(2)
	ask := func(key string) (*reply.Error, Lines) {
		_, header, err := w.Serve(ctx, &web.Request{Method: "POST", Path: StartPath, Header: web.Header{},
			Body: []byte(startBody(`"public_key":"` + key + `"`)), Client: netip.MustParseAddr("192.0.2.1")},
			web.MaxBody, Start)
		var e *reply.Error
		errors.As(err, &e)
		return e, header
	}
	c.forget(w)
	for range 2 {
		if e, _ := ask(w.pk); e != nil {
			t.Fatal(e)
		}
	}
	for range 3 {
		e, header := ask(w.pk)
		if code(e) != reply.RateLimited || e.RetryAfter != 30 ||
			header.Get("Ratelimit") != `"public-ip";r=2;t=30, "public-key";r=0;t=30` {
			t.Errorf("want the key refused at its limit and the address not charged: %v, %s",
				e, header.Get("Ratelimit"))
		}
	}
	other := w.key(t, "pub_a", testUUID, nil)
	c.forget(w)
	for range 2 {
		if e, _ := ask(other); e != nil {
			t.Fatal(e)
		}
	}
	c.forget(w)
	c.reads = 0
	for n := range 20 {
		unknown, err := integration.GenerateKey(integration.PublicPrefix, w.Random)
		coretest.Must(t, err)
		if e, _ := ask(unknown); code(e) != reply.RateLimited {
			t.Errorf("contract 30: guess %d at an address that is at its limit: %v", n+1, e)
		}
	}
	if c.reads != 0 {
		t.Errorf("guesses at an address that is at its limit read the store %d times", c.reads)
	}
}

// TestPreflightsAndPagesAreLimitedByAddress: they come without a key, and each costs the store up to three
// reads.
func TestPreflightsAndPagesAreLimitedByAddress(t *testing.T) {
	w := newWorld(t)
	c := &counted{Store: w.Limiter.Store, KV: w.Store}
	served := 0
	for name, h := range map[string]Handler{
		"preflights": Preflight,
		"pages":      Page(func() *web.Response { served++; return &web.Response{Status: 200} }),
	} {
		ask := func(from string) (*reply.Error, Lines) {
			_, lines, err := w.Serve(ctx, &web.Request{Method: "OPTIONS", Path: StartPath,
				Client: netip.MustParseAddr(from), Header: web.Header{
					"Origin":                        {"https://www.publisher.example"},
					"Access-Control-Request-Method": {"POST"},
				}}, web.MaxBody, h)
			var e *reply.Error
			errors.As(err, &e)
			return e, lines
		}
		for n := range 600 {
			if e, _ := ask("192.0.2.1"); e != nil {
				t.Fatalf("contract 30: %s: number %d: %v", name, n+1, e)
			}
		}
		c.forget(w)
		c.reads, served = 0, 0
		e, lines := ask("192.0.2.1")
		if code(e) != reply.RateLimited || e.RetryAfter < 1 ||
			!strings.HasSuffix(lines.Get("Ratelimit-Policy"), `-ip";q=600;w=60`) {
			t.Errorf("contract 30: %s: number 601: %v %v", name, e, lines)
		}
		if c.reads != 0 || served != 0 {
			t.Errorf("contract 30: %s: number 601 is served, or reads the store %d times", name, c.reads)
		}
		if e, _ := ask("192.0.2.2"); e != nil {
			t.Errorf("contract 30: %s: another address: %v", name, e)
		}
	}
}

// TestAKeyIsCountedThoughTheCacheDidNotExpectIt: what the directory read last said that the key would not be
// counted. That was out of date.
func TestAKeyIsCountedThoughTheCacheDidNotExpectIt(t *testing.T) {
	w := newWorld(t)
	c := &counted{Store: w.Limiter.Store, KV: w.Store}
	w.Limiter = &ratelimit.Limiter{Store: c}
	c.forget(w)
	const late = "https://late.publisher.example"
	ask := func() (reply.Code, Lines) {
		_, header, err := w.Serve(ctx, &web.Request{Method: "POST", Path: StartPath,
			Header: web.Header{"Origin": {late}}, Client: netip.MustParseAddr("192.0.2.1"),
			Body: []byte(startBody(`"public_key":"` + w.pk + `"`))}, web.MaxBody, Start)
		var e *reply.Error
		errors.As(err, &e)
		return code(e), header
	}
	if got, _ := ask(); got != reply.Forbidden {
		t.Fatalf("a page of another origin: %q", got)
	}
	// Another instance allows the origin. This one learns it when its cache has expired.
	elsewhere := integration.NewDirectory(w.Host.Host)
	i, err := elsewhere.Integration(ctx, testUUID)
	coretest.Must(t, err)
	changed := *i
	changed.BrowserOrigins = append(slices.Clone(i.BrowserOrigins), late)
	coretest.Must(t, elsewhere.PutIntegration(ctx, changed, ""))
	w.Clock.Advance(6 * time.Second)
	for turn, want := range []string{"[[public-ip] [public-key]]", "[[public-ip public-key]]"} {
		c.steps = nil
		got, header := ask()
		if got != "" || fmt.Sprint(c.steps) != want {
			t.Errorf("turn %d: %q, charged %v, want %s", turn+1, got, c.steps, want)
		}
		if p := header.Get("Ratelimit-Policy"); p != `"public-ip";q=60;w=60, "public-key";q=600;w=60` {
			t.Errorf("turn %d: RateLimit-Policy %s", turn+1, p)
		}
	}
}
