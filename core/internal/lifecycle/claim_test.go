package lifecycle

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/internal/metric"
	"github.com/verge-id/verge/core/internal/session"
	"github.com/verge-id/verge/core/internal/token"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/kvadapters/kvtest"
)

const claimLife = 20 * time.Second

func TestClaim_Once(t *testing.T) {
	w := newFixture(t)
	s := w.session(t, integration.Webhook{Off: true})
	var claimed, asked atomic.Int32
	var all sync.WaitGroup
	for range 40 {
		all.Go(func() {
			switch _, err := w.Claim(ctx, s, Asking{}, claimLife); {
			case err == nil:
				claimed.Add(1)
			case errors.Is(err, ErrAsked):
				asked.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	all.Wait()
	if claimed.Load() != 1 || asked.Load() != 39 {
		t.Errorf("contract 37: %d claimed the attempt, and %d got ErrAsked", claimed.Load(),
			asked.Load())
	}
}

func TestClaim_Ends(t *testing.T) {
	for _, c := range []struct {
		rule string
		ends func(w *fixture, s Session, claim string) error
		want error // of the next claim of the first attempt
	}{
		{"it holds", func(*fixture, Session, string) error { return nil }, ErrAsked},
		{"by its time",
			func(w *fixture, _ Session, _ string) error { w.Clock.Advance(claimLife); return nil },
			nil},
		{"just before its time it holds", func(w *fixture, _ Session, _ string) error {
			w.Clock.Advance(claimLife - time.Millisecond)
			return nil
		}, ErrAsked},
		{"when it is given back", func(w *fixture, s Session, claim string) error {
			return w.GiveBack(ctx, s, claim)
		}, nil},
		{"another's is not given back", func(w *fixture, s Session, _ string) error {
			return w.GiveBack(ctx, s, "somebody else's")
		}, ErrAsked},
		{"with the attempt", func(w *fixture, s Session, _ string) error {
			_, err := w.Fire(ctx, s, Step{Trigger: session.AttemptFailed})
			return err
		}, ErrMovedOn},
		{"with the session", func(w *fixture, s Session, _ string) error {
			_, err := w.Fire(ctx, s, Step{Trigger: session.Succeeded})
			return err
		}, ErrMovedOn},
		{"with the session's time", func(w *fixture, _ Session, _ string) error {
			w.Clock.Advance(session.Life)
			return nil
		}, ErrMovedOn},
	} {
		t.Run("contract 37: "+c.rule, func(t *testing.T) {
			w := newFixture(t)
			s := w.session(t, withWebhook)
			claim, err := w.Claim(ctx, s, Asking{}, claimLife)
			coretest.Must(t, err)
			coretest.Must(t, c.ends(w, s, claim))
			before := w.record(t, s)
			if _, err := w.Claim(ctx, s, Asking{}, claimLife); !errors.Is(err, c.want) {
				t.Errorf("the next claim: %v, want %v", err, c.want)
			}
			if err := w.GiveBack(ctx, s, claim); err != nil {
				t.Error(err)
			}
			now, expires := w.Clock.Now(), s.ID.Expires()
			after := w.record(t, s).As(now, expires)
			if c.want == ErrMovedOn && after != before.As(now, expires) {
				t.Errorf("a claim that is over changes %+v to %+v", before, after)
			}
		})
	}
}

func TestClaim_NextAttempt(t *testing.T) {
	w := newFixture(t)
	s := w.session(t, withWebhook)
	_, err := w.Claim(ctx, s, Asking{}, claimLife)
	coretest.Must(t, err)
	r, err := w.Fire(ctx, s, Step{Trigger: session.AttemptFailed})
	coretest.Must(t, err)
	if r.IsAsked(w.Clock.Now()) || r.Attempts != 1 {
		t.Errorf("the record is %+v", r)
	}
	if _, err := w.Claim(ctx, s, Asking{Attempt: 1}, claimLife); err != nil {
		t.Error(err)
	}
}

// After a store error, the caller has either no claim, or a claim that is certain.
func TestClaim_Faults(t *testing.T) {
	for _, c := range []struct {
		name   string
		faults []kvtest.Fault
		want   error
	}{
		{"refused", []kvtest.Fault{kvtest.Reject}, kv.ErrUnavailable},
		{"the request is lost", []kvtest.Fault{kvtest.LoseRequest}, nil},
		{"the reply is lost", []kvtest.Fault{kvtest.LoseReply}, nil},
		{"two replies are lost", []kvtest.Fault{kvtest.LoseReply, kvtest.LoseReply}, kv.ErrUnknown},
	} {
		t.Run("contract 5: "+c.name, func(t *testing.T) {
			w := newFixture(t)
			s := w.session(t, withWebhook)
			w.script(c.faults...)
			claim, err := w.Claim(ctx, s, Asking{}, claimLife)
			if !errors.Is(err, c.want) {
				t.Fatalf("%v, want %v", err, c.want)
			}
			w.script()
			if err == nil {
				if _, err := w.Claim(ctx, s, Asking{}, claimLife); !errors.Is(err, ErrAsked) {
					t.Errorf("a second claim next to the first: %v", err)
				}
				coretest.Must(t, w.GiveBack(context.WithoutCancel(ctx), s, claim))
			}
			w.Clock.Advance(claimLife)
			if _, err := w.Claim(ctx, s, Asking{}, claimLife); err != nil {
				t.Errorf("after its time: %v", err)
			}
		})
	}
}

// A form sends one request, regardless of its result, while other forms may send theirs.
func TestClaim_Form(t *testing.T) {
	w := newFixture(t)
	s := w.session(t, withWebhook)
	form := func(n int) string { return session.Proof(strconv.Itoa(n)) }
	ask := func(n int) error {
		claim, err := w.Claim(ctx, s, Asking{Form: form(n)}, claimLife)
		if err == nil {
			err = w.GiveBack(ctx, s, claim)
		}
		return err
	}
	for n := range maxForms {
		coretest.Must(t, ask(n))
		for before := range n + 1 {
			if err := ask(before); !errors.Is(err, ErrRepeated) {
				t.Errorf("contract 37: form %d, after %d others: %v", before, n-before, err)
			}
		}
	}
	coretest.Must(t, ask(maxForms))
	if err := ask(1); !errors.Is(err, ErrRepeated) {
		t.Errorf("contract 37: one of the last %d forms: %v", maxForms, err)
	}
	if length := len(w.record(t, s).Forms); length != maxForms*len(form(0)) {
		t.Errorf("the record names forms by %d bytes", length)
	}
	for range 2 { // forms of the sandbox have no handle
		claim, err := w.Claim(ctx, s, Asking{}, claimLife)
		coretest.Must(t, err)
		coretest.Must(t, w.GiveBack(ctx, s, claim))
	}
	if err := ask(maxForms); !errors.Is(err, ErrRepeated) {
		t.Errorf("contract 37: a form before one without a handle: %v", err)
	}
}

// A claim stays its holder's while other tabs change the record.
func TestClaim_OtherTabs(t *testing.T) {
	step := session.Step{Method: "camera", Result: metric.MethodUnavailable, Reason: host.FetchTimeout}
	for _, c := range []struct {
		rule  string
		ends  func(w *fixture, s Session, claim string)
		steps int
	}{
		{"contract 37: given back", func(w *fixture, s Session, claim string) {
			coretest.Must(t, w.GiveBack(ctx, s, claim))
		}, 0},
		{"contract 48: a step that failed", func(w *fixture, s Session, claim string) {
			w.Ended(ctx, s, claim, step, nil)
		}, 1},
	} {
		w := newFixture(t)
		s := w.session(t, integration.Webhook{Off: true})
		claim, err := w.Claim(ctx, s, Asking{}, claimLife)
		coretest.Must(t, err)
		opened, err := w.OpenResponse(ctx, s, token.PendingClaims{Method: "wallet"})
		coretest.Must(t, err)
		_, err = w.Discard(ctx, s, opened)
		coretest.Must(t, err)
		c.ends(w, s, claim)
		if steps := w.record(t, s).Steps.All(); len(steps) != c.steps {
			t.Errorf("%s: the record has the steps %+v", c.rule, steps)
		}
		w.Clock.Advance(time.Second)
		next, err := w.Claim(ctx, s, Asking{}, claimLife)
		if err != nil || next == claim {
			t.Errorf("%s: the next form: %q, %v", c.rule, next, err)
		}
		coretest.Must(t, w.GiveBack(ctx, s, claim))
		if _, err := w.Claim(ctx, s, Asking{}, claimLife); !errors.Is(err, ErrAsked) {
			t.Errorf("%s: an earlier claim ends the next one: %v", c.rule, err)
		}
	}
}

func TestClaim_Pictures(t *testing.T) {
	w := newFixture(t)
	s := w.session(t, integration.Webhook{Off: true})
	for n := range maxPictures {
		a := Asking{Attempt: n / 4, Picture: true}
		claim, err := w.Claim(ctx, s, a, claimLife)
		coretest.Must(t, err)
		if n%4 == 3 && a.Attempt < 2 {
			_, err = w.Fire(ctx, s, Step{Trigger: session.AttemptFailed, Attempt: a.Attempt})
		} else {
			err = w.GiveBack(ctx, s, claim)
		}
		coretest.Must(t, err)
	}
	if _, err := w.Claim(ctx, s, Asking{Attempt: 2, Picture: true}, claimLife); !errors.Is(err,
		method.ErrTooMany) {
		t.Errorf("contract 37: the picture after the last one: %v", err)
	}
	if _, err := w.Claim(ctx, s, Asking{Attempt: 2}, claimLife); err != nil {
		t.Errorf("contract 37: what is no picture: %v", err)
	}
}

// A form whose claim timed out was interrupted. The step is stored once.
func TestClaim_Interrupted(t *testing.T) {
	w := newFixture(t)
	s := w.session(t, withWebhook)
	asking := Asking{Form: session.Proof("a form")}
	_, err := w.Claim(ctx, s, asking, claimLife)
	coretest.Must(t, err)
	if _, err := w.Claim(ctx, s, asking, claimLife); !errors.Is(err, ErrAsked) {
		t.Errorf("contract 37: while the claim holds: %v", err)
	}
	w.Clock.Advance(claimLife)
	if _, err := w.Claim(ctx, s, asking, claimLife); !errors.Is(err, ErrInterrupted) {
		t.Errorf("contract 48: after its time: %v", err)
	}
	w.Ended(ctx, s, "", session.Step{Method: "bank", Result: "unavailable", Reason: "interrupted"}, nil)
	if _, err := w.Claim(ctx, s, asking, claimLife); !errors.Is(err, ErrRepeated) ||
		errors.Is(err, ErrInterrupted) {
		t.Errorf("contract 48: after the step is stored: %v", err)
	}
	if steps := w.record(t, s).Steps.All(); len(steps) != 1 || steps[0].Reason != "interrupted" {
		t.Errorf("contract 48: the record has the steps %+v", steps)
	}
}
