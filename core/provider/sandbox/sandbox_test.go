package sandbox

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/verge-id/verge/core/provider"
)

var testTime = time.Date(2026, 11, 20, 22, 10, 0, 0, time.UTC)

func TestEveryOutcome(t *testing.T) {
	p := &Provider{Now: func() time.Time { return testTime }}
	want := map[string]provider.Verdict{
		Approve: provider.Approved, Reject: provider.Rejected, FailAttempt: provider.AttemptFailed,
		Withdraw: provider.Withdrawn, Unknown: provider.Unclassified, Cancel: provider.Cancelled,
	}
	choices := p.Prompt(provider.Session{}).Choices
	for outcome, verdict := range want {
		d, err := p.Act(context.Background(), provider.Session{}, url.Values{"outcome": {outcome}}, nil)
		if err != nil || d.Verdict != verdict || d.State != nil {
			t.Errorf("architecture, sandbox: %s gives %+v, %v", outcome, d, err)
		}
		if !slices.Contains(choices, outcome) {
			t.Errorf("architecture, sandbox: %s is not on the page", outcome)
		}
	}
	if len(choices) != len(want) || !p.Prompt(provider.Session{}).Sandbox {
		t.Errorf("the page offers %v", choices)
	}
	for _, outcome := range []string{"", "APPROVE", "approved", check} {
		d, err := p.Act(context.Background(), provider.Session{}, url.Values{"outcome": {outcome}}, nil)
		if !errors.Is(err, provider.ErrStep) || d.Verdict == provider.Approved {
			t.Errorf("%q decides %+v", outcome, d)
		}
	}
}

func TestASlowApproval(t *testing.T) {
	now := testTime
	p := &Provider{Now: func() time.Time { return now }}
	user := UserSlow
	s := provider.Session{User: &user}
	act := func(outcome string, state []byte) (provider.Decision, error) {
		return p.Act(context.Background(), s, url.Values{"outcome": {outcome}}, state)
	}
	d, err := act(Approve, nil)
	if err != nil || d.Verdict != provider.Pending || len(d.State) == 0 || len(d.State) > 256 {
		t.Fatalf("%+v, %v, want pending with a state", d, err)
	}
	for _, step := range []struct {
		advance time.Duration
		want    provider.Verdict
	}{{0, provider.Pending}, {SlowTime - time.Millisecond, provider.Pending},
		{time.Millisecond, provider.Approved}, {time.Hour, provider.Approved}} {
		now = now.Add(step.advance)
		if d, err = act(check, d.State); err != nil || d.Verdict != step.want {
			t.Fatalf("after another %s: %+v, %v", step.advance, d, err)
		}
		if d.State == nil {
			d.State = make([]byte, 8)
		}
	}
	for _, state := range [][]byte{nil, {}, make([]byte, 7), make([]byte, 9)} {
		if d, err := act(check, state); !errors.Is(err, provider.ErrStep) {
			t.Errorf("a state of %d bytes decides %+v", len(state), d)
		}
	}
}

func TestInitiate(t *testing.T) {
	p := &Provider{}
	initError, other := UserInitError, "user-42"
	for _, c := range []struct {
		user *string
		ok   bool
	}{{nil, true}, {&other, true}, {&initError, false}} {
		if err := p.Initiate(context.Background(), provider.Session{User: c.user}); (err == nil) != c.ok {
			t.Errorf("architecture, sandbox: user %v: %v", c.user, err)
		}
	}
	if p.Method() != Method {
		t.Errorf("its method is %q", p.Method())
	}
}
