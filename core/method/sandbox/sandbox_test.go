package sandbox

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/verge-id/verge/core/method"
)

var testTime = time.Date(2026, 11, 20, 22, 10, 0, 0, time.UTC)

func TestSandbox_Outcomes(t *testing.T) {
	p := &sandbox{now: func() time.Time { return testTime }}
	want := map[string]method.Verdict{
		approve: method.Approved, reject: method.Rejected, failAttempt: method.AttemptFailed,
		withdraw: method.Withdrawn, unknown: method.Unclassified, cancel: method.Cancelled,
	}
	choices := p.Show(method.Session{}, nil).Choices
	for outcome, verdict := range want {
		d, err := p.Act(context.Background(), method.Session{},
			method.Step{Form: url.Values{"outcome": {outcome}}})
		if err != nil || d.Verdict != verdict || d.State != nil {
			t.Errorf("architecture, sandbox: %s gives %+v, %v", outcome, d, err)
		}
		if !slices.Contains(choices, outcome) {
			t.Errorf("architecture, sandbox: %s is not on the page", outcome)
		}
	}
	if len(choices) != len(want) || !p.Show(method.Session{}, nil).Sandbox {
		t.Errorf("the page offers %v", choices)
	}
	for _, outcome := range []string{"", "APPROVE", "approved", check} {
		d, err := p.Act(context.Background(), method.Session{},
			method.Step{Form: url.Values{"outcome": {outcome}}})
		if !errors.Is(err, method.ErrStep) || d.Verdict == method.Approved {
			t.Errorf("%q decides %+v", outcome, d)
		}
	}
}

func TestSandbox_SlowApproval(t *testing.T) {
	now := testTime
	p := &sandbox{now: func() time.Time { return now }}
	user := userSlow
	s := method.Session{User: &user}
	act := func(outcome string, state []byte) (method.Decision, error) {
		return p.Act(context.Background(), s, method.Step{Form: url.Values{"outcome": {outcome}},
			State: state})
	}
	d, err := act(approve, nil)
	if err != nil || d.Verdict != method.Pending || len(d.State) == 0 || len(d.State) > 256 {
		t.Fatalf("%+v, %v, want pending with a state", d, err)
	}
	for _, step := range []struct {
		advance time.Duration
		want    method.Verdict
	}{{0, method.Pending}, {slowTime - time.Millisecond, method.Pending},
		{time.Millisecond, method.Approved}, {time.Hour, method.Approved}} {
		now = now.Add(step.advance)
		if d, err = act(check, d.State); err != nil || d.Verdict != step.want {
			t.Fatalf("after another %s: %+v, %v", step.advance, d, err)
		}
		if d.State == nil {
			d.State = make([]byte, 8)
		}
	}
	for _, state := range [][]byte{nil, {}, make([]byte, 7), make([]byte, 9)} {
		if d, err := act(check, state); !errors.Is(err, method.ErrStep) {
			t.Errorf("a state of %d bytes decides %+v", len(state), d)
		}
	}
}

func TestInitiate(t *testing.T) {
	p := &sandbox{}
	initError, other := userInitError, "user-42"
	for _, c := range []struct {
		user *string
		ok   bool
	}{{nil, true}, {&other, true}, {&initError, false}} {
		if err := p.Begin(context.Background(), method.Session{User: c.user}); (err == nil) != c.ok {
			t.Errorf("architecture, sandbox: user %v: %v", c.user, err)
		}
	}
}
