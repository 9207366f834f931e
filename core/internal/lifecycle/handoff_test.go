package lifecycle

import (
	"errors"
	"testing"
	"time"

	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/internal/session"
	"github.com/verge-id/verge/core/internal/token"
	"github.com/verge-id/verge/core/method"
)

// handed returns a session with an open hand-off.
func (w *fixture) handed(t *testing.T) (Session, Pending) {
	t.Helper()
	s := w.session(t, withWebhook)
	return s, w.hand(t, s)
}

func (w *fixture) hand(t *testing.T, s Session) Pending {
	t.Helper()
	opened, err := w.OpenHandOff(ctx, s, token.PendingClaims{Method: "camera", Site: "https://shop.example"})
	coretest.Must(t, err)
	h, err := w.Pending(ctx, opened)
	coretest.Must(t, err)
	if h.Pending != opened || h.Session != s.Text || h.Method != "camera" || len(h.Number) != 2 ||
		h.Device != "" || h.Done || w.record(t, s).HandOff != opened.HandOff {
		t.Fatalf("contract 40: the hand-off is %+v", h.PendingClaims)
	}
	return h
}

var approved, failed = method.Decision{Verdict: method.Approved},
	method.Decision{Verdict: method.AttemptFailed, Reason: method.Below}

func TestHandOff_OneDevice(t *testing.T) {
	w := newFixture(t)
	s, open := w.handed(t)
	expires := token.At(s.ID.Expires())
	taken, err := w.Take(ctx, open, "one", expires)
	if err != nil || taken.Device != "one" {
		t.Fatalf("contract 40: %+v, %v", taken.PendingClaims, err)
	}
	for _, read := range []Pending{open, taken} { // before and after the first call
		if again, err := w.Take(ctx, read, "one", expires); err != nil || again.Device != "one" {
			t.Errorf("contract 40: the same device again: %v", err)
		}
		if now, err := w.Take(ctx, read, "other", expires); !errors.Is(err, ErrHandOffTaken) ||
			now.Device != "one" {
			t.Errorf("contract 40: another device: %v", err)
		}
	}
	coretest.Must(t, w.Bring(ctx, taken, approved, expires))
	coretest.Must(t, w.Bring(ctx, taken, failed, expires)) // read before the first verdict
	h, err := w.Pending(ctx, open.Pending)
	if err != nil || !h.Done || h.Outcome().Verdict != method.Approved || h.Reason != "" {
		t.Errorf("contract 40: the first verdict stands: %+v, %v", h.PendingClaims, err)
	}
}

func TestHandOff_EndsWithAttempt(t *testing.T) {
	for _, trigger := range []session.Trigger{session.Succeeded, session.AttemptFailed, session.Rejected} {
		w := newFixture(t)
		s, h := w.handed(t)
		_, err := w.Fire(ctx, s, Step{Trigger: trigger})
		coretest.Must(t, err)
		if _, err := w.Pending(ctx, h.Pending); !errors.Is(err, ErrNoPending) {
			t.Errorf("contract 40: after %s the hand-off still exists: %v", trigger, err)
		}
		if err := w.Bring(ctx, h, approved, token.At(s.ID.Expires())); !errors.Is(err, ErrNoPending) {
			t.Errorf("contract 40: after %s a verdict finds %v", trigger, err)
		}
		if _, err := w.OpenHandOff(ctx, s, token.PendingClaims{}); !errors.Is(err, ErrMovedOn) {
			t.Errorf("contract 40: after %s another one opens: %v", trigger, err)
		}
	}
	w := newFixture(t)
	s, before := w.handed(t)
	after := w.hand(t, s)
	if _, err := w.Pending(ctx, before.Pending); !errors.Is(err, ErrNoPending) {
		t.Errorf("contract 40: a hand-off outlives the next one: %v", err)
	}
	if _, err := w.Take(ctx, before, "one", token.At(s.ID.Expires())); !errors.Is(err, ErrNoPending) {
		t.Errorf("contract 40: a device takes a replaced hand-off: %v", err)
	}
	w.Clock.Advance(session.Life)
	if _, err := w.Pending(ctx, after.Pending); !errors.Is(err, ErrNoPending) {
		t.Errorf("contract 40: a hand-off outlives its session: %v", err)
	}
}

// During a request of the attempt, and until a rejection has counted, no other hand-off opens. An approval
// may be lost.
func TestOpenHandOff_WhileAsked(t *testing.T) {
	w := newFixture(t)
	s, h := w.handed(t)
	expires := token.At(s.ID.Expires())
	claim, err := w.Claim(ctx, s, Asking{}, time.Minute)
	coretest.Must(t, err)
	if _, err := w.OpenHandOff(ctx, s, token.PendingClaims{}); !errors.Is(err, ErrAsked) {
		t.Errorf("contract 40: during a request: %v", err)
	}
	coretest.Must(t, w.Bring(ctx, h, failed, expires))
	coretest.Must(t, w.GiveBack(ctx, s, claim))
	if _, err := w.OpenHandOff(ctx, s, token.PendingClaims{}); !errors.Is(err, ErrAsked) {
		t.Errorf("contract 40: while a no waits: %v", err)
	}
	w = newFixture(t)
	s, h = w.handed(t)
	coretest.Must(t, w.Bring(ctx, h, approved, token.At(s.ID.Expires())))
	w.hand(t, s)
}

func TestNewNumber_TwoDigits(t *testing.T) {
	w := newFixture(t)
	seen := map[string]bool{}
	for range 2000 {
		n, err := newNumber(w.Host.Random)
		coretest.Must(t, err)
		if len(n) != 2 || n[0] == '0' {
			t.Fatalf("contract 40: the number %q", n)
		}
		seen[n] = true
	}
	if len(seen) < 80 {
		t.Errorf("contract 40: only %d numbers", len(seen))
	}
}
