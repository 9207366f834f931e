package kvcheck

import "time"

// Report is all that a check found out. As JSON it is what `verge kv check --json` prints.
type Report struct {
	Store   string `json:"store"`   // without passwords
	Scratch string `json:"scratch"` // how the names of all that is written begin
	OK      bool   `json:"ok"`      // everything that was tried holds, and nothing is left

	About
	RoundTrips []roundTrip `json:"round_trips,omitempty"`
	Expiry     *expiry     `json:"expiry,omitempty"` // nil unless it was proven
	Subjects   []*subject  `json:"subjects"`

	CleanedUp bool   `json:"cleaned_up"`
	Error     string `json:"error,omitempty"` // why the check ended early, or could not clean up
}

// About is what the servers say about themselves, and what follows from that.
type About struct {
	Server    string      `json:"server"`
	Clocks    []clock     `json:"clocks,omitempty"`
	ClockNote string      `json:"clock_note,omitempty"` // where there are no clocks to compare
	Settings  []setting   `json:"settings,omitempty"`
	Signals   *signals    `json:"signals,omitempty"` // nil where instances cannot wake each other
	NotProven []notProven `json:"not_proven"`
	Warnings  []string    `json:"warnings,omitempty"`
}

// clock is the difference between a server's clock and this machine's.
type clock struct {
	Server   string  `json:"server"`
	AheadMS  float64 `json:"ahead_ms"`  // negative: behind
	WithinMS float64 `json:"within_ms"` // AheadMS may be wrong by so much
}

func (c clock) ahead() time.Duration  { return time.Duration(c.AheadMS * float64(time.Millisecond)) }
func (c clock) within() time.Duration { return time.Duration(c.WithinMS * float64(time.Millisecond)) }

// setting is one setting of a server. Value is empty if Verge's user may not ask for it.
type setting struct {
	Server string `json:"server"`
	Name   string `json:"name"`
	Value  string `json:"value"`
}

// signals says whether instances can wake each other through the store.
type signals struct {
	On     bool   `json:"on"`             // the URL leaves them on
	Arrive bool   `json:"arrive"`         // one was sent, and has arrived
	Seen   string `json:"seen,omitempty"` // why none has arrived
}

// notProven is a promise that a check of a store in use cannot prove.
type notProven struct {
	What string `json:"what"`
	Why  string `json:"why"`
}

// roundTrip is how long a call took, one at a time, now and from this machine.
type roundTrip struct {
	Call     string  `json:"call"`
	N        int     `json:"n"`
	MedianMS float64 `json:"median_ms"`
	P99MS    float64 `json:"p99_ms"`
}

// expiry is how late items were gone, by the store's clock.
type expiry struct {
	N        int     `json:"n"`
	LateMS   float64 `json:"at_most_late_ms"` // includes one round trip and the clock's uncertainty
	WithinMS float64 `json:"within_ms"`
}

// subject is a group of promises about one thing.
type subject struct {
	Name     string    `json:"name"`
	Promises []promise `json:"promises"` // those that were tried
	untried  int
}

// promise is one promise and what became of its proof.
type promise struct {
	Name   string `json:"name"`
	Proven bool   `json:"proven"`
	Seen   string `json:"seen,omitempty"` // what speaks against it, or why it could not be tried
	ended  bool   // the check ended first, so this says nothing about the store
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
