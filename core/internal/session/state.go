package session

import (
	"crypto/sha256"
	"encoding/base64"
	"time"

	"github.com/verge-id/verge/core/internal/verdict"
	"github.com/verge-id/verge/core/webhook"
)

// State of a session, as webhooks name it (spec, States).
type State string

// The four states. All but Started are final.
const (
	Started   State = webhook.StatusStarted
	Completed State = webhook.StatusCompleted
	Failed    State = webhook.StatusFailed
	Expired   State = webhook.StatusExpired
)

// Status is the name of the state for reconcile (contract 20).
func (s State) Status() string {
	switch s {
	case Completed:
		return "COMPLETED"
	case Failed:
		return "FAILED"
	case Expired:
		return "EXPIRED"
	}
	return "PENDING"
}

// Trigger is an event that can change a session.
type Trigger string

// All triggers.
const (
	InitiationFailed Trigger = "initiation failed" // the provider could not begin
	Succeeded        Trigger = "succeeded"
	Rejected         Trigger = "rejected"       // the provider's final no
	AttemptFailed    Trigger = "attempt failed" // others may follow
	Withdrawn        Trigger = "withdrawn"      // final withdrawal of consent
	Unclassified     Trigger = "unclassified"   // the provider ended it for an unknown reason
	Cancelled        Trigger = "cancelled"      // the user left before a decision
	TimeUp           Trigger = "time up"        // the expiry timer
)

// Record is the stored state of a session. The zero Record is the state of a new session.
type Record struct {
	State       State     // "" is Started
	Attempts    int       // number of failed attempts
	FailureCode string    // one of the webhook package's, for Failed and Expired
	At          time.Time // of the terminal transition

	// Browser identifies the browser that completed the session, by Proof of a handle that only the browser
	// has. Only that browser is redirected to the callback (contract 34). "": any browser with the link.
	Browser string

	// AskedUntil is the time until which a request about this attempt is in progress. No other request is
	// sent before that time. Zero: no request is in progress.
	AskedUntil time.Time

	// Forms lists the latest forms that have sent their request, by Proof of their handles, concatenated.
	// Each form sends one request.
	Forms string

	// Pictures is the number of pictures sent to estimators.
	Pictures int

	// Proven is the basis of the verdict that completed the session, if the user may create a passkey from
	// it. Its Method may be passkey.Name. Zero: they may not.
	Proven verdict.Basis

	// Age is the age proven by the verdict, if the session completed for a client of the OpenID provider. The
	// integration's minimum may change afterwards.
	Age int

	// Response is the handle of the attempt's latest pending response for a program, and HandOff the handle
	// of its latest cross-device hand-off. Earlier ones no longer count. "": none is open.
	Response, HandOff string

	// Steps are the last steps that did not succeed, at most MaxSteps.
	Steps Steps
}

// IsAsked reports whether a request about the attempt is in progress.
func (r Record) IsAsked(now time.Time) bool { return !r.Terminal() && now.Before(r.AskedUntil) }

// Proof returns the stored proof of a handle: enough to recognise the handle, too little to recover it.
func Proof(handle string) string {
	sum := sha256.Sum256([]byte("verge/v1/browser\x00" + handle))
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

// Terminal reports whether the outcome is final.
func (r Record) Terminal() bool { return r.State != "" && r.State != Started }

// As returns the record as of now. A session without an outcome has expired as soon as its life is over,
// whether or not its timer has fired (contract 20).
func (r Record) As(now, expires time.Time) Record {
	if !r.Terminal() && !now.Before(expires) {
		return Record{State: Expired, Attempts: r.Attempts, FailureCode: webhook.FailureTimeout, At: expires,
			Steps: r.Steps}
	}
	if r.State == "" {
		r.State = Started
	}
	return r
}

// Apply is the state machine. It returns the record after the trigger, and whether that differs from r and
// must be stored. attempts is the maximum number of failed attempts.
//
// A terminal state never changes. A trigger at or after expiry finds the session expired. A timer that fires
// early finds it active.
func (r Record) Apply(t Trigger, now, expires time.Time, attempts int) (next Record, changed bool) {
	if r.Terminal() {
		return r, false
	}
	if r = r.As(now, expires); r.Terminal() {
		return r, true
	}
	end := func(s State, code string) (Record, bool) {
		return Record{State: s, Attempts: r.Attempts, FailureCode: code, At: now, Steps: r.Steps}, true
	}
	switch t {
	case Succeeded:
		return end(Completed, "")
	case Rejected:
		return end(Failed, webhook.FailureProviderRejected)
	case Withdrawn:
		return end(Failed, webhook.FailureUserCancelled)
	case Unclassified, InitiationFailed:
		return end(Failed, webhook.FailureUnknown)
	case AttemptFailed:
		r.Attempts++
		r.AskedUntil, r.Response, r.HandOff = time.Time{}, "", ""
		if r.Attempts >= attempts {
			return end(Failed, webhook.FailureMaxAttempts)
		}
		return r, true
	}
	return r, false
}
