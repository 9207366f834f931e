package lifecycle

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/internal/metric"
	"github.com/verge-id/verge/core/internal/session"
	"github.com/verge-id/verge/core/internal/token"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/kvadapters/kvtest"
)

// beginning returns the step of a method that failed to begin, or nil if initiated.
func beginning(initiated bool) *session.Step {
	if initiated {
		return nil
	}
	return &session.Step{Method: "bank", Result: metric.MethodUnavailable, Reason: host.FetchTimeout}
}

func TestEnded_KeptAndLogged(t *testing.T) {
	step := session.Step{Method: "bank", Result: metric.MethodUnavailable, Reason: host.FetchTimeout}
	for _, c := range []struct {
		name    string
		before  func(w *fixture, s Session) (claim string)
		commits int64
		kept    bool
	}{
		{"contract 48: one commit", func(*fixture, Session) string { return "" }, 1, true},
		{"contract 48: the commit that gives the claim back", func(w *fixture, s Session) string {
			claim, err := w.Claim(ctx, s, Asking{}, time.Minute)
			coretest.Must(t, err)
			return claim
		}, 1, true},
		{"contract 37: another request asks", func(w *fixture, s Session) string {
			_, err := w.Claim(ctx, s, Asking{}, time.Minute)
			coretest.Must(t, err)
			return ""
		}, 0, false},
		{"contract 18: the session has ended", func(w *fixture, s Session) string {
			_, err := w.Fire(ctx, s, Step{Trigger: session.Succeeded})
			coretest.Must(t, err)
			return ""
		}, 0, false},
		{"contract 20: the session is over", func(w *fixture, s Session) string {
			w.Clock.Advance(session.Life)
			return ""
		}, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newFixture(t)
			s := w.session(t, withWebhook)
			coretest.Must(t, w.Begin(ctx, s, nil, nil, nil))
			claim := c.before(w, s)
			asked := w.asked(t, s)
			before := w.commits.Load()
			w.Host.Logged.Reset()
			w.Ended(ctx, s, claim, step, errors.New("cause"))
			r, _, err := w.Load(ctx, s.ID)
			coretest.Must(t, err)
			if n := w.commits.Load() - before; n != c.commits || len(r.Steps.All()) == 1 != c.kept {
				t.Errorf("%d commits, want %d; it keeps %+v", n, c.commits, r.Steps)
			}
			if c.kept && !r.AskedUntil.IsZero() || !c.kept && !r.AskedUntil.Equal(asked) {
				t.Errorf("contract 37: the claim was until %s and is until %s", asked, r.AskedUntil)
			}
			want := `msg="method failed" session=` + s.Text + " method=bank reason=timeout result=unavailable " +
				"integration=" + s.Integration.ID
			if log := w.Host.Logged.String(); !strings.Contains(log, want) || strings.Count(log, "\n") != 1 {
				t.Errorf("contract 48: the log is %s\nwant one line with %s", log, want)
			}
		})
	}
}

func (w *fixture) asked(t *testing.T, s Session) time.Time {
	t.Helper()
	r, _, err := w.Load(ctx, s.ID)
	coretest.Must(t, err)
	return r.AskedUntil
}

// A store error does not prevent a response, and the step is logged.
func TestEnded_StoreError(t *testing.T) {
	w := newFixture(t)
	s := w.session(t, withWebhook)
	w.Store.Decide = func(kvtest.Call) kvtest.Fault { return kvtest.Reject }
	w.Ended(ctx, s, "", session.Step{Method: "bank", Result: metric.MethodFailed, Reason: "failed"}, nil)
	if log := w.Host.Logged.String(); !strings.Contains(log, "reason=failed") {
		t.Errorf("contract 48: the log is %s", log)
	}
}

// Every ended session has one log line with its method and the reason.
func TestSessionEnded_Line(t *testing.T) {
	what := func(result, reason string) session.Step {
		return session.Step{
			Method:  "bank",
			Result:  result,
			Reason:  reason,
			Setting: "proof.claim",
			Detail:  "age",
		}
	}
	for _, c := range []struct {
		name string
		ends func(w *fixture, s Session) error
		want string
		kept int
	}{
		{"contract 48: the method could not begin", func(w *fixture, s Session) error {
			return w.Begin(ctx, s, beginning(false), nil, nil)
		}, "method=bank reason=timeout integration", 1},
		{"contract 48: completed", func(w *fixture, s Session) error {
			_, err := w.Fire(ctx, s, Step{Trigger: session.Succeeded,
				Entry: session.Step{Method: "bank", Result: metric.MethodApproved}})
			return err
		}, "method=bank integration", 0},
		{"contract 48: rejected", func(w *fixture, s Session) error {
			_, err := w.Fire(ctx, s, Step{Trigger: session.Rejected,
				Entry: what(metric.MethodRejected, "rejected")})
			return err
		}, "method=bank reason=rejected setting=proof.claim detail=age integration", 1},
		{"contract 48: the last attempt", func(w *fixture, s Session) error {
			w.Attempts = 1
			_, err := w.Fire(ctx, s, Step{Trigger: session.AttemptFailed,
				Entry: what(metric.MethodAttemptFailed, "unconfirmed")})
			return err
		}, "method=bank reason=unconfirmed setting=proof.claim detail=age integration", 1},
		{"contract 48: expired after a step that failed", func(w *fixture, s Session) error {
			w.Ended(ctx, s, "", what(metric.MethodUnavailable, "timeout"), nil)
			w.Clock.Advance(session.Life)
			w.Host.Logged.Reset()
			_, err := w.Fire(ctx, s, Step{Trigger: session.TimeUp, Attempt: anyAttempt})
			return err
		}, "method=bank reason=timeout setting=proof.claim detail=age integration", 1},
		{"contract 48: an approval after the expiry, as by a passkey", func(w *fixture, s Session) error {
			w.Clock.Advance(session.Life)
			_, err := w.Fire(ctx, s, Step{Trigger: session.Succeeded,
				Entry: session.Step{Method: "passkey", Result: metric.MethodApproved}})
			return err
		}, "method=passkey integration", 0},
		{"contract 48: a rejection after the expiry", func(w *fixture, s Session) error {
			w.Clock.Advance(session.Life)
			_, err := w.Fire(ctx, s, Step{Trigger: session.Rejected,
				Entry: what(metric.MethodRejected, "rejected")})
			return err
		}, "method=bank reason=rejected setting=proof.claim detail=age integration", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newFixture(t)
			s := w.session(t, withWebhook)
			coretest.Must(t, c.ends(w, s))
			want := `msg="session ended" session=` + s.Text + " " + c.want + "=" + s.Integration.ID
			if log := w.Host.Logged.String(); !strings.Contains(log, want) || strings.Count(log, "\n") != 1 {
				t.Errorf("the log is %s\nwant one line with %s", log, want)
			}
			if r := w.record(t, s); len(r.Steps.All()) != c.kept {
				t.Errorf("it keeps the steps %+v, want %d", r.Steps, c.kept)
			}
		})
	}
}

// A verdict from a phone has the same attributes as one from the computer.
func TestBring_KeepsWhy(t *testing.T) {
	w := newFixture(t)
	s, h := w.handed(t)
	d := method.Decision{Verdict: method.AttemptFailed, Reason: method.Unproven, Setting: "trust_anchors",
		Detail: "issuer", Rejection: &method.Rejection{Reason: "untrusted"}}
	coretest.Must(t, w.Bring(ctx, h, d, token.At(s.ID.Expires())))
	h, err := w.Pending(ctx, h.Pending)
	coretest.Must(t, err)
	got := []string{h.Reason, h.Cause, h.Setting, h.Detail}
	if want := []string{"unproven", "untrusted", "trust_anchors", "issuer"}; !reflect.DeepEqual(got, want) {
		t.Errorf("contract 48: the hand-off keeps %q, want %q", got, want)
	}
}
