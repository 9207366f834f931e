package hosted

import (
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/internal/session"
	"github.com/verge-id/verge/core/internal/testhost"
	"github.com/verge-id/verge/core/internal/token"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/web"
)

// A method may need further steps after the return: one on the page, or another request.
func TestReturn_Continues(t *testing.T) {
	w, bank, _ := bankFixture(t, "bank")
	b := w.browser(t)
	_, flow := w.flow(t, nil)
	b.leaves(flow)
	bank.back = method.Decision{Verdict: method.Pending, State: []byte("second")}
	resp := b.open(returnURL("1"))
	page := b.open(resp.Header.Get("Location"))
	if kind(page) != "method" || hidden(page, "provider") == "" {
		t.Fatalf("contract 35: %d, then a %s page", resp.Status, kind(page))
	}
	resp = b.submit(flow, page, "outcome", "begin", tabField, "2")
	if page = b.open(resp.Header.Get("Location")); resp.Status != 303 || kind(page) != "leaving" {
		t.Fatalf("the step behind the return: %d, then a %s page", resp.Status, kind(page))
	}
	bank.back = method.Decision{Verdict: method.Approved}
	resp = b.open(returnURL("2"))
	if page = b.open(resp.Header.Get("Location")); kind(page) != "completed" || bank.returned != 2 {
		t.Errorf("the second return: %d, then a %s page; asked %d times", resp.Status, kind(page),
			bank.returned)
	}
}

// longFlow is the longest flow token that can begin: of an OpenID client (contract 50).
func (w *fixture) longFlow(t testing.TB) string {
	t.Helper()
	id, err := session.NewID(w.Host.Random, testUUID, session.L1, 25, w.Clock.Now(), 0)
	coretest.Must(t, err)
	text, err := id.Format(w.Hosted.Sealer)
	coretest.Must(t, err)
	state := strings.Repeat("<", 1024)
	claims := token.FlowClaims{Session: text, Language: "en", Expires: token.At(id.Expires()),
		Callback: []byte(callback + "&long=" + strings.Repeat("x", 2048-len(callback)-len("&long=")))}
	claims.SetState(&state)
	claims.OpenID = []byte(strings.Repeat("c", 43) + "." + strings.Repeat("n", 256))
	flow, err := token.SealFlow(w.Hosted.Sealer, claims)
	coretest.Must(t, err)
	return flow
}

// The longest request comes back. The cookies of the requests that a browser keeps leave room in a header of
// 48 KiB.
func TestPendingRequest_LongestValues(t *testing.T) {
	w, _, _ := bankFixture(t, "bank")
	b := w.browser(t)
	flow := w.longFlow(t)
	for _, tab := range []string{"1", "2", "3", "4"} {
		w.Clock.Advance(time.Second)
		handle := handleOf(tab)
		to := bankURL + "&state=" + handle
		w.provider.decision = method.Decision{Verdict: method.Pending, State: make([]byte, method.MaxState),
			Leave: &method.Leave{Handle: handle, URL: to + strings.Repeat("&a=b+c+d", (2048-len(to))/8)}}
		w.Methods = w.Host.Opened(testhost.Catalog(testhost.Kind("bank", w.provider, false)))
		resp := b.submit(flow, b.open("/verify?"+here(flow)), "outcome", "approve")
		if page := b.open(resp.Header.Get("Location")); resp.Status != 303 || kind(page) != "leaving" {
			t.Fatalf("contract 34: tab %s: %d, then a %s page", tab, resp.Status, kind(page))
		}
		if n := len(b.header().Get("Cookie")); n > 15<<10 {
			t.Errorf("contract 34: the cookies have %d bytes", n)
		}
	}
	w.provider.decision = method.Decision{Verdict: method.Approved}
	resp := b.open(returnURL("4"))
	if page := b.open(resp.Header.Get("Location")); resp.Status != 303 || kind(page) != "completed" {
		t.Errorf("contract 34: the return: %d, then a %s page", resp.Status, kind(page))
	}
}

// A method without proof leaves by a form without a step, and its return finds it.
func TestSandbox_Leaves(t *testing.T) {
	w, _, _ := bankFixture(t, "scripted")
	b := w.browser(t)
	_, flow := w.flow(t, nil)
	w.provider.decision = method.Decision{Verdict: method.Pending,
		Leave: &method.Leave{URL: bankURL, Handle: handleOf("1")}}
	b.submit(flow, b.open("/verify?"+here(flow)), "outcome", "approve")
	w.provider.decision = method.Decision{Verdict: method.Approved}
	resp := b.open("/verify/return/scripted?code=c&state=" + handleOf("1"))
	if page := b.open(resp.Header.Get("Location")); resp.Status != 303 || kind(page) != "completed" {
		t.Errorf("contract 35: %d, then a %s page", resp.Status, kind(page))
	}
}

// A cookie needs room for the whole of a request, so a longer one is rejected before the browser leaves.
func TestPendingRequest_WithoutCookie(t *testing.T) {
	w, _, _ := bankFixture(t, "bank")
	handle := handleOf("1")
	w.provider.decision = method.Decision{Verdict: method.Pending,
		Leave: &method.Leave{Handle: handle, URL: "https://bank.example/?" + strings.Repeat("&", 2000)}}
	w.Methods = w.Host.Opened(testhost.Catalog(testhost.Kind("bank", w.provider, false)))
	b := w.browser(t)
	flow := w.longFlow(t)
	resp := b.submit(flow, b.open("/verify?"+here(flow)), "outcome", "approve")
	if resp.Status != 503 || resp.Header.Has("Set-Cookie") {
		t.Errorf("%d, and cookies of %d bytes", resp.Status, len(strings.Join(resp.Header["Set-Cookie"], "")))
	}
}

// A step that was sealed while the integration had the sandbox does not count for a real method.
func TestStep_SandboxIsNotReal(t *testing.T) {
	w, bank, _ := bankFixture(t, "scripted")
	b := w.browser(t)
	id, flow := w.flow(t, nil)
	w.provider.decision = method.Decision{Verdict: method.Pending, State: []byte("since")}
	resp := b.submit(flow, b.open("/verify?"+here(flow)), "outcome", "approve")
	page := b.open(resp.Header.Get("Location"))
	i, err := w.Directory.Integration(ctx, testUUID)
	coretest.Must(t, err)
	changed := *i
	changed.Method = "bank"
	coretest.Must(t, w.Directory.PutIntegration(ctx, changed, ""))
	resp = b.submit(flow, page, "outcome", "begin", tabField, "1")
	if resp.Status != 303 || resp.Header.Has("Set-Cookie") || bank.told.ID != "" {
		t.Errorf("contract 34: %d; the bank received %+v", resp.Status, bank.told)
	}
	if r, _, err := w.Lifecycle.Load(ctx, id); err != nil || r.Terminal() {
		t.Errorf("%+v, %v", r, err)
	}
}

// The user may choose again after a failed attempt, and the method receives the number of attempts.
func TestMethod_ReceivesFailedAttempts(t *testing.T) {
	w, bank, _ := bankFixture(t, "bank", "second")
	b := w.browser(t)
	_, flow := w.flow(t, nil)
	b.leaves(flow)
	bank.back = method.Decision{Verdict: method.AttemptFailed}
	b.open(returnURL("1"))
	b.submit(flow, &web.Response{}, "method", "bank")
	if bank.told.Attempt != 1 {
		t.Errorf("after one failed attempt it receives %d", bank.told.Attempt)
	}
}

// awaiting is a Sealer that lacks the key of provider tokens.
type awaiting struct{ host.Sealer }

func (a awaiting) Open(purpose string, sealed []byte) ([]byte, time.Time, error) {
	if purpose == token.Step {
		return nil, time.Time{}, host.ErrKeyAwaited
	}
	return a.Sealer.Open(purpose, sealed)
}

// A step or a request whose key is on its way is asked for again in a moment.
func TestStepsWaitForTheirKey(t *testing.T) {
	w, bank, _ := bankFixture(t, "bank")
	b := w.browser(t)
	_, flow := w.flow(t, nil)
	page := b.open("/verify?" + here(flow))
	b.leaves(flow)
	sealer := w.Hosted.Sealer
	wait := func(rule string, ask func() *web.Response) {
		t.Helper()
		w.Hosted.Sealer = awaiting{sealer}
		defer func() { w.Hosted.Sealer = sealer }()
		if resp := ask(); resp.Status != 503 || !resp.Header.Has("Retry-After") {
			t.Errorf("contract 16: %s: %d", rule, resp.Status)
		}
	}
	step := web.HostedPath + "?" + here(flow) + "&provider=" + hidden(page, "provider")
	wait("the page of a step", func() *web.Response { return b.open(step) })
	wait("a form", func() *web.Response { return b.submit(flow, page, "outcome", "begin", tabField, "2") })
	wait("the page that leaves", func() *web.Response {
		return b.open(web.HostedPath + "?" + here(flow) + "&errand=" + handleOf("1"))
	})
	wait("a return", func() *web.Response { return b.open(returnURL("1")) })
	bank.back = method.Decision{Verdict: method.Approved}
	end := b.open(returnURL("1")).Header.Get("Location")
	wait("the end, for the browser that proved", func() *web.Response { return b.open(end) })
	wait("the end, with a step", func() *web.Response { return w.browser(t).open(step) })
	if page := b.open(end); kind(page) != "completed" {
		t.Errorf("with its key it is a %s page", kind(page))
	}
}
