package passkey

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/verge-id/verge/core/internal/verdict"
)

// Reason is the reason why a passkey is not accepted. It is a constant for logs, metrics and page texts.
type Reason string

// The reasons. "" means that the passkey is accepted.
const (
	Unknown   Reason = "unknown"   // its record does not exist, or no longer
	Blocked   Reason = "blocked"   // it was copied
	Over      Reason = "over"      // it has expired, or the operator has ended it
	Trust     Reason = "trust"     // the basis of its verdict is no longer trusted
	Elsewhere Reason = "elsewhere" // it was created at another publisher
	Level     Reason = "level"     // it proves L1, and L2 is needed
	Method    Reason = "method"    // it was created with a method that the integration does not offer
	Age       Reason = "age"       // it proves a lower age
	Stricter  Reason = "stricter"  // the integration's settings of the method are stricter now
)

// Reasons lists every reason.
var Reasons = []Reason{Unknown, Blocked, Over, Trust, Elsewhere, Level, Method, Age, Stricter}

// Want is a session's requirement for a passkey.
type Want struct {
	Level        string // L1 or L2
	ChallengeAge int    // minimum challenge age of an estimate
	MinimumAge   int    // minimum age of a proof
	Methods      []string
	Settings     map[string]json.RawMessage // the integration's settings, by method
	Publisher    string                     // the only accepted one; "": any
}

// Standing is the current state of the trust behind a passkey.
type Standing struct {
	Ended    time.Time // last time the passkeys of its publisher were ended; zero: never
	Archived bool      // its publisher is archived or deleted
	Trusted  bool      // its method still trusts the basis (method.Opened)
}

// Counts reports whether a proof still counts in any session.
func (p Proof) Counts(st Standing) bool {
	return st.Trusted && !p.isEnded(st)
}

func (p Proof) isEnded(st Standing) bool {
	return st.Archived || !st.Ended.IsZero() && !p.Proven.After(st.Ended)
}

// Counts reports whether a passkey still counts in any session.
func (r Record) Counts(st Standing, now time.Time) bool {
	return r.Blocked.IsZero() && now.Before(r.Until) && r.Proof.Counts(st)
}

// Accept checks whether a passkey's proof is enough for a session. It returns "" or the reason against it.
func Accept(r Record, w Want, st Standing, now time.Time) Reason {
	settings := verdict.Settings(w.Settings[r.Method])
	switch {
	case !r.Blocked.IsZero():
		return Blocked
	case !now.Before(r.Until), r.isEnded(st):
		return Over
	case w.Publisher != "" && r.Publisher != w.Publisher:
		return Elsewhere
	case r.Level < w.Level:
		return Level
	case !slices.Contains(w.Methods, r.Method):
		return Method
	case !st.Trusted:
		return Trust
	case !(r.ChallengeAge > 0 && r.ChallengeAge >= w.ChallengeAge) &&
		!(r.MinimumAge > 0 && r.MinimumAge >= w.MinimumAge):
		return Age
	case settings != "" && settings != r.Settings:
		return Stricter
	}
	return ""
}
