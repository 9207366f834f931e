package lifecycle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/internal/metric"
	"github.com/verge-id/verge/core/internal/outbox"
	"github.com/verge-id/verge/core/internal/session"
	"github.com/verge-id/verge/core/internal/testhost"
	"github.com/verge-id/verge/core/internal/token"
	"github.com/verge-id/verge/core/keyring"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/webhook"
	"github.com/verge-id/verge/kvadapters/kvtest"
	"github.com/verge-id/verge/testharness/wait"
)

const testUUID = testhost.UUID

const outcomeLife = 30 * 24 * time.Hour

var ctx = context.Background()

// fixture is a Lifecycle on a test's host.
type fixture struct {
	*Lifecycle
	*testhost.Host
	commits atomic.Int64

	mu     sync.Mutex
	counts map[string]int
	woken  []time.Time
	usage  map[host.UsageEvent]int
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	h := testhost.New(t)
	w := &fixture{Host: h, counts: map[string]int{}, usage: map[host.UsageEvent]int{}}
	w.script()
	w.Lifecycle = &Lifecycle{Host: h.Host, Attempts: 3, OutcomeLife: outcomeLife}
	w.Lifecycle.Observer = testhost.Observer{
		OnCount:      func(event string) { w.mu.Lock(); w.counts[event]++; w.mu.Unlock() },
		OnCountUsage: func(t host.UsageEvent) { w.mu.Lock(); w.usage[t]++; w.mu.Unlock() },
		OnWake:       func(due time.Time) { w.mu.Lock(); w.woken = append(w.woken, due); w.mu.Unlock() },
	}
	return w
}

// script sets the faults of the next commits. All other calls pass.
func (w *fixture) script(faults ...kvtest.Fault) {
	w.commits.Store(0)
	w.Store.Decide = func(c kvtest.Call) kvtest.Fault {
		if c.Method != "Commit" {
			return kvtest.Pass
		}
		if n := int(w.commits.Add(1)); n <= len(faults) {
			return faults[n-1]
		}
		return kvtest.Pass
	}
}

var withWebhook = integration.Webhook{URL: "https://hooks.publisher.example/verge"}

// session returns a new session. It sends events if the webhook does.
func (w *fixture) session(t testing.TB, hook integration.Webhook) Session {
	t.Helper()
	id, err := session.NewID(w.Host.Random, testUUID, session.L1, 25, w.Clock.Now(), 3)
	coretest.Must(t, err)
	text, err := id.Format(w.Ring)
	coretest.Must(t, err)
	user, state := "user-42", ""
	return Session{ID: id, Text: text, User: &user, State: &state, Untimed: !hook.Sends(),
		Integration: &integration.Integration{ID: testUUID, PublisherID: "pub_a", Webhook: hook}}
}

// tasks returns all scheduled events and timers. It leases them at a time far in the future, so a test calls
// it last.
func (w *fixture) tasks(t testing.TB) (events []webhook.Event, timers []kv.Task) {
	t.Helper()
	all, _, err := w.Memory.Claim(ctx, "p3", w.Clock.Now().Add(1000*time.Hour), time.Hour, 1000)
	coretest.Must(t, err)
	for _, task := range all {
		m, sealed, err := outbox.Read(task)
		coretest.Must(t, err)
		if m.Kind == outbox.Expire {
			timers = append(timers, task)
			continue
		}
		body, err := outbox.Body(w.Ring, sealed)
		coretest.Must(t, err)
		var e webhook.Event
		coretest.Must(t, json.Unmarshal(body, &e))
		if m.Type != e.Type || m.Session != e.SessionID || m.Integration != testUUID || m.Attempts != 0 {
			t.Errorf("the task's head %+v does not match its event %+v", m, e)
		}
		events = append(events, e)
	}
	return events, timers
}

// wantEvents checks the types of the scheduled events, in any order, and whether a timer is left.
func (w *fixture) wantEvents(t testing.TB, timer bool, types ...string) []webhook.Event {
	t.Helper()
	events, timers := w.tasks(t)
	got := map[string]int{}
	for _, e := range events {
		got[e.Type]++
	}
	want := map[string]int{}
	for _, typ := range types {
		want[typ]++
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("spec, Events: scheduled are %v, want %v", got, want)
	}
	if (len(timers) == 1) != timer || len(timers) > 1 {
		t.Errorf("%d timers are scheduled; want one: %v", len(timers), timer)
	}
	return events
}

func (w *fixture) record(t testing.TB, s Session) session.Record {
	t.Helper()
	r, _, err := w.Load(ctx, s.ID)
	coretest.Must(t, err)
	return r
}

func TestBegin_WithoutWebhook(t *testing.T) {
	for name, hook := range map[string]integration.Webhook{"no URL": {}, "switched off": {Off: true},
		"off, though with a URL": {Off: true, URL: withWebhook.URL}} {
		w := newFixture(t)
		before := w.Store.Calls()
		coretest.Must(t, w.Begin(ctx, w.session(t, hook), nil, nil, nil))
		if n := w.Store.Calls() - before; n != 0 {
			t.Errorf("architecture, What is where: %s: start asked the KV %d times", name, n)
		}
	}
}

func TestBegin_OneCommit(t *testing.T) {
	checks := []kv.Check{{Name: "r/x"}}
	extra := []kv.Put{{Name: "r/x", Value: []byte("answer")}}
	for _, c := range []struct {
		name      string
		hook      integration.Webhook
		initiated bool
		checks    []kv.Check
		extra     []kv.Put
		timer     bool
		events    []string
		state     session.State // kept, "" for nothing
	}{
		{"spec, States: started", withWebhook, true, nil, nil, true, []string{webhook.TypeStarted}, ""},
		{"contract 11: started, with a kept answer", withWebhook, true, checks, extra, true,
			[]string{webhook.TypeStarted}, ""},
		{"contract 11: a kept answer alone", integration.Webhook{Off: true}, true, checks, extra, false, nil,
			""},
		{"spec, States: initiation fails", withWebhook, false, nil, nil, false,
			[]string{webhook.TypeStarted, webhook.TypeFailed}, session.Failed},
		{"spec, States: initiation fails without webhook", integration.Webhook{}, false, nil, nil, false, nil,
			session.Failed},
		{"contract 11: initiation fails, with a kept answer", withWebhook, false, checks, extra, false,
			[]string{webhook.TypeStarted, webhook.TypeFailed}, session.Failed},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newFixture(t)
			s := w.session(t, c.hook)
			coretest.Must(t, w.Begin(ctx, s, beginning(c.initiated), c.checks, c.extra))
			if n := w.commits.Load(); n != 1 || w.Store.Calls() != 1 {
				t.Errorf("architecture: %d commits and %d calls, want one", n, w.Store.Calls())
			}
			if r := w.record(t, s); r.State != c.state {
				t.Errorf("kept is %+v, want state %q", r, c.state)
			} else if c.state == session.Failed &&
				(r.FailureCode != webhook.FailureUnknown || !r.At.Equal(w.Clock.Now())) {
				t.Errorf("kept is %+v", r)
			}
			if len(c.extra) > 0 {
				it, err := w.Memory.Get(ctx, kv.Key{Partition: "p3", Name: "r/x"})
				if err != nil || string(it.Value) != "answer" {
					t.Errorf("the caller's put: %+v, %v", it, err)
				}
			}
			for _, e := range w.wantEvents(t, c.timer, c.events...) {
				if e.SessionID != s.Text || e.PublisherID != "pub_a" || e.IntegrationID != "int_"+testUUID ||
					e.IdempotencyKey != s.Text+":"+e.Type || e.Test {
					t.Errorf("spec, Envelope: event %+v", e)
				}
			}
		})
	}
}

func TestBegin_WakesRunner(t *testing.T) {
	w := newFixture(t)
	s := w.session(t, withWebhook)
	coretest.Must(t, w.Begin(ctx, s, nil, nil, nil))
	if len(w.woken) != 2 || !w.woken[0].Equal(w.Clock.Now()) || !w.woken[1].Equal(s.ID.Expires()) {
		t.Errorf("the runner was woken for %v, want now and %s", w.woken, s.ID.Expires())
	}
}

func TestBegin_LostReply(t *testing.T) {
	check := []kv.Check{{Name: "r/x"}}
	extra := []kv.Put{{Name: "r/x", Value: []byte("answer")}}
	for _, c := range []struct {
		name      string
		faults    []kvtest.Fault
		initiated bool
		checks    []kv.Check
		extra     []kv.Put
		want      error
		commits   int64
		deliver   bool
		events    []string
	}{
		{"no check: applied, without a reply", []kvtest.Fault{kvtest.LoseReply}, true, nil, nil,
			kv.ErrUnknown, 1, false, []string{webhook.TypeStarted}},
		{"no check: not applied", []kvtest.Fault{kvtest.LoseRequest}, true, nil, nil, kv.ErrUnknown, 1, false,
			nil},
		{"a check: applied", []kvtest.Fault{kvtest.LoseReply}, true, check, extra, nil, 2, false,
			[]string{webhook.TypeStarted}},
		{"a check: not applied", []kvtest.Fault{kvtest.LoseRequest}, true, check, extra, nil, 2, false,
			[]string{webhook.TypeStarted}},
		{"a check: applied later", []kvtest.Fault{kvtest.Delay}, true, check, extra, nil, 2, true,
			[]string{webhook.TypeStarted}},
		{"a check: both replies lost", []kvtest.Fault{kvtest.LoseReply, kvtest.LoseReply}, true, check, extra,
			kv.ErrUnknown, 2, false, []string{webhook.TypeStarted}},
		{"initiation failed: applied", []kvtest.Fault{kvtest.LoseReply}, false, nil, nil, nil, 2, false,
			[]string{webhook.TypeStarted, webhook.TypeFailed}},
		{"initiation failed: applied later", []kvtest.Fault{kvtest.Delay}, false, nil, nil, nil, 2, true,
			[]string{webhook.TypeStarted, webhook.TypeFailed}},
		{"refused", []kvtest.Fault{kvtest.Reject}, true, nil, nil, kv.ErrUnavailable, 1, false, nil},
	} {
		t.Run("contract 5, 503: "+c.name, func(t *testing.T) {
			w := newFixture(t)
			s := w.session(t, withWebhook)
			w.script(c.faults...)
			err := w.Begin(ctx, s, beginning(c.initiated), c.checks, c.extra)
			if !errors.Is(err, c.want) || c.want == nil && err != nil {
				t.Errorf("error %v, want %v", err, c.want)
			}
			if n := w.commits.Load(); n != c.commits {
				t.Errorf("%d commits, want %d", n, c.commits)
			}
			if c.deliver {
				for _, err := range w.Store.Deliver(ctx) {
					if conflict := (*kv.Conflict)(nil); !errors.As(err, &conflict) {
						t.Errorf("the late commit applied a second time (%v)", err)
					}
				}
			}
			w.wantEvents(t, c.initiated && len(c.events) > 0, c.events...)
		})
	}
}

func TestBegin_Conflict(t *testing.T) {
	w := newFixture(t)
	coretest.Must(t, w.Memory.Commit(ctx, kv.Tx{ID: "other", Partition: "p3",
		Puts: []kv.Put{{Name: "r/x", Value: []byte("theirs")}}}))
	err := w.Begin(ctx, w.session(t, withWebhook), nil, []kv.Check{{Name: "r/x"}}, []kv.Put{{Name: "r/x"}})
	var conflict *kv.Conflict
	if !errors.As(err, &conflict) {
		t.Fatalf("error %v, want a conflict", err)
	}
	if it, ok := conflict.Item("r/x"); !ok || string(it.Value) != "theirs" {
		t.Errorf("contract 11: the conflict has %+v and not the kept answer", conflict)
	}
	w.wantEvents(t, false)
}

func TestFire(t *testing.T) {
	at := func(w *fixture) time.Time { return w.Clock.Now() }
	for _, c := range []struct {
		name    string
		trigger session.Trigger
		state   session.State
		code    string
		event   string // "" for none
	}{
		{"spec, States: verification succeeds", session.Succeeded, session.Completed, "",
			webhook.TypeCompleted},
		{"contract 23: a provider's final no", session.Rejected, session.Failed,
			webhook.FailureProviderRejected, webhook.TypeFailed},
		{"contract 23: finally withdrawn", session.Withdrawn, session.Failed, webhook.FailureUserCancelled,
			webhook.TypeFailed},
		{"spec, Failure codes: unclassified", session.Unclassified, session.Failed, webhook.FailureUnknown,
			webhook.TypeFailed},
		{"spec, States: the user cancels", session.Cancelled, session.Started, "", ""},
		{"spec, States: an attempt fails", session.AttemptFailed, session.Started, "", ""},
		{"contract 20: a timer that fires early", session.TimeUp, session.Started, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newFixture(t)
			s := w.session(t, withWebhook)
			coretest.Must(t, w.Begin(ctx, s, nil, nil, nil))
			w.Clock.Advance(time.Minute)
			r, err := w.Fire(ctx, s, Step{Trigger: c.trigger})
			coretest.Must(t, err)
			if r.State != c.state || r.FailureCode != c.code || r.Terminal() && !r.At.Equal(at(w)) {
				t.Errorf("record %+v", r)
			}
			if kept := w.record(t, s); kept.State != "" && kept != r {
				t.Errorf("kept is %+v, returned %+v", kept, r)
			}
			types := []string{webhook.TypeStarted}
			if c.event != "" {
				types = append(types, c.event)
			}
			for _, e := range w.wantEvents(t, c.event == "", types...) {
				if e.Type == webhook.TypeStarted {
					continue
				}
				d := e.Data
				if d.ExternalUserID == nil || *d.ExternalUserID != "user-42" ||
					d.PublisherState == nil || *d.PublisherState != "" {
					t.Errorf("spec, data by event: user and state of %+v; an empty state counts as given", d)
				}
				if c.code != "" && (d.Failure == nil || d.Failure.Code != c.code || d.Failure.Message == "") {
					t.Errorf("spec, data by event: failure %+v", e.Data.Failure)
				}
				verified := webhook.Result{Verified: true, Level: "L1", ChallengeAge: 25}
				if c.state == session.Completed && *d.Result != verified {
					t.Errorf("spec, data by event: result %+v", e.Data.Result)
				}
			}
			if c.event != "" && w.counts["session_"+string(c.state)] != 1 {
				t.Errorf("counted: %v", w.counts)
			}
		})
	}
}

func TestFire_WithoutWebhook(t *testing.T) {
	w := newFixture(t)
	s := w.session(t, integration.Webhook{Off: true})
	r, err := w.Fire(ctx, s, Step{Trigger: session.Succeeded})
	if err != nil || r.State != session.Completed || w.record(t, s) != r {
		t.Errorf("record %+v, %v", r, err)
	}
	w.wantEvents(t, false)
}

func TestFire_LastAttempt(t *testing.T) {
	w := newFixture(t)
	s := w.session(t, withWebhook)
	for n := 1; n <= 3; n++ {
		r, err := w.Fire(ctx, s, Step{Trigger: session.AttemptFailed, Attempt: n - 1})
		coretest.Must(t, err)
		if r.Attempts != n || r.Terminal() != (n == 3) {
			t.Errorf("contract 23: after %d failed attempts: %+v", n, r)
		}
	}
	if r := w.record(t, s); r.FailureCode != webhook.FailureMaxAttempts {
		t.Errorf("contract 23: %+v", r)
	}
	w.wantEvents(t, false, webhook.TypeFailed)
}

func TestFire_LateTrigger(t *testing.T) {
	w := newFixture(t)
	s := w.session(t, withWebhook)
	first, err := w.Fire(ctx, s, Step{Trigger: session.Rejected})
	coretest.Must(t, err)
	w.Clock.Advance(time.Second)
	for n, trigger := range []session.Trigger{session.Succeeded, session.Rejected, session.AttemptFailed,
		session.Withdrawn} {
		r, err := w.Fire(ctx, s, Step{Trigger: trigger})
		if err != nil || r != first {
			t.Errorf("contract 18: %s afterwards gives %+v, %v, want %+v", trigger, r, err, first)
		}
		if w.counts["late_answer_ignored"] != n+1 {
			t.Errorf("contract 18: %d late answers were counted, want %d", w.counts["late_answer_ignored"],
				n+1)
		}
	}
	w.wantEvents(t, false, webhook.TypeFailed)
}

func TestFire_AfterExpiry(t *testing.T) {
	w := newFixture(t)
	s := w.session(t, withWebhook)
	coretest.Must(t, w.Begin(ctx, s, nil, nil, nil))
	w.Clock.Advance(session.Life)
	r, err := w.Fire(ctx, s, Step{Trigger: session.Succeeded})
	if err != nil || r.State != session.Expired || !r.At.Equal(s.ID.Expires()) {
		t.Errorf("contract 20: %+v, %v", r, err)
	}
	if w.counts["late_answer_ignored"] != 1 {
		t.Errorf("contract 18: the late answer was not counted: %v", w.counts)
	}
	w.wantEvents(t, true, webhook.TypeStarted, webhook.TypeExpired) // the timer counts the session
}

func TestFire_OutcomeLife(t *testing.T) {
	w := newFixture(t)
	s := w.session(t, withWebhook)
	first, err := w.Fire(ctx, s, Step{Trigger: session.Succeeded})
	coretest.Must(t, err)
	w.Clock.Advance(session.Life + outcomeLife + host.ClockMargin - time.Millisecond)
	if r := w.record(t, s); r != first {
		t.Errorf("contract 21: the store, whose clock may be ahead, has %+v at the end of its life", r)
	}
	w.Clock.Advance(time.Millisecond)
	if r := w.record(t, s); r != (session.Record{}) {
		t.Errorf("contract 21: after 30 days and the margin there is still %+v", r)
	}
}

// If a session has several concurrent outcomes, one wins. Every caller receives it, and one event reports it.
func TestRaces(t *testing.T) {
	triggers := []session.Trigger{session.Succeeded, session.Rejected, session.Withdrawn,
		session.Unclassified}
	for _, c := range []struct {
		name   string
		expire bool // the life is over, and the timer fires as well
		mixed  []session.Trigger
	}{
		{"contract 18: terminal triggers", false, triggers},
		{"contract 18: with attempts among them", false,
			append([]session.Trigger{session.AttemptFailed}, triggers...)},
		{"contract 18: completion and expiry", true, append([]session.Trigger{session.TimeUp}, triggers...)},
	} {
		t.Run(c.name, func(t *testing.T) {
			for range 20 {
				w := newFixture(t)
				s := w.session(t, withWebhook)
				coretest.Must(t, w.Begin(ctx, s, nil, nil, nil))
				w.Clock.Advance(session.Life - time.Millisecond)
				records := make([]session.Record, 64)
				errs := make([]error, len(records))
				var all sync.WaitGroup
				start := make(chan struct{})
				for n := range records {
					all.Go(func() {
						wait.For(start)
						if c.expire && n == len(records)/2 {
							w.Clock.Advance(time.Millisecond)
						}
						// a user tries again after a failed attempt
						for errs[n] == nil && !records[n].Terminal() {
							records[n], errs[n] = w.Fire(ctx, s, Step{Trigger: c.mixed[n%len(c.mixed)],
								Attempt: records[n].Attempts})
						}
					})
				}
				close(start)
				all.Wait()
				final := w.record(t, s)
				if !final.Terminal() {
					t.Fatalf("the session has no outcome: %+v", final)
				}
				for n, r := range records {
					if errs[n] != nil || r.Terminal() && r != final {
						t.Errorf("call %d returned %+v, %v, but the outcome is %+v", n, r, errs[n], final)
					}
				}
				event := map[session.State]string{session.Completed: webhook.TypeCompleted,
					session.Failed: webhook.TypeFailed, session.Expired: webhook.TypeExpired}[final.State]
				timer := final.State == session.Expired
				for _, e := range w.wantEvents(t, timer, webhook.TypeStarted, event) {
					if e.Type == webhook.TypeFailed && e.Data.Failure.Code != final.FailureCode {
						t.Errorf("the event says %s, the outcome %s", e.Data.Failure.Code, final.FailureCode)
					}
				}
				if t.Failed() {
					return
				}
			}
		})
	}
}

// A form that is posted many times concurrently counts as one attempt. Attempts with their own form all
// count.
func TestFire_AttemptCountsOnce(t *testing.T) {
	w := newFixture(t)
	w.Attempts = 9
	s := w.session(t, withWebhook)
	for attempt := range 8 {
		var wait sync.WaitGroup
		for range 8 {
			wait.Go(func() {
				r, err := w.Fire(ctx, s, Step{Trigger: session.AttemptFailed, Attempt: attempt})
				if err != nil || r.Attempts != attempt+1 || r.Terminal() {
					t.Errorf("contract 23: attempt %d returns %+v, %v", attempt, r, err)
				}
			})
		}
		wait.Wait()
		if r := w.record(t, s); r.Attempts != attempt+1 || r.Terminal() {
			t.Errorf("contract 23: attempt %d, failed eight times concurrently, left %+v", attempt, r)
		}
	}
}

func TestFire_OtherAttempt(t *testing.T) {
	for _, attempt := range []int{0, 2, 3, 1 << 30} {
		for _, trigger := range []session.Trigger{session.Succeeded, session.Rejected, session.Withdrawn,
			session.Unclassified, session.AttemptFailed} {
			t.Run(fmt.Sprintf("contract 23: %s of attempt %d at attempt 1", trigger, attempt),
				func(t *testing.T) {
					w := newFixture(t)
					s := w.session(t, withWebhook)
					coretest.Must(t, w.Begin(ctx, s, nil, nil, nil))
					_, err := w.Fire(ctx, s, Step{Trigger: session.AttemptFailed})
					coretest.Must(t, err)
					before := w.record(t, s)
					r, err := w.Fire(ctx, s, Step{Trigger: trigger, Attempt: attempt})
					if err != nil || r != before || w.record(t, s) != before {
						t.Errorf("it returns %+v, %v, and kept is %+v", r, err, w.record(t, s))
					}
					w.wantEvents(t, true, webhook.TypeStarted)
					// The session expires at any attempt.
					w.Clock.Advance(session.Life)
					if r, err = w.Fire(ctx, s, Step{Trigger: trigger, Attempt: attempt}); err != nil ||
						r.State != session.Expired {
						t.Errorf("after its life it returns %+v, %v", r, err)
					}
				})
		}
	}
}

// After each lost reply the store holds the outcome once and its event once. The caller received the outcome,
// or an error that it is unknown.
func TestFire_LostReplies(t *testing.T) {
	all := []kvtest.Fault{kvtest.Pass, kvtest.Reject, kvtest.LoseRequest, kvtest.LoseReply, kvtest.Delay}
	for _, trigger := range []session.Trigger{session.Succeeded, session.AttemptFailed} {
		for _, first := range all {
			for _, second := range all {
				t.Run(fmt.Sprintf("contract 5, 503: %s, %v then %v", trigger, first, second),
					func(t *testing.T) {
						w := newFixture(t)
						s := w.session(t, withWebhook)
						w.script(first, second)
						r, err := w.Fire(ctx, s, Step{Trigger: trigger})
						w.Store.Deliver(ctx)
						kept := w.record(t, s)
						switch {
						case err != nil && (first == kvtest.Pass ||
							first != kvtest.Reject && second == kvtest.Pass):
							t.Errorf("one lost reply left the outcome unknown: %v", err)
						case err == nil && r != kept:
							t.Errorf("returned %+v, kept is %+v", r, kept)
						case err != nil && r != (session.Record{}),
							err != nil && !errors.Is(err, kv.ErrUnavailable) &&
								!errors.Is(err, kv.ErrUnknown):
							t.Errorf("error %v with %+v", err, r)
						}
						if kept.Attempts > 1 {
							t.Errorf("one failed attempt was counted %d times", kept.Attempts)
						}
						if kept.State == session.Completed {
							w.wantEvents(t, false, webhook.TypeCompleted)
						} else {
							w.wantEvents(t, false)
						}
					})
			}
		}
	}
}

// A commit's reply is lost, and another browser's attempt is written before the commit is repeated. The
// second try then finds neither its own write nor the earlier record.
func TestFire_LostReplyAndRace(t *testing.T) {
	for _, c := range []struct {
		fault    kvtest.Fault
		trigger  session.Trigger
		other    int // the other's attempt
		attempts int
	}{
		{kvtest.LoseReply, session.AttemptFailed, 1, 2}, // ours counted, then the other browser's
		{kvtest.LoseReply, session.AttemptFailed, 0, 1}, // the other browser has the same form
		{kvtest.LoseRequest, session.AttemptFailed, 0, 1},
		{kvtest.LoseRequest, session.Succeeded, 0, 1}, // ours belongs to an earlier attempt
	} {
		name := fmt.Sprintf("contract 18: %v of %s under attempt %d", c.fault, c.trigger, c.other)
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			s := w.session(t, withWebhook)
			commits := 0
			w.Store.Decide = func(call kvtest.Call) kvtest.Fault {
				if call.Method != "Commit" {
					return kvtest.Pass
				}
				switch commits++; commits {
				case 1:
					return c.fault
				case 2:
					if _, err := w.Fire(ctx, s, Step{Trigger: session.AttemptFailed,
						Attempt: c.other}); err != nil {
						t.Error(err)
					}
				}
				return kvtest.Pass
			}
			r, err := w.Fire(ctx, s, Step{Trigger: c.trigger})
			if kept := w.record(t, s); err != nil || r != kept {
				t.Errorf("returned %+v, %v, stored %+v", r, err, kept)
			}
			if r.Attempts != c.attempts || r.Terminal() {
				t.Errorf("kept is %+v, want %d attempts", r, c.attempts)
			}
		})
	}
}

// claimTimer leases the timer for 60 s. The timer must be due at now.
func (w *fixture) claimTimer(t testing.TB, now time.Time) host.Job {
	t.Helper()
	tasks, _, err := w.Memory.Claim(ctx, "p3", now, time.Minute, 100)
	coretest.Must(t, err)
	for _, task := range tasks {
		if strings.HasPrefix(task.ID, "x/") {
			return host.Job{Partition: "p3", Task: task, Until: now.Add(time.Minute)}
		}
	}
	t.Fatalf("no timer is due at %s", now)
	return host.Job{}
}

func TestExpire_EndsSession(t *testing.T) {
	w := newFixture(t)
	s := w.session(t, withWebhook)
	coretest.Must(t, w.Begin(ctx, s, nil, nil, nil))
	w.Clock.Advance(session.Life + 3*time.Second)
	coretest.Must(t, w.Expire(ctx, s, w.claimTimer(t, w.Clock.Now())))
	r := w.record(t, s)
	if r.State != session.Expired || r.FailureCode != webhook.FailureTimeout || !r.At.Equal(s.ID.Expires()) {
		t.Errorf("contract 20: %+v, want expired at %s", r, s.ID.Expires())
	}
	for _, e := range w.wantEvents(t, false, webhook.TypeStarted, webhook.TypeExpired) {
		expires := s.ID.Expires().Format("2006-01-02T15:04:05.000Z")
		if e.Type == webhook.TypeExpired && (e.Data.ExpiresAt == nil || *e.Data.ExpiresAt != expires) {
			t.Errorf("spec, data by event: %+v", e.Data)
		}
	}
}

func TestExpire_Early(t *testing.T) {
	w := newFixture(t)
	s := w.session(t, withWebhook)
	coretest.Must(t, w.Begin(ctx, s, nil, nil, nil))
	w.woken = nil
	w.Clock.Advance(session.Life - time.Millisecond)
	coretest.Must(t, w.Expire(ctx, s, w.claimTimer(t, s.ID.Expires()))) // by another instance's faster clock
	if r := w.record(t, s); r.Terminal() {
		t.Errorf("contract 20: %+v before the 10 minutes were over", r)
	}
	// The timer is set to the end of the session, so that it does not fire repeatedly until then.
	_, next, err := w.Memory.Claim(ctx, "p3", w.Clock.Now(), time.Minute, 1)
	if err != nil || !next.Equal(s.ID.Expires()) {
		t.Errorf("the timer is due at %s, %v, want %s", next, err, s.ID.Expires())
	}
	if len(w.woken) == 0 || !w.woken[len(w.woken)-1].Equal(s.ID.Expires()) {
		t.Errorf("the runner was woken for %v, want %s as the last time", w.woken, s.ID.Expires())
	}
	w.Clock.Advance(time.Millisecond)
	coretest.Must(t, w.Expire(ctx, s, w.claimTimer(t, w.Clock.Now())))
	if r := w.record(t, s); r.State != session.Expired {
		t.Errorf("contract 20: %+v", r)
	}
	w.wantEvents(t, false, webhook.TypeStarted, webhook.TypeExpired)
}

func TestExpire_Late(t *testing.T) {
	w := newFixture(t)
	s := w.session(t, withWebhook)
	coretest.Must(t, w.Begin(ctx, s, nil, nil, nil))
	job := w.claimTimer(t, s.ID.Expires())
	w.Clock.Advance(time.Minute)
	first, err := w.Fire(ctx, s, Step{Trigger: session.Succeeded})
	coretest.Must(t, err)
	w.Clock.Advance(session.Life)
	coretest.Must(t, w.Expire(ctx, s, job))
	if r := w.record(t, s); r != first {
		t.Errorf("contract 18: the timer changed the record to %+v from %+v", r, first)
	}
	w.wantEvents(t, false, webhook.TypeStarted, webhook.TypeCompleted)
}

// A session may end without its timer, if its integration sent no events at that time. The timer is then
// removed, and no event is sent.
func TestExpire_EndedSession(t *testing.T) {
	w := newFixture(t)
	s := w.session(t, withWebhook)
	_, err := w.Fire(ctx, s, Step{Trigger: session.Succeeded})
	coretest.Must(t, err)
	coretest.Must(t, w.Memory.Commit(ctx, kv.Tx{ID: "x", Partition: "p3",
		Schedule: []kv.Task{outbox.Timer(s.ID, s.Text)}}))
	w.Clock.Advance(session.Life)
	coretest.Must(t, w.Expire(ctx, s, w.claimTimer(t, w.Clock.Now())))
	w.wantEvents(t, false, webhook.TypeCompleted)
}

func TestExpire_LostLease(t *testing.T) {
	w := newFixture(t)
	s := w.session(t, withWebhook)
	coretest.Must(t, w.Begin(ctx, s, nil, nil, nil))
	w.Clock.Advance(session.Life)
	stale := w.claimTimer(t, w.Clock.Now())
	w.Clock.Advance(time.Minute)
	w.claimTimer(t, w.Clock.Now())
	if err := w.Expire(ctx, s, stale); err != nil {
		t.Errorf("a lost lease is an error: %v", err)
	}
	if r := w.record(t, s); r != (session.Record{}) {
		t.Errorf("the runner that lost the lease wrote %+v", r)
	}
	w.wantEvents(t, true, webhook.TypeStarted)
}

// If the store fails, the timer stays and is free again when its lease ends.
func TestExpire_StoreErrors(t *testing.T) {
	for _, faults := range [][]kvtest.Fault{
		{kvtest.Reject}, {kvtest.LoseRequest, kvtest.LoseRequest}, {kvtest.LoseReply},
		{kvtest.LoseReply, kvtest.LoseReply},
		{kvtest.LoseReply, kvtest.Reject}, {kvtest.Delay}, {kvtest.Delay, kvtest.Delay},
	} {
		t.Run(fmt.Sprintf("spec, States: expiry under %v", faults), func(t *testing.T) {
			w := newFixture(t)
			s := w.session(t, withWebhook)
			coretest.Must(t, w.Begin(ctx, s, nil, nil, nil))
			w.Clock.Advance(session.Life)
			job := w.claimTimer(t, w.Clock.Now())
			w.script(faults...)
			err := w.Expire(ctx, s, job)
			w.Store.Deliver(ctx)
			w.script()
			if err != nil && !w.record(t, s).Terminal() {
				w.Clock.Advance(time.Minute)
				coretest.Must(t, w.Expire(ctx, s, w.claimTimer(t, w.Clock.Now())))
			}
			if r := w.record(t, s); r.State != session.Expired {
				t.Errorf("%+v after %v", r, err)
			}
			w.wantEvents(t, false, webhook.TypeStarted, webhook.TypeExpired)
		})
	}
}

func TestFire_DamagedRecord(t *testing.T) {
	w := newFixture(t)
	s := w.session(t, withWebhook)
	coretest.Must(t, w.Memory.Commit(ctx, kv.Tx{ID: "x", Partition: "p3",
		Puts: []kv.Put{{Name: s.ID.Key().Name, Value: []byte("?")}}}))
	r, err := w.Fire(ctx, s, Step{Trigger: session.Succeeded})
	if err == nil || r != (session.Record{}) {
		t.Errorf("%+v, %v", r, err)
	}
	w.wantEvents(t, false)
}

// TestRandomFaults runs many sessions on a store that fails at random, and then their timers until none is
// due. Every session has one outcome. None has two events of one type, or two terminal events.
func TestRandomFaults(t *testing.T) {
	for seed := range uint64(20) {
		w := newFixture(t)
		var sessions []Session
		for range 10 {
			s := w.session(t, withWebhook)
			coretest.Must(t, w.Begin(ctx, s, nil, nil, nil))
			sessions = append(sessions, s)
		}
		w.Store.Decide = kvtest.Seeded(seed, map[kvtest.Fault]float64{kvtest.Reject: .1,
			kvtest.LoseRequest: .1, kvtest.LoseReply: .2, kvtest.Delay: .1})
		for n, s := range sessions {
			for range 3 {
				_, err := w.Fire(ctx, s, Step{Trigger: []session.Trigger{session.Succeeded, session.Rejected,
					session.AttemptFailed,
					session.Cancelled}[n%4]})
				if err != nil && !errors.Is(err, kv.ErrUnavailable) && !errors.Is(err, kv.ErrUnknown) {
					t.Fatal(err)
				}
			}
		}
		w.Store.Deliver(ctx)
		w.Clock.Advance(session.Life)
		for range 30 {
			tasks, _, err := w.Memory.Claim(ctx, "p3", w.Clock.Now(), time.Minute, 100)
			coretest.Must(t, err)
			for _, task := range tasks {
				for _, s := range sessions {
					if task.ID == s.ID.TimerID() {
						_ = w.Expire(ctx, s, host.Job{Partition: "p3", Task: task,
							Until: w.Clock.Now().Add(time.Minute)})
					}
				}
			}
			w.Store.Deliver(ctx)
			w.Clock.Advance(time.Minute)
		}
		w.script()
		events, timers := w.tasks(t)
		if len(timers) > 0 {
			t.Errorf("seed %d: %d timers are left", seed, len(timers))
		}
		terminal := map[string]string{}
		for _, e := range events {
			if e.Type == webhook.TypeStarted {
				continue
			}
			if before, ok := terminal[e.SessionID]; ok {
				t.Errorf("seed %d: spec, States: a session sends %s and %s", seed, before, e.Type)
			}
			terminal[e.SessionID] = e.Type
		}
		for n, s := range sessions {
			r := w.record(t, s)
			if !r.Terminal() || terminal[s.Text] != "verification."+string(r.State) {
				t.Errorf("seed %d: session %d is %+v and its event %q", seed, n, r, terminal[s.Text])
			}
		}
		for usage, n := range w.usage {
			if n > len(sessions) || usage.Outcome == host.OutcomeStarted && n != len(sessions) {
				t.Errorf("seed %d: %+v counts %d times, of %d sessions", seed, usage, n, len(sessions))
			}
		}
		if n := w.ended(); n > len(sessions) {
			t.Errorf("seed %d: %d outcomes count, of %d sessions", seed, n, len(sessions))
		}
		if len(events) != 2*len(sessions) {
			t.Errorf("seed %d: %d events of %d sessions", seed, len(events), len(sessions))
		}
	}
}

// TestFire_ForgedRecord: contract 19.
func TestFire_ForgedRecord(t *testing.T) {
	w := newFixture(t)
	kr, err := keyring.Generate(w.Host.Random, w.Clock.Now())
	coretest.Must(t, err)
	w.Lifecycle.Sealer, err = kr.Ring("verify.verge.example", w.Host.Random, w.Clock.Now)
	coretest.Must(t, err)
	begin := func() (session.ID, Session, kv.Key) {
		id, err := session.NewID(w.Host.Random, testUUID, session.L2, 25, w.Clock.Now(), 0)
		coretest.Must(t, err)
		text, err := id.Format(w.Lifecycle.Sealer)
		coretest.Must(t, err)
		return id, Session{ID: id, Text: text, Integration: &integration.Integration{ID: testUUID}}, id.Key()
	}
	plant := func(key kv.Key, value []byte) {
		coretest.Must(t, w.Host.KV.Commit(ctx, kv.Tx{ID: "forger", Partition: key.Partition,
			Puts: []kv.Put{{Name: key.Name, Value: value}}}))
	}
	completed := session.Record{State: session.Completed, At: w.Clock.Now()}.Marshal()

	id, _, key := begin()
	plant(key, completed)
	r, _, err := w.Load(ctx, id)
	if !errors.Is(err, token.ErrRecord) || !strings.Contains(err.Error(), "did not write, as an outcome") {
		t.Errorf("contract 19: a planted outcome is %+v, %v", r, err)
	}
	_, done, from := begin()
	if _, err := w.Fire(ctx, done, Step{Trigger: session.Succeeded}); err != nil {
		t.Fatal(err)
	}
	item, err := w.Host.KV.Get(ctx, from)
	coretest.Must(t, err)
	id, _, key = begin()
	plant(key, item.Value)
	if r, _, err := w.Load(ctx, id); !errors.Is(err, token.ErrRecord) {
		t.Errorf("contract 19: another session's outcome, moved, is %+v, %v", r, err)
	}
	if r, _, err := w.Load(ctx, done.ID); err != nil || r.State != session.Completed {
		t.Errorf("the session's own outcome: %+v, %v", r, err)
	}
	if n := w.counts[metric.NotAuthentic]; n != 2 {
		t.Errorf("contract 19: two forged records were counted %d times", n)
	}
}
