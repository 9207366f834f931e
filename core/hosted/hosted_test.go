package hosted

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/api"
	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/lifecycle"
	"github.com/verge-id/verge/core/provider"
	"github.com/verge-id/verge/core/session"
	"github.com/verge-id/verge/core/token"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/kvadapters/kvtest"
	"github.com/verge-id/verge/kvadapters/memory"
)

const testUUID = "694069ac-4d4e-475f-906b-2f11c5eca7bd"

var ctx = context.Background()

// scripted decides what it is told to.
type scripted struct {
	decision provider.Decision
	err      error
	state    []byte // that it was handed last
	acts     int
}

func (*scripted) Method() string                                   { return "scripted" }
func (*scripted) Initiate(context.Context, provider.Session) error { return nil }
func (*scripted) Prompt(provider.Session) provider.Prompt {
	return provider.Prompt{Choices: []string{"approve"}, Sandbox: true}
}
func (p *scripted) Act(_ context.Context, _ provider.Session, _ url.Values, state []byte) (provider.Decision, error) {
	p.acts++
	p.state = state
	return p.decision, p.err
}

// world is a Hosted on a store that fails as told and whose clock is moved.
type world struct {
	*Hosted
	store    *kvtest.Faulty
	clock    *kvtest.Clock
	log      bytes.Buffer
	provider *scripted
	commits  int
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{clock: kvtest.NewClock(), provider: &scripted{}}
	w.store = &kvtest.Faulty{KV: memory.New(memory.Config{Now: w.clock.Now})}
	random := &coretest.Random{}
	ring, err := token.NewRing("verify.verge.example", random, token.Key{ID: "9f02ab31", Secret: bytes.Repeat([]byte{7}, 32)})
	coretest.Must(t, err)
	h := host.Host{KV: w.store, Sealer: ring, Now: w.clock.Now, Random: random, Log: slog.New(slog.NewTextHandler(&w.log, nil))}
	w.Hosted = &Hosted{Host: h, BaseURL: "https://verify.verge.example", Directory: integration.NewDirectory(h),
		Lifecycle: &lifecycle.Lifecycle{Host: h, Attempts: 3, OutcomeLife: time.Hour}, Providers: map[string]provider.Provider{"scripted": w.provider}}
	coretest.Must(t, w.Directory.PutIntegration(ctx, integration.Integration{ID: testUUID, PublisherID: "pub_a", Level: "L1", ChallengeAge: 25, Method: "scripted",
		Webhook: integration.Webhook{Off: true}}, ""))
	w.store.Decide = func(c kvtest.Call) kvtest.Fault {
		if c.Method == "Commit" {
			w.commits++
		}
		return kvtest.Pass
	}
	return w
}

const callback = "https://www.publisher.example/return?order=1"

// flow makes a session and returns its flow token.
func (w *world) flow(t testing.TB, state *string) (session.ID, string) {
	t.Helper()
	id, err := session.NewID(w.Random, testUUID, session.L1, 25, w.clock.Now(), 0)
	coretest.Must(t, err)
	text, err := id.Format(w.Sealer)
	coretest.Must(t, err)
	claims := token.FlowClaims{Session: text, Callback: []byte(callback), Language: "en", Expires: token.At(id.Expires())}
	claims.SetState(state)
	flow, err := token.SealFlow(w.Sealer, claims)
	coretest.Must(t, err)
	return id, flow
}

func (w *world) post(flow string, header web.Header, fields ...string) *web.Response {
	form := url.Values{"flow": {flow}, "outcome": {"approve"}}
	for n := 0; n < len(fields); n += 2 {
		form.Set(fields[n], fields[n+1])
	}
	h := web.Header{"Content-Type": {"application/x-www-form-urlencoded"}}
	for name, values := range header {
		h[name] = values
	}
	return w.Act(ctx, &web.Request{Method: "POST", Path: api.HostedPath, Header: h, Body: []byte(form.Encode())})
}

func (w *world) get(query string) *web.Response {
	return w.Show(ctx, &web.Request{Method: "GET", Path: api.HostedPath, Query: query, Header: web.Header{}})
}

func TestCallbackHop(t *testing.T) {
	empty, state := "", "a b&c=d+ü"
	for _, given := range []*string{nil, &empty, &state} {
		w := newWorld(t)
		_, flow := w.flow(t, given)
		w.provider.decision.Verdict = provider.Approved
		first := w.post(flow, nil)
		u, err := url.Parse(first.Header.Get("Location"))
		coretest.Must(t, err)
		q := u.Query()
		if first.Status != 303 || !strings.HasPrefix(first.Header.Get("Location"), callback+"&") || q.Get("result_token") == "" || q.Get("session_id") == "" {
			t.Fatalf("contract 22: %d to %s", first.Status, u)
		}
		if q.Has("state") != (given != nil) || given != nil && q.Get("state") != *given {
			t.Errorf("spec, Callback redirect: state %q, given %v", q["state"], given)
		}
		if csp := first.Header.Get("Content-Security-Policy"); !strings.Contains(csp, "form-action 'self' https://www.publisher.example;") {
			t.Errorf("contract 22: %s", csp)
		}
		w.clock.Advance(5*time.Minute - time.Millisecond)
		w.provider.decision.Verdict = provider.Rejected
		again := w.post(flow, nil)
		v, err := url.Parse(again.Header.Get("Location"))
		coretest.Must(t, err)
		a, errA := token.OpenResult(w.Sealer, q.Get("result_token"))
		b, errB := token.OpenResult(w.Sealer, v.Query().Get("result_token"))
		if err := errors.Join(errA, errB); err != nil || a != b {
			t.Errorf("contract 17: reloaded, the token says %+v and not %+v (%v)", b, a, err)
		}
		if w.provider.acts != 1 {
			t.Errorf("contract 18: the provider was asked %d times", w.provider.acts)
		}
		w.clock.Advance(time.Millisecond)
		if late := w.post(flow, nil); late.Status != 410 || late.Header.Has("Location") {
			t.Errorf("contract 17: after 5 minutes it is handed out again: %d", late.Status)
		}
	}
}

func TestOnlyApprovalYieldsAResultToken(t *testing.T) {
	for verdict := provider.Unclassified; verdict <= provider.Pending+3; verdict++ {
		w := newWorld(t)
		_, flow := w.flow(t, nil)
		w.provider.decision = provider.Decision{Verdict: verdict, State: []byte("s")}
		resp := w.post(flow, nil)
		if got := strings.Contains(resp.Header.Get("Location"), "result_token") || bytes.Contains(resp.Body, []byte(token.ResultPrefix)); got != (verdict == provider.Approved) {
			t.Errorf("spec, Rules: verdict %d: %d to %s", verdict, resp.Status, resp.Header.Get("Location"))
		}
	}
	w := newWorld(t)
	_, flow := w.flow(t, nil)
	w.provider.decision.Verdict, w.provider.err = provider.Approved, errors.New("cause")
	if resp := w.post(flow, nil); resp.Status != 503 || w.commits != 0 || bytes.Contains(resp.Body, []byte("cause")) {
		t.Errorf("provider.Act: an error decides something: %d, %d commits", resp.Status, w.commits)
	}
	// The browser's mistake, or an attacker's: neither a fault of ours nor one to log.
	w.provider.err = fmt.Errorf("%w: cause", provider.ErrStep)
	w.log.Reset()
	if resp := w.post(flow, nil); resp.Status != 400 || w.commits != 0 || bytes.Contains(resp.Body, []byte("cause")) || w.log.Len() > 0 {
		t.Errorf("contract 5, 400: a form that no page has: %d, %d commits, log %s", resp.Status, w.commits, &w.log)
	}
}

func TestGETChangesNothing(t *testing.T) {
	w := newWorld(t)
	_, flow := w.flow(t, nil)
	w.provider.decision.Verdict = provider.Approved
	f := "flow=" + url.QueryEscape(flow)
	for _, query := range []string{f, f + "&outcome=approve", f + "&show=cancelled", f + "&show=attempt", f + "&show=x", f + "&provider=x", f + "&" + f} {
		if resp := w.get(query); resp.Status != 200 || resp.Header.Get("Cache-Control") != "no-store" || !strings.Contains(resp.Header.Get("Content-Security-Policy"), "frame-ancestors 'none'") {
			t.Errorf("contract 22: %d %v", resp.Status, resp.Header)
		}
	}
	if w.provider.acts != 0 || w.commits != 0 {
		t.Errorf("contract 22: GET asked the provider %d times and committed %d times", w.provider.acts, w.commits)
	}
	for _, query := range []string{"", "flow=", "flow=x", "flow=%zz", "flow=" + flow[:len(flow)-2], "flow=" + token.ResultPrefix + strings.TrimPrefix(flow, token.FlowPrefix)} {
		if resp := w.get(query); resp.Status != 400 || bytes.Contains(resp.Body, []byte("publisher.example")) {
			t.Errorf("contract 24: %q is answered with %d: %s", query, resp.Status, resp.Body)
		}
	}
}

func TestAProviderTokenBelongsToOneSession(t *testing.T) {
	w := newWorld(t)
	_, flow := w.flow(t, nil)
	_, other := w.flow(t, nil)
	w.provider.decision = provider.Decision{Verdict: provider.Pending, State: []byte("step 1")}
	resp := w.post(flow, nil)
	u, err := url.Parse(resp.Header.Get("Location"))
	coretest.Must(t, err)
	pending := u.Query().Get("provider")
	if resp.Status != 303 || pending == "" || w.commits != 0 {
		t.Fatalf("pending: %d to %s, %d commits", resp.Status, u, w.commits)
	}
	w.provider.decision.Verdict = provider.Approved
	for _, stolen := range []string{pending, "x", flow, token.ProviderPrefix} {
		if resp := w.post(other, nil, "provider", stolen); resp.Status != 400 || w.provider.acts != 1 {
			t.Errorf("contract 15: another session's provider token: %d", resp.Status)
		}
	}
	if resp := w.post(flow, nil, "provider", pending); resp.Status != 303 || string(w.provider.state) != "step 1" {
		t.Errorf("its own: %d, the provider was handed %q", resp.Status, w.provider.state)
	}
}

func TestPostsOfOtherSitesAreRefused(t *testing.T) {
	for _, c := range []struct {
		name   string
		header web.Header
		ok     bool
	}{
		{"a browser that says nothing", nil, true},
		{"our own page", web.Header{"Sec-Fetch-Site": {"same-origin"}, "Origin": {"https://verify.verge.example"}}, true},
		{"our own page in an old browser", web.Header{"Origin": {"https://verify.verge.example"}}, true},
		{"the address bar", web.Header{"Sec-Fetch-Site": {"none"}}, true},
		{"another site", web.Header{"Sec-Fetch-Site": {"cross-site"}}, false},
		{"another host of our site", web.Header{"Sec-Fetch-Site": {"same-site"}}, false},
		{"another site that forges Origin cannot forge both", web.Header{"Sec-Fetch-Site": {"cross-site"}, "Origin": {"https://verify.verge.example"}}, false},
		{"another site in an old browser", web.Header{"Origin": {"https://evil.example"}}, false},
		{"our host over http", web.Header{"Origin": {"http://verify.verge.example"}}, false},
		{"a host that begins like ours", web.Header{"Origin": {"https://verify.verge.example.evil"}}, false},
		{"another Content-Type", web.Header{"Content-Type": {"text/plain"}}, false},
	} {
		t.Run("contract 22: "+c.name, func(t *testing.T) {
			w := newWorld(t)
			_, flow := w.flow(t, nil)
			w.provider.decision.Verdict = provider.Approved
			resp := w.post(flow, c.header)
			if (resp.Status == 303) != c.ok || (w.provider.acts == 1) != c.ok {
				t.Errorf("%d after the provider was asked %d times", resp.Status, w.provider.acts)
			}
		})
	}
}

func TestAStoreThatFailsGrantsNothing(t *testing.T) {
	for _, fail := range []kvtest.Fault{kvtest.Refuse, kvtest.LoseRequest, kvtest.LoseReply} {
		w := newWorld(t)
		id, flow := w.flow(t, nil)
		w.provider.decision.Verdict = provider.Approved
		w.store.Decide = func(c kvtest.Call) kvtest.Fault {
			if c.Method == "Commit" {
				return fail
			}
			return kvtest.Pass
		}
		resp := w.post(flow, nil)
		if resp.Status != 503 || resp.Header.Get("Retry-After") == "" || resp.Header.Has("Location") || bytes.Contains(resp.Body, []byte(token.ResultPrefix)) {
			t.Errorf("contract 5, 503: %v: %d %v", fail, resp.Status, resp.Header)
		}
		w.store.Decide = nil
		if r, _, err := w.Lifecycle.Load(ctx, id); err != nil || (r.State == session.Completed) != (fail == kvtest.LoseReply) {
			t.Errorf("%v: kept is %+v, %v", fail, r, err)
		}
		// The same click again is told the truth.
		if resp := w.post(flow, nil); resp.Status != 303 || !strings.Contains(resp.Header.Get("Location"), "result_token") {
			t.Errorf("%v, then well: %d", fail, resp.Status)
		}
		for _, never := range []string{flow, "order=1", token.ResultPrefix} {
			if strings.Contains(w.log.String(), never) {
				t.Errorf("contract 13: the log holds %q: %s", never, &w.log)
			}
		}
	}
}

func TestOrigin(t *testing.T) {
	for callback, want := range map[string]string{
		"https://a.example/return?x": "https://a.example", "https://a.example:8443": "https://a.example:8443",
		"http://[::1]:1/x": "http://[::1]:1", "": "", "/x": "", "https://": "", ":": "",
	} {
		if got := origin(callback); got != want {
			t.Errorf("contract 24: the origin of %q is %q, want %q", callback, got, want)
		}
	}
}
