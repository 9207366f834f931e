package lifecycle

import (
	"errors"
	"testing"
	"time"

	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/internal/session"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/webhook"
	"github.com/verge-id/verge/kvadapters/kvtest"
)

// Contract 18: a session that a publisher has seen expired stays so, although a request that began in time
// commits its outcome afterwards.
func TestOutcome_CompletionIsLate(t *testing.T) {
	hooks := map[string]integration.Webhook{"with a timer": withWebhook, "without": {Off: true}}
	for name, hook := range hooks {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			s := w.session(t, hook)
			coretest.Must(t, w.Begin(ctx, s, nil, nil, nil))
			w.Clock.Advance(session.Life - time.Millisecond)
			var seen session.Record
			w.Store.Decide = func(c kvtest.Call) kvtest.Fault {
				if c.Method == "Commit" { // that of the completion
					w.script()
					w.Clock.Advance(time.Second)
					var err error
					seen, err = w.Outcome(ctx, s)
					coretest.Must(t, err)
				}
				return kvtest.Pass
			}
			r, err := w.Fire(ctx, s, Step{Trigger: session.Succeeded})
			coretest.Must(t, err)
			if seen.State != session.Expired || r.State != session.Expired || r.At != seen.At {
				t.Errorf("seen was %+v, and the completion returns %+v", seen, r)
			}
			if kept := w.record(t, s); kept.State != session.Expired {
				t.Errorf("the store has %+v", kept)
			}
			if hook.Sends() {
				w.wantEvents(t, true, webhook.TypeStarted, webhook.TypeExpired) // the timer counts it
			}
		})
	}
}

func TestOutcome_Commits(t *testing.T) {
	for _, c := range []struct {
		name    string
		after   time.Duration
		trigger session.Trigger // before; "": none
		want    session.State
		commits int64
	}{
		{"contract 20: pending, and nothing to commit", time.Minute, "", session.Started, 0},
		{"contract 20: an outcome", session.Life, session.Succeeded, session.Completed, 0},
		{"contract 18: no outcome", session.Life, "", session.Expired, 1},
		{"contract 18: no outcome, while a request can be active", session.Life + MinOutcomeLife - 1, "",
			session.Expired, 1},
		{"contract 21: the life of an outcome may be over", session.Life + MinOutcomeLife, "",
			session.Expired, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newFixture(t)
			s := w.session(t, withWebhook)
			coretest.Must(t, w.Begin(ctx, s, nil, nil, nil))
			if c.trigger != "" {
				_, err := w.Fire(ctx, s, Step{Trigger: c.trigger})
				coretest.Must(t, err)
			}
			w.Clock.Advance(c.after)
			w.script()
			for range 2 {
				r, err := w.Outcome(ctx, s)
				coretest.Must(t, err)
				if r.State != c.want || w.commits.Load() != c.commits {
					t.Errorf("%s by %d commits, want %s by %d", r.State, w.commits.Load(), c.want, c.commits)
				}
			}
		})
	}
	t.Run("I2: an unknown outcome of the commit denies", func(t *testing.T) {
		w := newFixture(t)
		s := w.session(t, withWebhook)
		coretest.Must(t, w.Begin(ctx, s, nil, nil, nil))
		w.Clock.Advance(session.Life)
		w.script(kvtest.LoseReply, kvtest.LoseReply)
		if r, err := w.Outcome(ctx, s); !errors.Is(err, kv.ErrUnknown) {
			t.Errorf("%+v, %v", r, err)
		}
	})
}
