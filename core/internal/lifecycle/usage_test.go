package lifecycle

import (
	"sync"
	"testing"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/internal/session"
	"github.com/verge-id/verge/core/internal/testhost"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters/kvtest"
)

// ended returns the number of counted outcomes.
func (w *fixture) ended() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for t, of := range w.usage {
		if t.Outcome != host.OutcomeStarted {
			n += of
		}
	}
	return n
}

// wantUsage checks the counted usage: each of these outcomes once, and no other.
func (w *fixture) wantUsage(t *testing.T, outcomes ...string) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.usage) != len(outcomes) {
		t.Errorf("contract 44: counted %v, want %q", w.usage, outcomes)
	}
	for _, o := range outcomes {
		if n := w.usage[host.UsageEvent{Integration: testhost.UUID, Outcome: o}]; n != 1 {
			t.Errorf("contract 44: %s counted %d times: %v", o, n, w.usage)
		}
	}
}

func TestUsage_StartCountsOnce(t *testing.T) {
	check, extra := []kv.Check{{Name: "r/x"}}, []kv.Put{{Name: "r/x", Value: []byte("answer")}}
	for _, c := range []struct {
		name      string
		hook      integration.Webhook
		initiated bool
		checks    []kv.Check
		extra     []kv.Put
		faults    []kvtest.Fault
		want      []string
	}{
		{"without a commit", integration.Webhook{Off: true}, true, nil, nil, nil,
			[]string{host.OutcomeStarted, host.OutcomeUntimed}},
		{"a provider that cannot begin, without a webhook", integration.Webhook{Off: true}, false,
			nil, nil, nil,
			[]string{host.OutcomeStarted, host.OutcomeUnknown}},
		{"with a commit", withWebhook, true, nil, nil, nil, []string{host.OutcomeStarted}},
		{"a provider that cannot begin", withWebhook, false, nil, nil, nil,
			[]string{host.OutcomeStarted, host.OutcomeUnknown}},
		{"a reply that is lost and found", withWebhook, true, check, extra, []kvtest.Fault{kvtest.LoseReply},
			[]string{host.OutcomeStarted}},
		{"a reply that stays lost", withWebhook, true, nil, nil, []kvtest.Fault{kvtest.LoseReply}, nil},
		{"a store that refuses", withWebhook, true, nil, nil, []kvtest.Fault{kvtest.Reject}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newFixture(t)
			w.script(c.faults...)
			err := w.Begin(ctx, w.session(t, c.hook), beginning(c.initiated), c.checks, c.extra)
			if (err == nil) != (c.want != nil) {
				t.Errorf("error %v", err)
			}
			w.wantUsage(t, c.want...)
		})
	}
}

func TestUsage_OutcomeNames(t *testing.T) {
	for trigger, want := range map[session.Trigger][]string{
		session.Succeeded:     {host.OutcomeCompleted},
		session.Rejected:      {host.OutcomeRejected},
		session.Withdrawn:     {host.OutcomeCancelled},
		session.Unclassified:  {host.OutcomeUnknown},
		session.Cancelled:     nil, // the session continues
		session.AttemptFailed: nil,
	} {
		w := newFixture(t)
		_, err := w.Fire(ctx, w.session(t, withWebhook), Step{Trigger: trigger})
		coretest.Must(t, err)
		w.wantUsage(t, want...)
	}
	w := newFixture(t)
	s := w.session(t, withWebhook)
	for attempt := range 4 { // at the fourth attempt the session has ended
		_, err := w.Fire(ctx, s, Step{Trigger: session.AttemptFailed, Attempt: attempt})
		coretest.Must(t, err)
	}
	w.wantUsage(t, host.OutcomeMaxAttempts)
}

func TestUsage_ExpirationCountsOnce(t *testing.T) {
	w := newFixture(t)
	s := w.session(t, withWebhook)
	coretest.Must(t, w.Begin(ctx, s, nil, nil, nil))
	w.Clock.Advance(session.Life)
	job := w.claimTimer(t, w.Clock.Now())
	coretest.Must(t, w.Expire(ctx, s, job))
	coretest.Must(t, w.Expire(ctx, s, job))
	w.wantUsage(t, host.OutcomeStarted, host.OutcomeExpired)

}

// A session counts once, even if its integration's webhook is switched on or off during it. A session without
// a timer expires in the counter of its instance, which has the untimed sessions that did not end.
func TestUsage_WebhookSwitched(t *testing.T) {
	off, on := integration.Webhook{Off: true}, withWebhook
	const completed, expired, untimed = host.OutcomeCompleted, host.OutcomeExpired, host.OutcomeUntimed
	for _, c := range []struct {
		name     string
		from, to integration.Webhook
		life     time.Duration // time at which a trigger comes
		trigger  session.Trigger
		want     []string
	}{
		{"on", on, on, 0, session.Succeeded, []string{completed}},
		{"off", off, off, 0, session.Succeeded, []string{untimed, completed, host.OutcomeUntimedEnded}},
		{"switched on", off, on, 0, session.Succeeded,
			[]string{untimed, completed, host.OutcomeUntimedEnded}},
		{"switched off", on, off, 0, session.Succeeded, []string{completed}},
		{"on, late", on, on, session.Life, session.Succeeded, []string{expired}},
		{"off, late", off, off, session.Life, session.Succeeded, []string{untimed}},
		{"switched on, reconciled", off, on, session.Life, session.TimeUp, []string{untimed}},
		{"switched off, reconciled", on, off, session.Life, session.TimeUp, []string{expired}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newFixture(t)
			s := w.session(t, c.from)
			coretest.Must(t, w.Begin(ctx, s, nil, nil, nil))
			s.Integration.Webhook = c.to
			w.Clock.Advance(c.life)
			for range 2 {
				var err error
				if c.trigger == session.TimeUp {
					_, err = w.Outcome(ctx, Session{ID: s.ID, Text: s.Text, Integration: s.Integration})
				} else {
					_, err = w.Fire(ctx, s, Step{Trigger: c.trigger})
				}
				coretest.Must(t, err)
			}
			tasks, _, err := w.Memory.Claim(ctx, "p3", w.Clock.Now().Add(time.Minute), time.Minute, 10)
			coretest.Must(t, err)
			for _, task := range tasks {
				if task.ID == s.ID.TimerID() {
					coretest.Must(t, w.Expire(ctx, s, host.Job{Partition: "p3", Task: task}))
				}
			}
			w.wantUsage(t, append(c.want, host.OutcomeStarted)...)
		})
	}
}

// If several instances end a session concurrently, one of them counts it.
func TestUsage_Race(t *testing.T) {
	for range 20 {
		w := newFixture(t)
		s := w.session(t, withWebhook)
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				if _, err := w.Fire(ctx, s, Step{Trigger: session.Succeeded}); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		w.wantUsage(t, host.OutcomeCompleted)
	}
}

func TestUsage_LostReply(t *testing.T) {
	for _, fault := range []kvtest.Fault{kvtest.LoseReply, kvtest.LoseRequest, kvtest.Delay} {
		w := newFixture(t)
		s := w.session(t, withWebhook)
		w.script(fault)
		for range 2 {
			_, err := w.Fire(ctx, s, Step{Trigger: session.Rejected})
			coretest.Must(t, err)
			w.Store.Deliver(ctx)
		}
		w.wantUsage(t, host.OutcomeRejected)
	}
}
