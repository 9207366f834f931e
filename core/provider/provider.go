// Package provider is the port to those who verify: a Provider is one method
// of verification, such as an identity document wallet or a facial age
// estimation. Each method lives in a folder of its own beside this file.
//
// A provider decides and nothing else. The core keeps attempts, expiry, events and tokens. What a provider
// answers too late changes nothing.
package provider

import (
	"context"
	"errors"
	"net/url"
	"time"
)

// Session is what a provider is told of a session.
type Session struct {
	ID           string // svc_sess_…
	Level        string // L1 or L2
	ChallengeAge int
	Language     string // of the page, one of the six
	ExpiresAt    time.Time
	User         *string // the publisher's external user id; nil: not given
}

// Provider carries out one method. Methods may be called concurrently.
type Provider interface {
	// Method is the name by which integrations choose the provider.
	Method() string

	// Initiate prepares the session when it is started. An error fails the
	// session at once; its text goes to the log.
	Initiate(ctx context.Context, s Session) error

	// Prompt is what the method's page offers the user. It shows and changes nothing.
	Prompt(s Session) Prompt

	// Act decides what the user's step means. state is the State of the step before, or nil on the first
	// step. It was sealed meanwhile and is authentic. An error means that nothing is known and nothing is
	// decided. ErrStep says that the page has no such form. After any other error the user is asked to try
	// again.
	Act(ctx context.Context, s Session, form url.Values, state []byte) (Decision, error)
}

// ErrStep says that the method's page offers no such form at this point.
var ErrStep = errors.New("provider: no such step")

// Prompt is a method's page.
type Prompt struct {
	Choices []string // one form each; the pages know their texts
	Sandbox bool     // the page says that nothing real is verified
}

// Verdict is what a provider decides.
type Verdict int

// Verdicts. The zero Verdict is Unclassified, so that what nobody has decided is denied.
const (
	Unclassified  Verdict = iota // ended, for no reason that we know
	Approved                     // verified
	Rejected                     // a final no
	AttemptFailed                // no, but another attempt may succeed
	Withdrawn                    // the user has withdrawn for good
	Cancelled                    // the user left; nothing is decided
	Pending                      // not decided yet: ask again with State
)

// Decision is a verdict. For Pending it also has the state that the provider gets back next time.
type Decision struct {
	Verdict Verdict
	State   []byte // at most 256 bytes
}
