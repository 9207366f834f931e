package conformance_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/kvadapters/kvtest"
	"github.com/verge-id/verge/testharness"
	"github.com/verge-id/verge/testharness/long"
)

// faults is a store whose failures can be switched on and off.
type faults struct {
	*kvtest.Faulty
	engine func(func() time.Time) kv.KV
	decide atomic.Pointer[func(kvtest.Call) kvtest.Fault]
}

func newFaults(t testing.TB) *faults { return &faults{engine: engine(t)} }

func (f *faults) open(now func() time.Time) kv.KV {
	f.Faulty = &kvtest.Faulty{KV: f.engine(now), Decide: func(c kvtest.Call) kvtest.Fault {
		if d := f.decide.Load(); d != nil {
			return (*d)(c)
		}
		return kvtest.Pass
	}}
	return f.Faulty
}

func (f *faults) set(decide func(kvtest.Call) kvtest.Fault) { f.decide.Store(&decide) }
func (f *faults) off()                                      { f.decide.Store(nil) }

// faultKinds are all ways in which one call can fail.
var faultKinds = []kvtest.Fault{
	kvtest.Reject, kvtest.LoseRequest, kvtest.LoseReply, kvtest.Delay, kvtest.Hang,
}

func request(method, path, query string, body []byte, pairs ...string) *web.Request {
	return &web.Request{
		Method: method, Path: path, Query: query, Body: body,
		Header: web.Header(headers(pairs...)),
		Client: netip.MustParseAddr("192.0.2.1"),
	}
}

// Every request with every fault at each of its calls to the store: it returns 503 or the correct response,
// and grants no access without a known outcome. When the store works again, no data is lost or duplicated.
func TestStoreFaults(t *testing.T) {
	w := newFaultyFixture(t)
	operations := []struct {
		name    string
		prepare func(t *testing.T) operation
	}{
		{"start", w.start},
		{"start with Idempotency-Key", w.startWithKey},
		{"start that fails at initiation", w.startThatFails},
		{"validate", w.validate},
		{"validate with Idempotency-Key", w.validateWithKey},
		{"reconcile", w.reconcile},
		{"hosted GET", w.look},
		{"hosted GET of the hop", w.lookAtTheHop},
		{"hosted POST approve", w.post("approve", "COMPLETED")},
		{"hosted POST reject", w.post("reject", "FAILED")},
		{"hosted POST fail_attempt", w.post("fail_attempt", "PENDING")},
		{"hosted POST cancel", w.post("cancel", "PENDING")},
	}
	lists := long.Pick(t, "TestStoreFaults", []bool{false}, []bool{false, true})
	met := 0
	for _, op := range operations {
		for _, fault := range faultKinds {
			reached := false
			for _, stale := range lists {
				for at := 1; w.failAt(t, op.name, op.prepare, failure{fault, at, stale}); at++ {
					reached = true
				}
			}
			w.Settle()
			if t.Failed() {
				return
			}
			if reached {
				met++
			}
		}
	}
	if want := len(operations) * len(faultKinds); met != want {
		t.Errorf("%d of %d operations and faults met", met, want)
	}
	w.Advance(time.Hour)
	w.checkEvents(t)
}

// operation is one request that a fault hits. check gets the answer once the
// store is back. mayHaveApplied says that the fault may have left the change
// behind.
type operation struct {
	req   *web.Request
	check func(r *web.Response, mayHaveApplied bool)
}

// failure is the fault of a request, and the number of its call to the store. If stale, the directory has to
// read the store as well.
type failure struct {
	fault kvtest.Fault
	at    int
	stale bool
}

// faultyFixture is a service with a store that can fail, and its clients' view of their sessions.
type faultyFixture struct {
	*testharness.Harness
	store     *faults
	auth      []string
	completed map[string]bool // sessions that gave a result token
	told      map[string]bool // sessions whose id a client knows
	keys      int             // Idempotency-Keys so far
}

func newFaultyFixture(t *testing.T) *faultyFixture {
	t.Helper()
	store := newFaults(t)
	h := newHarness(t, &opts{KV: store.open, Configure: unlimited})
	return &faultyFixture{
		Harness: h, store: store, completed: map[string]bool{}, told: map[string]bool{},
		auth: []string{"Authorization", "Bearer " + h.Publisher.SecretKey, "Content-Type",
			"application/json"},
	}
}

// ofRequest marks the context of the request under test.
type ofRequest struct{}

// failAt does an operation twice: with a store that fails at one call, and with a store that keeps failing.
// It reports whether there is such a call and the results were correct.
func (w *faultyFixture) failAt(
	t *testing.T, name string, prepare func(t *testing.T) operation, f failure,
) bool {
	reached := false
	for _, lasting := range []bool{false, true} {
		title := fmt.Sprintf("contract 5: %s, %s at call %d, lasting %v, stale %v",
			name, f.fault, f.at, lasting, f.stale)
		ok := t.Run(title, func(t *testing.T) {
			op := prepare(t)
			if f.stale {
				w.Pause(6 * time.Second)
			}
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			calls := 0
			ctx = context.WithValue(ctx, ofRequest{}, true)
			w.store.set(func(c kvtest.Call) kvtest.Fault {
				// The service in this process also samples its store. The Worker does not, and its calls
				// arrive by HTTP, without the context.
				if !inWorker && c.Context.Value(ofRequest{}) == nil {
					return kvtest.Pass
				}
				if calls++; calls == f.at || lasting && calls > f.at {
					reached = true
					if f.fault == kvtest.Hang {
						cancel() // a timeout might end the calls before, on an engine that is slow
					}
					return f.fault
				}
				return kvtest.Pass
			})
			r := w.Engine.Handle(ctx, op.req)
			w.store.off()
			if f.fault == kvtest.Delay {
				w.store.Deliver(context.Background())
			}
			op.check(r, f.fault == kvtest.LoseReply || f.fault == kvtest.Delay)
		})
		if !ok {
			return false
		}
	}
	return reached
}

// checkEvents wants two events of every session that a client knows. If the
// session gave a result token, one of them is verification.completed.
func (w *faultyFixture) checkEvents(t *testing.T) {
	t.Helper()
	types := map[string][]string{}
	for _, d := range w.Sink.Deliveries() {
		types[d.Event.SessionID] = append(types[d.Event.SessionID], d.Event.Type)
	}
	for id, ts := range types {
		slices.Sort(ts)
		if len(ts) != 2 || ts[1] != "verification.started" && ts[0] != "verification.started" {
			t.Errorf("spec: a session has sent %v", ts)
		}
		if w.completed[id] && !slices.Contains(ts, "verification.completed") {
			t.Errorf("spec: a completed session has sent %v", ts)
		}
	}
	for _, ids := range []map[string]bool{w.completed, w.told} {
		for id := range ids {
			if len(types[id]) == 0 {
				t.Errorf("spec: an acknowledged session has sent no event")
			}
		}
	}
	t.Logf("%d sessions", len(types))
}

func (w *faultyFixture) status(id string) string { return w.Reconcile(id).Text("status") }

// session starts a session whose id is known.
func (w *faultyFixture) session() testharness.Started {
	s := w.Start(nil)
	w.told[s.SessionID] = true
	return s
}

// key is a header of the publisher with an Idempotency-Key that is new.
func (w *faultyFixture) key() []string {
	w.keys++
	return append(slices.Clone(w.auth), "Idempotency-Key", fmt.Sprint("k", w.keys))
}

func (w *faultyFixture) start(t *testing.T) operation {
	req := request("POST", web.StartPath, "", w.StartBody(nil), w.auth...)
	return operation{req, func(r *web.Response, _ bool) { w.checkStarted(t, r) }}
}

func (w *faultyFixture) startWithKey(t *testing.T) operation {
	req := request("POST", web.StartPath, "", w.StartBody(nil), w.key()...)
	return operation{req, func(r *web.Response, _ bool) {
		first := w.checkStarted(t, r)
		repeated := w.Engine.Handle(context.Background(), req)
		var again testharness.Started
		json.Unmarshal(repeated.Body, &again)
		if repeated.Status != 200 || granted(r) && again != first {
			t.Errorf("contract 11: repeated: %d %s", repeated.Status, repeated.Body)
		}
		w.told[again.SessionID] = true
	}}
}

func (w *faultyFixture) checkStarted(t *testing.T, r *web.Response) (s testharness.Started) {
	t.Helper()
	wantOr503(t, r, 200)
	json.Unmarshal(r.Body, &s)
	if granted(r) {
		w.told[s.SessionID] = true
		if status := w.status(s.SessionID); status != "PENDING" {
			t.Errorf("an acknowledged session is %q", status)
		}
	}
	return s
}

func (w *faultyFixture) startThatFails(t *testing.T) operation {
	start := w.StartBody(body{"external_user_id": "sandbox:init_error"})
	return operation{request("POST", web.StartPath, "", start, w.auth...), func(r *web.Response, _ bool) {
		wantOr503(t, r, 502)
		if r.Status != 502 {
			return
		}
		var e struct {
			Session string `json:"session_id"`
		}
		json.Unmarshal(r.Body, &e)
		w.told[e.Session] = true
		if s := w.status(e.Session); s != "FAILED" {
			t.Errorf("the session is %s", s)
		}
	}}
}

func (w *faultyFixture) validate(t *testing.T) operation {
	back := w.Approve(w.Start(nil))
	w.completed[back.SessionID] = true
	req := request("POST", web.ValidatePath, "", validateBody(back.ResultToken), w.auth...)
	return operation{req, func(r *web.Response, mayHaveApplied bool) {
		wantOr503(t, r, 200)
		next := w.Engine.Handle(context.Background(), req)
		right := next.Status == 200 || mayHaveApplied && next.Status == 409
		if granted(r) {
			right = next.Status == 409
		}
		if !right {
			t.Errorf("first %d, then %d %s", r.Status, next.Status, next.Body)
		}
		wantError(t, w.Validate(back.ResultToken), 409, "ALREADY_USED")
	}}
}

func (w *faultyFixture) validateWithKey(t *testing.T) operation {
	back := w.Approve(w.Start(nil))
	w.completed[back.SessionID] = true
	req := request("POST", web.ValidatePath, "", validateBody(back.ResultToken), w.key()...)
	return operation{req, func(r *web.Response, _ bool) {
		wantOr503(t, r, 200)
		next := w.Engine.Handle(context.Background(), req)
		if next.Status != 200 || granted(r) && string(next.Body) != string(r.Body) {
			t.Errorf("contract 11: a lost answer is a lost result: then %d %s", next.Status, next.Body)
		}
		wantError(t, w.Validate(back.ResultToken), 409, "ALREADY_USED")
	}}
}

func (w *faultyFixture) reconcile(t *testing.T) operation {
	s := w.session()
	req := request("GET", web.SessionsPath+s.SessionID, "", nil, w.auth...)
	return operation{req, func(r *web.Response, _ bool) {
		wantOr503(t, r, 200)
		if status := w.status(s.SessionID); status != "PENDING" {
			t.Errorf("then %s", status)
		}
	}}
}

func (w *faultyFixture) look(t *testing.T) operation {
	s := w.session()
	req := request("GET", web.HostedPath, "flow="+flowOf(t, s.RedirectURL), nil)
	return operation{req, func(r *web.Response, _ bool) {
		wantPageOr503(t, r, 200)
		if p := w.Open(s.RedirectURL); p.Kind != "method" {
			t.Errorf("then %s", p.Kind)
		}
	}}
}

func (w *faultyFixture) lookAtTheHop(t *testing.T) operation {
	s := w.Start(nil)
	w.completed[w.Approve(s).SessionID] = true
	req := request("GET", web.HostedPath, "flow="+flowOf(t, s.RedirectURL), nil)
	return operation{req, func(r *web.Response, _ bool) {
		wantPageOr503(t, r, 200)
		wantStatus(t, w.Validate(w.Open(s.RedirectURL).Callback.ResultToken), 200)
	}}
}

// post is a user who sends the form of an outcome, after which the session is
// to have the status want.
func (w *faultyFixture) post(outcome, want string) func(t *testing.T) operation {
	return func(t *testing.T) operation {
		s := w.session()
		form := w.Open(s.RedirectURL).Form(outcome).Fields.Encode()
		req := request("POST", web.HostedPath, "", []byte(form), "Content-Type", formType)
		return operation{req, func(r *web.Response, mayHaveApplied bool) {
			wantPageOr503(t, r, 303)
			now, got := w.Open(s.RedirectURL), w.status(s.SessionID)
			right := got == "PENDING" || mayHaveApplied && got == want
			if granted(r) {
				right = got == want
			}
			if !right {
				t.Errorf("answered %d, and the session is %s", r.Status, got)
			}
			if (now.Callback != nil) != (got == "COMPLETED") {
				t.Errorf("sent on to %+v though the session is %s", now.Callback, got)
			}
			w.tryAgain(t, s, now, got)
		}}
	}
}

const formType = "application/x-www-form-urlencoded"

// tryAgain is the user who returns to a session, now to be approved.
func (w *faultyFixture) tryAgain(t *testing.T, s testharness.Started, page *testharness.Page, status string) {
	t.Helper()
	if page.Kind == "method" {
		page = page.Submit("approve")
	}
	back := page.Callback
	if (back != nil) != (status != "FAILED") {
		t.Errorf("after %s a new try leads to %+v", status, back)
	}
	if back != nil {
		w.completed[s.SessionID] = true
		wantStatus(t, w.Validate(back.ResultToken), 200)
	}
}

func granted(r *web.Response) bool { return r.Status == 200 || r.Status == 303 }

// wantOr503 fails unless a response of the API has that status, or the 503 of a failing store.
func wantOr503(t *testing.T, r *web.Response, good int) {
	t.Helper()
	if r.Status == good {
		return
	}
	var e struct{ Code string }
	json.Unmarshal(r.Body, &e)
	if r.Status != 503 || e.Code != "UNAVAILABLE" || r.Header.Get("Retry-After") == "" {
		t.Errorf("contract 5: answered %d %s (Retry-After %q)", r.Status, e.Code, r.Header.Get("Retry-After"))
	}
	if bytes.Contains(r.Body, []byte("kv")) || bytes.Contains(r.Body, []byte("injected")) {
		t.Errorf("contract 5: the response repeats the cause: %s", r.Body)
	}
}

// wantPageOr503 is wantOr503 of a page.
func wantPageOr503(t *testing.T, r *web.Response, good int) {
	t.Helper()
	unavailable := bytes.Contains(r.Body, []byte(`data-page="unavailable"`))
	if r.Status != good && (r.Status != 503 || r.Header.Get("Retry-After") == "" || !unavailable) {
		t.Errorf("answered %d with\n%.300s", r.Status, r.Body)
	}
}

// The responses of the whole server while the store hangs. Only the requests that fail go to a server with a
// short deadline. Both servers have one address, so that each accepts the other's tokens.
func TestHangingStore(t *testing.T) {
	t.Parallel()
	f := newFaults(t)
	o := opts{KV: f.open, Production: true, Configure: func(c *core.Config) { unlimited(c); c.Dev = true }}
	h := newHarness(t, &o)
	o.KV, o.Keyring, o.HandleTimeout = sharing(h), h.Keyring, time.Second
	hasty := newHarness(t, &o)
	s := h.Start(nil)
	page := h.Open(s.RedirectURL)
	form := []byte(page.Form("approve").Fields.Encode())
	token := h.Approve(h.Start(nil)).ResultToken
	for name, ask := range map[string]func() *testharness.Response{
		"start":     func() *testharness.Response { return hasty.TryStart(nil) },
		"validate":  func() *testharness.Response { return hasty.Validate(token) },
		"reconcile": func() *testharness.Response { return hasty.Reconcile(s.SessionID) },
		"hosted POST": func() *testharness.Response {
			return hasty.Do("POST", web.HostedPath, headers("Content-Type", formType), form)
		},
	} {
		t.Run("contract 5: the store hangs under "+name, func(t *testing.T) {
			f.set(func(kvtest.Call) kvtest.Fault { return kvtest.Hang })
			r := ask()
			f.off()
			wantStatus(t, r, 503)
			if r.Header.Get("Retry-After") == "" {
				t.Error("no Retry-After")
			}
		})
	}
	wantStatus(t, h.Validate(token), 200)
	wantStatus(t, h.Validate(page.Submit("approve").Callback.ResultToken), 200)
}

// A store that fails during deliveries: nothing is lost, its errors use up no
// attempt, and an event that is sent twice has the same bytes.
func TestFaultsUnderDelivery(t *testing.T) {
	for seed := range uint64(5) {
		t.Run(fmt.Sprintf("contract 27: seed %d", seed), func(t *testing.T) {
			f := newFaults(t)
			h := newHarness(t, &opts{KV: f.open, Configure: unlimited})
			want := map[string][]string{}
			for n, how := range []string{"approve", "reject", "cancel", "withdraw", "", "approve"} {
				s := h.Start(body{"external_user_id": fmt.Sprint("u", n)})
				ending(h, s, how)
				end := map[string]string{"approve": "completed", "reject": "failed",
					"withdraw": "failed"}[how]
				if end == "" {
					end = "expired"
				}
				want[s.SessionID] = []string{"verification." + end, "verification.started"}
			}
			f.set(kvtest.Seeded(seed, map[kvtest.Fault]float64{
				kvtest.Reject: .2, kvtest.LoseRequest: .1, kvtest.LoseReply: .2,
			}))
			for range 60 { // long enough for leases to run out
				h.Engine.RunDue(context.Background())
				h.Pause(20 * time.Second)
			}
			f.off()
			h.Advance(time.Hour)
			got, bodies := map[string][]string{}, map[string]string{}
			for _, e := range h.Sink.Events() {
				got[e.SessionID] = append(got[e.SessionID], e.Type)
			}
			for _, d := range h.Sink.Deliveries() {
				if first, twice := bodies[d.Event.IdempotencyKey]; twice && first != string(d.Body) {
					t.Errorf("contract 25: sent twice and not the same: %s\n%s", first, d.Body)
				}
				bodies[d.Event.IdempotencyKey] = string(d.Body)
			}
			for id, types := range want {
				slices.Sort(got[id])
				if !slices.Equal(got[id], types) {
					t.Errorf("events %v, want %v", got[id], types)
				}
			}
			if list := dead(t, h); len(list) != 0 {
				t.Errorf("the store's errors have used up attempts: %v", list)
			}
		})
	}
}
