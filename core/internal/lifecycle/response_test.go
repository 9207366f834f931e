package lifecycle

import (
	"errors"
	"testing"

	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/internal/session"
	"github.com/verge-id/verge/core/internal/token"
)

// opened returns a session with a pending response.
func (w *fixture) opened(t *testing.T) (Session, Pending) {
	t.Helper()
	s := w.session(t, withWebhook)
	opened, err := w.OpenResponse(ctx, s, token.PendingClaims{Method: "wallet", State: []byte("nonce")})
	coretest.Must(t, err)
	b, err := w.Pending(ctx, opened)
	coretest.Must(t, err)
	if b.Pending != opened || b.Session != s.Text || b.Method != "wallet" || string(b.State) != "nonce" ||
		b.Posted {
		t.Fatalf("contract 34: the pending response is %+v", b.PendingClaims)
	}
	if r := w.record(t, s); r.Response != opened.Response {
		t.Fatalf("contract 34: the record has the handle %q, want %q", r.Response, opened.Response)
	}
	return s, b
}

// Two responses arrive at the same time. Both found the item open, and one is stored.
func TestReceive_FirstResponseCounts(t *testing.T) {
	w := newFixture(t)
	s, b := w.opened(t)
	expires := token.At(s.ID.Expires())
	first := Response{Kept: []byte("yes"), Same: true, Code: "code", Raw: []byte("first")}
	closed, err := w.Receive(ctx, b, first, expires)
	if err != nil || !closed.Posted || string(closed.Kept) != "yes" || !closed.Returns("code") {
		t.Fatalf("contract 34: %+v, %v", closed.PendingClaims, err)
	}
	again := first
	again.Code = "another code"
	if same, err := w.Receive(ctx, b, again, expires); err != nil || same.Code != "code" {
		t.Errorf("contract 34: the same response gets the code %q, %v", same.Code, err)
	}
	for _, second := range []Response{
		{Kept: []byte("no"), Same: true, Raw: []byte("second")},
		{Kept: []byte("no"), Raw: []byte("first")},
	} {
		if _, err := w.Receive(ctx, b, second, expires); !errors.Is(err, ErrSecondResponse) {
			t.Errorf("contract 34: a second response: %v", err)
		}
	}
	now, err := w.Pending(ctx, b.Pending)
	if err != nil || string(now.Kept) != "yes" || now.Returns("another code") || now.Returns("") {
		t.Errorf("contract 34: the item contains %+v, %v", now.PendingClaims, err)
	}
}

func TestResponse_EndsWithAttempt(t *testing.T) {
	for _, trigger := range []session.Trigger{session.Succeeded, session.AttemptFailed, session.Rejected} {
		w := newFixture(t)
		s, b := w.opened(t)
		_, err := w.Fire(ctx, s, Step{Trigger: trigger})
		coretest.Must(t, err)
		if _, err := w.Pending(ctx, b.Pending); !errors.Is(err, ErrNoPending) {
			t.Errorf("contract 34: after %s the item still exists: %v", trigger, err)
		}
		_, err = w.Receive(ctx, b, Response{Raw: []byte("late")}, token.At(s.ID.Expires()))
		if !errors.Is(err, ErrNoPending) {
			t.Errorf("contract 34: after %s a response finds %v", trigger, err)
		}
		if _, err := w.OpenResponse(ctx, s, token.PendingClaims{Method: "wallet"}); !errors.Is(err,
			ErrMovedOn) {
			t.Errorf("contract 34: after %s another one opens: %v", trigger, err)
		}
	}
	w := newFixture(t)
	s, b := w.opened(t)
	handle, err := w.OpenResponse(ctx, s, token.PendingClaims{Method: "wallet"})
	coretest.Must(t, err)
	if _, err := w.Pending(ctx, b.Pending); !errors.Is(err, ErrNoPending) || handle == b.Pending {
		t.Errorf("contract 34: a pending response outlives the next one: %v", err)
	}
	w.Clock.Advance(session.Life)
	if _, err := w.Pending(ctx, handle); !errors.Is(err, ErrNoPending) {
		t.Errorf("contract 34: a pending response outlives its session: %v", err)
	}
}

func TestPendingHandle(t *testing.T) {
	w := newFixture(t)
	_, b := w.opened(t)
	for _, text := range []string{"", "a", b.Response[:23], b.Response + "A",
		b.Response[:10] + "\n" + b.Response[10:], b.Response[:23] + "=", "+" + b.Response[1:]} {
		if _, ok := session.ParsePendingHandle(text); ok {
			t.Errorf("%q is accepted as a handle", text)
		}
		if _, err := w.Pending(ctx, token.Pending{Response: text}); !errors.Is(err, ErrNoPending) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if h, ok := session.ParsePendingHandle(b.Response); !ok || h.Partition != 3 || h.String() != b.Response {
		t.Errorf("contract 34: the handle %s is in partition %d", b.Response, h.Partition)
	}
}
