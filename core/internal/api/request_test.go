package api

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/internal/lifecycle"
	"github.com/verge-id/verge/core/internal/result"
	"github.com/verge-id/verge/core/internal/router"
	"github.com/verge-id/verge/core/internal/session"
	"github.com/verge-id/verge/core/internal/testhost"
	"github.com/verge-id/verge/core/internal/token"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/method/sandbox"
	"github.com/verge-id/verge/core/ratelimit"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/kvadapters/kvtest"
)

const (
	testUUID  = testhost.UUID
	otherUUID = testhost.Other
)

// fixture is an API on a test's host, with two publishers and a key of each kind.
type fixture struct {
	*API
	*testhost.Host

	Limiter *ratelimit.Limiter

	sk, pk  string // of pub_a, pk of testUUID
	otherSK string // of pub_b, which has otherUUID
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	h := testhost.New(t)
	w := &fixture{Host: h, Limiter: &ratelimit.Limiter{Store: ratelimit.NewLocal(0)}}
	life := &lifecycle.Lifecycle{Host: h.Host,
		Attempts:    3,
		OutcomeLife: 30 * 24 * time.Hour,
	}
	w.API = &API{Host: h.Host, BaseURL: "https://verify.verge.example", Partitions: 4,
		Directory: integration.NewDirectory(h.Host),
		Lifecycle: life, Results: &result.Tokens{Host: h.Host, Lifecycle: life},
		Limits:  web.Limits{}.WithDefaults(),
		Methods: h.Opened(testhost.Catalog(sandbox.Kind))}
	for n, id := range []string{testUUID, otherUUID} {
		publisher := []string{"pub_a", "pub_b"}[n]
		coretest.Must(t, w.Directory.PutPublisher(ctx, integration.Publisher{ID: publisher}))
		page := []string{"https://www.publisher.example"}
		coretest.Must(t, w.Directory.PutIntegration(ctx,
			integration.Integration{ID: id, PublisherID: publisher, Level: "L1", ChallengeAge: 25,
				Method: sandbox.Name, Webhook: integration.Webhook{Off: true},
				BrowserOrigins: page, CallbackOrigins: page}, ""))
	}
	w.sk, w.pk = w.key(t, "pub_a", "", nil), w.key(t, "pub_a", testUUID, nil)
	w.otherSK = w.key(t, "pub_b", "", nil)
	return w
}

func (w *fixture) key(t testing.TB, publisher, id string, expires *time.Time) string {
	t.Helper()
	text, _, err := w.Directory.CreateKey(ctx, publisher, id, expires)
	coretest.Must(t, err)
	return text
}

var ctx = context.Background()

func bearer(key string) web.Header { return web.Header{"Authorization": {"Bearer " + key}} }

// with returns h with one more header.
func with(h web.Header, name, value string) web.Header {
	out := web.Header{name: {value}}
	maps.Copy(out, h)
	return out
}

// endpoint is a handler of the API.
type endpoint func(*API, context.Context, *router.Call) (*web.Response, error)

// serve returns the result of an endpoint, and the header of the response.
func (w *fixture) serve(req *web.Request, h endpoint) (resp *web.Response, header web.Header, err error) {
	handle := func(ctx context.Context, c *router.Call) (*web.Response, error) {
		resp, err = h(w.API, ctx, c)
		return resp, err
	}
	router := router.Router{Host: w.Host.Host, Limiter: w.Limiter, Routes: router.Table{
		{Methods: []string{req.Method}, Pattern: web.SessionsPath + "{...}", Handle: handle},
		{Methods: []string{req.Method}, Pattern: "{...}", Handle: handle},
	}}
	header = router.Serve(ctx, req).Header
	return resp, header, err
}

// ask returns the body of a 200, or the error.
func (w *fixture) ask(h endpoint, path string, header web.Header, body string) ([]byte, *web.Error) {
	if header == nil {
		header = web.Header{}
	}
	resp, _, err := w.serve(&web.Request{Method: "POST", Path: path, Header: header, Body: []byte(body),
		Client: netip.MustParseAddr("192.0.2.1")}, h)
	if err != nil {
		return nil, router.AsError(err)
	}
	return resp.Body, nil
}

func code(e *web.Error) web.Code {
	if e == nil {
		return ""
	}
	return e.Code
}

func startBody(members ...string) string {
	return "{" + strings.Join(append([]string{`"integration_id":"` + testUUID + `"`,
		`"callback_url":"https://www.publisher.example/return"`}, members...), ",") + "}"
}

// complete has a session succeed.
func (w *fixture) complete(t testing.TB, id session.ID, text string) {
	t.Helper()
	s := lifecycle.Session{ID: id, Text: text, Integration: &integration.Integration{ID: id.Integration}}
	r, err := w.Lifecycle.Fire(ctx, s, lifecycle.Step{Trigger: session.Succeeded})
	coretest.Must(t, err)
	if r.State != session.Completed {
		t.Fatalf("the session is %s", r.State)
	}
}

// claims returns the claims of a completed session's result token.
func (w *fixture) claims(t testing.TB, id session.ID, text string) token.ResultClaims {
	t.Helper()
	r, version, err := w.Lifecycle.Load(ctx, id)
	coretest.Must(t, err)
	return token.ResultClaims{Session: text, Completed: token.At(r.At), Outcome: version}
}

// completed makes a completed session and its result token.
func (w *fixture) completed(t testing.TB) (session.ID, string) {
	t.Helper()
	id, err := session.NewID(w.API.Random, testUUID, session.L1, 25, w.Clock.Now(), 1)
	coretest.Must(t, err)
	text, err := id.Format(w.API.Sealer)
	coretest.Must(t, err)
	w.complete(t, id, text)
	result, err := token.SealResult(w.API.Sealer, w.claims(t, id, text))
	coretest.Must(t, err)
	return id, result
}

// caller is a caller with the expected responses to a start, a validation and a reconciliation.
type caller struct {
	name                       string
	header                     web.Header
	public                     string // in the body, "" for none
	start, validate, reconcile web.Code
}

const ok = web.Code("")

func TestCallers_Rights(t *testing.T) {
	w := newFixture(t)
	for _, c := range []caller{
		{"spec, Authentication 1: a secret key may call everything", bearer(w.sk), "", ok, ok, ok},
		{"spec, Authentication 1: the scheme may be in lower case",
			web.Header{"Authorization": {"bearer " + w.sk}}, "", ok, ok, ok},
		{"spec, Authentication 2: a public key in the body may start only", nil, w.pk,
			ok, web.Forbidden, web.Unauthorized},
		{"spec, Authentication 3: a public key as bearer may call nothing", bearer(w.pk), "",
			web.Forbidden, web.Forbidden, web.Forbidden},
		{"contract 9: a start with both keys is no valid request", bearer(w.sk), w.pk,
			web.InvalidRequest, ok, ok},
		{"contract 9: without a key nothing may be called", nil, "",
			web.Unauthorized, web.Unauthorized, web.Unauthorized},
		{"contract 5, 404: another publisher's key returns 404", bearer(w.otherSK), "",
			web.NotFound, web.InvalidToken, web.NotFound},
	} {
		t.Run(c.name, func(t *testing.T) { w.calls(t, c) })
	}
}

func TestCallers_Unauthorized(t *testing.T) {
	w := newFixture(t)
	later := w.Clock.Now().Add(time.Hour)
	expired := w.key(t, "pub_a", "", &later)
	revoked, revokedPK := w.key(t, "pub_a", "", nil), w.key(t, "pub_a", testUUID, nil)
	unknown, unknownPK := w.newKey(t, integration.SecretPrefix), w.newKey(t, integration.PublicPrefix)
	w.Clock.Advance(time.Hour)
	keys, _, err := w.Directory.ListKeys(ctx, "", "", 100)
	coretest.Must(t, err)
	for _, k := range keys {
		if k.Last4 == revoked[len(revoked)-4:] || k.Last4 == revokedPK[len(revokedPK)-4:] {
			_, err := w.Directory.RevokeKey(ctx, k.ID)
			coretest.Must(t, err)
		}
	}
	for _, c := range []struct {
		name   string
		header web.Header
		public string // in the body, "" for none
	}{
		{"contract 5, 401: an empty header is no key", web.Header{"Authorization": {""}}, ""},
		{"contract 5, 401: an empty bearer is no key", web.Header{"Authorization": {"Bearer "}}, ""},
		{"contract 5, 401: a key needs the scheme", web.Header{"Authorization": {w.sk}}, ""},
		{"contract 5, 401: no other scheme will do", web.Header{"Authorization": {"Basic " + w.sk}}, ""},
		{"contract 5, 401: two headers are no key",
			web.Header{"Authorization": {"Bearer " + w.sk, "Bearer " + w.sk}}, ""},
		{"contract 5, 401: nothing may follow the key", bearer(w.sk + " x"), ""},
		{"contract 5, 401: a mistyped key is rejected", bearer(w.sk[:20] + "!" + w.sk[21:]), ""},
		{"contract 5, 401: an unknown key is rejected", bearer(unknown), ""},
		{"contract 5, 401: an expired key is rejected", bearer(expired), ""},
		{"contract 5, 401: a revoked key is rejected", bearer(revoked), ""},
		{"contract 5, 401: an unknown public key as bearer is rejected", bearer(unknownPK), ""},
		{"contract 5, 401: an unknown public key is rejected", nil, unknownPK},
		{"contract 5, 401: a revoked public key is rejected", nil, revokedPK},
		{"contract 5, 401: a secret key is no public_key", nil, w.sk},
		{"contract 5, 401: a bad bearer is not saved by a public key", bearer(unknown), w.pk},
	} {
		t.Run(c.name, func(t *testing.T) {
			w.calls(t, caller{"", c.header, c.public, web.Unauthorized, web.Unauthorized,
				web.Unauthorized})
		})
	}
}

func TestCallers_BrowserPages(t *testing.T) {
	w := newFixture(t)
	for _, c := range []caller{
		{"contract 5, 403: a page may not use a secret key",
			with(bearer(w.sk), "Origin", "https://www.publisher.example"), "",
			web.Forbidden, web.Forbidden, web.Forbidden},
		{"contract 5, 403: nor may what sends Sec-Fetch-Site", with(bearer(w.sk), "Sec-Fetch-Site", "none"),
			"", web.Forbidden, web.Forbidden, web.Forbidden},
		{"contract 5: Sec-Fetch-Mode is what servers send", with(bearer(w.sk), "Sec-Fetch-Mode", "cors"), "",
			ok, ok, ok},
		{"contract 5, 401: a page with an unknown key can read the error",
			with(bearer(w.newKey(t, integration.SecretPrefix)), "Origin", "https://www.publisher.example"),
			"",
			web.Unauthorized, web.Unauthorized, web.Unauthorized},
		{"contract 7: an allowed page may start with a public key",
			web.Header{"Origin": {"https://www.publisher.example"}}, w.pk, ok, web.Forbidden,
			web.Unauthorized},
		{"contract 5, 403: another page may not", web.Header{"Origin": {"https://evil.example"}}, w.pk,
			web.Forbidden, web.Forbidden, web.Unauthorized},
		{"contract 5, 403: a page without an origin may not", web.Header{"Origin": {"null"}}, w.pk,
			web.Forbidden, web.Forbidden, web.Unauthorized},
	} {
		t.Run(c.name, func(t *testing.T) { w.calls(t, c) })
	}
}

// newKey returns a well-formed key that was not issued.
func (w *fixture) newKey(t *testing.T, prefix string) string {
	t.Helper()
	text, err := integration.GenerateKey(prefix, w.API.Random)
	coretest.Must(t, err)
	return text
}

// calls starts, validates and reconciles with the caller's credentials.
func (w *fixture) calls(t *testing.T, c caller) {
	// Contract 30 is not what is asked here.
	w.Limiter = &ratelimit.Limiter{Store: ratelimit.NewLocal(0)}
	sid, err := session.NewID(w.API.Random, testUUID, session.L1, 25, w.Clock.Now(), 1)
	coretest.Must(t, err)
	sidText, err := sid.Format(w.API.Sealer)
	coretest.Must(t, err)
	var public []string
	if c.public != "" {
		public = []string{`"public_key":"` + c.public + `"`}
	}
	if _, e := w.ask((*API).Start, web.StartPath, c.header, startBody(public...)); code(e) != c.start {
		t.Errorf("start: %v, want %q", e, c.start)
	}
	_, result := w.completed(t)
	body := "{" + strings.Join(append(public, `"result_token":"`+result+`"`), ",") + "}"
	_, e := w.ask((*API).Validate, web.ValidatePath, c.header, body)
	if code(e) != c.validate {
		t.Errorf("validate: %v, want %q", e, c.validate)
	}
	if c.validate != ok { // spec, Authentication 6; contract 5: never consumed by the attempt
		if _, e := w.ask((*API).Validate, web.ValidatePath, bearer(w.sk), body); e != nil {
			t.Errorf("the refused attempt has consumed the token: %v", e)
		}
	}
	if _, e := w.ask((*API).Reconcile, web.SessionsPath+sidText, c.header, ""); code(e) != c.reconcile {
		t.Errorf("reconcile: %v, want %q", e, c.reconcile)
	}
}

func TestPublicKey_OtherIntegration(t *testing.T) {
	w := newFixture(t)
	coretest.Must(t, w.Directory.PutIntegration(ctx,
		integration.Integration{ID: "22222222-4d4e-475f-906b-2f11c5eca7bd", PublisherID: "pub_a", Level: "L2",
			ChallengeAge: 18, Method: sandbox.Name, Webhook: integration.Webhook{Off: true}}, ""))
	body := strings.Replace(startBody(`"public_key":"`+w.pk+`"`), testUUID,
		"22222222-4d4e-475f-906b-2f11c5eca7bd", 1)
	if _, e := w.ask((*API).Start, web.StartPath, nil, body); code(e) != web.Forbidden {
		t.Errorf("contract 12: %v, want FORBIDDEN", e)
	}
	body = strings.Replace(startBody(`"public_key":"`+w.pk+`"`), testUUID, otherUUID, 1)
	if _, e := w.ask((*API).Start, web.StartPath, nil, body); code(e) != web.NotFound {
		t.Errorf("contract 5, 404: another publisher's: %v", e)
	}
}

func TestBodies(t *testing.T) {
	w := newFixture(t)
	long := startBody(`"x":"` + strings.Repeat("x", web.MaxBody) + `"`)
	for _, c := range []struct {
		name, contentType, body string
		want                    web.Code
	}{
		{"no Content-Type", "", startBody(), ""},
		{"application/json", "application/json", startBody(), ""},
		{"with charset", "Application/JSON; charset=utf-8", startBody(), ""},
		{"of JSON's family", "application/vnd.publisher+json", startBody(), ""},
		{"text", "text/plain", startBody(), web.UnsupportedMediaType},
		{"a form", "application/x-www-form-urlencoded", startBody(), web.UnsupportedMediaType},
		{"text of JSON's family", "text/x+json", startBody(), web.UnsupportedMediaType},
		{"JSON of another kind", "application/jsonp", startBody(), web.UnsupportedMediaType},
		{"JSON twice", "application/json and application/json", startBody(), ""},
		{"JSON and another", "application/json and text/plain", startBody(), web.UnsupportedMediaType},
		{"unknown members", "", startBody(`"unknown":{"a":[1,null]}`), ""},
		{"as large as may be", "",
			startBody(`"x":"` + strings.Repeat("x", web.MaxBody-len(startBody(`"x":""`))) + `"`), ""},
		{"too large", "", long, web.PayloadTooLarge},
		{"empty", "", "", web.InvalidRequest},
		{"an array", "", "[" + startBody() + "]", web.InvalidRequest},
		{"trailing data", "", startBody() + "{}", web.InvalidRequest},
		{"a member twice", "", startBody(`"state":"a"`, `"state":"b"`), web.InvalidRequest},
		{"a member twice, once escaped", "", startBody(`"state":"a"`, `"st\u0061te":"b"`), web.InvalidRequest},
		{"invalid UTF-8", "", startBody(`"state":"` + "\xff" + `"`), web.InvalidRequest},
		{"half a surrogate pair", "", startBody(`"state":"\ud800"`), web.InvalidRequest},
		{"byte order mark", "", "\ufeff" + startBody(), web.InvalidRequest},
	} {
		t.Run("contract 3: "+c.name, func(t *testing.T) {
			h := bearer(w.sk)
			if c.contentType != "" {
				h["Content-Type"] = strings.Split(c.contentType, " and ")
			}
			if _, e := w.ask((*API).Start, web.StartPath, h, c.body); code(e) != c.want {
				t.Errorf("%v, want %q", e, c.want)
			}
		})
	}
}

func TestStartNamesEveryBadField(t *testing.T) {
	w := newFixture(t)
	for _, c := range []struct {
		name, body string
		want       []string // field:code, in any order; none: accepted
	}{
		{"contract 8: everything at its longest", startBody(`"state":"`+strings.Repeat("x", 1024)+`"`,
			`"external_user_id":"`+strings.Repeat("x", 256)+`"`, `"language":"it"`), nil},
		{"contract 8: empty strings", startBody(`"state":""`, `"external_user_id":""`), nil},
		{"contract 8: any Unicode", startBody(`"state":"ü\u2028\ufeff\ud83d\ude00"`), nil},
		{"contract 8: state too long", startBody(`"state":"` + strings.Repeat("x", 1025) + `"`),
			[]string{"state:length"}},
		{"contract 8: state too long in bytes", startBody(`"state":"` + strings.Repeat("ü", 513) + `"`),
			[]string{"state:length"}},
		{"contract 8: user too long", startBody(`"external_user_id":"` + strings.Repeat("x", 257) + `"`),
			[]string{"external_user_id:length"}},
		{"contract 8: control character", startBody(`"state":"a\u0000"`), []string{"state:value"}},
		{"contract 8: line feed", startBody(`"external_user_id":"a\n"`), []string{"external_user_id:value"}},
		{"contract 8: a C1 control character", startBody(`"state":"\u0085"`), []string{"state:value"}},
		{"contract 8: DEL", startBody(`"state":"\u007f"`), []string{"state:value"}},
		{"contract 5, 400: wrong types", startBody(`"state":5`, `"external_user_id":[null]`, `"language":true`),
			[]string{"state:type", "external_user_id:type", "language:type"}},
		{"contract 3: an optional member that is null",
			startBody(`"state":null`, `"external_user_id":null`, `"language":null`, `"public_key": null `), nil},
		{"contract 3: a required member that is null", `{"integration_id":null,"callback_url":null}`,
			[]string{"integration_id:required", "callback_url:required"}},
		{"contract 3: a member twice, once null", startBody(`"state":null`, `"state":"a"`), []string{":format"}},
		{"spec, Limits: language", startBody(`"language":"nl"`), []string{"language:value"}},
		{"spec, Limits: language in upper case", startBody(`"language":"DE"`), []string{"language:value"}},
		{"spec, Limits: a region", startBody(`"language":"de-AT"`), []string{"language:value"}},
		{"spec, Limits: empty language", startBody(`"language":""`), []string{"language:value"}},
		{"contract 5, 400: nothing at all", `{}`, []string{"integration_id:required", "callback_url:required"}},
		{"contract 5, 400: all fields in one response",
			`{"integration_id":"x","callback_url":"http://x","state":"\n","external_user_id":5,"language":"x"}`,
			[]string{"integration_id:format", "callback_url:format", "state:value", "external_user_id:type",
				"language:value"}},
		{"contract 25: the prefix of events", strings.Replace(startBody(), testUUID, "int_"+testUUID, 1),
			[]string{"integration_id:format"}},
		{"contract 9: both a public and a secret key", startBody(`"public_key":"x"`),
			[]string{"public_key:conflict"}},
		{"contract 9: both a public key of another type and a secret key", startBody(`"public_key":5`),
			[]string{"public_key:type"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, e := w.ask((*API).Start, web.StartPath, bearer(w.sk), c.body)
			if c.want == nil {
				if e != nil {
					t.Errorf("refused: %v %v", e, e.Details)
				}
				return
			}
			if code(e) != web.InvalidRequest {
				t.Fatalf("%v, want INVALID_REQUEST", e)
			}
			var got []string
			for _, d := range e.Details {
				got = append(got, d.Field+":"+d.Code)
				if d.Message == "" {
					t.Errorf("%s has no message", d.Field)
				}
			}
			slices.Sort(got)
			slices.Sort(c.want)
			if !slices.Equal(got, c.want) {
				t.Errorf("details %v, want %v", got, c.want)
			}
		})
	}
}

// If public_key is no key, the caller stays unknown. The rest of the body is checked anyway.
func TestStartNamesEveryBadFieldToUnknownCallersToo(t *testing.T) {
	w := newFixture(t)
	_, e := w.ask((*API).Start, web.StartPath, web.Header{"Idempotency-Key": {""}},
		`{"public_key":5,"callback_url":"x","state":"\n"}`)
	if code(e) != web.InvalidRequest {
		t.Fatalf("%v, want INVALID_REQUEST", e)
	}
	var got []string
	for _, d := range e.Details {
		got = append(got, d.Field+":"+d.Code)
	}
	want := []string{"public_key:type", "Idempotency-Key:conflict", "integration_id:required",
		"callback_url:format", "state:value"}
	if !slices.Equal(got, want) {
		t.Errorf("contract 5, 400: details %v, want %v", got, want)
	}
	if _, e := w.ask((*API).Start, web.StartPath, nil, startBody(`"public_key":null`)); code(
		e,
	) != web.Unauthorized {
		t.Errorf("contract 3 and 9: a public_key that is null is no credential; got %v", e)
	}
}

func TestPrintable(t *testing.T) {
	for s, want := range map[string]bool{"": false, "x": true, " ~": true,
		strings.Repeat("x", 255): true, strings.Repeat("x", 256): false,
		"a\n": false, "\x7f": false, "ü": false, "\xff": false, "\ufffd": false} {
		if printable(s, 255) != want {
			t.Errorf("contract 11: %q is printable: %v", s, !want)
		}
	}
}

func TestIdempotentStart(t *testing.T) {
	w := newFixture(t)
	ask := func(key, idempotency, body string) (string, *web.Error) {
		t.Helper()
		b, e := w.ask((*API).Start, web.StartPath, with(bearer(key), "Idempotency-Key", idempotency), body)
		return string(b), e
	}
	first, e := ask(w.sk, "key 1", startBody())
	if e != nil {
		t.Fatal(e)
	}
	if again, e := ask(w.sk, "key 1", startBody()); e != nil || again != first {
		t.Errorf("contract 11: the same again gives\n%s, %v, want\n%s", again, e, first)
	}
	_, e = ask(w.sk, "key 1", startBody(`"state":"x"`))
	if code(e) != web.InvalidRequest || len(e.Details) != 1 || e.Details[0].Field != "Idempotency-Key" {
		t.Errorf("contract 11: another body gives %v", e)
	}
	if other, e := ask(w.sk, "key 2", startBody()); e != nil || other == first {
		t.Errorf("contract 11: another key gives the same session (%v)", e)
	}
	secondKey := w.key(t, "pub_a", "", nil)
	if other, e := ask(secondKey, "key 1", startBody()); e != nil || other == first {
		t.Errorf("contract 11: another credential gives the same session (%v)", e)
	}
	w.Clock.Advance(10*time.Minute - time.Millisecond)
	if again, e := ask(w.sk, "key 1", startBody()); e != nil || again != first {
		t.Errorf("contract 11: within 10 minutes: %v", e)
	}
	w.Clock.Advance(time.Millisecond)
	if later, e := ask(w.sk, "key 1", startBody()); e != nil || later == first {
		t.Errorf("contract 11: after 10 minutes it gives the old session (%v)", e)
	}
	for _, bad := range []web.Header{{"Idempotency-Key": {""}},
		{"Idempotency-Key": {strings.Repeat("x", 256)}},
		{"Idempotency-Key": {"a\n"}}, {"Idempotency-Key": {"a", "a"}}} {
		bad["Authorization"] = []string{"Bearer " + w.sk}
		if _, e := w.ask((*API).Start, web.StartPath, bad, startBody()); code(e) != web.InvalidRequest {
			t.Errorf("contract 11: %q: %v", bad["Idempotency-Key"], e)
		}
	}
}

// A client that lost the first response gets it again after any change.
func TestIdempotentStart_IntegrationChanged(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(i *integration.Integration)
		now    web.Code // for a start without the key
	}{
		{"contract 11: not ready", func(i *integration.Integration) {
			i.Webhook = integration.Webhook{URL: "https://hooks.example/"}
		}, web.IntegrationNotReady},
		{"contract 11: another origin", func(i *integration.Integration) {
			i.CallbackOrigins = []string{"https://elsewhere.example"}
		}, web.InvalidRequest},
		{"contract 11: archived", func(i *integration.Integration) {
			now := time.Now()
			i.Archived = &now
		}, web.NotFound},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newFixture(t)
			h := with(bearer(w.sk), "Idempotency-Key", "k")
			first, e := w.ask((*API).Start, web.StartPath, h, startBody())
			if e != nil {
				t.Fatal(e)
			}
			i, err := w.Directory.ReadIntegration(ctx, testUUID)
			coretest.Must(t, err)
			c.change(&i.Value)
			coretest.Must(t, w.Directory.PutIntegration(ctx, i.Value, strings.Repeat("secret ", 6)))
			w.Clock.Advance(6 * time.Second)
			again, e := w.ask((*API).Start, web.StartPath, h, startBody())
			if e != nil || string(again) != string(first) {
				t.Errorf("the same request: %v", e)
			}
			if _, e := w.ask((*API).Start, web.StartPath, bearer(w.sk), startBody()); code(e) != c.now {
				t.Errorf("a new request: %v, want %s", e, c.now)
			}
		})
	}
}

// A request that created no session leaves its key free.
func TestIdempotentStart_NoSession(t *testing.T) {
	w := newFixture(t)
	h := with(bearer(w.sk), "Idempotency-Key", "k")
	for _, body := range []string{startBody(`"language":"xx"`), `{"integration_id":"` + otherUUID +
		`","callback_url":"https://www.publisher.example/return"}`} {
		if _, e := w.ask((*API).Start, web.StartPath, h, body); e == nil || code(e) == web.Unavailable {
			t.Errorf("contract 11: %s: %v", body, e)
		}
	}
	if _, e := w.ask((*API).Start, web.StartPath, h, startBody()); e != nil {
		t.Errorf("contract 11: the same key after requests that created no session: %v", e)
	}
}

// The log and the record name the method that failed, even if the integration has methods that are no longer
// configured.
func TestStart_InitiationNamesMethod(t *testing.T) {
	w := newFixture(t)
	i, err := w.Directory.ReadIntegration(ctx, testUUID)
	coretest.Must(t, err)
	i.Value.Method, i.Value.Methods = "gone", []string{"gone", "sandbox"}
	coretest.Must(t, w.Directory.PutIntegration(ctx, i.Value, ""))
	w.Clock.Advance(6 * time.Second)
	_, e := w.ask((*API).Start, web.StartPath, bearer(w.sk),
		startBody(`"external_user_id":"sandbox:init_error"`))
	log := w.Logged.String()
	if code(e) != web.ProviderUnavailable || strings.Contains(log, "method=gone") ||
		!strings.Contains(log, "method=sandbox") {
		t.Errorf("contract 48: %v\n%s", e, log)
	}
}

func TestIdempotentStartKeepsAFailedInitiation(t *testing.T) {
	w := newFixture(t)
	body := startBody(`"external_user_id":"` + "sandbox:init_error" + `"`)
	h := with(bearer(w.sk), "Idempotency-Key", "k")
	_, first := w.ask((*API).Start, web.StartPath, h, body)
	_, again := w.ask((*API).Start, web.StartPath, h, body)
	if code(first) != web.ProviderUnavailable || first.Session == "" ||
		code(again) != web.ProviderUnavailable || again.Session != first.Session {
		t.Errorf("contract 5, 502; 11: %+v, then %+v", first, again)
	}
}

// The same start, sent 16 times concurrently, creates one session.
func TestIdempotentStartInParallel(t *testing.T) {
	w := newFixture(t)
	bodies := make([]string, 16)
	var wait sync.WaitGroup
	for n := range bodies {
		wait.Go(func() {
			b, e := w.ask(
				(*API).Start,
				web.StartPath,
				with(bearer(w.sk), "Idempotency-Key", "k"),
				startBody(),
			)
			if e != nil {
				t.Error(e)
			}
			bodies[n] = string(b)
		})
	}
	wait.Wait()
	slices.Sort(bodies)
	if len(slices.Compact(bodies)) != 1 {
		t.Error("contract 11: there is more than one session")
	}
}

// Between the look-up and the commit the same request may have been answered.
func TestIdempotentStartThatWasOvertaken(t *testing.T) {
	w := newFixture(t)
	h := with(bearer(w.sk), "Idempotency-Key", "k")
	var quicker []byte
	overtaken := false
	w.Store.Decide = func(c kvtest.Call) kvtest.Fault {
		if c.Method == "Commit" && !overtaken {
			overtaken = true
			var e *web.Error
			if quicker, e = w.ask((*API).Start, web.StartPath, h, startBody()); e != nil {
				t.Error(e)
			}
		}
		return kvtest.Pass
	}
	if slower, e := w.ask((*API).Start, web.StartPath, h, startBody()); e != nil ||
		!bytes.Equal(slower, quicker) {
		t.Errorf("contract 11: overtaken, it answers %s, %v, want %s", slower, e, quicker)
	}
}

// A stored response is sealed, and opens only under its own name.
func TestReplay_Sealed(t *testing.T) {
	w := newFixture(t)
	h := with(bearer(w.sk), "Idempotency-Key", "k1")
	first, e := w.ask((*API).Start, web.StartPath, h, startBody(`"state":"the-state-of-the-publisher"`))
	if e != nil {
		t.Fatal(e)
	}
	var resp startResponse
	coretest.Must(t, json.Unmarshal(first, &resp))
	var kept kv.Item
	for n := range w.Partitions {
		items, err := w.Memory.List(ctx, kv.Key{Partition: session.Partition(n).Name()}, "", 100)
		coretest.Must(t, err)
		for _, it := range items {
			if bytes.Contains(it.Value, []byte("svc_")) || bytes.Contains(it.Value, []byte("the-state")) ||
				bytes.Contains(it.Value, []byte("verify.verge")) {
				t.Errorf("contract 19: %s holds %q", it.Key, it.Value)
			}
			kept = it
		}
	}
	flow, err := url.Parse(resp.RedirectURL)
	coretest.Must(t, err)
	claims, _, err := token.OpenFlow(w.API.Sealer, flow.Query().Get("flow"))
	if err != nil || claims.Session != resp.SessionID {
		t.Fatalf("redirect_url: %+v, %v", claims, err)
	}
	// Moved under another key, it does not become that key's answer.
	req := &web.Request{Body: []byte(startBody(`"state":"the-state-of-the-publisher"`))}
	c := &call{API: w.API, Call: &router.Call{Request: req, Now: w.Clock.Now()}, ctx: ctx}
	sum := sha256.Sum256(c.Body)
	r := &replay{call: c, name: "r/another", request: sum[:]}
	if resp, err := r.repeat(kept); err == nil {
		t.Errorf("contract 15: a kept answer opens in another place: %s", resp.Body)
	}
	r.name = kept.Key.Name
	if _, err := r.repeat(kept); err != nil {
		t.Errorf("in its own place it does not open: %v", err)
	}
}

func TestStartUnderLostReplies(t *testing.T) {
	for _, fault := range []kvtest.Fault{kvtest.LoseReply, kvtest.LoseRequest, kvtest.Delay} {
		t.Run(fmt.Sprintf("contract 11: %v", fault), func(t *testing.T) {
			w := newFixture(t)
			h := with(bearer(w.sk), "Idempotency-Key", "k")
			commits := 0
			w.Store.Decide = func(c kvtest.Call) kvtest.Fault {
				if c.Method == "Commit" {
					if commits++; commits == 1 {
						return fault
					}
				}
				return kvtest.Pass
			}
			first, e1 := w.ask((*API).Start, web.StartPath, h, startBody())
			w.Store.Deliver(ctx)
			again, e2 := w.ask((*API).Start, web.StartPath, h, startBody())
			if e1 != nil || e2 != nil || !bytes.Equal(first, again) {
				t.Errorf("%v, %v: two sessions of one start", e1, e2)
			}
		})
	}
}

func TestValidateConsumesOnce(t *testing.T) {
	w := newFixture(t)
	id, result := w.completed(t)
	body := `{"result_token":"` + result + `"}`
	var oks, used atomic.Int64
	var wait sync.WaitGroup
	for range 32 {
		wait.Go(func() {
			switch _, e := w.ask((*API).Validate, web.ValidatePath, bearer(w.sk), body); code(e) {
			case "":
				oks.Add(1)
			case web.AlreadyUsed:
				used.Add(1)
			default:
				t.Error(e)
			}
		})
	}
	wait.Wait()
	if oks.Load() != 1 || used.Load() != 31 {
		t.Errorf("spec, validate: %d of 32 consumed it, %d got 409", oks.Load(), used.Load())
	}
	// Contract 17: a token of the same session that is sealed again is the same token.
	text, err := id.Format(w.API.Sealer)
	coretest.Must(t, err)
	again, err := token.SealResult(w.API.Sealer, w.claims(t, id, text))
	coretest.Must(t, err)
	if again == result {
		t.Fatal("sealed twice to the same text")
	}
	_, e := w.ask((*API).Validate, web.ValidatePath, bearer(w.sk), `{"result_token":"`+again+`"}`)
	if code(e) != web.AlreadyUsed {
		t.Errorf("contract 17: sealed again, it validates a second time: %v", e)
	}
	w.Clock.Advance(5*time.Minute - time.Millisecond)
	if _, e := w.ask((*API).Validate, web.ValidatePath, bearer(w.sk), body); code(e) != web.AlreadyUsed {
		t.Errorf("contract 5, 410: used and inside the 5 minutes: %v", e)
	}
	w.Clock.Advance(time.Millisecond)
	if _, e := w.ask((*API).Validate, web.ValidatePath, bearer(w.sk), body); code(e) != web.TokenExpired {
		t.Errorf("contract 5, 410: used and older than 5 minutes: %v", e)
	}
}

func TestIdempotentValidate(t *testing.T) {
	w := newFixture(t)
	_, result := w.completed(t)
	body := `{"result_token":"` + result + `"}`
	h := with(bearer(w.sk), "Idempotency-Key", "k")
	first, e := w.ask((*API).Validate, web.ValidatePath, h, body)
	if e != nil {
		t.Fatal(e)
	}
	w.Clock.Advance(5*time.Minute - time.Millisecond)
	if again, e := w.ask((*API).Validate, web.ValidatePath, h, body); e != nil || !bytes.Equal(again, first) {
		t.Errorf("contract 11: the same again gives %s, %v, want %s", again, e, first)
	}
	_, e = w.ask((*API).Validate, web.ValidatePath, with(bearer(w.sk), "Idempotency-Key", "l"), body)
	if code(e) != web.AlreadyUsed {
		t.Errorf("contract 11: another key: %v", e)
	}
	if _, e := w.ask((*API).Validate, web.ValidatePath, bearer(w.sk), body); code(e) != web.AlreadyUsed {
		t.Errorf("contract 11: no key: %v", e)
	}
	w.Clock.Advance(time.Millisecond)
	if _, e := w.ask((*API).Validate, web.ValidatePath, h, body); code(e) != web.TokenExpired {
		t.Errorf("contract 11: longer than the token would have lived: %v", e)
	}
}

// A lost answer of the store grants at most one validation, and denies where nothing is known.
func TestValidateUnderLostReplies(t *testing.T) {
	for _, c := range []struct {
		faults []kvtest.Fault
		first  web.Code
		again  web.Code // once the store is well
	}{
		{[]kvtest.Fault{kvtest.LoseReply}, "", web.AlreadyUsed},
		{[]kvtest.Fault{kvtest.LoseRequest}, "", web.AlreadyUsed},
		{[]kvtest.Fault{kvtest.Delay}, "", web.AlreadyUsed},
		{[]kvtest.Fault{kvtest.Reject}, web.Unavailable, ""},
		{[]kvtest.Fault{kvtest.LoseRequest, kvtest.LoseRequest}, web.Unavailable, ""},
		{[]kvtest.Fault{kvtest.LoseReply, kvtest.Reject}, web.Unavailable, web.AlreadyUsed},
		{[]kvtest.Fault{kvtest.Delay, kvtest.Reject}, web.Unavailable, web.AlreadyUsed},
	} {
		t.Run(fmt.Sprintf("contract 5, 503: %v", c.faults), func(t *testing.T) {
			w := newFixture(t)
			_, result := w.completed(t)
			body := `{"result_token":"` + result + `"}`
			commits := 0
			w.Store.Decide = func(call kvtest.Call) kvtest.Fault {
				if call.Method == "Commit" {
					if commits++; commits <= len(c.faults) {
						return c.faults[commits-1]
					}
				}
				return kvtest.Pass
			}
			_, e := w.ask((*API).Validate, web.ValidatePath, bearer(w.sk), body)
			if code(e) != c.first || e != nil && e.RetryAfter < 1 {
				t.Errorf("first %v, want %q", e, c.first)
			}
			w.Store.Deliver(ctx)
			if _, e := w.ask((*API).Validate, web.ValidatePath, bearer(w.sk), body); code(e) != c.again {
				t.Errorf("again %v, want %q", e, c.again)
			}
		})
	}
}

func TestErrorsNeverRepeatTheRequest(t *testing.T) {
	w := newFixture(t)
	const mark = "REPEATED-BY-MISTAKE"
	var all []*web.Error
	add := func(e *web.Error) {
		if e == nil {
			t.Error("accepted")
			return
		}
		all = append(all, e)
	}
	ask := func(h endpoint, path string, header web.Header, body string) {
		_, e := w.ask(h, path, header, body)
		add(e)
	}
	ask((*API).Start, web.StartPath, bearer(w.sk), startBody(`"state":"`+mark+`\n"`, `"language":"`+mark+`"`,
		`"external_user_id":"`+strings.Repeat(mark, 99)+`"`, `"public_key":"`+mark+`"`))
	ask(
		(*API).Start,
		web.StartPath,
		bearer(w.sk),
		`{"integration_id":"`+mark+`","callback_url":"`+mark+`://u:`+mark+`@x"}`,
	)
	ask((*API).Start, web.StartPath, bearer(w.sk), `{"`+mark+`":`+mark+`}`)
	ask((*API).Start, web.StartPath, with(bearer(w.sk), "Idempotency-Key", mark+"\n"), startBody())
	ask((*API).Start, web.StartPath, bearer("svc_sk_"+mark), startBody())
	ask((*API).Start, web.StartPath, with(bearer(w.sk), "Content-Type", mark), startBody())
	ask((*API).Validate, web.ValidatePath, bearer(w.sk), `{"result_token":"svc_rt_`+mark+`"}`)
	ask((*API).Reconcile, web.SessionsPath+mark, bearer(w.sk), "")
	for _, e := range all {
		if b := e.Response("req_x", "").Body; bytes.Contains(b, []byte(mark)) {
			t.Errorf("contract 5: %s", b)
		}
	}
	if strings.Contains(w.Logged.String(), mark) {
		t.Errorf("contract 13: the log says %s", &w.Logged)
	}
}

// The address is limited and the body read before any key is known.
func TestCORS_ErrorsBeforeKey(t *testing.T) {
	w := newFixture(t)
	ask := func(origin, body string) (web.Code, web.Header) {
		_, header, err := w.serve(&web.Request{Method: "POST", Path: web.StartPath,
			Header: web.Header{"Origin": {origin}}, Body: []byte(body),
			Client: netip.MustParseAddr("192.0.2.1")}, (*API).Start)
		var e *web.Error
		errors.As(err, &e)
		return code(e), header
	}
	own, other := "https://www.publisher.example", "https://evil.example"
	check := func(rule string, want web.Code, body string) {
		t.Helper()
		for _, origin := range []string{own, other} {
			got, header := ask(origin, body)
			if got != want || (header.Get("Access-Control-Allow-Origin") != "") != (origin == own) ||
				(header.Get("Vary") != "") != (origin == own) {
				t.Errorf("contract 7: %s, from %s: %s %v", rule, origin, got, header)
			}
		}
	}
	check("no JSON", web.InvalidRequest, "{")
	check("too large", web.PayloadTooLarge, strings.Repeat(" ", web.MaxBody+1))
	check("a public key of another type", web.InvalidRequest, startBody(`"public_key":5`))
	check("an unknown public key", web.Unauthorized, startBody(`"public_key":"x"`))
	for range 60 {
		ask(own, "{")
	}
	check("too many", web.RateLimited, startBody(`"public_key":"`+w.pk+`"`))
	_, header := ask(own, "{")
	if !strings.Contains(header.Get("Access-Control-Expose-Headers"), "Retry-After") {
		t.Errorf("contract 7: the page cannot read Retry-After: %v", header)
	}
}

func TestPublicKey_BrowserOrigins(t *testing.T) {
	for _, c := range []struct {
		rule   string
		listed []string
		want   web.Code // "": started
	}{
		{"contract 5, 403: a page of an origin that is listed", []string{"https://www.publisher.example"},
			""},
		{"contract 5, 403: of another one", []string{"https://app.publisher.example"}, web.Forbidden},
		{"contract 5, 403: none is listed", nil, web.Forbidden},
	} {
		w := newFixture(t)
		coretest.Must(t, w.Directory.PutIntegration(ctx,
			integration.Integration{ID: testUUID, PublisherID: "pub_a", Level: "L1", ChallengeAge: 25,
				Method: sandbox.Name, Webhook: integration.Webhook{Off: true}, BrowserOrigins: c.listed,
				CallbackOrigins: []string{"https://www.publisher.example"}}, ""))
		body := startBody(`"public_key":"` + w.pk + `"`)
		_, e := w.ask(
			(*API).Start,
			web.StartPath,
			web.Header{"Origin": {"https://www.publisher.example"}},
			body,
		)
		if code(e) != c.want {
			t.Errorf("%s: %v, want %q", c.rule, e, c.want)
		}
		if _, e := w.ask((*API).Start, web.StartPath, nil, body); code(e) != "" {
			t.Errorf("%s: from no page at all: %v", c.rule, e)
		}
	}
}

// A public key of another integration is rejected with the same error for every callback (contract 9).
func TestStart_PublicKeyOfAnother(t *testing.T) {
	w := newFixture(t)
	const another = "99999999-4d4e-475f-906b-2f11c5eca7bd"
	for _, callback := range []string{"https://www.publisher.example", "https://elsewhere.example"} {
		coretest.Must(t, w.Directory.PutIntegration(ctx,
			integration.Integration{ID: another, PublisherID: "pub_a", Level: "L1", ChallengeAge: 25,
				Method: sandbox.Name, Webhook: integration.Webhook{Off: true},
				CallbackOrigins: []string{callback}}, ""))
		body := strings.Replace(startBody(`"public_key":"`+w.pk+`"`), testUUID, another, 1)
		if _, e := w.ask((*API).Start, web.StartPath, nil, body); code(e) != web.Forbidden {
			t.Errorf("contract 9: with %s allowed: %v", callback, e)
		}
	}
}

// The result token is sent to the callback, and anyone can read a public key.
func TestStart_PublicKeyWithoutOrigins(t *testing.T) {
	const page = "https://www.publisher.example"
	for _, c := range []struct {
		rule            string
		dev             bool
		allowed         []string
		callback        string
		public, private web.Code
	}{
		{"contract 8: none are listed, as of keys that were made before", false, nil,
			"https://evil.example/x", web.Forbidden, ""},
		{"contract 8: none are listed, in dev mode", true, nil, "https://evil.example/x", "", ""},
		{"contract 8: an empty list is none", false, []string{}, page + "/return", web.Forbidden, ""},
		{"contract 8: inside those that are listed", false, []string{page}, page + "/return", "", ""},
		{"contract 8: outside them", false, []string{page}, "https://evil.example/x", web.InvalidRequest,
			web.InvalidRequest},
	} {
		w := newFixture(t)
		w.Dev = c.dev
		coretest.Must(t, w.Directory.PutIntegration(ctx,
			integration.Integration{ID: testUUID, PublisherID: "pub_a", Level: "L1", ChallengeAge: 25,
				Method: sandbox.Name, Webhook: integration.Webhook{Off: true}, BrowserOrigins: []string{page},
				CallbackOrigins: c.allowed}, ""))
		body := `{"integration_id":"` + testUUID + `","callback_url":"` + c.callback + `"}`
		public := body[:len(body)-1] + `,"public_key":"` + w.pk + `"}`
		for _, header := range []web.Header{nil, {"Origin": {page}}} {
			_, lines, err := w.serve(&web.Request{Method: "POST", Path: web.StartPath,
				Header: with(header, "X", "x"), Body: []byte(public)}, (*API).Start)
			var e *web.Error
			if errors.As(err, &e); code(e) != c.public {
				t.Errorf("%s: with the public key and %v: %v, want %q", c.rule, header, err, c.public)
			}
			if code(e) == web.Forbidden && !strings.Contains(e.Message, "callback_origins") {
				t.Errorf("%s: %q does not name the missing setting", c.rule, e.Message)
			}
			if got := lines.Get("Access-Control-Allow-Origin"); (got == page) != (header != nil) {
				t.Errorf("contract 7: %s: the page that may use the key cannot read why not: %q", c.rule, got)
			}
		}
		if _, e := w.ask((*API).Start, web.StartPath, bearer(w.sk), body); code(e) != c.private {
			t.Errorf("%s: with the secret key: %v, want %q", c.rule, e, c.private)
		}
	}
}

// Two visitors of one shop have the same public key, and number their orders
// alike.
func TestNoIdempotencyKeyWithAPublicKey(t *testing.T) {
	w := newFixture(t)
	for _, value := range []string{"order-1001", "", strings.Repeat("x", 256)} {
		_, e := w.ask((*API).Start, web.StartPath, web.Header{"Idempotency-Key": {value}},
			startBody(`"public_key":"`+w.pk+`"`))
		if code(e) != web.InvalidRequest || len(e.Details) != 1 ||
			e.Details[0].Field != "Idempotency-Key" || e.Details[0].Code != detailConflict {
			t.Errorf("contract 11: %q: %v", value, e)
		}
	}
}

func TestGuessingCountsAgainstTheAddress(t *testing.T) {
	w := newFixture(t)
	unknown, err := integration.GenerateKey(integration.SecretPrefix, w.API.Random)
	coretest.Must(t, err)
	for n := range 600 {
		if _, e := w.ask((*API).Validate, web.ValidatePath, bearer(unknown), "{}"); code(
			e,
		) != web.Unauthorized {
			t.Fatalf("contract 30: guess %d: %v", n+1, e)
		}
	}
	for _, key := range []string{unknown, w.sk} {
		_, e := w.ask((*API).Validate, web.ValidatePath, bearer(key), "{}")
		if code(e) != web.RateLimited || e.RetryAfter < 1 {
			t.Errorf("contract 30: guess 601: %v", e)
		}
	}
	for n := range 60 {
		if _, e := w.ask((*API).Start, web.StartPath, nil, startBody(`"public_key":"x"`)); code(
			e,
		) != web.Unauthorized {
			t.Fatalf("contract 30: guess %d of a public key: %v", n+1, e)
		}
	}
	if _, e := w.ask((*API).Start, web.StartPath, nil, startBody(`"public_key":"`+w.pk+`"`)); code(
		e,
	) != web.RateLimited {
		t.Errorf("contract 30: guess 61 of a public key: %v", e)
	}
}

// TestValidate_TokenWithoutCredential: contract 17. The outcome that the token
// was issued for must be in the store when the token is marked used.
func TestValidate_TokenWithoutCredential(t *testing.T) {
	for _, c := range []struct {
		name   string
		claims func(t *testing.T, w *fixture, id session.ID, text string) token.ResultClaims
		want   web.Code
	}{
		{"contract 17: a session that was not completed",
			func(_ *testing.T, w *fixture, _ session.ID, text string) token.ResultClaims {
				return token.ResultClaims{Session: text, Completed: token.At(w.Clock.Now()),
					Outcome: "0123456789abcdef0123456789abcdef"}
			}, web.InvalidToken},
		{"contract 17: the same, in the form of an earlier release",
			func(_ *testing.T, w *fixture, _ session.ID, text string) token.ResultClaims {
				return token.ResultClaims{Session: text, Completed: token.At(w.Clock.Now())}
			}, web.InvalidToken},
		{"contract 17: another write than the one that completed it",
			func(t *testing.T, w *fixture, id session.ID, text string) token.ResultClaims {
				w.complete(t, id, text)
				c := w.claims(t, id, text)
				c.Outcome = "0123456789abcdef0123456789abcdef"
				return c
			}, web.InvalidToken},
		{"contract 17: a token of an earlier release, of another time",
			func(t *testing.T, w *fixture, id session.ID, text string) token.ResultClaims {
				w.complete(t, id, text)
				c := w.claims(t, id, text)
				return token.ResultClaims{Session: text, Completed: c.Completed + 1}
			}, web.InvalidToken},
		{"contract 17: a token of an earlier release",
			func(t *testing.T, w *fixture, id session.ID, text string) token.ResultClaims {
				w.complete(t, id, text)
				return token.ResultClaims{Session: text, Completed: w.claims(t, id, text).Completed}
			}, ""},
		{"contract 17: the token of the completed session",
			func(t *testing.T, w *fixture, id session.ID, text string) token.ResultClaims {
				w.complete(t, id, text)
				return w.claims(t, id, text)
			}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newFixture(t)
			id, err := session.NewID(w.API.Random, testUUID, session.L1, 25, w.Clock.Now(), 1)
			coretest.Must(t, err)
			text, err := id.Format(w.API.Sealer)
			coretest.Must(t, err)
			result, err := token.SealResult(w.API.Sealer, c.claims(t, w, id, text))
			coretest.Must(t, err)
			_, e := w.ask((*API).Validate, web.ValidatePath, bearer(w.sk), `{"result_token":"`+result+`"}`)
			if code(e) != c.want {
				t.Errorf("%v, want %q", e, c.want)
			}
		})
	}
}
