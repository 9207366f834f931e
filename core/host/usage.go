package host

import (
	"slices"
	"strings"
	"time"
)

// UsageEvent counts as usage. It has either an Integration and an Outcome, or a Key. The engine adds usage
// events up and gives the sums back to the core at intervals (Totals).
type UsageEvent struct {
	Integration string // UUID, lower case
	Outcome     string // one of the Outcome constants

	Key string // the id of an API key that has authenticated a request
}

// All outcomes that are counted of an integration. Each is a number in every day's record.
const (
	OutcomeStarted     = "started"
	OutcomeCompleted   = "completed"
	OutcomeRejected    = "failed_provider_rejected"
	OutcomeMaxAttempts = "failed_max_attempts"
	OutcomeUnknown     = "failed_unknown"
	OutcomeCancelled   = "cancelled"
	OutcomeExpired     = "expired"

	// A session without an event has no timer, so nothing happens when it expires. It counts as untimed, too,
	// and again when it ends. A session that has not ended when its life is over has expired (package usage).
	OutcomeUntimed      = "untimed"
	OutcomeUntimedEnded = "untimed_ended"
)

// Outcomes returns the Outcome constants in the order in which people read them. It leaves out those of
// untimed sessions, which people see as expired.
func Outcomes() []string { return outcomes[:shown] }

// Counted returns all Outcome constants.
func Counted() []string { return outcomes[:] }

var outcomes = [...]string{OutcomeStarted, OutcomeCompleted, OutcomeRejected, OutcomeMaxAttempts,
	OutcomeUnknown, OutcomeCancelled, OutcomeExpired, OutcomeUntimed, OutcomeUntimedEnded}

// shown is how many outcomes people see.
const shown = len(outcomes) - 2

// Counts is how often each outcome occurred.
type Counts [len(outcomes)]uint64

// Add adds n to the count of an outcome. It reports whether there is such an outcome.
func (c *Counts) Add(outcome string, n uint64) bool {
	i := slices.Index(outcomes[:], outcome)
	if i >= 0 {
		c[i] += n
	}
	return i >= 0
}

// Of returns the count of an outcome.
func (c Counts) Of(outcome string) uint64 { return c[slices.Index(outcomes[:], outcome)] }

// Plus returns the sums of c and d.
func (c Counts) Plus(d Counts) Counts {
	for i, n := range d {
		c[i] += n
	}
	return c
}

// Totals are the sums of an instance's usage events.
type Totals struct {
	Days []DayTotal
	Keys []KeyUse
}

// DayTotal is one instance's count of one integration on one day, since the start of the instance. Recording
// it twice is therefore harmless.
type DayTotal struct {
	Integration string
	Day         Day
	Instance    string // a name that no other instance has
	Counts      Counts
}

// KeyUse means that a key was used on a day.
type KeyUse struct {
	Key string
	Day Day
}

// Day is a day in UTC, as the number of days since 1 January 1970.
type Day int32

const daySeconds = 24 * 60 * 60

// DayOf returns the day of a time.
func DayOf(t time.Time) Day {
	s := t.Unix()
	if s < 0 { // whole days before 1970 do not matter, but a clock may be wrong
		s -= daySeconds - 1
	}
	return Day(s / daySeconds)
}

// Begin returns the time at which the day begins.
func (d Day) Begin() time.Time { return time.Unix(int64(d)*daySeconds, 0).UTC() }

// String returns the day as 2026-11-20.
func (d Day) String() string { return d.Begin().Format(time.DateOnly) }

// ParseDay reads a day as String writes it.
func ParseDay(s string) (Day, bool) {
	t, err := time.Parse(time.DateOnly, s)
	return DayOf(t), err == nil
}

// Valid reports whether the core can have counted t. A hostile guest may report any value, so the host's sums
// must be limited to values that the core counts.
func (t UsageEvent) Valid() bool {
	if t.Key != "" {
		id, ok := strings.CutPrefix(t.Key, "key_")
		return ok && t.Integration == "" && t.Outcome == "" && len(id) == 16 && isHex(id)
	}
	if len(t.Integration) != 36 || !slices.Contains(outcomes[:], t.Outcome) {
		return false
	}
	for i := range len(t.Integration) {
		if c := t.Integration[i]; i == 8 || i == 13 || i == 18 || i == 23 {
			if c != '-' {
				return false
			}
		} else if !isHex(t.Integration[i : i+1]) {
			return false
		}
	}
	return true
}

func isHex(s string) bool { return strings.Trim(s, "0123456789abcdef") == "" }
