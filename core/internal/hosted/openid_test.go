package hosted

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/internal/session"
	"github.com/verge-id/verge/core/internal/token"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/web"
)

// openIDFlow starts a session of an OpenID client, and returns its flow token.
func (w *fixture) openIDFlow(t testing.TB) (session.ID, string) {
	t.Helper()
	id, flow := w.flow(t, nil)
	claims, _, err := token.OpenFlow(w.Hosted.Sealer, flow)
	coretest.Must(t, err)
	state := "q7"
	claims.SetState(&state)
	claims.OpenID = []byte(".n")
	flow, err = token.SealFlow(w.Hosted.Sealer, claims)
	coretest.Must(t, err)
	return id, flow
}

// linkBack returns the link of a page that leads to the site.
func linkBack(t testing.TB, page *web.Response) *url.URL {
	t.Helper()
	doc, err := html.Parse(strings.NewReader(string(page.Body)))
	coretest.Must(t, err)
	for n := range doc.Descendants() {
		for _, a := range n.Attr {
			if n.Data == "a" && a.Key == "href" && strings.HasPrefix(a.Val, "https://www.publisher.example") {
				to, err := url.Parse(a.Val)
				coretest.Must(t, err)
				return to
			}
		}
	}
	return nil
}

// isDenied reports whether an address has the error for a user who was not verified.
func isDenied(to *url.URL) bool {
	return to != nil && strings.HasPrefix(to.String(), callback+"&") &&
		to.Query().Get("error") == "access_denied" && to.Query().Get("state") == "q7" &&
		to.Query().Get("iss") == "https://verify.verge.example/oidc" &&
		!to.Query().Has("code")
}

func TestOpenID_Completed(t *testing.T) {
	w := newFixture(t)
	id, flow := w.openIDFlow(t)
	w.provider.decision.Verdict = method.Approved
	w.post(flow, nil)
	to := hop(t, w.get(here(flow)))
	if to == nil || to.Query().Get("code") == "" || to.Query().Get("state") != "q7" ||
		to.Query().Get("iss") != "https://verify.verge.example/oidc" || to.Query().Has("result_token") ||
		to.Query().Has("session_id") {
		t.Fatalf("contract 50: the browser goes to %s", to)
	}
	code, err := token.OpenGrant(w.Hosted.Sealer, token.Code, to.Query().Get("code"))
	if err != nil || code.Age != 18 || string(code.OpenID) != ".n" {
		t.Errorf("contract 50: the code has %+v, %v", code, err)
	}
	tok, err := w.Results.Of(code.ResultClaims, nil)
	coretest.Must(t, err)
	_, err = w.Results.Redeem(ctx, tok, "", w.Clock.Now())
	coretest.Must(t, err)
	used := w.get(here(flow))
	if back := linkBack(t, used); used.Status != 409 || back == nil || back.RawQuery != "" {
		t.Errorf("contract 24: after its use the page is %d and leads to %s", used.Status, back)
	}
	if r, _, _ := w.Lifecycle.Load(ctx, id); r.Age != 18 {
		t.Errorf("contract 50: the record has the age %d", r.Age)
	}
}

// A user who goes back without a success returns to the client with an error, from every page.
func TestOpenID_Denied(t *testing.T) {
	for name, walk := range map[string]func(*fixture, string) *web.Response{
		"before any step": func(w *fixture, flow string) *web.Response { return w.get(here(flow)) },
		"cancelled": func(w *fixture, flow string) *web.Response {
			w.provider.decision.Verdict = method.Cancelled
			w.post(flow, nil)
			return w.get(here(flow) + "&show=cancelled")
		},
		"rejected": func(w *fixture, flow string) *web.Response {
			w.provider.decision.Verdict = method.Rejected
			w.post(flow, nil)
			return w.get(here(flow))
		},
		"a failed attempt": func(w *fixture, flow string) *web.Response {
			w.provider.decision.Verdict = method.AttemptFailed
			w.post(flow, nil)
			return w.get(here(flow))
		},
		"expired": func(w *fixture, flow string) *web.Response {
			w.Clock.Advance(session.Life)
			return w.get(here(flow))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			_, flow := w.openIDFlow(t)
			page := walk(w, flow)
			if back := linkBack(t, page); !isDenied(back) || hop(t, page) != nil {
				t.Errorf("contract 50: the %s page leads to %s", kind(page), back)
			}
		})
	}
}

// After the result token's life, its use is unknown, and the client may have had a success.
func TestOpenID_ResultExpired(t *testing.T) {
	w := newFixture(t)
	_, flow := w.openIDFlow(t)
	w.provider.decision.Verdict = method.Approved
	w.post(flow, nil)
	w.Clock.Advance(token.ResultLife)
	page := w.get(here(flow))
	if back := linkBack(t, page); page.Status != 410 || back == nil || back.RawQuery != "" {
		t.Errorf("contract 50: the page is %d and leads to %s", page.Status, back)
	}
}

// The page that offers a passkey stays for longer than a code is valid, so it leads to a page with a new
// code.
func TestOpenID_PasskeyOffered(t *testing.T) {
	w := passkeyFixture(t)
	_, flow := w.openIDFlow(t)
	done := w.completes(flow)
	to := hop(t, done)
	if attribute(done, "data-step") == "" || to.Host != "verify.verge.example" || to.Path != web.HostedPath {
		t.Fatalf("contract 50: the page that offers a passkey leads to %s", to)
	}
	w.Clock.Advance(2 * time.Minute)
	leaves := w.get(to.RawQuery)
	code, err := token.OpenGrant(w.Host.Sealer, token.Code, hop(t, leaves).Query().Get("code"))
	if err != nil || code.Issued != token.At(w.Clock.Now()) || attribute(leaves, "data-step") != "" {
		t.Errorf("contract 50: the next page has %+v, %v", code, err)
	}
}

// An estimate proves the age that it was compared with, even if the integration has raised its ages since the
// session began.
func TestOpenID_AgeOfEstimate(t *testing.T) {
	for name, use := range map[string]func(*pkFixture, string){
		"an estimate": func(w *pkFixture, flow string) { w.completes(flow) },
		"a passkey": func(w *pkFixture, flow string) {
			w.send(w.uses(w.get(here(flow))), nil)
		},
	} {
		t.Run("contract 50: "+name, func(t *testing.T) {
			w := passkeyFixture(t)
			w.has()
			id, flow := w.openIDFlow(t)
			w.integrate(func(i *integration.Integration) { i.ChallengeAge, i.MinimumAge = 30, 30 })
			use(w, flow)
			if r, _, _ := w.Lifecycle.Load(ctx, id); r.State != session.Completed || r.Age != 25 {
				t.Errorf("the record is %+v, want the age 25", r)
			}
		})
	}
}

// A session of the API has no age in its record, and another browser gets no code (contract 34).
func TestOpenID_OtherSessions(t *testing.T) {
	w := passkeyFixture(t)
	w.integrate(func(i *integration.Integration) { i.Passkeys = "" })
	_, flow := w.openIDFlow(t)
	w.completes(flow)
	elsewhere := w.get(here(flow))
	if to := linkBack(t, elsewhere); hop(t, elsewhere) != nil || to != nil && to.RawQuery != "" {
		t.Errorf("contract 34: another browser goes to %s", to)
	}
	plain := w.session(session.L1, 25)
	w.completes(plain)
	if r := w.record(plain); r.Age != 0 || r.State != session.Completed {
		t.Errorf("contract 19: the record is %+v", r)
	}
}
