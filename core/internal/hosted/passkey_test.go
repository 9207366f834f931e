package hosted

import (
	"bytes"
	"encoding/json"
	"errors"
	"html"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/internal/passkey"
	"github.com/verge-id/verge/core/internal/session"
	"github.com/verge-id/verge/core/internal/testhost"
	"github.com/verge-id/verge/core/internal/token"
	"github.com/verge-id/verge/core/internal/verdict"
	"github.com/verge-id/verge/core/internal/webauthn"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/kvadapters/kvtest"
	"github.com/verge-id/verge/testharness/passkeytest"
)

// pkFixture is a fixture with passkeys, with a method that estimates and one that proves.
type pkFixture struct {
	*fixture
	t      *testing.T
	face   *scripted // the estimator
	bank   *bank
	device *passkeytest.Authenticator
	told   []host.Measurement
}

func passkeyFixture(t *testing.T) *pkFixture {
	t.Helper()
	w := &pkFixture{fixture: newFixture(t), t: t, face: &scripted{}, bank: &bank{}}
	w.device = passkeytest.New(w.BaseURL)
	party, err := webauthn.NewRelyingParty("verify.verge.example", "Verge", w.BaseURL)
	coretest.Must(t, err)
	w.Passkeys = &passkey.Store{Host: w.Hosted.Host, Party: party, Life: 30 * 24 * time.Hour}
	w.Hosted.Observer = testhost.Observer{OnMeasure: func(m host.Measurement) { w.told = append(w.told, m) }}
	estimator := testhost.Kind("face", w.face, false)
	estimator.Level, estimator.Estimates = "L1", true
	estimator.Narrow = nil
	w.Methods = w.Host.Opened(testhost.Catalog(estimator, testhost.Kind("bank", w.bank, false),
		testhost.Kind("scripted", w.provider, true)))
	coretest.Must(t, w.Directory.PutPublisher(ctx, integration.Publisher{ID: "pub_a", Name: "Shop"}))
	w.integrate(func(*integration.Integration) {})
	w.face.decision.Verdict = method.Approved
	return w
}

// integrate changes the integration, which offers the estimator and lets passkeys of all publishers count.
func (w *pkFixture) integrate(change func(*integration.Integration)) {
	w.t.Helper()
	i := integration.Integration{ID: testUUID, PublisherID: "pub_a", Level: "L1", ChallengeAge: 25,
		Method: "face", Passkeys: integration.PasskeysService, Webhook: integration.Webhook{Off: true}}
	change(&i)
	coretest.Must(w.t, w.Directory.PutIntegration(ctx, i, ""))
	w.Clock.Advance(6 * time.Second) // so that no cache has the previous version
}

// session begins a session at a level and challenge age.
func (w *pkFixture) session(level session.Level, age int) string {
	w.t.Helper()
	id, err := session.NewID(w.Host.Random, testUUID, level, age, w.Clock.Now(), 0)
	coretest.Must(w.t, err)
	text, err := id.Format(w.Host.Sealer)
	coretest.Must(w.t, err)
	flow, err := token.SealFlow(w.Host.Sealer, token.FlowClaims{Session: text, Callback: []byte(callback),
		Language: "en", Expires: token.At(id.Expires())})
	coretest.Must(w.t, err)
	return flow
}

// attribute returns an attribute of a page's form with a passkey, "" if the page has no such form.
func attribute(page *web.Response, name string) string {
	_, form, _ := strings.Cut(string(page.Body), `<form class="passkey"`)
	head, _, _ := strings.Cut(form, ">")
	_, rest, _ := strings.Cut(head, name+`="`)
	value, _, _ := strings.Cut(rest, `"`)
	return html.UnescapeString(value)
}

// fieldsOf returns the hidden inputs of a page's form with a passkey.
func fieldsOf(page *web.Response) url.Values {
	_, form, _ := strings.Cut(string(page.Body), `<form class="passkey"`)
	form, _, _ = strings.Cut(form, "</form>")
	fields := url.Values{}
	for _, input := range strings.Split(form, `<input type="hidden" name="`)[1:] {
		name, rest, _ := strings.Cut(input, `" value="`)
		value, _, _ := strings.Cut(rest, `"`)
		fields.Set(name, html.UnescapeString(value))
	}
	return fields
}

func (w *pkFixture) send(fields url.Values, header web.Header) *web.Response {
	h := web.Header{"Content-Type": {"application/x-www-form-urlencoded"}}
	maps.Copy(h, header)
	return w.Act(ctx, call(&web.Request{Method: "POST", Path: web.HostedPath, Header: h,
		Body: []byte(fields.Encode())}))
}

func (w *pkFixture) follow(r *web.Response) *web.Response {
	w.t.Helper()
	path, query, _ := strings.Cut(r.Header.Get("Location"), "?")
	if r.Status != 303 || path != web.HostedPath {
		w.t.Fatalf("contract 22: a POST returns %d to %s: %s", r.Status, path, r.Body)
	}
	return w.get(query)
}

// completes walks a session to its success by the estimator, and returns the page that follows.
func (w *pkFixture) completes(flow string) *web.Response {
	w.t.Helper()
	page := w.get(here(flow) + "&method=face")
	done := w.follow(w.post(flow, nil, "provider", hidden(page, "provider"), "attempt", "0"))
	if kind(done) != "completed" || hop(w.t, done) == nil {
		w.t.Fatalf("the session shows %s", kind(done))
	}
	return done
}

// enrols lets the device create a passkey on a page, and returns the form that the script would post.
func (w *pkFixture) enrols(page *web.Response, changes ...func(*passkeytest.Ceremony)) url.Values {
	w.t.Helper()
	answer, err := w.device.Create([]byte(attribute(page, "data-options")), changes...)
	coretest.Must(w.t, err)
	fields := fieldsOf(page)
	fields.Set("credential", string(answer.JSON()))
	return fields
}

// uses has the device use a passkey on a page, and returns the form that the script would post.
func (w *pkFixture) uses(page *web.Response, changes ...func(*passkeytest.Ceremony)) url.Values {
	w.t.Helper()
	if attribute(page, "data-method") != "passkey" {
		w.t.Fatalf("contract 38: the %s page offers no passkey", kind(page))
	}
	answer, err := w.device.Get([]byte(attribute(page, "data-options")), changes...)
	coretest.Must(w.t, err)
	fields := fieldsOf(page)
	fields.Set("credential", string(answer.JSON()))
	return fields
}

// has creates a passkey after an estimate of 25, as a user does.
func (w *pkFixture) has() {
	w.t.Helper()
	done := w.completes(w.session(session.L1, 25))
	if gone := w.follow(w.send(w.enrols(done), nil)); hop(w.t, gone) == nil {
		w.t.Fatalf("contract 38: making a passkey leads to %s", kind(gone))
	}
	w.Clock.Advance(time.Minute)
}

func (w *pkFixture) record(flow string) session.Record {
	w.t.Helper()
	claims, _, err := token.OpenFlow(w.Host.Sealer, flow)
	coretest.Must(w.t, err)
	id, err := session.ParseID(w.Host.Sealer, claims.Session)
	coretest.Must(w.t, err)
	r, _, err := w.Lifecycle.Load(ctx, id)
	coretest.Must(w.t, err)
	return r.As(w.Clock.Now(), id.Expires())
}

func (w *pkFixture) kept() int {
	n, _, err := w.Passkeys.CountOf(ctx, "pub_a", passkey.MaxCount)
	coretest.Must(w.t, err)
	return n
}

func TestPasskey_CreateAndUse(t *testing.T) {
	w := passkeyFixture(t)
	done := w.completes(w.session(session.L1, 25))
	if attribute(done, "data-step") != "enrol" ||
		!bytes.Contains(done.Body, []byte("<noscript><meta http-equiv")) ||
		!bytes.Contains(done.Body, []byte("Continue to")) || hop(t, done) == nil {
		t.Fatalf("contract 38: the page after a success: %s", done.Body)
	}
	for name, want := range map[string]string{"Content-Security-Policy": "script-src 'self';",
		"Permissions-Policy": "publickey-credentials-create=(self)", "Referrer-Policy": "no-referrer",
		"Refresh": "315"} {
		if got := done.Header.Get(name); !strings.Contains(got, want) {
			t.Errorf("contract 38: %s is %s", name, got)
		}
	}
	gone := w.follow(w.send(w.enrols(done), nil))
	if hop(t, gone) == nil || attribute(gone, "data-step") != "" ||
		!bytes.Contains(gone.Body, []byte(`<meta http-equiv="refresh" content="0;url=`)) {
		t.Fatalf("contract 38: after the passkey is made: %s", gone.Body)
	}
	if w.kept() != 1 {
		t.Fatalf("contract 38: %d passkeys are kept, want 1", w.kept())
	}

	flow := w.session(session.L1, 25)
	page := w.get(here(flow))
	if kind(page) != "method" ||
		page.Header.Get("Content-Security-Policy") != done.Header.Get("Content-Security-Policy") {
		t.Errorf("contract 38: the method page is %s with %s", kind(page), page.Header)
	}
	completed := w.follow(w.send(w.uses(page), nil))
	r := w.record(flow)
	if hop(t, completed) == nil || r.State != session.Completed || r.Attempts != 0 ||
		r.Proven != (verdict.Basis{Method: "passkey"}) || r.Browser == "" {
		t.Fatalf("contract 38: with a passkey: %s, %+v", kind(completed), r)
	}
	if attribute(completed, "data-step") != "" {
		t.Error("contract 38: a session that a passkey completed offers another passkey")
	}
	if other := w.get(here(flow)); kind(other) != "elsewhere" || hop(t, other) != nil {
		t.Errorf("contract 34: another browser with the link sees %s", kind(other))
	}
	var events []string
	for _, m := range w.told {
		events = append(events, m.Method+" "+m.Event)
	}
	if !slices.Equal(events, []string{"passkey begun", "passkey approved"}) {
		t.Errorf("told %q", events)
	}
}

// again returns the page that a page continues to automatically.
func (w *pkFixture) again(page *web.Response) *web.Response {
	w.t.Helper()
	m := regexp.MustCompile(`<meta http-equiv="refresh" content="6;url=([^"]+)"`).FindSubmatch(page.Body)
	if kind(page) != "asked" || m == nil {
		w.t.Fatalf("contract 23: %s does not wait and continue: %s", kind(page), page.Body)
	}
	path, query, _ := strings.Cut(html.UnescapeString(string(m[1])), "?")
	if path != web.HostedPath {
		w.t.Fatalf("contract 23: it goes on to %s", path)
	}
	return w.get(query)
}

// Contract 23: a browser that posts the form twice in one instant continues with either response. The second
// form arrives when the first one has used the passkey, before and after the session has ended.
func TestPasskey_ConcurrentPosts(t *testing.T) {
	for _, ended := range []bool{false, true} {
		w := passkeyFixture(t)
		w.has()
		flow := w.session(session.L1, 25)
		form := w.uses(w.get(here(flow)), func(c *passkeytest.Ceremony) { c.Counter = 5 })
		w.Clock.Advance(time.Second)
		var second, waits *web.Response
		first := func() {
			if done := w.follow(w.send(form, nil)); hop(t, done) == nil {
				t.Errorf("contract 38: the first form leads to %s", kind(done))
			}
		}
		commits := 0
		w.Store.Decide = func(c kvtest.Call) kvtest.Fault {
			if c.Method != "Commit" {
				return kvtest.Pass
			}
			if commits++; commits == 1 && ended {
				w.Store.Decide = nil
				first()
			} else if commits == 2 && !ended {
				w.Store.Decide = nil
				second = w.send(form, nil)
				page := w.again(w.follow(second))
				if hop(t, page) != nil || kind(page) != "method" ||
					!bytes.Contains(page.Body, []byte("was not accepted")) {
					t.Errorf("contract 38: if the first form comes to nothing, the second shows %s: %s",
						kind(page), page.Body)
				}
				waits = w.follow(second)
				if r := w.record(flow); r.Terminal() {
					t.Errorf("contract 34: a response that was used before has completed the session: %+v", r)
				}
			}
			return kvtest.Pass
		}
		if ended {
			if page := w.follow(w.send(form, nil)); hop(t, page) == nil {
				t.Errorf("contract 23: after the first form, the second shows %s", kind(page))
			}
		} else {
			first()
			if page := w.again(waits); hop(t, page) == nil {
				t.Errorf("contract 23: the second form waits for the first, and then shows %s", kind(page))
			}
			if page := w.follow(second); hop(t, page) == nil {
				t.Errorf("contract 23: after the first form, the second shows %s", kind(page))
			}
		}
		if r := w.record(flow); r.State != session.Completed || r.Attempts != 0 {
			t.Errorf("contract 23: %+v", r)
		}
		if other := w.get(here(flow)); kind(other) != "elsewhere" {
			t.Errorf("contract 34: another browser sees %s", kind(other))
		}
	}
}

// Contract 34: a passkey's response that was used before is rejected in another session of another browser.
func TestPasskey_ResponseInAnotherSession(t *testing.T) {
	w := passkeyFixture(t)
	w.has()
	flow, other := w.session(session.L1, 25), w.session(session.L1, 25)
	form := w.uses(w.get(here(flow)), func(c *passkeytest.Ceremony) { c.Counter = 5 })
	page := w.get(here(other))
	w.follow(w.send(form, nil))
	theirs := fieldsOf(page)
	theirs.Set("credential", form.Get("credential"))
	w.send(theirs, nil)
	again := url.Values{}
	maps.Copy(again, form)
	again.Set("flow", other)
	w.send(again, nil)
	if r := w.record(other); r.Terminal() || r.Attempts != 0 {
		t.Errorf("contract 34: %+v", r)
	}
}

// A passkey is offered only on pages from which the session can continue.
func TestPasskey_Offered(t *testing.T) {
	w := passkeyFixture(t)
	flow := w.session(session.L1, 25)
	for query, want := range map[string]string{"": "method", "&show=cancelled": "cancelled",
		"&show=trouble": "method"} {
		page := w.get(here(flow) + query)
		if kind(page) != want || attribute(page, "data-method") != "passkey" {
			t.Errorf("contract 38: %q shows %s, with a passkey: %q", query, kind(page),
				attribute(page, "data-method"))
		}
		if bytes.Contains(page.Body, []byte("<form class=\"passkey\"")) &&
			!bytes.Contains(page.Body, []byte(" hidden>")) {
			t.Errorf("contract 38: the form is not hidden without script: %s", page.Body)
		}
	}
	w.integrate(func(i *integration.Integration) { i.Methods = []string{"face", "bank"} })
	if page := w.get(here(flow)); kind(page) != "choose" || attribute(page, "data-method") != "passkey" {
		t.Errorf("contract 38: the page to choose is %s, with %q", kind(page), attribute(page, "data-method"))
	}
	for name, off := range map[string]func(){
		"switched off": func() { w.integrate(func(i *integration.Integration) { i.Passkeys = "off" }) },
		"not set":      func() { w.integrate(func(i *integration.Integration) { i.Passkeys = "" }) },
		"no name": func() {
			w.integrate(func(*integration.Integration) {})
			w.Passkeys = nil
		},
	} {
		kept := w.Passkeys
		off()
		for _, query := range []string{"", "&show=cancelled"} {
			page := w.get(here(flow) + query)
			if bytes.Contains(page.Body, []byte("passkey")) || bytes.Contains(page.Body, []byte("<script")) ||
				strings.Contains(page.Header.Get("Permissions-Policy"), "publickey") {
				t.Errorf("contract 38: %s: %q still offers one: %s", name, query, page.Body)
			}
		}
		done := w.completes(w.session(session.L1, 25))
		if attribute(done, "data-step") != "" || bytes.Contains(done.Body, []byte("noscript")) {
			t.Errorf("contract 38: %s: the page after a success offers one", name)
		}
		w.Passkeys = kept
	}
}

// A rejected passkey counts no attempt and does not change the session; the page shows the reason, and other
// methods stay.
func TestPasskey_Rejected(t *testing.T) {
	for _, c := range []struct {
		name   string
		before func(w *pkFixture)
		level  session.Level
		age    int
		says   string
	}{
		{"L1 for L2", func(w *pkFixture) {
			w.integrate(func(i *integration.Integration) {
				i.Level, i.Methods = "L2",
					[]string{"bank", "scripted"}
			})
		}, session.L2, 25, "asks for one with an ID"},
		{"a method that the integration does not offer", func(w *pkFixture) {
			w.integrate(func(i *integration.Integration) { i.Method = "bank" })
		}, session.L1, 25, "a kind of check that this site does not accept"},
		{"a lower challenge age", func(*pkFixture) {}, session.L1, 26, "a lower age"},
		{"another publisher", func(w *pkFixture) {
			w.integrate(func(i *integration.Integration) {
				i.PublisherID, i.Passkeys = "pub_b", integration.PasskeysPublisher
			})
		}, session.L1, 25, "for another site"},
		{"ended by the operator", func(w *pkFixture) { coretest.Must(w.t, w.Passkeys.End(ctx, "pub_a")) },
			session.L1, 25, "It is no longer valid"},
		{"older than its life", func(w *pkFixture) { w.Clock.Advance(30 * 24 * time.Hour) }, session.L1, 25,
			"no record of it"},
		{"stricter settings", func(w *pkFixture) {
			w.integrate(func(i *integration.Integration) {
				i.MethodSettings = map[string]json.RawMessage{"face": json.RawMessage(`{"deviation":3}`)}
			})
		}, session.L1, 25, "stricter than the one"},
		{"deleted", func(w *pkFixture) {
			shown := w.own(w.uses(w.looks()), nil)
			w.own(url.Values{"provider": {hidden(shown, "provider")}}, nil)
			if w.kept() != 0 {
				w.t.Fatal("it is not deleted")
			}
		}, session.L1, 25, "no record of it"},
	} {
		t.Run("contract 38: "+c.name, func(t *testing.T) {
			w := passkeyFixture(t)
			w.has()
			c.before(w)
			flow := w.session(c.level, c.age)
			page := w.follow(w.send(w.uses(w.get(here(flow))), nil))
			if r := w.record(flow); r.Terminal() || r.Attempts != 0 {
				t.Fatalf("the session is %+v", r)
			}
			text := string(page.Body)
			if !strings.Contains(text, "was not accepted") || !strings.Contains(text, c.says) ||
				attribute(page, "data-method") != "passkey" {
				t.Errorf("the page does not contain %q: %s", c.says, text)
			}
			if kind(page) != "method" && kind(page) != "choose" {
				t.Errorf("the other methods are gone: %s", kind(page))
			}
			if log := w.Logged.String(); !strings.Contains(log, "passkey not accepted") {
				t.Errorf("the log says %s", log)
			}
		})
	}
	t.Run("contract 38: the same publisher, where only that one counts", func(t *testing.T) {
		w := passkeyFixture(t)
		w.has()
		w.integrate(func(i *integration.Integration) { i.Passkeys = integration.PasskeysPublisher })
		flow := w.session(session.L1, 25)
		w.send(w.uses(w.get(here(flow))), nil)
		if r := w.record(flow); r.State != session.Completed {
			t.Errorf("%+v", r)
		}
	})
	t.Run("contract 38: blocked by its counter", func(t *testing.T) {
		w := passkeyFixture(t)
		w.has()
		counter := func(n uint32) func(*passkeytest.Ceremony) {
			return func(c *passkeytest.Ceremony) { c.Counter = n }
		}
		for n, want := range map[uint32]session.State{7: session.Completed} {
			flow := w.session(session.L1, 25)
			w.send(w.uses(w.get(here(flow)), counter(n)), nil)
			if r := w.record(flow); r.State != want {
				t.Fatalf("counter %d: %+v", n, r)
			}
		}
		for _, n := range []uint32{6, 8} {
			w.Clock.Advance(time.Minute)
			flow := w.session(session.L1, 25)
			page := w.follow(w.send(w.uses(w.get(here(flow)), counter(n)), nil))
			if r := w.record(flow); r.Terminal() ||
				!bytes.Contains(page.Body, []byte("It may have been copied")) {
				t.Errorf("counter %d: %+v, %s", n, r, page.Body)
			}
		}
	})
}

// answersStep makes a form of a step of the service's own, whose State the device has signed as a challenge.
func (w *pkFixture) answersStep(flow string, form url.Values, s token.StepClaims) url.Values {
	w.t.Helper()
	claims, _, err := token.OpenFlow(w.Host.Sealer, flow)
	coretest.Must(w.t, err)
	s.Session, s.Issued = claims.Session, token.At(w.Clock.Now())
	s.State, err = w.Passkeys.NewChallenge()
	coretest.Must(w.t, err)
	options, err := w.Passkeys.Request(s.State)
	coretest.Must(w.t, err)
	answer, err := w.device.Get(options)
	coretest.Must(w.t, err)
	text, err := token.SealStep(w.Host.Sealer, s)
	coretest.Must(w.t, err)
	form.Set("provider", text)
	form.Set("credential", string(answer.JSON()))
	return form
}

// Invalid responses, and forms for another purpose.
func TestPasskey_DamagedForm(t *testing.T) {
	for _, c := range []struct {
		name   string
		form   func(w *pkFixture, flow string, form url.Values) url.Values
		status int
	}{
		{"the challenge of another session", func(w *pkFixture, flow string, _ url.Values) url.Values {
			form := w.uses(w.get(here(w.session(session.L1, 25))))
			form.Set("flow", flow)
			return form
		}, 400},
		{"a response to the challenge of another page",
			func(w *pkFixture, flow string, form url.Values) url.Values {
				form.Set("credential", w.uses(w.get(here(flow))).Get("credential"))
				return form
			}, 400},
		{"the step of a method", func(w *pkFixture, flow string, form url.Values) url.Values {
			form.Set("provider", hidden(w.get(here(flow)+"&method=face"), "provider"))
			return form
		}, 400},
		{"a good answer in a method's step", func(w *pkFixture, flow string, form url.Values) url.Values {
			return w.answersStep(flow, form, token.StepClaims{Method: "face",
				Handle: "AAAAAAAAAAAAAAAAAAAAAA"})
		}, 400},
		{"a good answer in the step of a new passkey",
			func(w *pkFixture, flow string, form url.Values) url.Values {
				return w.answersStep(flow, form, token.StepClaims{Method: toEnrol,
					Handle: "AAAAAAAAAAAAAAAAAAAAAA"})
			}, 400},
		{"a good answer in no browser's step", func(w *pkFixture, flow string, form url.Values) url.Values {
			return w.answersStep(flow, form, token.StepClaims{Method: toUse})
		}, 400},
		{"no step", func(_ *pkFixture, _ string, form url.Values) url.Values {
			form.Del("provider")
			return form
		}, 400},
		{"no answer", func(_ *pkFixture, _ string, form url.Values) url.Values {
			form.Del("credential")
			return form
		}, 400},
		{"no JSON", func(_ *pkFixture, _ string, form url.Values) url.Values {
			form.Set("credential", "{")
			return form
		}, 400},
		{"an attempt that is no number", func(_ *pkFixture, _ string, form url.Values) url.Values {
			form.Set("attempt", "x")
			return form
		}, 400},
		{"the form of a passkey that is made", func(w *pkFixture, _ string, form url.Values) url.Values {
			done := w.completes(w.session(session.L1, 25))
			form.Set("provider", fieldsOf(done).Get("enrol"))
			return form
		}, 400},
		{"a bogus signature", func(w *pkFixture, flow string, _ url.Values) url.Values {
			other, err := passkeytest.NewKey(passkeytest.ES256)
			coretest.Must(w.t, err)
			w.device.Passkeys[0].Key = other
			return w.uses(w.get(here(flow)))
		}, 400},
		{"the user is not verified", func(w *pkFixture, flow string, _ url.Values) url.Values {
			return w.uses(w.get(here(flow)),
				func(c *passkeytest.Ceremony) { c.Flags &^= passkeytest.UserVerified })
		}, 400},
		{"another origin", func(w *pkFixture, flow string, _ url.Values) url.Values {
			return w.uses(w.get(here(flow)),
				func(c *passkeytest.Ceremony) { c.Origin = "https://evil.example" })
		}, 400},
		{"of an earlier attempt", func(w *pkFixture, flow string, form url.Values) url.Values {
			w.face.decision.Verdict = method.AttemptFailed
			page := w.get(here(flow) + "&method=face")
			w.post(flow, nil, "provider", hidden(page, "provider"), "attempt", "0")
			return form
		}, 303},
	} {
		t.Run("contract 38: "+c.name, func(t *testing.T) {
			w := passkeyFixture(t)
			w.has()
			flow := w.session(session.L1, 25)
			form := c.form(w, flow, w.uses(w.get(here(flow))))
			before := w.record(flow)
			resp := w.send(form, nil)
			if after := w.record(flow); resp.Status != c.status || after != before || after.Terminal() {
				t.Errorf("answered %d, and %+v became %+v: %s", resp.Status, before, after, resp.Body)
			}
		})
	}
}

func TestPasskey_ForeignOrLateForm(t *testing.T) {
	t.Run("contract 22: from another site", func(t *testing.T) {
		w := passkeyFixture(t)
		w.has()
		flow := w.session(session.L1, 25)
		resp := w.send(w.uses(w.get(here(flow))), web.Header{"Sec-Fetch-Site": {"cross-site"}})
		if r := w.record(flow); resp.Status != 403 || r.Terminal() {
			t.Errorf("%d, %+v", resp.Status, r)
		}
	})
	t.Run("contract 18: after the session has ended", func(t *testing.T) {
		w := passkeyFixture(t)
		w.has()
		flow := w.session(session.L1, 25)
		form := w.uses(w.get(here(flow)))
		w.Clock.Advance(session.Life)
		if resp := w.send(form, nil); resp.Status != 303 || w.record(flow).State != session.Expired {
			t.Errorf("%d, %+v", resp.Status, w.record(flow))
		}
	})
}

// enrolments are forms that create a passkey after a check, or are rejected.
var enrolments = []struct {
	name   string
	form   func(w *pkFixture, done *web.Response) url.Values
	status int
	kept   int
}{
	{"as it should be", func(w *pkFixture, done *web.Response) url.Values { return w.enrols(done) }, 303, 1},
	{"before completion", func(w *pkFixture, done *web.Response) url.Values {
		form := w.enrols(done)
		form.Set("flow", w.session(session.L1, 25))
		return form
	}, 400, 0},
	{"with the challenge of another session", func(w *pkFixture, done *web.Response) url.Values {
		other := w.enrols(w.completes(w.session(session.L1, 25)))
		form := w.enrols(done)
		form.Set("enrol", other.Get("enrol"))
		form.Set("credential", other.Get("credential"))
		return form
	}, 400, 0},
	{"with the challenge of a passkey that is used", func(w *pkFixture, done *web.Response) url.Values {
		form := w.enrols(done)
		form.Set("enrol", fieldsOf(w.get(here(w.session(session.L1, 25)))).Get("provider"))
		return form
	}, 400, 0},
	{"in a browser that has not proven it", func(w *pkFixture, done *web.Response) url.Values {
		form := w.enrols(done)
		form.Del("provider")
		return form
	}, 403, 0},
	{"a response of the wrong type", func(w *pkFixture, done *web.Response) url.Values {
		return w.enrols(done, func(c *passkeytest.Ceremony) { c.Type = "webauthn.get" })
	}, 400, 0},
	{"an id of 1,024 bytes", func(w *pkFixture, done *web.Response) url.Values {
		return w.enrols(done, func(c *passkeytest.Ceremony) { c.ID = make([]byte, 1024) })
	}, 400, 0},
	{"no answer", func(w *pkFixture, done *web.Response) url.Values {
		form := w.enrols(done)
		form.Del("credential")
		return form
	}, 400, 0},
	{"the same form twice", func(w *pkFixture, done *web.Response) url.Values {
		form := w.enrols(done)
		w.send(form, nil)
		return form
	}, 303, 1},
	{"a second passkey of one session", func(w *pkFixture, done *web.Response) url.Values {
		w.send(w.enrols(done), nil)
		return w.enrols(done)
	}, 400, 1},
	{"after the 5 minutes", func(w *pkFixture, done *web.Response) url.Values {
		form := w.enrols(done)
		w.Clock.Advance(token.ResultLife)
		return form
	}, 303, 0},
	{"switched off meanwhile", func(w *pkFixture, done *web.Response) url.Values {
		form := w.enrols(done)
		w.integrate(func(i *integration.Integration) { i.Passkeys = "off" })
		return form
	}, 303, 0},
}

func TestMakingAPasskey(t *testing.T) {
	for _, c := range enrolments {
		t.Run("contract 38: "+c.name, func(t *testing.T) {
			w := passkeyFixture(t)
			flow := w.session(session.L1, 25)
			done := w.completes(flow)
			resp := w.send(c.form(w, done), nil)
			if resp.Status != c.status || w.kept() != c.kept {
				t.Errorf("answered %d, and %d are kept: %s", resp.Status, w.kept(), resp.Body)
			}
			if c.name == "after the 5 minutes" {
				return
			}
			if c.status == 400 && kind(resp) == "completed" &&
				(hop(t, resp) == nil || attribute(resp, "data-step") != "") {
				t.Errorf("the page does not go on to the callback: %s", resp.Body)
			}
			step := fieldsOf(done).Get("provider")
			if page := w.get(here(flow) + "&provider=" + url.QueryEscape(step)); hop(t, page) == nil {
				t.Errorf("the callback is out of reach: %s", kind(page))
			}
		})
	}
}

func TestNoPasskeyAfterAFailure(t *testing.T) {
	w := passkeyFixture(t)
	form := w.enrols(w.completes(w.session(session.L1, 25)))
	flow := w.session(session.L1, 25)
	w.face.decision.Verdict = method.Rejected
	page := w.get(here(flow) + "&method=face")
	w.post(flow, nil, "provider", hidden(page, "provider"), "attempt", "0")
	form.Set("flow", flow)
	if resp := w.send(form, nil); resp.Status != 400 || w.kept() != 0 {
		t.Errorf("contract 38: %d, %d are kept", resp.Status, w.kept())
	}
}

func TestPasskey_SameIDTwice(t *testing.T) {
	w := passkeyFixture(t)
	w.has()
	done := w.completes(w.session(session.L1, 25))
	id := w.device.Passkeys[0].ID
	resp := w.send(w.enrols(done, func(c *passkeytest.Ceremony) { c.ID = id }), nil)
	if resp.Status != 400 || hop(t, resp) == nil || w.kept() != 1 {
		t.Errorf("contract 38: %d, %d are kept", resp.Status, w.kept())
	}
}

// A passkey records the proof with the settings of the integration at that time.
func TestPasskey_RecordedVerdict(t *testing.T) {
	w := passkeyFixture(t)
	flow := w.session(session.L1, 27)
	done := w.completes(flow)
	w.integrate(func(i *integration.Integration) { i.MinimumAge, i.Level = 21, "L2" })
	proven := verdict.Basis{Method: "face", Kind: "face", Fingerprint: verdict.Digest(""), Level: "L1",
		ChallengeAge: 27}
	if got, want := w.record(flow).Proven, proven; got != want {
		t.Errorf("contract 38: an estimate has proven %+v, want %+v", got, want)
	}
	w.send(w.enrols(done), nil)
	find := func() passkey.Record {
		t.Helper()
		challenge, err := w.Passkeys.NewChallenge()
		coretest.Must(t, err)
		options, err := w.Passkeys.Request(challenge)
		coretest.Must(t, err)
		answer, err := w.device.Get(options)
		coretest.Must(t, err)
		r, err := w.Passkeys.Use(ctx, challenge, w.Clock.Now(), answer.JSON())
		coretest.Must(t, err)
		return r
	}
	of := func(at time.Time) time.Time { return at.Truncate(time.Minute) }
	if got, want := find().Proof, (passkey.Proof{Basis: proven, Publisher: "pub_a",
		Proven: of(w.record(flow).At)}); got != want {
		t.Errorf("contract 38: the passkey stands for %+v, want %+v", got, want)
	}

	w.integrate(func(i *integration.Integration) { i.Method, i.Level, i.MinimumAge = "bank", "L2", 16 })
	w.bank.back.Verdict = method.Approved
	b := w.browser(t)
	flow = w.session(session.L2, 25)
	b.leaves(flow)
	done = b.open(b.open(returnURL("1")).Header.Get("Location"))
	resp := w.send(w.enrols(done), b.header())
	if resp.Status != 303 {
		t.Fatalf("contract 38: %d: %s", resp.Status, resp.Body)
	}
	proven.Method, proven.Kind, proven.Level = "bank", "bank", "L2"
	proven.ChallengeAge, proven.MinimumAge = 0, 16
	if got, want := find().Proof, (passkey.Proof{Basis: proven, Publisher: "pub_a",
		Proven: of(w.record(flow).At)}); got != want {
		t.Errorf("contract 38: after a proof the passkey stands for %+v, want %+v", got, want)
	}
}

// If the store fails while a passkey is created, the user still returns to the callback.
func TestPasskey_CallbackDoesNotWait(t *testing.T) {
	w := passkeyFixture(t)
	flow := w.session(session.L1, 25)
	done := w.completes(flow)
	form := w.enrols(done)
	w.Store.Decide = func(c kvtest.Call) kvtest.Fault {
		if c.Method == "Commit" {
			return kvtest.Reject
		}
		return kvtest.Pass
	}
	resp := w.send(form, nil)
	if resp.Status != 200 || hop(t, resp) == nil || attribute(resp, "data-step") != "" || w.kept() != 0 {
		t.Errorf("contract 38: %d, %s", resp.Status, resp.Body)
	}
	w.Store.Decide = nil
	if resp := w.send(form, nil); resp.Status != 303 || w.kept() != 1 {
		t.Errorf("contract 38: the form again: %d, %d are kept", resp.Status, w.kept())
	}
}

// A store that loses the reply of a commit makes no second passkey and loses no login.
func TestPasskeysAndLostReplies(t *testing.T) {
	w := passkeyFixture(t)
	lose := func(n int) {
		w.Store.Decide = func(c kvtest.Call) kvtest.Fault {
			if c.Method == "Commit" {
				if n--; n >= 0 {
					return kvtest.LoseReply
				}
			}
			return kvtest.Pass
		}
	}
	form := w.enrols(w.completes(w.session(session.L1, 25)))
	lose(1)
	if resp := w.send(form, nil); resp.Status != 303 || w.kept() != 1 {
		t.Errorf("contract 5: making: %d, %d are kept", resp.Status, w.kept())
	}
	w.Clock.Advance(time.Minute)
	flow := w.session(session.L1, 25)
	form = w.uses(w.get(here(flow)))
	lose(1)
	if resp := w.send(form, nil); resp.Status != 303 || w.record(flow).State != session.Completed {
		t.Errorf("contract 5: using: %d, %+v", resp.Status, w.record(flow))
	}
}

// own posts to the page of one's own passkey.
func (w *pkFixture) own(fields url.Values, header web.Header) *web.Response {
	h := web.Header{"Content-Type": {"application/x-www-form-urlencoded"}}
	maps.Copy(h, header)
	return w.ActPasskeys(ctx, call(&web.Request{Method: "POST", Path: PasskeysPath, Header: h,
		Body: []byte(fields.Encode())}))
}

func (w *pkFixture) looks() *web.Response {
	w.t.Helper()
	page := w.ShowPasskeys(ctx,
		call(&web.Request{Method: "GET", Path: PasskeysPath, Header: web.Header{}}))
	if page.Status != 200 || kind(page) != "passkeys" {
		w.t.Fatalf("contract 38: %d %s", page.Status, kind(page))
	}
	return page
}

func TestPasskey_UserDeletesRecord(t *testing.T) {
	w := passkeyFixture(t)
	coretest.Must(t, w.Directory.PutPublisher(ctx, integration.Publisher{ID: "pub_a", Name: "Shop & Co"}))
	w.has()
	w.commits = 0
	page := w.looks()
	if w.commits != 0 || attribute(page, "data-options") == "" {
		t.Fatalf("contract 22: looking at the page: %d commits", w.commits)
	}
	shown := w.own(w.uses(page), nil)
	text := string(shown.Body)
	for _, want := range []string{"An estimate that you are 25 or older", "Shop &amp; Co",
		"20 November 2026", "20 December 2026",
		`data-outcome="delete"`} {
		if shown.Status != 200 || !strings.Contains(text, want) {
			t.Errorf("contract 38: %d, the page does not have %q: %s", shown.Status, want, text)
		}
	}
	step := hidden(shown, "provider")
	if w.kept() != 1 {
		t.Fatal("contract 22: looking deletes")
	}
	deleted := w.own(url.Values{"provider": {step}, "outcome": {"delete"}}, nil)
	if deleted.Status != 200 || !bytes.Contains(deleted.Body, []byte("Passkey data deleted")) ||
		w.kept() != 0 || bytes.Contains(deleted.Body, []byte("<form")) {
		t.Errorf("contract 38: %d, %d are kept: %s", deleted.Status, w.kept(), deleted.Body)
	}
	again := w.own(w.uses(w.looks()), nil)
	if again.Status != 200 || !bytes.Contains(again.Body, []byte("We keep nothing about this passkey")) {
		t.Errorf("contract 38: afterwards %d: %s", again.Status, again.Body)
	}
}

func TestPasskeyPage_Rejected(t *testing.T) {
	for _, c := range []struct {
		name   string
		form   func(w *pkFixture) url.Values
		header web.Header
		status int
	}{
		{"from another site", func(w *pkFixture) url.Values { return w.uses(w.looks()) },
			web.Header{"Sec-Fetch-Site": {"cross-site"}}, 403},
		{"no form", func(w *pkFixture) url.Values { return w.uses(w.looks()) },
			web.Header{"Content-Type": {"text/plain"}}, 415},
		{"a form that is too old", func(w *pkFixture) url.Values {
			form := w.uses(w.looks())
			w.Clock.Advance(lookLife)
			return form
		}, nil, 400},
		{"the challenge of a session", func(w *pkFixture) url.Values {
			return w.uses(w.get(here(w.session(session.L1, 25))))
		}, nil, 400},
		{"a response to another challenge", func(w *pkFixture) url.Values {
			form := w.uses(w.looks())
			form.Set("credential", w.uses(w.looks()).Get("credential"))
			return form
		}, nil, 400},
		{"deleting by the form for looking", func(w *pkFixture) url.Values {
			form := w.uses(w.looks())
			form.Del("credential")
			form.Set("outcome", "delete")
			return form
		}, nil, 400},
		{"no step", func(*pkFixture) url.Values { return url.Values{"outcome": {"delete"}} }, nil, 400},
	} {
		t.Run("contract 38: "+c.name, func(t *testing.T) {
			w := passkeyFixture(t)
			w.has()
			resp := w.own(c.form(w), c.header)
			if resp.Status != c.status || w.kept() != 1 || bytes.Contains(resp.Body, []byte("or older")) {
				t.Errorf("answered %d, %d are kept: %s", resp.Status, w.kept(), resp.Body)
			}
		})
	}
}

// A step of one's own page is no step of a session.
func TestOwnStepsAreForNoSession(t *testing.T) {
	w := passkeyFixture(t)
	w.has()
	own := w.uses(w.looks())
	flow := w.session(session.L1, 25)
	own.Set("flow", flow)
	own.Set("method", "passkey")
	own.Set("attempt", "0")
	if resp := w.send(own, nil); resp.Status != 400 || w.record(flow).Terminal() {
		t.Errorf("contract 38: %d, %+v", resp.Status, w.record(flow))
	}
	w.Passkeys = nil
	req := &web.Request{Method: "GET", Path: PasskeysPath, Header: web.Header{}}
	if a, b := w.ShowPasskeys(ctx, call(req)), w.own(own, nil); a.Status != 404 || b.Status != 404 {
		t.Errorf("contract 38: without passkeys %d and %d, want 404", a.Status, b.Status)
	}
}

// Contract 16: the ring is rotated between the making of a passkey and its use, and between a page and its
// form.
func TestPasskeysAndARotation(t *testing.T) {
	w := passkeyFixture(t)
	w.has()
	flow := w.session(session.L1, 25)
	form := w.uses(w.get(here(flow)))
	random := &coretest.Random{}
	old := token.Key{ID: "9f02ab31", Secret: bytes.Repeat([]byte{7}, 32)}
	next, err := token.NewRing("verify.verge.example", random,
		token.Key{ID: "0badcafe", Secret: bytes.Repeat([]byte{8}, 32)}, old)
	if err != nil {
		t.Fatal(errors.Join(err))
	}
	w.Hosted.Sealer, w.Passkeys.Sealer, w.Lifecycle.Sealer, w.Results.Sealer = next, next, next, next
	w.Directory = integration.NewDirectory(host.Host{KV: w.Host.KV, Sealer: next, Now: w.Host.Now,
		Random: w.Host.Random})
	w.Host.Sealer = next
	if resp := w.send(form, nil); resp.Status != 303 || w.record(flow).State != session.Completed {
		t.Errorf("contract 16: a form from before: %d, %+v", resp.Status, w.record(flow))
	}
	w.Clock.Advance(time.Hour)
	flow = w.session(session.L1, 25)
	if w.send(w.uses(w.get(here(flow))), nil); w.record(flow).State != session.Completed {
		t.Errorf("contract 16: a passkey from before: %+v", w.record(flow))
	}
}

// Contract 40: a phone brings the verdict of its one method, and completes no session.
func TestPasskey_OnPhone(t *testing.T) {
	w := passkeyFixture(t)
	w.has()
	w.Partitions = 1
	face := testhost.Kind("face", &camera{}, false)
	face.Level, face.Estimates, face.Narrow = "L1", true, nil
	w.Methods = w.Host.Opened(testhost.Catalog(face))
	flow := w.session(session.L1, 25)
	computer, phone := w.browser(t), w.browser(t)
	page := computer.open("/verify?" + here(flow))
	form := w.uses(page)
	computer.submit(flow, page, "hand", "1")
	handle := w.record(flow).HandOff
	link := func(query string) *web.Response {
		return w.ShowPhone(ctx, call(&web.Request{Method: "GET", Path: PhonePath + handle,
			Query: query, Header: phone.header()}))
	}
	phone.keep(w.post(phonePrefix+handle, nil, "device", hidden(link(""), "device")))
	for _, query := range []string{"", "show=cancelled"} {
		if page := link(query); page.Status != 200 || bytes.Contains(page.Body, []byte("passkey")) {
			t.Errorf("contract 40: %q on the phone offers a passkey: %d %s", query, page.Status, page.Body)
		}
	}
	form.Set("flow", phonePrefix+handle)
	resp := w.send(form, phone.header())
	if r := w.record(flow); resp.Status != 303 || r.Terminal() || r.HandOff != handle {
		t.Errorf("contract 40: a passkey on the phone: %d, %+v", resp.Status, r)
	}
}
