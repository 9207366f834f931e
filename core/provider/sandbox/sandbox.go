// Package sandbox is a provider that verifies nothing: its page has one
// button for each outcome, so that publishers can exercise all of them. The
// service refuses to run it outside dev and test.
package sandbox

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/verge-id/verge/core/provider"
)

// Method is its name in integrations.
const Method = "sandbox"

// External user ids that steer it.
const (
	UserInitError = "sandbox:init_error" // initiation fails
	UserSlow      = "sandbox:slow"       // approval is pending for SlowTime first
)

// SlowTime is how long a slow approval is pending.
const SlowTime = 3 * time.Second

// Provider is the sandbox. Now is needed.
type Provider struct {
	Now func() time.Time
}

var _ provider.Provider = (*Provider)(nil)

// Outcomes, as the forms name them, in the order of the page.
const (
	Approve     = "approve"
	Reject      = "reject"
	FailAttempt = "fail_attempt"
	Withdraw    = "withdraw"
	Unknown     = "unknown"
	Cancel      = "cancel"
	check       = "check" // sent by the page that waits
)

// Method implements provider.Provider.
func (*Provider) Method() string { return Method }

// Initiate implements provider.Provider.
func (*Provider) Initiate(_ context.Context, s provider.Session) error {
	if s.User != nil && *s.User == UserInitError {
		return errors.New("sandbox: asked to fail at initiation")
	}
	return nil
}

// Prompt implements provider.Provider.
func (*Provider) Prompt(provider.Session) provider.Prompt {
	return provider.Prompt{
		Choices: []string{Approve, Reject, FailAttempt, Withdraw, Unknown, Cancel},
		Sandbox: true,
	}
}

// Act implements provider.Provider: the outcome is the one that was asked for.
func (p *Provider) Act(
	_ context.Context, s provider.Session, form url.Values, state []byte,
) (provider.Decision, error) {
	switch outcome := form.Get("outcome"); outcome {
	case Approve:
		if s.User != nil && *s.User == UserSlow {
			since := binary.BigEndian.AppendUint64(nil, uint64(p.Now().UnixMilli()))
			return provider.Decision{Verdict: provider.Pending, State: since}, nil
		}
		return provider.Decision{Verdict: provider.Approved}, nil
	case check:
		if len(state) != 8 {
			return provider.Decision{}, fmt.Errorf("%w: nothing is being checked", provider.ErrStep)
		}
		since := time.UnixMilli(int64(binary.BigEndian.Uint64(state)))
		if p.Now().Before(since.Add(SlowTime)) {
			return provider.Decision{Verdict: provider.Pending, State: state}, nil
		}
		return provider.Decision{Verdict: provider.Approved}, nil
	case Reject:
		return provider.Decision{Verdict: provider.Rejected}, nil
	case FailAttempt:
		return provider.Decision{Verdict: provider.AttemptFailed}, nil
	case Withdraw:
		return provider.Decision{Verdict: provider.Withdrawn}, nil
	case Unknown:
		return provider.Decision{Verdict: provider.Unclassified}, nil
	case Cancel:
		return provider.Decision{Verdict: provider.Cancelled}, nil
	default:
		return provider.Decision{}, fmt.Errorf("%w: no outcome of %d bytes is known",
			provider.ErrStep, len(outcome))
	}
}
