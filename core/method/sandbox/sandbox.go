// Package sandbox is a kind of method without verification: its page has one button for each outcome, so that
// publishers can test all of them. The service rejects it outside dev and test.
package sandbox

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/problem"
)

// Name is the name of the kind. A service that configures no methods has one of this name too.
const Name = "sandbox"

// Kind describes it.
var Kind = method.Kind{
	Name:    Name,
	Level:   "L2",
	Sandbox: true,
	Check: func(c method.Config) (wrong problem.List) {
		if !c.HasNoSettings() {
			wrong.Add("sandbox", "it has no settings; leave the table out")
		}
		return wrong
	},
	Open: func(_ method.Config, h method.Host) (method.Method, error) { return &sandbox{now: h.Now}, nil },
}

// External user ids that steer it.
const (
	userInitError = "sandbox:init_error" // initiation fails
	userSlow      = "sandbox:slow"       // approval is pending for slowTime first
)

// slowTime is how long a slow approval is pending.
const slowTime = 3 * time.Second

type sandbox struct{ now func() time.Time }

// Outcomes, as the forms name them, in the order of the page.
const (
	approve     = "approve"
	reject      = "reject"
	failAttempt = "fail_attempt"
	withdraw    = "withdraw"
	unknown     = "unknown"
	cancel      = "cancel"
	check       = "check" // sent by the page that waits
)

// Begin implements method.Method.
func (*sandbox) Begin(_ context.Context, s method.Session) error {
	if s.User != nil && *s.User == userInitError {
		return fmt.Errorf("sandbox: asked to fail at initiation: %w", &method.Rejection{Reason: "init_error"})
	}
	return nil
}

// Show implements method.Method. While an approval is pending, the page asks about it.
func (*sandbox) Show(_ method.Session, state []byte) method.View {
	if state != nil {
		return method.View{Choices: []string{check}, Waiting: true, Sandbox: true}
	}
	return method.View{
		Choices: []string{approve, reject, failAttempt, withdraw, unknown, cancel},
		Sandbox: true,
	}
}

// Act implements method.Method: the outcome is the requested one.
func (p *sandbox) Act(_ context.Context, s method.Session, step method.Step) (method.Decision, error) {
	switch outcome := step.Form.Get("outcome"); outcome {
	case approve:
		if s.User != nil && *s.User == userSlow {
			since := binary.BigEndian.AppendUint64(nil, uint64(p.now().UnixMilli()))
			return method.Decision{Verdict: method.Pending, State: since}, nil
		}
		return method.Decision{Verdict: method.Approved}, nil
	case check:
		if len(step.State) != 8 {
			return method.Decision{}, fmt.Errorf("%w: nothing is being checked", method.ErrStep)
		}
		since := time.UnixMilli(int64(binary.BigEndian.Uint64(step.State)))
		if p.now().Before(since.Add(slowTime)) {
			return method.Decision{Verdict: method.Pending, State: step.State}, nil
		}
		return method.Decision{Verdict: method.Approved}, nil
	case reject:
		return method.Decision{Verdict: method.Rejected}, nil
	case failAttempt:
		return method.Decision{Verdict: method.AttemptFailed}, nil
	case withdraw:
		return method.Decision{Verdict: method.Withdrawn}, nil
	case unknown:
		return method.Decision{Verdict: method.Unclassified}, nil
	case cancel:
		return method.Decision{Verdict: method.Cancelled}, nil
	default:
		return method.Decision{}, fmt.Errorf("%w: no outcome of %d bytes is known",
			method.ErrStep, len(outcome))
	}
}
