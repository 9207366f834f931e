package lifecycle

import (
	"errors"
	"testing"
	"time"

	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/session"
	"github.com/verge-id/verge/core/token"
)

// handed is a session with an open hand-off.
func (w *world) handed(t *testing.T) (Session, Hand) {
	t.Helper()
	s := w.session(t, withWebhook)
	return s, w.hand(t, s)
}

func (w *world) hand(t *testing.T, s Session) Hand {
	t.Helper()
	handle, err := w.OpenHand(ctx, s, token.HandClaims{Method: "camera", Site: "https://shop.example"})
	coretest.Must(t, err)
	h, err := w.Hand(ctx, handle)
	coretest.Must(t, err)
	if h.Handle != handle || h.Session != s.Text || h.Method != "camera" || len(h.Number) != 2 ||
		h.Device != "" || h.Done || w.record(t, s).Hand != handle {
		t.Fatalf("contract 40: the hand-off is %+v", h.HandClaims)
	}
	return h
}

var approved, failed = method.Decision{Verdict: method.Approved},
	method.Decision{Verdict: method.AttemptFailed, Reason: method.Below}

func TestOneDeviceHasAHandOff(t *testing.T) {
	w := newWorld(t)
	s, open := w.handed(t)
	expires := token.At(s.ID.Expires())
	taken, err := w.TakeHand(ctx, open, "one", expires)
	if err != nil || taken.Device != "one" {
		t.Fatalf("contract 40: %+v, %v", taken.HandClaims, err)
	}
	for _, read := range []Hand{open, taken} { // before and after the first one
		if again, err := w.TakeHand(ctx, read, "one", expires); err != nil || again.Device != "one" {
			t.Errorf("contract 40: the same device once more: %v", err)
		}
		if now, err := w.TakeHand(ctx, read, "other", expires); !errors.Is(err, ErrHandTaken) ||
			now.Device != "one" {
			t.Errorf("contract 40: another device: %v", err)
		}
	}
	coretest.Must(t, w.EndHand(ctx, taken, approved, expires))
	coretest.Must(t, w.EndHand(ctx, taken, failed, expires)) // read before the first verdict
	h, err := w.Hand(ctx, open.Handle)
	if err != nil || !h.Done || h.Outcome().Verdict != method.Approved || h.Reason != "" {
		t.Errorf("contract 40: the first verdict stands: %+v, %v", h.HandClaims, err)
	}
}

func TestAHandOffEnds(t *testing.T) {
	for _, trigger := range []session.Trigger{session.Succeeded, session.AttemptFailed, session.Rejected} {
		w := newWorld(t)
		s, h := w.handed(t)
		_, err := w.Fire(ctx, s, Step{Trigger: trigger})
		coretest.Must(t, err)
		if _, err := w.Hand(ctx, h.Handle); !errors.Is(err, ErrNoHand) {
			t.Errorf("contract 40: after %s the hand-off is there: %v", trigger, err)
		}
		if err := w.EndHand(ctx, h, approved, token.At(s.ID.Expires())); !errors.Is(err, ErrNoHand) {
			t.Errorf("contract 40: after %s a verdict finds %v", trigger, err)
		}
		if _, err := w.OpenHand(ctx, s, token.HandClaims{}); !errors.Is(err, ErrMovedOn) {
			t.Errorf("contract 40: after %s another one opens: %v", trigger, err)
		}
	}
	w := newWorld(t)
	s, before := w.handed(t)
	after := w.hand(t, s)
	if _, err := w.Hand(ctx, before.Handle); !errors.Is(err, ErrNoHand) {
		t.Errorf("contract 40: a hand-off outlives the next one: %v", err)
	}
	if _, err := w.TakeHand(ctx, before, "one", token.At(s.ID.Expires())); !errors.Is(err, ErrNoHand) {
		t.Errorf("contract 40: a device takes one that was replaced: %v", err)
	}
	w.Clock.Advance(session.Life)
	if _, err := w.Hand(ctx, after.Handle); !errors.Is(err, ErrNoHand) {
		t.Errorf("contract 40: a hand-off outlives its session: %v", err)
	}
}

// While somebody asks, and while a no waits to be counted, no other hand-off opens. A yes may be given up.
func TestNoHandOffOpensWhileSomebodyAsks(t *testing.T) {
	w := newWorld(t)
	s, h := w.handed(t)
	expires := token.At(s.ID.Expires())
	claim, err := w.Claim(ctx, s, Asking{}, time.Minute)
	coretest.Must(t, err)
	if _, err := w.OpenHand(ctx, s, token.HandClaims{}); !errors.Is(err, ErrAsked) {
		t.Errorf("contract 40: while somebody asks: %v", err)
	}
	coretest.Must(t, w.EndHand(ctx, h, failed, expires))
	coretest.Must(t, w.GiveBack(ctx, s, claim))
	if _, err := w.OpenHand(ctx, s, token.HandClaims{}); !errors.Is(err, ErrAsked) {
		t.Errorf("contract 40: while a no waits: %v", err)
	}
	w = newWorld(t)
	s, h = w.handed(t)
	coretest.Must(t, w.EndHand(ctx, h, approved, token.At(s.ID.Expires())))
	w.hand(t, s)
}

func TestNumbersHaveTwoDigits(t *testing.T) {
	w := newWorld(t)
	seen := map[string]bool{}
	for range 2000 {
		n, err := newNumber(w.Random)
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
