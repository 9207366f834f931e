package result

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/internal/lifecycle"
	"github.com/verge-id/verge/core/internal/session"
	"github.com/verge-id/verge/core/internal/testhost"
	"github.com/verge-id/verge/core/internal/token"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters/kvtest"
)

const testUUID = testhost.UUID

var ctx = context.Background()

// fixture is Tokens on a test's host.
type fixture struct {
	*Tokens
	*testhost.Host
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	h := testhost.New(t)
	return &fixture{Host: h, Tokens: &Tokens{Host: h.Host,
		Lifecycle: &lifecycle.Lifecycle{Host: h.Host, Attempts: 3, OutcomeLife: time.Hour}}}
}

// session creates a session that has not ended.
func (w *fixture) session(t testing.TB) lifecycle.Session {
	t.Helper()
	id, err := session.NewID(w.Host.Random, testUUID, session.L1, 25, w.Clock.Now(), 3)
	coretest.Must(t, err)
	text, err := id.Format(w.Host.Sealer)
	coretest.Must(t, err)
	return lifecycle.Session{ID: id, Text: text, Integration: &integration.Integration{ID: testUUID}}
}

// complete ends a session well.
func (w *fixture) complete(t testing.TB, s lifecycle.Session) {
	t.Helper()
	_, err := w.Lifecycle.Fire(ctx, s, lifecycle.Step{Trigger: session.Succeeded})
	coretest.Must(t, err)
}

// issue returns the result token of the session in the store.
func (w *fixture) issue(t testing.TB, s lifecycle.Session) (string, error) {
	t.Helper()
	r, version, err := w.Lifecycle.Load(ctx, s.ID)
	coretest.Must(t, err)
	claims, err := w.Claims(ctx, s, r, version, w.Clock.Now())
	if err != nil {
		return "", err
	}
	return token.SealResult(w.Host.Sealer, claims)
}

// issued makes a completed session and opens its token.
func (w *fixture) issued(t testing.TB) (lifecycle.Session, Token) {
	t.Helper()
	s := w.session(t)
	w.complete(t, s)
	text, err := w.issue(t, s)
	coretest.Must(t, err)
	tok, err := w.Open(text)
	coretest.Must(t, err)
	if tok.Session != s.ID || tok.Text != s.Text {
		t.Fatalf("the token is of %+v, not of %+v", tok, s)
	}
	return s, tok
}

func TestRedeem_Once(t *testing.T) {
	w := newFixture(t)
	s, tok := w.issued(t)
	began := w.Clock.Now()
	var redeemed, rejected atomic.Int64
	var wait sync.WaitGroup
	for range 16 {
		wait.Go(func() {
			switch at, err := w.Redeem(ctx, tok, "", w.Clock.Now()); {
			case err == nil && at.Equal(began):
				redeemed.Add(1)
			case errors.Is(err, ErrUsed):
				rejected.Add(1)
			}
		})
	}
	wait.Wait()
	if redeemed.Load() != 1 || rejected.Load() != 15 {
		t.Errorf("I1: of 16 calls %d redeemed the token and %d failed because it is used",
			redeemed.Load(), rejected.Load())
	}
	if text, err := w.issue(t, s); !errors.Is(err, ErrUsed) {
		t.Errorf("contract 24: after that the session has the token %q, %v", text, err)
	}
}

func TestRedeem_Idempotent(t *testing.T) {
	w := newFixture(t)
	_, tok := w.issued(t)
	began := w.Clock.Now()
	for _, c := range []struct {
		rule, by string
		err      error
	}{
		{"the first call", "pub_a\x00key", nil},
		{"contract 11: the same call again", "pub_a\x00key", nil},
		{"contract 11: another call", "pub_a\x00other", ErrUsed},
		{"contract 11: another publisher's", "pub_b\x00key", ErrUsed},
		{"contract 11: without an idempotency key", "", ErrUsed},
	} {
		at, err := w.Redeem(ctx, tok, c.by, w.Clock.Now())
		if !errors.Is(err, c.err) || c.err == nil && !at.Equal(began) {
			t.Errorf("%s: %v, %v; want %v at %v", c.rule, at, err, c.err, began)
		}
		w.Clock.Advance(time.Minute)
	}
}

// A new active key of the ring, on the same instance or another one, does not change who a caller is.
func TestRedeem_Rotation(t *testing.T) {
	w := newFixture(t)
	_, tok := w.issued(t)
	began := w.Clock.Now()
	_, err := w.Redeem(ctx, tok, "pub_a\x00key", began)
	coretest.Must(t, err)
	old := token.Key{ID: "9f02ab31", Secret: bytes.Repeat([]byte{7}, 32)}
	key := token.Key{ID: "07c1d2e4", Secret: bytes.Repeat([]byte{8}, 32)}
	for _, c := range []struct {
		rule, by string
		keys     []token.Key
		err      error
	}{
		{"contract 11, 16: the same call after a rotation", "pub_a\x00key", []token.Key{key, old}, nil},
		{"contract 11: another call after a rotation", "pub_a\x00other", []token.Key{key, old}, ErrUsed},
		{"contract 16: the old key was retired", "pub_a\x00key", []token.Key{key}, ErrUsed},
	} {
		ring, err := token.NewRing("verify.verge.example", w.Host.Random, c.keys...)
		coretest.Must(t, err)
		w.Tokens.Host.Sealer = ring
		at, err := w.Redeem(ctx, tok, c.by, w.Clock.Now())
		if !errors.Is(err, c.err) || c.err == nil && !at.Equal(began) {
			t.Errorf("%s: %v, %v; want %v at %v", c.rule, at, err, c.err, began)
		}
	}
	w.Tokens.Host.Sealer = awaiting{w.Host.Sealer}
	if _, err := w.Redeem(ctx, tok, "pub_a\x00key", w.Clock.Now()); !errors.Is(err, host.ErrKeyAwaited) {
		t.Errorf("contract 16: the key of the mark has not arrived: %v", err)
	}
}

// awaiting is an instance that lacks the key of each MAC.
type awaiting struct{ host.Sealer }

func (awaiting) CheckMAC(string, []byte, []byte) (time.Time, error) {
	return time.Time{}, host.ErrKeyAwaited
}

func TestRedeem_Expired(t *testing.T) {
	w := newFixture(t)
	s, tok := w.issued(t)
	w.Clock.Advance(token.ResultLife - time.Millisecond)
	if _, err := w.issue(t, s); err != nil {
		t.Errorf("contract 17: a millisecond before the end: %v", err)
	}
	w.Clock.Advance(time.Millisecond)
	if text, err := w.issue(t, s); !errors.Is(err, ErrExpired) {
		t.Errorf("contract 17: after five minutes the session has the token %q, %v", text, err)
	}
	if _, err := w.Redeem(ctx, tok, "", w.Clock.Now()); !errors.Is(err, ErrExpired) {
		t.Errorf("contract 17: at the very end: %v", err)
	}
	if _, err := w.Redeem(ctx, tok, "", w.Clock.Now().Add(-time.Millisecond)); err != nil {
		t.Errorf("contract 17: for a clock that is a millisecond behind: %v", err)
	}
	w.Clock.Advance(time.Minute)
	if _, err := w.Redeem(ctx, tok, "", w.Clock.Now().Add(-2*time.Minute)); !errors.Is(err, ErrUsed) {
		t.Errorf("an instance whose clock is behind does not see that the token is used: %v", err)
	}
}

func TestRedeem_UnknownSession(t *testing.T) {
	w := newFixture(t)
	pending, failed := w.session(t), w.session(t)
	_, err := w.Lifecycle.Fire(ctx, failed, lifecycle.Step{Trigger: session.Rejected})
	coretest.Must(t, err)
	for _, s := range []lifecycle.Session{pending, failed} {
		for _, outcome := range []string{"", "0123456789abcdef0123456789abcdef"} {
			text, err := token.SealResult(w.Host.Sealer, token.ResultClaims{Session: s.Text,
				Completed: token.At(w.Clock.Now()), Outcome: outcome})
			coretest.Must(t, err)
			tok, err := w.Open(text)
			coretest.Must(t, err)
			if _, err := w.Redeem(ctx, tok, "", w.Clock.Now()); !errors.Is(err, ErrInvalid) {
				t.Errorf("contract 17: a session that was not completed, outcome %q: %v", outcome, err)
			}
		}
	}
}

func TestOpenRejects(t *testing.T) {
	w := newFixture(t)
	_, tok := w.issued(t)
	noSession, err := token.SealResult(w.Host.Sealer,
		token.ResultClaims{Session: "svc_sess_x", Completed: token.At(w.Clock.Now())})
	coretest.Must(t, err)
	for rule, text := range map[string]string{
		"no token": "", "a session id": tok.Text, "a token of no session": noSession} {
		if got, err := w.Open(text); !errors.Is(err, ErrInvalid) {
			t.Errorf("contract 17: %s is read as %+v, %v", rule, got, err)
		}
	}
}

func TestRedeem_StoreError(t *testing.T) {
	w := newFixture(t)
	s, tok := w.issued(t)
	w.Store.Decide = func(kvtest.Call) kvtest.Fault { return kvtest.Reject }
	if _, err := w.Redeem(ctx, tok, "", w.Clock.Now()); !errors.Is(err, kv.ErrUnavailable) {
		t.Errorf("Redeem: %v", err)
	}
	completed := session.Record{State: session.Completed, At: w.Clock.Now()}
	if _, err := w.Claims(ctx, s, completed, "x", w.Clock.Now()); !errors.Is(err, kv.ErrUnavailable) {
		t.Errorf("Issue: %v", err)
	}
	w.Store.Decide = nil
	if _, err := w.Redeem(ctx, tok, "", w.Clock.Now()); err != nil {
		t.Errorf("once the store is well: %v", err)
	}
}

// FuzzMark holds the mark, which is written by hand, against encoding/json.
func FuzzMark(f *testing.F) {
	f.Add(int64(25), []byte("0123456789abcdef"))
	f.Add(int64(0), []byte{})
	f.Add(int64(-1), []byte(nil))
	f.Fuzz(func(t *testing.T, at int64, by []byte) {
		want, err := json.Marshal(mark{at, by})
		coretest.Must(t, err)
		if got := (mark{at, by}).marshal(); !bytes.Equal(got, want) {
			t.Errorf("%s, encoding/json writes %s", got, want)
		}
	})
}
