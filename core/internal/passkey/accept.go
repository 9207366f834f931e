package passkey

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/verge-id/verge/core/internal/verdict"
)

// Reason is why a passkey is not accepted. It is a constant for logs, metrics and the words of a page.
type Reason string

// The reasons. "" is none: the passkey is accepted.
const (
	Unknown   Reason = "unknown"   // there is no record of it, or no more
	Blocked   Reason = "blocked"   // somebody may have a copy
	Over      Reason = "over"      // its time is over, or the operator has ended it
	Trust     Reason = "trust"     // what it was judged by no longer holds
	Elsewhere Reason = "elsewhere" // it was made at another publisher
	Level     Reason = "level"     // it proves L1, and L2 is needed
	Method    Reason = "method"    // it was made after a method that the integration does not offer
	Age       Reason = "age"       // it proves a lower age
	Stricter  Reason = "stricter"  // the integration is stricter with the method than where it was made
)

// Reasons has every reason.
var Reasons = []Reason{Unknown, Blocked, Over, Trust, Elsewhere, Level, Method, Age, Stricter}

// Want is what a session needs of a passkey.
type Want struct {
	Level        string // L1 or L2
	ChallengeAge int    // that an estimate must have reached
	MinimumAge   int    // that a proof must have proven
	Methods      []string
	Settings     map[string]json.RawMessage // the integration's own, by method
	Publisher    string                     // the only one that counts; "": any
}

// Standing is the present state of the trust behind a passkey.
type Standing struct {
	Ended    time.Time // when the passkeys of its publisher were ended last; zero: never
	Archived bool      // its publisher is archived, or gone
	Trusted  bool      // its method still stands by the basis (method.Opened)
}

// Counts reports whether what was proven still counts in any session.
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

// Accept decides whether what a passkey stands for is enough. It returns "" or the reason against it.
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
