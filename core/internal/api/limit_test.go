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
	"github.com/verge-id/verge/core/internal/router"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/ratelimit"
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
func (c *counted) forget(w *fixture) {
	h := w.Host.Host
	h.KV = c
	w.Directory = integration.NewDirectory(h)
}

// metering is a fixture whose limits count their steps and reject no request.
type metering struct {
	*fixture
	counted *counted
}

func newMetering(t *testing.T) *metering {
	t.Helper()
	w := newFixture(t)
	many := ratelimit.PerMinute(1000)
	w.Limits = web.Limits{
		PublicPerIP:        many,
		PublicPerNetwork:   many,
		PublicPerKey:       many,
		StartsPerPublisher: many,
		SecretPerIP:        many,
		ReconcilePerKey:    many,
		PreflightsPerIP:    many,
		PagesPerIP:         many,
	}
	c := &counted{Store: w.Limiter.Store, KV: w.Store}
	w.Limiter = &ratelimit.Limiter{Store: c}
	return &metering{w, c}
}

// session is the path of a session that is completed, and its result token.
func (w *metering) session(t *testing.T) (path, result string) {
	t.Helper()
	id, result := w.completed(t)
	text, err := id.Format(w.API.Sealer)
	coretest.Must(t, err)
	return web.SessionsPath + text, result
}

// The limits that requests are charged, by the names of their policies.
var (
	onSecret    = []string{"secret-ip"}
	onStart     = []string{"secret-ip", "starts"}
	onPageStart = []string{"public-ip", "public-key", "starts"}
	onReconcile = []string{"secret-ip", "reconcile-key"}
	onPublic    = []string{"public-ip"}
	onBoth      = []string{"public-ip", "public-key"}
	onPreflight = []string{"preflight-ip"}
	onPage      = []string{"page-ip"}
)

// charged is a request with the counters that it must charge in one step. On a shared store, every step is a
// round trip.
type charged struct {
	name         string
	handler      endpoint
	path         string
	header       web.Header
	body         string
	want         web.Code
	fresh, later []string // charged while the key was not seen yet, and afterwards
	told         []string // policies in the response
}

const (
	ownPage   = "https://www.publisher.example"
	otherPage = "https://evil.example"
)

func startWith(publicKey string) string { return startBody(`"public_key":"` + publicKey + `"`) }

func TestLimits_OneStepPerRequest(t *testing.T) {
	w := newMetering(t)
	session, result := w.session(t)
	asks := web.Header{"Origin": {ownPage}, "Access-Control-Request-Method": {"POST"}}
	asksElsewhere := web.Header{"Origin": {otherPage}, "Access-Control-Request-Method": {"POST"}}
	page := func(a *API, ctx context.Context, c *router.Call) (*web.Response, error) {
		return router.LimitPages(a.Limits, func(context.Context, *router.Call) (*web.Response, error) {
			return web.JSON(200, nil), nil
		})(ctx, c)
	}
	for _, x := range []charged{
		{"a start with a secret key", (*API).Start, web.StartPath, bearer(w.sk), startBody(), "",
			onStart, onStart, onSecret},
		{"a start with a public key", (*API).Start, web.StartPath, nil, startWith(w.pk), "",
			onPageStart, onPageStart, onBoth},
		{"a start with a public key from a page", (*API).Start, web.StartPath,
			web.Header{"Origin": {ownPage}}, startWith(w.pk), "", onPageStart, onPageStart, onBoth},
		{"a validation", (*API).Validate, web.ValidatePath, bearer(w.sk), `{"result_token":"` + result + `"}`, "",
			onSecret, onSecret, onSecret},
		{"a reconciliation", (*API).Reconcile, session, bearer(w.sk), "", "",
			onReconcile, onReconcile, onReconcile},
		{"a preflight", (*API).Preflight, web.StartPath, asks, "", "",
			onPreflight, onPreflight, onPreflight},
		{"a preflight from another page", (*API).Preflight, web.StartPath, asksElsewhere, "", web.Forbidden,
			onPreflight, onPreflight, onPreflight},
		{"a preflight that is none", (*API).Preflight, web.StartPath, nil, "", web.MethodNotAllowed,
			onPreflight, onPreflight, onPreflight},
		{"a hosted page", page, web.HostedPath, nil, "", "", onPage, onPage, onPage},
	} {
		t.Run(x.name, func(t *testing.T) { w.costs(t, x) })
	}
}

func TestLimits_OneStepPerRejectedRequest(t *testing.T) {
	w := newMetering(t)
	unknownSK, unknownPK := w.newKey(t, integration.SecretPrefix), w.newKey(t, integration.PublicPrefix)
	revoked := w.key(t, "pub_a", testUUID, nil)
	_, err := w.Directory.RevokeKey(ctx, integration.Present(integration.PublicPrefix, revoked).ID())
	coretest.Must(t, err)
	session, _ := w.session(t)
	for _, x := range []charged{
		{"a start with an unknown secret key", (*API).Start, web.StartPath, bearer(unknownSK), startBody(),
			web.Unauthorized, onSecret, onSecret, onSecret},
		{"a validation with an unknown key", (*API).Validate, web.ValidatePath, bearer(unknownSK), "{}",
			web.Unauthorized, onSecret, onSecret, onSecret},
		{"a validation without a key", (*API).Validate, web.ValidatePath, nil, "{}", web.Unauthorized,
			onSecret, onSecret, onSecret},
		{"a reconciliation with an unknown key", (*API).Reconcile, session, bearer(unknownSK), "",
			web.Unauthorized, onReconcile, onReconcile, onSecret},
		{"a reconciliation with a mistyped key", (*API).Reconcile, session, bearer(w.sk + "x"), "",
			web.Unauthorized, onSecret, onSecret, onSecret},
		{"a reconciliation with a public key", (*API).Reconcile, session, bearer(w.pk), "", web.Forbidden,
			onSecret, onSecret, onSecret},
		{"a reconciliation from a page", (*API).Reconcile, session, with(bearer(w.sk), "Origin", ownPage), "",
			web.Forbidden, onSecret, onSecret, onSecret},
		{"a start without a key", (*API).Start, web.StartPath, nil, startBody(), web.Unauthorized,
			onPublic, onPublic, onPublic},
		{"a start with an unknown public key", (*API).Start, web.StartPath, nil, startWith(unknownPK),
			web.Unauthorized, onBoth, onBoth, onPublic},
		{"a start with a mistyped public key", (*API).Start, web.StartPath, nil, startWith(w.pk + "x"),
			web.Unauthorized, onPublic, onPublic, onPublic},
		{"a start with a public key that is no text", (*API).Start, web.StartPath, nil, startBody(`"public_key":7`),
			web.InvalidRequest, onPublic, onPublic, onPublic},
		{"a start whose body is no JSON", (*API).Start, web.StartPath, nil, "{", web.InvalidRequest,
			onPublic, onPublic, onPublic},
		{"a start with a revoked public key", (*API).Start, web.StartPath, nil, startWith(revoked),
			web.Unauthorized, onBoth, onPublic, onPublic},
		{"a start from another page", (*API).Start, web.StartPath, web.Header{"Origin": {otherPage}},
			startWith(w.pk), web.Forbidden, onBoth, onPublic, onPublic},
	} {
		t.Run(x.name, func(t *testing.T) { w.costs(t, x) })
	}
}

// costs sends the request twice.
func (w *metering) costs(t *testing.T, x charged) {
	w.counted.forget(w.fixture)
	for turn, charged := range [][]string{x.fresh, x.later} {
		w.counted.steps = nil
		header := x.header
		if header == nil {
			header = web.Header{}
		}
		_, told, err := w.serve(&web.Request{Method: "POST", Path: x.path, Header: header,
			Body: []byte(x.body), Client: netip.MustParseAddr("192.0.2.1")}, x.handler)
		var e *web.Error
		errors.As(err, &e)
		if want := x.want; code(e) != want && !(turn == 1 && code(e) == web.AlreadyUsed) {
			t.Errorf("turn %d: %v, want %q", turn+1, err, want)
		}
		// The publisher of a key that this instance has not read yet is charged in a separate step.
		steps := 1
		if turn == 0 && slices.Contains(charged, "starts") {
			steps = 2
		}
		if len(w.counted.steps) != steps || !slices.Equal(slices.Concat(w.counted.steps...), charged) {
			t.Errorf("turn %d: %v is charged, want %v in %d steps", turn+1, w.counted.steps, charged, steps)
		}
		var policies []string
		for p := range strings.SplitSeq(told.Get("Ratelimit-Policy"), ", ") {
			name, _, _ := strings.Cut(strings.TrimPrefix(p, `"`), `"`)
			policies = append(policies, name)
		}
		if !slices.Equal(policies, x.told) || strings.Count(told.Get("Ratelimit"), ";r=") != len(x.told) {
			t.Errorf("contract 30: turn %d: RateLimit-Policy %q, RateLimit %q, want %v",
				turn+1, told.Get("Ratelimit-Policy"), told.Get("Ratelimit"), x.told)
		}
	}
}

func TestLimit_DenialHasNoEffect(t *testing.T) {
	w := newFixture(t)
	c := &counted{Store: w.Limiter.Store, KV: w.Store}
	w.Limiter = &ratelimit.Limiter{Store: c}
	w.Limits.PublicPerIP, w.Limits.PublicPerKey = ratelimit.PerMinute(4), ratelimit.PerMinute(2)
	ask := func(key string) (*web.Error, web.Header) {
		_, header, err := w.serve(&web.Request{Method: "POST", Path: web.StartPath, Header: web.Header{},
			Body: []byte(
				startBody(`"public_key":"` + key + `"`),
			), Client: netip.MustParseAddr("192.0.2.1")}, (*API).Start)
		var e *web.Error
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
		if code(e) != web.RateLimited || e.RetryAfter != 30 ||
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
		unknown, err := integration.GenerateKey(integration.PublicPrefix, w.API.Random)
		coretest.Must(t, err)
		if e, _ := ask(unknown); code(e) != web.RateLimited {
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
	w := newFixture(t)
	c := &counted{Store: w.Limiter.Store, KV: w.Store}
	served := 0
	for name, h := range map[string]endpoint{
		"preflights": (*API).Preflight,
		"pages": func(a *API, ctx context.Context, c *router.Call) (*web.Response, error) {
			return router.LimitPages(a.Limits, func(context.Context, *router.Call) (*web.Response, error) {
				served++
				return web.JSON(200, nil), nil
			})(ctx, c)
		},
	} {
		ask := func(from string) (*web.Error, web.Header) {
			_, lines, err := w.serve(&web.Request{Method: "OPTIONS", Path: web.StartPath,
				Client: netip.MustParseAddr(from), Header: web.Header{
					"Origin":                        {"https://www.publisher.example"},
					"Access-Control-Request-Method": {"POST"},
				}}, h)
			var e *web.Error
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
		if code(e) != web.RateLimited || e.RetryAfter < 1 ||
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

// TestLimits_StaleKeyCache: what the directory read last said that the key would not be
// counted. That was out of date.
func TestLimits_StaleKeyCache(t *testing.T) {
	w := newFixture(t)
	c := &counted{Store: w.Limiter.Store, KV: w.Store}
	w.Limiter = &ratelimit.Limiter{Store: c}
	c.forget(w)
	const late = "https://late.publisher.example"
	ask := func() (web.Code, web.Header) {
		_, header, err := w.serve(&web.Request{Method: "POST", Path: web.StartPath,
			Header: web.Header{"Origin": {late}}, Client: netip.MustParseAddr("192.0.2.1"),
			Body: []byte(startBody(`"public_key":"` + w.pk + `"`))}, (*API).Start)
		var e *web.Error
		errors.As(err, &e)
		return code(e), header
	}
	if got, _ := ask(); got != web.Forbidden {
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
	for turn, want := range []string{"[[public-ip] [public-key starts]]",
		"[[public-ip public-key starts]]"} {
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

// Contract 30: the networks of one IPv6 /48 share a limit, so that no subscriber uses up a key's minute.
func TestPublicKey_LimitOfNetwork(t *testing.T) {
	w := newFixture(t)
	w.Limits = web.Limits{}.WithDefaults()
	ask := func(from string) web.Code {
		_, _, err := w.serve(&web.Request{Method: "POST", Path: web.StartPath, Header: web.Header{},
			Body: []byte(
				startBody(`"public_key":"` + w.pk + `"`),
			), Client: netip.MustParseAddr(from)}, (*API).Start)
		var e *web.Error
		errors.As(err, &e)
		return code(e)
	}
	accepted := 0
	for n := range 16 * 60 {
		if ask(fmt.Sprintf("2001:db8:1:%x::%x", n%16, n+1)) == "" {
			accepted++
		}
	}
	if accepted != 240 {
		t.Errorf("contract 30: a /60 starts %d sessions in a minute, want 240", accepted)
	}
	for rule, from := range map[string]string{"another /48": "2001:db8:2::1", "IPv4": "192.0.2.1",
		"IPv4 in IPv6": "::ffff:192.0.2.2"} {
		if got := ask(from); got != "" {
			t.Errorf("contract 30: %s: %s", rule, got)
		}
	}
}

// Contract 30: starts_per_publisher bounds the sessions of all keys and addresses together, and a start that
// is rejected charges no other limit.
func TestStart_LimitOfPublisher(t *testing.T) {
	w := newFixture(t)
	w.Limits = web.Limits{StartsPerPublisher: ratelimit.PerMinute(30)}.WithDefaults()
	another := w.key(t, "pub_a", testUUID, nil)
	started := 0
	for n := range 661 {
		header, body := bearer(w.sk), startBody()
		switch n % 3 {
		case 1:
			header, body = web.Header{}, startWith(w.pk)
		case 2:
			header, body = web.Header{}, startWith(another)
		}
		_, told, err := w.serve(&web.Request{Method: "POST", Path: web.StartPath, Header: header,
			Body: []byte(
				body,
			), Client: netip.AddrFrom4([4]byte{192, 0, byte(n >> 8), byte(n)})}, (*API).Start)
		var e *web.Error
		if errors.As(err, &e); e == nil {
			started++
		} else if e.Code != web.RateLimited || e.RetryAfter != 2 {
			t.Fatalf("contract 30: start %d: %v", n, err)
		}
		if policies := told.Get("Ratelimit-Policy"); strings.Contains(policies, "starts") {
			t.Fatalf("contract 30: %s shows how busy the publisher is", policies)
		}
	}
	if started != 30 {
		t.Errorf("contract 30: 661 requests start %d sessions, want 30", started)
	}
	w.Clock.Advance(2 * time.Second)
	_, _, err := w.serve(&web.Request{Method: "POST", Path: web.StartPath, Header: bearer(w.sk),
		Body: []byte(startBody()), Client: netip.MustParseAddr("192.0.2.1")}, (*API).Start)
	if err != nil {
		t.Errorf("contract 30: 2 s later: %v", err)
	}
}
