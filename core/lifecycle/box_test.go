package lifecycle

import (
	"errors"
	"testing"

	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/session"
	"github.com/verge-id/verge/core/token"
)

// opened is a session with an open box.
func (w *world) opened(t *testing.T) (Session, Box) {
	t.Helper()
	s := w.session(t, withWebhook)
	handle, err := w.OpenBox(ctx, s, "wallet", 0, []byte("nonce"))
	coretest.Must(t, err)
	b, err := w.Box(ctx, handle)
	coretest.Must(t, err)
	if b.Handle != handle || b.Session != s.Text || b.Method != "wallet" || string(b.State) != "nonce" ||
		b.Answered {
		t.Fatalf("contract 34: the box is %+v", b.BoxClaims)
	}
	if r := w.record(t, s); r.Box != handle {
		t.Fatalf("contract 34: the record names the box %q, want %q", r.Box, handle)
	}
	return s, b
}

// Two answers are judged side by side. Both found the box open, and one closes it.
func TestOneAnswerClosesABox(t *testing.T) {
	w := newWorld(t)
	s, b := w.opened(t)
	expires := token.At(s.ID.Expires())
	first := Answer{Kept: []byte("yes"), Same: true, Code: "code", Raw: []byte("first")}
	closed, err := w.CloseBox(ctx, b, first, expires)
	if err != nil || !closed.Answered || string(closed.Kept) != "yes" || !closed.Returns("code") {
		t.Fatalf("contract 34: %+v, %v", closed.BoxClaims, err)
	}
	again := first
	again.Code = "another code"
	if same, err := w.CloseBox(ctx, b, again, expires); err != nil || same.Code != "code" {
		t.Errorf("contract 34: the same answer gets the code %q, %v", same.Code, err)
	}
	for _, second := range []Answer{
		{Kept: []byte("no"), Same: true, Raw: []byte("second")},
		{Kept: []byte("no"), Raw: []byte("first")},
	} {
		if _, err := w.CloseBox(ctx, b, second, expires); !errors.Is(err, ErrAnswered) {
			t.Errorf("contract 34: a second answer: %v", err)
		}
	}
	now, err := w.Box(ctx, b.Handle)
	if err != nil || string(now.Kept) != "yes" || now.Returns("another code") || now.Returns("") {
		t.Errorf("contract 34: the box holds %+v, %v", now.BoxClaims, err)
	}
}

func TestABoxEndsWithItsAttempt(t *testing.T) {
	for _, trigger := range []session.Trigger{session.Succeeded, session.AttemptFailed, session.Rejected} {
		w := newWorld(t)
		s, b := w.opened(t)
		_, err := w.Fire(ctx, s, Step{Trigger: trigger})
		coretest.Must(t, err)
		if _, err := w.Box(ctx, b.Handle); !errors.Is(err, ErrNoBox) {
			t.Errorf("contract 34: after %s the box is there: %v", trigger, err)
		}
		_, err = w.CloseBox(ctx, b, Answer{Raw: []byte("late")}, token.At(s.ID.Expires()))
		if !errors.Is(err, ErrNoBox) {
			t.Errorf("contract 34: after %s an answer finds %v", trigger, err)
		}
		if _, err := w.OpenBox(ctx, s, "wallet", 0, nil); !errors.Is(err, ErrMovedOn) {
			t.Errorf("contract 34: after %s another box opens: %v", trigger, err)
		}
	}
	w := newWorld(t)
	s, b := w.opened(t)
	handle, err := w.OpenBox(ctx, s, "wallet", 0, nil)
	coretest.Must(t, err)
	if _, err := w.Box(ctx, b.Handle); !errors.Is(err, ErrNoBox) || handle == b.Handle {
		t.Errorf("contract 34: a box outlives the next one: %v", err)
	}
	w.Clock.Advance(session.Life)
	if _, err := w.Box(ctx, handle); !errors.Is(err, ErrNoBox) {
		t.Errorf("contract 34: a box outlives its session: %v", err)
	}
}

func TestHandlesOfBoxes(t *testing.T) {
	w := newWorld(t)
	_, b := w.opened(t)
	for _, text := range []string{"", "a", b.Handle[:23], b.Handle + "A",
		b.Handle[:10] + "\n" + b.Handle[10:], b.Handle[:23] + "=", "+" + b.Handle[1:]} {
		if _, ok := session.ParseBoxHandle(text); ok {
			t.Errorf("%q is taken for a handle", text)
		}
		if _, err := w.Box(ctx, text); !errors.Is(err, ErrNoBox) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if h, ok := session.ParseBoxHandle(b.Handle); !ok || h.Partition != 3 || h.String() != b.Handle {
		t.Errorf("contract 34: the handle %s is in partition %d", b.Handle, h.Partition)
	}
}
