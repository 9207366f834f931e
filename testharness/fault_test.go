package testharness_test

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

	"github.com/verge-id/verge/core/api"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/kvadapters/kvtest"
	"github.com/verge-id/verge/testharness"
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
var faultKinds = []kvtest.Fault{kvtest.Refuse, kvtest.LoseRequest, kvtest.LoseReply, kvtest.Delay, kvtest.Hang}

// operation is one request that a fault hits. check sees the answer, and the
// service after the store has come back. applied says that the fault may have
// left the change behind.
type operation struct {
	req   *web.Request
	check func(r *web.Response, mayHaveApplied bool)
}

func request(method, path, query string, body []byte, pairs ...string) *web.Request {
	return &web.Request{Method: method, Path: path, Query: query, Body: body, Header: web.Header(headers(pairs...)),
		Client: netip.MustParseAddr("192.0.2.1")}
}

// Every request with every fault at every one of its calls to the store: it
// answers 503 or what is true, grants nothing that is not, and when the store
// is back nothing is lost and nothing doubled.
func TestStoreFaults(t *testing.T) {
	f := newFaults(t)
	h := newHarness(t, &opts{KV: f.open, Configure: unlimited})
	auth := []string{"Authorization", "Bearer " + h.Publisher.SecretKey, "Content-Type", "application/json"}
	form := []string{"Content-Type", "application/x-www-form-urlencoded"}
	completed, told := map[string]bool{}, map[string]bool{}

	granted := func(r *web.Response) bool { return r.Status == 200 || r.Status == 303 }
	status := func(id string) string { s, _ := h.Reconcile(id).JSON()["status"].(string); return s }
	apiOr503 := func(t *testing.T, r *web.Response, good int) {
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
			t.Errorf("contract 5: the answer repeats the cause: %s", r.Body)
		}
	}
	pageOr503 := func(t *testing.T, r *web.Response, good int) {
		t.Helper()
		if r.Status == good {
			return
		}
		if r.Status != 503 || r.Header.Get("Retry-After") == "" || !bytes.Contains(r.Body, []byte(`data-page="unavailable"`)) {
			t.Errorf("answered %d with\n%.300s", r.Status, r.Body)
		}
	}
	startOp := func(t *testing.T, idempotency string) operation {
		header := auth
		if idempotency != "" {
			header = append(slices.Clone(auth), "Idempotency-Key", idempotency)
		}
		req := request("POST", api.StartPath, "", h.StartBody(nil), header...)
		return operation{req, func(r *web.Response, _ bool) {
			apiOr503(t, r, 200)
			var first, again testharness.Started
			json.Unmarshal(r.Body, &first)
			if granted(r) {
				told[first.SessionID] = true
				if s := status(first.SessionID); s != "PENDING" {
					t.Errorf("a session that was told of is %q", s)
				}
			}
			if idempotency == "" {
				return
			}
			repeated := h.Engine.Handle(context.Background(), req)
			json.Unmarshal(repeated.Body, &again)
			if repeated.Status != 200 || granted(r) && again != first {
				t.Errorf("contract 11: repeated: %d %s", repeated.Status, repeated.Body)
			}
			told[again.SessionID] = true
		}}
	}
	validateOp := func(t *testing.T, idempotency string) operation {
		back := h.Approve(h.Start(nil))
		completed[back.SessionID] = true
		header := auth
		if idempotency != "" {
			header = append(slices.Clone(auth), "Idempotency-Key", idempotency)
		}
		req := request("POST", api.ValidatePath, "", validateBody(back.ResultToken), header...)
		return operation{req, func(r *web.Response, mayHaveApplied bool) {
			apiOr503(t, r, 200)
			next := h.Engine.Handle(context.Background(), req)
			switch {
			case idempotency != "":
				if next.Status != 200 || granted(r) && string(next.Body) != string(r.Body) {
					t.Errorf("contract 11: a lost answer is a lost result: then %d %s", next.Status, next.Body)
				}
			case granted(r) && next.Status != 409, !granted(r) && next.Status != 200 && !(mayHaveApplied && next.Status == 409):
				t.Errorf("first %d, then %d %s", r.Status, next.Status, next.Body)
			}
			wantError(t, h.Validate(back.ResultToken), 409, "ALREADY_USED")
		}}
	}
	postOp := func(t *testing.T, outcome, want string) operation {
		s := h.Start(nil)
		told[s.SessionID] = true
		page := h.Open(s.RedirectURL)
		req := request("POST", api.HostedPath, "", []byte(page.Form(outcome).Fields.Encode()), form...)
		return operation{req, func(r *web.Response, mayHaveApplied bool) {
			pageOr503(t, r, 303)
			now := h.Open(s.RedirectURL)
			got := status(s.SessionID)
			if granted(r) && got != want || !granted(r) && got != "PENDING" && !(mayHaveApplied && got == want) {
				t.Errorf("answered %d, and the session is %s", r.Status, got)
			}
			if (now.Callback != nil) != (got == "COMPLETED") {
				t.Errorf("sent on to %+v though the session is %s", now.Callback, got)
			}
			// The user tries again, and this time wants to be approved.
			if now.Kind == "method" {
				now = now.Submit("approve")
			}
			back := now.Callback
			if (back != nil) != (got != "FAILED") {
				t.Errorf("after %s a new try leads to %+v", got, back)
			}
			if back != nil {
				completed[s.SessionID] = true
				wantStatus(t, h.Validate(back.ResultToken), 200)
			}
		}}
	}
	number := 0
	operations := map[string]func(t *testing.T) operation{
		"start":                         func(t *testing.T) operation { return startOp(t, "") },
		"start with Idempotency-Key":    func(t *testing.T) operation { number++; return startOp(t, fmt.Sprint("s", number)) },
		"validate":                      func(t *testing.T) operation { return validateOp(t, "") },
		"validate with Idempotency-Key": func(t *testing.T) operation { number++; return validateOp(t, fmt.Sprint("v", number)) },
		"hosted POST approve":           func(t *testing.T) operation { return postOp(t, "approve", "COMPLETED") },
		"hosted POST reject":            func(t *testing.T) operation { return postOp(t, "reject", "FAILED") },
		"hosted POST fail_attempt":      func(t *testing.T) operation { return postOp(t, "fail_attempt", "PENDING") },
		"hosted POST cancel":            func(t *testing.T) operation { return postOp(t, "cancel", "PENDING") },
		"hosted GET": func(t *testing.T) operation {
			s := h.Start(nil)
			told[s.SessionID] = true
			return operation{request("GET", api.HostedPath, "flow="+flowOf(t, s.RedirectURL), nil), func(r *web.Response, _ bool) {
				pageOr503(t, r, 200)
				if p := h.Open(s.RedirectURL); p.Kind != "method" {
					t.Errorf("then %s", p.Kind)
				}
			}}
		},
		"hosted GET of the hop": func(t *testing.T) operation {
			s := h.Start(nil)
			completed[h.Approve(s).SessionID] = true
			return operation{request("GET", api.HostedPath, "flow="+flowOf(t, s.RedirectURL), nil), func(r *web.Response, _ bool) {
				pageOr503(t, r, 200)
				wantStatus(t, h.Validate(h.Open(s.RedirectURL).Callback.ResultToken), 200)
			}}
		},
		"reconcile": func(t *testing.T) operation {
			s := h.Start(nil)
			told[s.SessionID] = true
			return operation{request("GET", api.SessionsPath+s.SessionID, "", nil, auth...), func(r *web.Response, _ bool) {
				apiOr503(t, r, 200)
				if s := status(s.SessionID); s != "PENDING" {
					t.Errorf("then %s", s)
				}
			}}
		},
		"start that fails at initiation": func(t *testing.T) operation {
			return operation{request("POST", api.StartPath, "", h.StartBody(body{"external_user_id": "sandbox:init_error"}), auth...),
				func(r *web.Response, _ bool) {
					apiOr503(t, r, 502)
					var e struct {
						Session string `json:"session_id"`
					}
					json.Unmarshal(r.Body, &e)
					if r.Status == 502 {
						told[e.Session] = true
						if s := status(e.Session); s != "FAILED" {
							t.Errorf("the session is %s", s)
						}
					}
				}}
		},
	}

	hit := map[string]bool{}
	for name, prepare := range operations {
		for _, fault := range faultKinds {
			for _, stale := range []bool{false, true} { // whether the directory has to be asked as well
				for at := 1; ; at++ {
					reached := false
					for _, lasting := range []bool{false, true} {
						title := fmt.Sprintf("contract 5: %s, %s at call %d, lasting %v, stale %v", name, fault, at, lasting, stale)
						ok := t.Run(title, func(t *testing.T) {
							op := prepare(t)
							if stale {
								h.Pause(6 * time.Second)
							}
							ctx, cancel := context.WithCancel(context.Background())
							defer cancel()
							calls := 0
							f.set(func(kvtest.Call) kvtest.Fault {
								if calls++; calls == at || lasting && calls > at {
									reached = true
									if fault == kvtest.Hang {
										cancel() // and not by a time that an engine may need for the calls before
									}
									return fault
								}
								return kvtest.Pass
							})
							r := h.Engine.Handle(ctx, op.req)
							f.off()
							if fault == kvtest.Delay {
								f.Deliver(context.Background())
							}
							op.check(r, fault == kvtest.LoseReply || fault == kvtest.Delay)
						})
						if !ok {
							return
						}
					}
					if !reached {
						break
					}
					hit[name+fault.String()] = true
				}
			}
		}
	}
	if want := len(operations) * len(faultKinds); len(hit) != want {
		t.Errorf("%d of %d operations and faults met", len(hit), want)
	}

	h.Advance(time.Hour)
	types := map[string][]string{}
	for _, d := range h.Sink.Deliveries() {
		types[d.Event.SessionID] = append(types[d.Event.SessionID], d.Event.Type)
	}
	for id, ts := range types {
		slices.Sort(ts)
		if len(ts) != 2 || ts[1] != "verification.started" && ts[0] != "verification.started" {
			t.Errorf("spec: a session has sent %v", ts)
		}
		if completed[id] && !slices.Contains(ts, "verification.completed") {
			t.Errorf("spec: a completed session has sent %v", ts)
		}
	}
	for _, ids := range []map[string]bool{completed, told} {
		for id := range ids {
			if len(types[id]) == 0 {
				t.Errorf("spec: a session that was told of has sent nothing")
			}
		}
	}
	t.Logf("%d sessions", len(types))
}

// A store that hangs, seen through the whole server.
func TestHangingStore(t *testing.T) {
	f := newFaults(t)
	h := newHarness(t, &opts{KV: f.open, HandleTimeout: time.Second, Configure: unlimited})
	s := h.Start(nil)
	page := h.Open(s.RedirectURL)
	token := h.Approve(h.Start(nil)).ResultToken
	for name, ask := range map[string]func() *testharness.Response{
		"start":       func() *testharness.Response { return h.TryStart(nil) },
		"validate":    func() *testharness.Response { return h.Validate(token) },
		"reconcile":   func() *testharness.Response { return h.Reconcile(s.SessionID) },
		"hosted POST": func() *testharness.Response { return page.Post("approve") },
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

// A store that fails under the deliveries: nothing is lost, its own errors use
// up no attempt, and what is sent twice is the same.
func TestFaultsUnderDelivery(t *testing.T) {
	for seed := range uint64(5) {
		t.Run(fmt.Sprintf("contract 27: seed %d", seed), func(t *testing.T) {
			f := newFaults(t)
			h := newHarness(t, &opts{KV: f.open, Configure: unlimited})
			want := map[string][]string{}
			for n, how := range []string{"approve", "reject", "cancel", "withdraw", "", "approve"} {
				s := h.Start(body{"external_user_id": fmt.Sprint("u", n)})
				ending(h, s, how)
				end := map[string]string{"approve": "completed", "reject": "failed", "withdraw": "failed"}[how]
				if end == "" {
					end = "expired"
				}
				want[s.SessionID] = []string{"verification." + end, "verification.started"}
			}
			f.set(kvtest.Seeded(seed, map[kvtest.Fault]float64{kvtest.Refuse: .2, kvtest.LoseRequest: .1, kvtest.LoseReply: .2}))
			for range 60 { // leases run out between
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
