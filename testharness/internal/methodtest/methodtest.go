// Package methodtest is the test suite for every kind of verification method. A kind only decides, so the
// suite tests the service's handling of its decisions: with every fault of the browser, the store, the
// provider, the key ring or the engine during a verification, the outcome is counted once, and only the
// user's browser gets a result token.
//
// To test a kind, describe it by a [Subject] and call [Run]. Sandbox, OIDC, Estimator, Wallet and
// SignedWallet are the kinds of this release. Courier is a kind for tests, whose response does not come from
// the browser.
package methodtest

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/method/kinds"
	"github.com/verge-id/verge/kvadapters/kvtest"
	"github.com/verge-id/verge/kvadapters/memory"
	"github.com/verge-id/verge/testharness"
)

// Subject is a kind of method.
type Subject struct {
	Kind  string // name of the kind, and of the method in the suite
	Level string // of the sessions: L1 or L2

	// Test is a kind that this release does not include. Nil: it includes the kind.
	Test *method.Kind

	// Unbound means that the proof of the method belongs to no browser, which only the sandbox may do.
	Unbound bool

	// Hands means that a phone may do the step for another device (contract 40).
	Hands bool

	// Open starts the provider on that clock, and returns a method that uses it.
	Open func(t testing.TB, now func() time.Time) Side
}

// Side is the provider of a method: an OpenID provider, an estimator or a wallet.
type Side struct {
	Config method.Config     // of the method
	Keys   map[string][]byte // its private keys, as in testharness.Options

	// Set sets the mode of the provider. Nil: there is no provider, as with the sandbox.
	Set func(Mode)

	// Asked returns the number of requests for a decision. It is nil if Set is nil.
	Asked func() int

	// Walk takes a browser from the method's page to the step that decides, without doing that step.
	Walk func(page *testharness.Page, want Mode) Step

	// Private returns the data that must not appear in a log, an event or the store, by kind. It is complete
	// after a walk. Nil: there is no such data.
	Private func() map[string]string
}

// Mode is the behaviour of the provider.
type Mode int

// Modes. A No is a final rejection or a failed attempt, depending on the kind.
const (
	Yes Mode = iota
	No
	Fails
	Hangs
	Rubbish
)

// Step is the request that decides: a form, the return from another site, or a page that collects another
// device's response.
type Step struct {
	Form    testharness.Form
	Address string // of the return or the page; "": a form
	First   func() // the provider's action before the step, in the current mode; nil: none
}

// in does the step in the browser of a page.
func (s Step) in(page *testharness.Page) *testharness.Page {
	if s.First != nil {
		s.First()
	}
	if s.Address != "" {
		return page.Go(s.Address)
	}
	return page.SubmitForm(s.Form)
}

// Engine is the environment of the suite. The zero value is the native core on stores in memory.
type Engine struct {
	// New creates a harness. Nil: testharness.New.
	New func(t testing.TB, o *testharness.Options) *testharness.Harness

	// Store returns a function that opens an empty store on a clock. Nil: one in memory.
	Store func(t testing.TB) func(now func() time.Time) kv.KV

	// Takes reports whether case n of a kind runs; the first case has the number 0. Nil: all run.
	Takes func(n int) bool
}

// Run runs the suite.
func Run(t *testing.T, s Subject, e Engine) {
	if e.New == nil {
		e.New = testharness.New
	}
	if e.Store == nil {
		e.Store = func(testing.TB) func(func() time.Time) kv.KV {
			return func(now func() time.Time) kv.KV { return memory.New(memory.Config{Now: now}) }
		}
	}
	n := 0
	run := func(rule string, run func(*fixture)) {
		if e.Takes == nil || e.Takes(n) {
			t.Run(rule, func(t *testing.T) {
				w := newFixture(t, s, e, rule)
				run(w)
				w.check()
			})
		}
		n++
	}
	for _, c := range cases {
		if !s.Unbound || !c.real {
			run(c.rule, c.run)
		}
	}
	for _, c := range handCases {
		if s.Hands {
			run(c.rule, c.run)
		}
	}
}

// cases are the suite. The real ones are about a browser that proves something to a provider, which the
// sandbox lacks.
var cases = []struct {
	rule string
	real bool
	run  func(*fixture)
}{
	{"contract 23: a step that is sent twice counts once", false, (*fixture).sameStepTwice},
	{"contract 23: a failed step that is sent twice costs one attempt", false, (*fixture).failedTwice},
	{"contract 23: a double click counts once", false, (*fixture).doubleClick},
	{"contract 37: a step that is sent many times concurrently sends one request", false,
		(*fixture).manyAtOnce},
	{"contract 37: an instance that stops during its request blocks the attempt for a limited time", true,
		(*fixture).diesAsking},
	{"contract 34: of two tabs, one completes the session", false, (*fixture).twoTabs},
	{"contract 23: a step of an earlier attempt is not evaluated", false, (*fixture).lateStep},
	{"contract 17: a step that is replayed after the result was used gives no other result", false,
		(*fixture).replay},
	{"contract 34: a step works for its own session alone", true, (*fixture).foreignSession},
	{"contract 34: an unknown handle decides no session", true, (*fixture).foreignHandle},
	{"contract 34: another browser with the link gets no result", true, (*fixture).otherBrowser},
	{"contract 34: another browser with the step of another page gets no result", true, (*fixture).otherStep},
	{"contract 5: no fault of the store loses or doubles an outcome", false, (*fixture).storeFaults},
	{"contract 35: a provider that fails decides no session and costs no attempt", true, otherSide(Fails)},
	{hangs, true, otherSide(Hangs)},
	{"contract 35: a provider with an invalid response decides no session and costs no attempt", true,
		otherSide(Rubbish)},
	{"contract 20: a session that expires in the middle is not completed", false, (*fixture).expires},
	{"contract 16: a key ring that is rotated in the middle has no effect", false, (*fixture).ringRotates},
	{"contract 41: an engine that is replaced in the middle has no effect", false, (*fixture).engineSwaps},
	{"contract 33: a method that is unavailable costs no attempt, and another one continues", true,
		(*fixture).oneIsUnavailable},
	{"contract 33: attempts count over all methods", false, (*fixture).attemptsOverMethods},
	{"contract 13: nothing private is in a log, an event, a metric or the store", true,
		(*fixture).nothingPrivate},
}

// hangs is the rule of the case that waits for the end of a request.
const hangs = "contract 35: a provider that hangs decides no session and costs no attempt"

// fixture is a service with the method, and the expected end of each session.
type fixture struct {
	*testharness.Harness
	t       *testing.T
	subject Subject
	side    Side
	on      *testharness.Integration

	mu     sync.Mutex
	decide func(kvtest.Call) kvtest.Fault

	expected []expectation
}

// expectation is the expected end of a session.
type expectation struct {
	session string
	status  string
	events  []string
}

// otherMethod is the name of the sandbox, as a second method.
const otherMethod = "sandbox"

func newFixture(t *testing.T, s Subject, e Engine, rule string) *fixture {
	t.Helper()
	w := &fixture{t: t, subject: s}
	// The provider starts before the harness, which has the clock.
	now := func() time.Time {
		if w.Harness == nil {
			return testharness.Epoch
		}
		return w.Now()
	}
	w.side = s.Open(t, now)
	w.side.Config.Name, w.side.Config.Kind = s.Kind, s.Kind
	store := e.Store(t)
	o := &testharness.Options{
		Keys: w.side.Keys,
		KV:   func(now func() time.Time) kv.KV { return &kvtest.Faulty{KV: store(now), Decide: w.fault} },
	}
	if rule == hangs {
		o.WebhookTimeout = 3 * time.Second // in a Worker it ends requests to a provider, too
	}
	if s.Kind != otherMethod {
		o.Methods = []method.Config{w.side.Config}
	}
	if s.Test != nil {
		o.Configure = func(c *core.Config) { c.Kinds = append(slices.Clip(kinds.All), *s.Test) }
	}
	w.Harness = e.New(t, o)
	w.on = w.Publisher.L1
	if s.Level == "L2" {
		w.on = w.Publisher.L2
	}
	w.Offer(w.on, s.Kind)
	return w
}

func (w *fixture) fault(c kvtest.Call) kvtest.Fault {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.decide == nil {
		return kvtest.Pass
	}
	return w.decide(c)
}

// fail makes the store fail as decide returns. Nil: it works again.
func (w *fixture) fail(decide func(kvtest.Call) kvtest.Fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.decide = decide
}

// start starts a session that must end with that status.
func (w *fixture) start(status string) testharness.Started {
	w.t.Helper()
	s := w.Start(testharness.Body{"integration_id": w.on.ID})
	w.expect(s.SessionID, status)
	w.Settle() // send the started event before the next one is due
	return s
}

// expect records the expected status of a session at its end.
func (w *fixture) expect(session, status string) {
	w.expected = slices.DeleteFunc(w.expected, func(e expectation) bool { return e.session == session })
	events := []string{"verification.started"}
	if status != "PENDING" {
		events = append(events, "verification."+strings.ToLower(status))
	}
	w.expected = append(w.expected, expectation{session, status, events})
}

// walk takes a browser to the deciding step. page is the page after the link, or after another attempt.
func (w *fixture) walk(page *testharness.Page, want Mode) Step {
	w.t.Helper()
	w.set(want)
	if page.Kind == "choose" {
		page = page.Choose(w.subject.Kind)
	}
	return w.side.Walk(page, want)
}

// set sets the mode of the provider.
func (w *fixture) set(m Mode) {
	if w.side.Set != nil {
		w.side.Set(m)
	}
}

// asked returns the number of requests to the provider, or the given number without a provider.
func (w *fixture) asked(otherwise int) int {
	if w.side.Asked == nil {
		return otherwise
	}
	return w.side.Asked()
}

// wantAsked fails if the provider received another number of requests.
func (w *fixture) wantAsked(n int) {
	w.t.Helper()
	if got := w.asked(n); got != n {
		w.t.Errorf("the provider received %d requests, want %d", got, n)
	}
}

// status returns the status of a session as the publisher sees it.
func (w *fixture) status(s testharness.Started) string {
	w.t.Helper()
	return w.Reconcile(s.SessionID).Text("status")
}

// wantStatus fails if the publisher sees another status.
func (w *fixture) wantStatus(s testharness.Started, want string) {
	w.t.Helper()
	if got := w.status(s); got != want {
		w.t.Errorf("the session is %s, want %s", got, want)
	}
}

// wantResult uses the result of a page, which must have one.
func (w *fixture) wantResult(page *testharness.Page) {
	w.t.Helper()
	if page.Callback == nil {
		w.t.Fatalf("a %s page (%d) that does not send the browser to the publisher", page.Kind, page.Status)
	}
	if r := w.Validate(page.Callback.ResultToken); r.Status != 200 {
		w.t.Errorf("the result: %d %s", r.Status, r.Body)
	}
}

// wantNothing fails if a page has a result.
func (w *fixture) wantNothing(page *testharness.Page, kinds ...string) {
	w.t.Helper()
	if page.Callback != nil || strings.Contains(string(page.Body), "result_token") {
		w.t.Errorf("a %s page that must have no result token has one", page.Kind)
	}
	if len(kinds) > 0 && !slices.Contains(kinds, page.Kind) {
		w.t.Errorf("a %s page (%d), want %s", page.Kind, page.Status, strings.Join(kinds, " or "))
	}
}

// check compares every session with its expectation: the record, and the events, each once and in order.
func (w *fixture) check() {
	w.t.Helper()
	w.Settle()
	for _, e := range w.expected {
		if got := w.Reconcile(e.session).Text("status"); got != e.status {
			w.t.Errorf("in the end a session is %s, want %s", got, e.status)
		}
		if got := w.Sink.Types(e.session); !slices.Equal(got, e.events) {
			w.t.Errorf("a session that is %s has sent %v, want %v", e.status, got, e.events)
		}
	}
}
