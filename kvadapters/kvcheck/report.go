package kvcheck

import "time"

// Report has all findings of a check. `verge kv check --json` prints it as JSON.
type Report struct {
	Store   string `json:"store"`   // without passwords
	Scratch string `json:"scratch"` // prefix of all names that are written
	OK      bool   `json:"ok"`      // all tried promises hold, and the scratch place is removed

	about
	RoundTrips []roundTrip `json:"round_trips,omitempty"`
	Expiry     *expiry     `json:"expiry,omitempty"` // nil unless it was proven
	Subjects   []*subject  `json:"subjects"`

	CleanedUp bool   `json:"cleaned_up"`
	Error     string `json:"error,omitempty"` // the reason why the check ended early, or could not clean up
}

// about is the servers' information about themselves, with an evaluation.
type about struct {
	Server    string      `json:"server"`
	Clocks    []clock     `json:"clocks,omitempty"`
	ClockNote string      `json:"clock_note,omitempty"` // if there are no clocks to compare
	Settings  []setting   `json:"settings,omitempty"`
	Signals   *signals    `json:"signals,omitempty"` // nil if instances cannot wake each other
	NotProven []notProven `json:"not_proven"`
	Warnings  []string    `json:"warnings,omitempty"`
}

// clock is the difference between a server's clock and this machine's.
type clock struct {
	Server   string  `json:"server"`
	AheadMS  float64 `json:"ahead_ms"`  // negative: behind
	WithinMS float64 `json:"within_ms"` // the possible error of AheadMS
}

func (c clock) ahead() time.Duration  { return time.Duration(c.AheadMS * float64(time.Millisecond)) }
func (c clock) within() time.Duration { return time.Duration(c.WithinMS * float64(time.Millisecond)) }

// setting is one setting of a server. Value is empty if Verge's user may not read it.
type setting struct {
	Server string `json:"server"`
	Name   string `json:"name"`
	Value  string `json:"value"`
}

// signals reports whether instances can wake each other through the store.
type signals struct {
	On     bool   `json:"on"`             // enabled by the URL
	Arrive bool   `json:"arrive"`         // a signal was sent and has arrived
	Seen   string `json:"seen,omitempty"` // the reason why none has arrived
}

// notProven is a promise that a check cannot prove on a store in use.
type notProven struct {
	What string `json:"what"`
	Why  string `json:"why"`
}

// roundTrip is the duration of a call, one at a time, now and from this machine.
type roundTrip struct {
	Call     string  `json:"call"`
	N        int     `json:"n"`
	MedianMS float64 `json:"median_ms"`
	P99MS    float64 `json:"p99_ms"`
}

// expiry is how late items disappeared, by the store's clock.
type expiry struct {
	N        int     `json:"n"`
	LateMS   float64 `json:"at_most_late_ms"` // includes one round trip and the clock's uncertainty
	WithinMS float64 `json:"within_ms"`
}

// subject is a group of related promises.
type subject struct {
	Name     string    `json:"name"`
	Promises []promise `json:"promises"` // the tried promises
	untried  int
}

// promise is one promise and the result of its proof.
type promise struct {
	Name   string `json:"name"`
	Proven bool   `json:"proven"`
	Seen   string `json:"seen,omitempty"` // the violation, or the reason why it could not be tried
	place  int    // in the order of the promises
	ended  bool   // the check ended before, so this is no finding about the store
}

func (s *subject) failed() (failed []promise, ended bool) {
	for _, p := range s.Promises {
		if p.ended {
			ended = true
		} else if !p.Proven {
			failed = append(failed, p)
		}
	}
	return failed, ended
}
