package hosted

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/internal/router"
	"github.com/verge-id/verge/core/internal/session"
	"github.com/verge-id/verge/core/internal/testhost"
	"github.com/verge-id/verge/core/internal/token"
	"github.com/verge-id/verge/core/internal/verdict"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/kvadapters/kvtest"
)

// post is a method with responses by letter, and trusts some senders. A letter is its sender; "no" is a
// rejection.
type post struct {
	settings string
	senders  []string
	age      int    // that an approval proves; 0: the requested age
	here     bool   // no phone does the step
	code     string // "": a short one
	outdated bool   // another release has written the states
	unknown  error  // if not nil, the trust in a sender is not known
}

func (*post) Begin(context.Context, method.Session) error { return nil }

func (p *post) Show(s method.Session, _ []byte) method.View {
	if s.ResponseURI == "" {
		return method.View{Choices: []string{"begin"}, Here: p.here}
	}
	if p.outdated {
		return method.View{Outdated: true}
	}
	return method.View{Open: "post://a", Code: cmp.Or(p.code, "post://a"), Here: p.here}
}

func (p *post) Act(_ context.Context, _ method.Session, step method.Step) (method.Decision, error) {
	switch {
	case p.outdated && step.Form.Has(method.CredentialField):
		return method.Decision{}, method.ErrOutdated
	case step.Response == nil:
		return method.Decision{Verdict: method.Pending, Await: true}, nil
	case string(step.Response) == "no":
		return method.Decision{Verdict: method.Rejected}, nil
	}
	return method.Decision{Verdict: method.Approved, Trust: string(step.Response), Age: p.age}, nil
}

func (p *post) Receive(_ context.Context, _ method.Session, _ []byte, c method.Call) ([]byte, error) {
	if p.outdated {
		return nil, method.ErrOutdated
	}
	return c.Body, nil
}

func (p *post) Fingerprint() string { return verdict.Digest(p.settings) }

func (p *post) Trusts(_ context.Context, sender string) (bool, error) {
	return slices.Contains(p.senders, sender), p.unknown
}

// postFixture is a fixture whose integration offers post, and asks for 16.
type postFixture struct {
	*pkFixture
	letters   *post
	lastPhone string // the handle of a hand-off
}

func newPostFixture(t *testing.T) *postFixture {
	t.Helper()
	w := &postFixture{passkeyFixture(t), &post{settings: "a", senders: []string{"mint", "bank"}}, ""}
	w.Partitions = 1
	w.open("letters", "", false)
	w.asks(func(*integration.Integration) {})
	return w
}

// open starts the service again, with the method post of a kind.
func (w *postFixture) open(kind, level string, sandbox bool) {
	w.t.Helper()
	kinds := []method.Kind{testhost.Kind(kind, w.letters, sandbox),
		testhost.Kind("scripted", w.provider, true)}
	catalog, wrong := method.NewCatalog(kinds, []method.Config{{Name: "post", Kind: kind, Level: level},
		{Name: "scripted", Kind: "scripted"}}, false)
	coretest.Must(w.t, wrong.Err())
	w.Methods = w.Host.Opened(catalog)
}

// asks changes the integration.
func (w *postFixture) asks(change func(*integration.Integration)) {
	w.t.Helper()
	w.integrate(func(i *integration.Integration) {
		i.Method, i.MinimumAge = "post", 16
		change(i)
	})
}

// asked is a session whose browser waits for a letter.
type asked struct {
	*browser
	w    *postFixture
	flow string
	wait string // the address of the page that waits
}

func (w *postFixture) begins() *asked {
	w.t.Helper()
	a := &asked{w.browser(w.t), w, w.session(session.L2, 25), ""}
	page := a.open("/verify?" + here(a.flow))
	resp := a.submit(a.flow, page, "outcome", "begin")
	a.wait = resp.Header.Get("Location")
	if waits := a.open(a.wait); resp.Status != 303 || kind(waits) != "method" {
		w.t.Fatalf("a form that opens a box leads to %d, %s", resp.Status, kind(waits))
	}
	return a
}

// answered sends a letter as response.
func (a *asked) answered(sender string, same bool) {
	a.t.Helper()
	handle, _ := session.ParsePendingHandle(a.w.record(a.flow).Response)
	resp, err := a.Receive(ctx,
		call(&web.Request{Method: "POST", Header: web.Header{}, Body: []byte(sender)}), handle, same)
	if err != nil || resp.Status != 200 {
		a.t.Fatalf("the letter: %+v, %v", resp, err)
	}
	if same {
		var told taken
		coretest.Must(a.t, json.Unmarshal(resp.Body, &told))
		a.wait = strings.TrimPrefix(told.RedirectURI, a.BaseURL)
	}
}

// goes opens an address and follows where it leads.
func (a *asked) goes(address string) *web.Response {
	a.t.Helper()
	resp := a.open(address)
	for n := 0; resp.Status == 303 && n < 3; n++ {
		resp = a.open(resp.Header.Get("Location"))
	}
	return resp
}

// changes are the acts of operators and publishers between a verdict and its use.
var changes = []struct {
	name  string
	do    func(w *postFixture)
	holds bool // the verdict is still enough
}{
	{"nothing", func(*postFixture) {}, true},
	{"another anchor is added", func(w *postFixture) {
		w.letters.senders = append(w.letters.senders, "new")
	}, true},
	{"another anchor is removed", func(w *postFixture) { w.letters.senders = []string{"mint"} }, true},
	{"its anchor is removed", func(w *postFixture) { w.letters.senders = []string{"bank"} }, false},
	{"the method's settings are others", func(w *postFixture) { w.letters.settings = "b" }, false},
	{"the method is of another kind", func(w *postFixture) { w.open("other", "", false) }, false},
	{"the method proves L1 alone", func(w *postFixture) { w.open("letters", "L1", false) }, false},
	{"a lower age is enough", func(w *postFixture) {
		w.asks(func(i *integration.Integration) { i.MinimumAge = 15 })
	}, true},
}

// stricter are further changes, which only matter for the session itself.
var stricter = []struct {
	name  string
	do    func(w *postFixture)
	holds bool
}{
	{"a higher age is asked for", func(w *postFixture) {
		w.asks(func(i *integration.Integration) { i.MinimumAge = 21 })
	}, false},
	{"a higher age is asked for, which is proven", func(w *postFixture) {
		w.letters.age = 21
		w.asks(func(i *integration.Integration) { i.MinimumAge = 21 })
	}, true},
	{"the integration has stricter settings", func(w *postFixture) {
		w.asks(func(i *integration.Integration) {
			i.MethodSettings = map[string]json.RawMessage{"post": json.RawMessage(`{"a":1}`)}
		})
	}, false},
	{"the integration does not offer the method", func(w *postFixture) {
		w.asks(func(i *integration.Integration) { i.Method = "scripted" })
	}, false},
	{"the service has no such method", func(w *postFixture) {
		w.asks(func(i *integration.Integration) { i.Methods = []string{"post", "scripted"} })
		delete(w.Methods, "post")
	}, false},
	{"the method is of a kind that receives no response", receivesNone, false},
}

// receivesNone replaces the method by one of a kind that receives no responses.
func receivesNone(w *postFixture) {
	m := testhost.Catalog(testhost.Kind("other", &bank{}, false))
	m[0].Name = "post"
	w.Methods["post"] = w.Host.Opened(m)["post"]
}

// Contract 34: a late response to a method that has changed gets 410, so a wallet does not repeat it.
func TestResponse_MethodChanged(t *testing.T) {
	for name, change := range map[string]func(w *postFixture){"of another kind": receivesNone,
		"removed": func(w *postFixture) { delete(w.Methods, "post") }} {
		w := newPostFixture(t)
		a := w.begins()
		handle, _ := session.ParsePendingHandle(w.record(a.flow).Response)
		change(w)
		letter := &web.Request{Method: "POST", Header: web.Header{}, Body: []byte("mint")}
		if _, err := a.Receive(ctx, call(letter), handle, false); !errors.Is(err, errOver) {
			t.Errorf("contract 34: the method is %s: %v, want 410", name, err)
		}
	}
}

// Contract 34: a response that waits for its browser is judged again when the browser comes.
func TestPendingResponse_ChangedMeanwhile(t *testing.T) {
	for _, c := range slices.Concat(changes, stricter) {
		for _, same := range []bool{false, true} {
			t.Run("contract 34: "+c.name, func(t *testing.T) {
				w := newPostFixture(t)
				a := w.begins()
				a.answered("mint", same)
				c.do(w)
				page := a.goes(a.wait)
				r := w.record(a.flow)
				if c.holds != (r.State == session.Completed) || c.holds != (hop(t, page) != nil) {
					t.Fatalf("the session is %+v, the page %s: %s", r, kind(page), page.Body)
				}
				if c.holds {
					return
				}
				if r.Terminal() || r.Attempts != 0 || kind(page) != "method" {
					t.Errorf("the session is %+v, the page %s", r, kind(page))
				}
				if hop(t, a.goes(a.wait)) != nil {
					t.Error("the same address loaded again completes the session")
				}
			})
		}
	}
}

// A verdict that was thrown away stays so, even if what it was judged by comes back.
func TestPendingResponse_DiscardedForGood(t *testing.T) {
	w := newPostFixture(t)
	a := w.begins()
	a.answered("mint", false)
	w.letters.settings = "b"
	a.goes(a.wait)
	w.letters.settings = "a"
	if page := a.goes(a.wait); hop(t, page) != nil || w.record(a.flow).Response != "" {
		t.Errorf("contract 34: the box still exists: %s", kind(page))
	}
}

// A change that another instance has just saved counts, although the cache does not have it.
func TestPendingResponse_CacheTooOld(t *testing.T) {
	w := newPostFixture(t)
	a := w.begins()
	a.answered("mint", false)
	i, err := w.Directory.Integration(ctx, testUUID)
	coretest.Must(t, err)
	next := *i
	next.MinimumAge = 21
	coretest.Must(t, integration.NewDirectory(w.Host.Host).PutIntegration(ctx, next, ""))
	if page := a.goes(a.wait); hop(t, page) != nil {
		t.Errorf("contract 34: a response for 16 to a session that asks for 21: %s", kind(page))
	}
}

// The page has the reason why the user begins again, and the log has the method.
func TestPendingResponse_OutdatedIsExplained(t *testing.T) {
	w := newPostFixture(t)
	a := w.begins()
	a.answered("mint", false)
	w.letters.senders = nil
	page := a.goes(a.wait)
	if !bytes.Contains(page.Body, []byte("Please do this step again")) ||
		!strings.Contains(w.Logged.String(), "reason=outdated") {
		t.Errorf("contract 34: %s\n%s", page.Body, w.Logged.String())
	}
	b := a.submit(a.flow, page, "outcome", "begin")
	if b.Status != 303 || kind(a.goes(b.Header.Get("Location"))) != "method" {
		t.Errorf("contract 34: the user cannot begin again: %d", b.Status)
	}
}

// A response that an earlier release stored has no basis.
func TestPendingResponse_WithoutBasis(t *testing.T) {
	w := newPostFixture(t)
	m := w.Methods["post"]
	for _, by := range []verdict.Basis{{}, {Method: "post", Kind: "letters", Level: "L2"}} {
		_, err := m.Act(ctx, method.Session{Level: "L2", MinimumAge: 16},
			method.Step{Response: []byte("mint"), Basis: by}, nil)
		if !errors.Is(err, method.ErrOutdated) {
			t.Errorf("contract 34: an answer kept by %+v: %v", by, err)
		}
	}
}

// phone opens the hand-off of a session on another browser, and returns that and the computer's page that
// waits.
func (a *asked) phone() (p *asked, waits string) {
	a.t.Helper()
	page := a.open("/verify?" + here(a.flow))
	resp := a.submit(a.flow, page, "hand", "1")
	waits = resp.Header.Get("Location")
	handle := a.w.record(a.flow).HandOff
	p = &asked{a.w.browser(a.t), a.w, phonePrefix + handle, ""}
	link := func(h web.Header) *router.Call {
		return call(&web.Request{Method: "GET", Path: PhonePath + handle, Header: h})
	}
	asks := p.ShowPhone(ctx, link(web.Header{}))
	p.keep(p.post(p.flow, nil, "device", hidden(asks, "device")))
	method := p.ShowPhone(ctx, link(p.header()))
	resp = p.submit(p.flow, method, "outcome", "begin")
	if resp.Status != 303 {
		a.t.Fatalf("contract 40: the phone begins: %d %s", resp.Status, resp.Body)
	}
	u, err := url.Parse(resp.Header.Get("Location"))
	coretest.Must(a.t, err)
	p.wait = u.RawQuery
	p.w.lastPhone = handle
	return p, waits
}

// brings has the phone bring the verdict of a letter.
func (p *asked) brings(computer *asked, sender string) {
	p.t.Helper()
	handle, _ := session.ParsePendingHandle(p.w.record(computer.flow).Response)
	letter := call(&web.Request{Method: "POST", Header: web.Header{}, Body: []byte(sender)})
	_, err := p.Receive(ctx, letter, handle, false)
	coretest.Must(p.t, err)
	p.loads(p.wait)
	hand, err := p.Lifecycle.Pending(ctx, token.Pending{HandOff: p.w.lastPhone})
	if err != nil || !hand.Done {
		p.t.Fatalf("contract 40: the hand-off is %+v, %v", hand, err)
	}
}

// loads loads the phone's link with that query.
func (p *asked) loads(query string) *web.Response {
	p.t.Helper()
	return p.keep(p.ShowPhone(ctx, call(&web.Request{Method: "GET", Path: PhonePath + p.w.lastPhone,
		Query: query, Header: p.header()})))
}

// The computer checks between the phone's last form and the page after it.
func TestHandOff_CollectedBeforePhoneLoads(t *testing.T) {
	for _, letter := range []string{"mint", "no"} {
		w := newPostFixture(t)
		a := w.begins()
		p, waits := a.phone()
		p.brings(a, letter)
		a.goes(waits)
		other := &asked{w.browser(t), w, p.flow, ""}
		for n, c := range []struct {
			by     *asked
			status int
			kind   string
		}{{other, 410, "phone_over"}, {p, 200, "phone_done"}, {p, 410, "phone_over"}} {
			if page := c.by.loads(""); page.Status != c.status || kind(page) != c.kind {
				t.Errorf("contract 40: %s: page %d is %d %s", letter, n, page.Status, kind(page))
			}
		}
	}
}

// A user waits for a response while the service is upgraded, and the new release cannot read the state.
func TestWaiting_StateOfAnotherRelease(t *testing.T) {
	w := newPostFixture(t)
	a := w.begins()
	w.letters.outdated = true
	handle, _ := session.ParsePendingHandle(w.record(a.flow).Response)
	_, err := a.Receive(ctx, call(&web.Request{Method: "POST", Header: web.Header{}, Body: []byte("mint")}),
		handle, false)
	if !errors.Is(err, errOver) {
		t.Errorf("contract 34: a response is %v, want 410", err)
	}
	page := a.goes(a.wait)
	if !bytes.Contains(page.Body, []byte("Please do this step again")) ||
		!bytes.Contains(page.Body, []byte(`data-outcome="begin"`)) {
		t.Fatalf("contract 34: the page that waits is %s: %s", kind(page), page.Body)
	}
	byForm := a.submit(a.flow, page, method.CredentialField, "{}")
	if to := byForm.Header.Get("Location"); byForm.Status != 303 || !strings.Contains(to, "=outdated") {
		t.Errorf("contract 34: a form is %d to %q", byForm.Status, to)
	}
	w.letters.outdated = false // the state of the next step is of this release
	again := a.submit(a.flow, page, "outcome", "begin")
	a.wait = again.Header.Get("Location")
	a.answered("mint", false)
	if page := a.goes(a.wait); hop(t, page) == nil || w.record(a.flow).Attempts != 0 {
		t.Errorf("contract 34: after the upgrade the page is %s", kind(page))
	}
}

// Contract 40: a phone's verdict is judged again, too, a yes and a no.
func TestHandOff_ChangedMeanwhile(t *testing.T) {
	for _, c := range slices.Concat(changes, stricter) {
		t.Run("contract 40: "+c.name, func(t *testing.T) {
			w := newPostFixture(t)
			a := w.begins()
			p, waits := a.phone()
			p.brings(a, "mint")
			c.do(w)
			page := a.goes(waits)
			r := w.record(a.flow)
			holds := c.holds && c.name != stricter[1].name // the phone has brought the age of then
			if holds != (r.State == session.Completed) || holds != (hop(t, page) != nil) {
				t.Fatalf("the session is %+v, the page %s: %s", r, kind(page), page.Body)
			}
			if !holds && (r.Terminal() || r.Attempts != 0 || kind(page) != "method" || r.HandOff != "") {
				t.Errorf("the session is %+v, the page %s", r, kind(page))
			}
		})
	}
}

// The phone's verdict arrives while the computer's page is loaded. The page judges it, as any other.
func TestHandOff_ArrivesDuringLoad(t *testing.T) {
	for _, age := range []int{15, 21} {
		w := newPostFixture(t)
		a := w.begins()
		p, waits := a.phone()
		reads, name := 0, session.PendingName(token.Pending{HandOff: w.lastPhone})
		w.Store.Decide = func(c kvtest.Call) kvtest.Fault {
			if c.Method == "Get" && c.Key.Name == name {
				if reads++; reads == 2 { // settle has found none
					w.Store.Decide = nil
					p.brings(a, "mint")
					w.asks(func(i *integration.Integration) { i.MinimumAge = age })
				}
			}
			return kvtest.Pass
		}
		page, r, holds := a.goes(waits), w.record(a.flow), age == 15
		if reads != 2 || holds != (r.State == session.Completed) || holds != (hop(t, page) != nil) {
			t.Errorf("contract 40: age %d: the session is %+v, the page %s", age, r, kind(page))
		}
	}
}

// With a method that becomes one for this device alone, a hand-off ends, and its verdict counts for nothing.
func TestHandOff_NoLongerAllowed(t *testing.T) {
	for _, letter := range []string{"mint", "no"} {
		t.Run("contract 40: "+letter, func(t *testing.T) {
			w := newPostFixture(t)
			a := w.begins()
			p, waits := a.phone()
			p.brings(a, letter)
			w.letters.here = true
			page := a.goes(waits)
			if r := w.record(a.flow); r.Terminal() || r.Attempts != 0 || hop(t, page) != nil ||
				kind(page) != "method" || bytes.Contains(page.Body, []byte("data-hand")) {
				t.Errorf("the session is %+v, the page %s: %s", r, kind(page), page.Body)
			}
		})
	}
	w := newPostFixture(t)
	a := w.begins()
	p, waits := a.phone()
	w.letters.here = true
	late := p.ShowPhone(ctx, call(&web.Request{Method: "GET", Path: PhonePath + w.lastPhone,
		Query: p.wait, Header: p.header()}))
	if page := a.goes(waits); late.Status != 410 || kind(page) != "method" {
		t.Errorf("contract 40: before the phone is done, the phone gets %d, and the computer a %s page",
			late.Status, kind(page))
	}
}

func TestHandOff_NoChangedMeanwhile(t *testing.T) {
	for _, c := range []struct {
		name  string
		do    func(w *postFixture)
		state session.State
	}{
		{"nothing", func(*postFixture) {}, session.Failed},
		{"a higher age is asked for", func(w *postFixture) {
			w.asks(func(i *integration.Integration) { i.MinimumAge = 21 })
		}, session.Failed},
		{"a lower age is enough", func(w *postFixture) {
			w.asks(func(i *integration.Integration) { i.MinimumAge = 14 })
		}, session.Started},
		{"the method's settings are others", func(w *postFixture) { w.letters.settings = "b" },
			session.Started},
	} {
		t.Run("contract 40: "+c.name, func(t *testing.T) {
			w := newPostFixture(t)
			a := w.begins()
			p, _ := a.phone()
			p.brings(a, "no")
			c.do(w)
			page := a.goes("/verify?" + here(a.flow))
			if r := w.record(a.flow); r.State != c.state {
				t.Fatalf("the session is %+v, the page %s", r, kind(page))
			}
			if c.state == session.Failed {
				return
			}
			if resp := a.submit(a.flow, page, "hand", "1"); resp.Status != 303 ||
				w.record(a.flow).HandOff == "" {
				t.Errorf("contract 40: no other hand-off opens: %d", resp.Status)
			}
		})
	}
}

// completed walks a session to its success by a letter, and returns the page that follows.
func (w *postFixture) completed() (*asked, *web.Response) {
	w.t.Helper()
	a := w.begins()
	a.answered("mint", false)
	done := a.goes(a.wait)
	if hop(w.t, done) == nil {
		w.t.Fatalf("the session shows %s: %s", kind(done), done.Body)
	}
	return a, done
}

// archives archives the publisher of the integration.
func (w *postFixture) archives() {
	w.t.Helper()
	now := w.Clock.Now()
	coretest.Must(w.t, w.Directory.PutPublisher(ctx,
		integration.Publisher{ID: "pub_a", Name: "Shop", Archived: &now}))
	w.Clock.Advance(6 * time.Second)
}

// passkeyChanges end passkeys, those that there are and the right to make one.
var passkeyChanges = []struct {
	name  string
	do    func(w *postFixture)
	holds bool
}{
	{"its publisher is archived", (*postFixture).archives, false},
	{"all passkeys are ended", func(w *postFixture) {
		coretest.Must(w.t, w.Passkeys.End(ctx, "pub_a"))
	}, false},
	{"the method is gone", func(w *postFixture) {
		w.asks(func(i *integration.Integration) { i.Methods = []string{"post", "scripted"} })
		delete(w.Methods, "post")
	}, false},
	{"those of another publisher are ended", func(w *postFixture) {
		coretest.Must(w.t, w.Passkeys.End(ctx, "pub_b"))
	}, true},
}

// Contract 38: a passkey counts while the trust behind it holds.
func TestPasskey_ChangedMeanwhile(t *testing.T) {
	for _, c := range slices.Concat(changes, passkeyChanges) {
		t.Run("contract 38: used after "+c.name, func(t *testing.T) {
			w := newPostFixture(t)
			a, done := w.completed()
			if resp := w.send(w.enrols(done), a.header()); resp.Status != 303 || w.kept() != 1 {
				t.Fatalf("the passkey is made: %d, %d are kept", resp.Status, w.kept())
			}
			w.Clock.Advance(time.Minute)
			c.do(w)
			w.asks(func(i *integration.Integration) { // another publisher's
				i.PublisherID, i.MinimumAge, i.Methods = "pub_b", 16, []string{"post", "scripted"}
			})
			flow := w.session(session.L2, 25)
			page := w.follow(w.send(w.uses(w.get(here(flow))), nil))
			r := w.record(flow)
			if c.holds != (r.State == session.Completed) || !c.holds && r.State != session.Started {
				t.Errorf("the session is %+v: %s", r, page.Body)
			}
			if own := w.own(w.uses(w.looks()), nil); c.holds ==
				bytes.Contains(own.Body, []byte("No longer valid")) {
				t.Errorf("contract 38: its own page says: %s", own.Body)
			}
		})
		t.Run("contract 38: made after "+c.name, func(t *testing.T) {
			w := newPostFixture(t)
			a, done := w.completed()
			form := w.enrols(done)
			c.do(w)
			resp := w.send(form, a.header())
			if resp.Status != 303 || c.holds != (w.kept() == 1) {
				t.Errorf("%d, %d are kept", resp.Status, w.kept())
			}
			again := a.goes("/verify?" + here(a.flow))
			if hop(t, again) == nil {
				t.Errorf("contract 38: the way to the callback is gone: %s", kind(again))
			}
		})
	}
}

// The report's walk: a wallet answers for 16, the publisher raises the age, and no passkey stands for more.
func TestPasskey_StandsForWhatWasJudged(t *testing.T) {
	w := newPostFixture(t)
	a, done := w.completed()
	form := w.enrols(done)
	w.asks(func(i *integration.Integration) {
		i.MinimumAge = 21
		i.MethodSettings = map[string]json.RawMessage{"post": json.RawMessage(`{"a":1}`)}
	})
	if resp := w.send(form, a.header()); resp.Status != 303 || w.kept() != 1 {
		t.Fatalf("contract 38: %d, %d are kept", resp.Status, w.kept())
	}
	for age, want := range map[int]session.State{16: session.Completed, 18: session.Started} {
		w.Clock.Advance(time.Minute)
		w.asks(func(i *integration.Integration) { i.PublisherID, i.MinimumAge = "pub_b", age })
		flow := w.session(session.L2, 25)
		w.send(w.uses(w.get(here(flow))), nil)
		if r := w.record(flow); r.State != want {
			t.Errorf("contract 38: a passkey of 16 where %d is asked for: %+v", age, r)
		}
	}
}

// A sandbox verifies no user, so no passkey is created from it outside of dev.
func TestPasskey_Sandbox(t *testing.T) {
	for _, dev := range []bool{false, true} {
		w := newPostFixture(t)
		w.Dev = dev
		w.provider.decision.Verdict = method.Approved
		w.asks(func(i *integration.Integration) { i.Method = "scripted" })
		flow := w.session(session.L1, 25)
		done := w.follow(w.post(flow, nil))
		if offered := attribute(done, "data-step") == "enrol"; hop(t, done) == nil || offered != dev {
			t.Errorf("contract 38: dev %v: a passkey after a sandbox: %v, %s", dev, offered, kind(done))
		}
	}
}

// A device cookie that another host of the site has planted skips no warning: its name is not exactly ours.
func TestHandOff_PlantedCookie(t *testing.T) {
	w := newPostFixture(t)
	a := w.begins()
	p, _ := a.phone() // the attacker's own device has taken the hand-off
	handle := w.lastPhone
	for name, value := range p.cookies {
		for _, white := range []string{"\u2000", "\u00a0", "\u3000"} {
			seen := w.ShowPhone(ctx, call(&web.Request{Method: "GET", Path: PhonePath + handle,
				Header: web.Header{"Cookie": {white + name + "=" + value}}}))
			if seen.Status != 409 || kind(seen) != "phone_taken" {
				t.Errorf("contract 40: with a planted %q the victim's phone gets %d, %s", white+name,
					seen.Status, kind(seen))
			}
		}
	}
	if len(p.cookies) == 0 {
		t.Error("the device has no cookie")
	}
}

// The language in the cookie of a phone that is done becomes a header, so any other text in it is ignored.
func TestHandOff_LanguageInCookie(t *testing.T) {
	w := newPostFixture(t)
	for value, want := range map[string]string{"de": "de", "xx": "en", "\u20ac": "en", "": "en"} {
		page := w.ShowPhone(ctx, call(&web.Request{Method: "GET", Path: PhonePath + "none",
			Header: web.Header{"Cookie": {w.cookiePrefix() + "none" + broughtMark + "=" + value}}}))
		if got := page.Header.Get("Content-Language"); page.Status != 200 || got != want {
			t.Errorf("contract 40: with the cookie %q: %d, Content-Language %q, want %q", value, page.Status,
				got, want)
		}
	}
}

// If the trust in an anchor is not known, a verdict does not count now, and is not lost.
func TestTrust_Unknown(t *testing.T) {
	unknown := fmt.Errorf("list: %w", kv.ErrUnavailable)
	pending := func(t *testing.T, w *postFixture, a *asked, page *web.Response) {
		t.Helper()
		if r := w.record(a.flow); r.Terminal() || r.Attempts != 0 || hop(t, page) != nil {
			t.Fatalf("contract 53: the session is %+v, the page %s", r, kind(page))
		}
	}
	t.Run("contract 53: a response that waits", func(t *testing.T) {
		w := newPostFixture(t)
		a := w.begins()
		a.answered("mint", false)
		w.letters.unknown = unknown
		pending(t, w, a, a.goes(a.wait))
		w.letters.unknown = nil
		if page := a.goes(a.wait); hop(t, page) == nil {
			t.Errorf("afterwards the page is %s", kind(page))
		}
	})
	t.Run("contract 53: a phone's verdict", func(t *testing.T) {
		w := newPostFixture(t)
		a := w.begins()
		p, waits := a.phone()
		p.brings(a, "mint")
		w.letters.unknown = unknown
		pending(t, w, a, a.goes(waits))
		w.letters.unknown = nil
		if page := a.goes(waits); hop(t, page) == nil {
			t.Errorf("afterwards the page is %s", kind(page))
		}
	})
	t.Run("contract 53: a passkey", func(t *testing.T) {
		w := newPostFixture(t)
		a, done := w.completed()
		if resp := w.send(w.enrols(done), a.header()); resp.Status != 303 || w.kept() != 1 {
			t.Fatalf("the passkey is made: %d, %d are kept", resp.Status, w.kept())
		}
		w.Clock.Advance(time.Minute)
		w.letters.unknown = unknown
		flow := w.session(session.L2, 25)
		form := w.uses(w.get(here(flow)))
		if resp := w.send(form, nil); resp.Status != 503 || w.record(flow).Terminal() {
			t.Fatalf("%d, the session is %+v", resp.Status, w.record(flow))
		}
		w.letters.unknown = nil
		w.Clock.Advance(time.Second)
		w.follow(w.send(w.uses(w.get(here(flow))), nil))
		if r := w.record(flow); r.State != session.Completed {
			t.Errorf("afterwards the session is %+v", r)
		}
	})
}

// With none of the integration's methods, such as during a rolling change of the configuration, a session
// waits (503), and an ended one shows its outcome.
func TestMethods_NoneConfigured(t *testing.T) {
	link := func(a *asked) *web.Response { return a.open("/verify?" + here(a.flow)) }
	form := func(a *asked) *web.Response { return a.post(a.flow, nil) }
	for _, c := range []struct {
		name   string
		before func(a *asked)
		ask    func(a *asked) *web.Response
		status int
		kind   string // "": a redirect
	}{
		{"contract 5, 503: a link", func(*asked) {}, link, 503, "unavailable"},
		{"contract 5, 503: a form", func(*asked) {}, form, 503, "unavailable"},
		{"contract 17: completed", func(a *asked) {
			a.answered("mint", false)
			a.goes(a.wait)
		}, link, 200, "completed"},
		{"contract 18: a form after completion", func(a *asked) {
			a.answered("mint", false)
			a.goes(a.wait)
		}, form, 303, ""},
		{"contract 20: failed", func(a *asked) {
			a.answered("no", false)
			a.goes(a.wait)
		}, link, 200, "failed"},
		{"contract 24: expired", func(a *asked) { a.w.Clock.Advance(session.Life) }, link, 410, "expired"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newPostFixture(t).begins()
			c.before(a)
			a.w.Methods = map[string]method.Opened{}
			if resp := c.ask(a); resp.Status != c.status || kind(resp) != c.kind {
				t.Errorf("%d %s, want %d %s", resp.Status, kind(resp), c.status, c.kind)
			}
		})
	}
	// replace sets a method that this instance lacks, by another instance. The cache has the previous one.
	replace := func(w *pkFixture) {
		i, err := w.Directory.Integration(ctx, testUUID)
		coretest.Must(t, err)
		next := *i
		next.Method, next.Methods = "new", nil
		coretest.Must(t, integration.NewDirectory(w.Host.Host).PutIntegration(ctx, next, ""))
	}
	t.Run("contract 5, 503: a passkey", func(t *testing.T) {
		w := passkeyFixture(t)
		w.has()
		form := w.uses(w.get(here(w.session(session.L1, 25))))
		form.Set("credential", "{}")
		replace(w)
		if resp := w.send(form, nil); resp.Status != 503 {
			t.Errorf("%d %s", resp.Status, kind(resp))
		}
	})
	t.Run("contract 5, 503: a phone's verdict", func(t *testing.T) {
		a := newPostFixture(t).begins()
		p, waits := a.phone()
		p.brings(a, "mint")
		replace(a.w.pkFixture)
		if resp := a.open(waits); resp.Status != 503 {
			t.Errorf("%d %s", resp.Status, kind(resp))
		}
	})
}
