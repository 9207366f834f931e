package webhook

import (
	"math/bits"
	"time"

	"github.com/verge-id/verge/core/problem"
)

var contractDelays = []time.Duration{
	5 * time.Second, 30 * time.Second,
	2 * time.Minute, 10 * time.Minute, 30 * time.Minute,
	1 * time.Hour, 2 * time.Hour, 4 * time.Hour, 8 * time.Hour,
}

// maxDelays is the maximum sum of the delays.
const maxDelays = 30 * 24 * time.Hour

// Schedule is the schedule of retries. The zero value is the contract's schedule: nine retries over about
// sixteen hours.
type Schedule struct {
	// Delays are the waits after the first attempt, after the second, and so on. There is one attempt
	// more than there are delays; then the event is dead. Nil: the contract's nine. Empty but not nil:
	// one attempt and no retry.
	Delays []time.Duration `setting:"retries_ms"`

	// JitterPercent spreads each delay evenly by so much up and down, so that events which failed together do
	// not come back together. Zero is 20. A negative value means none. Next uses 100 for larger values,
	// which Validate rejects.
	JitterPercent int `setting:"jitter_percent"`
}

// Validate returns all errors of s.
func (s Schedule) Validate() problem.List {
	var wrong problem.List
	if s.JitterPercent > 100 {
		wrong.Add("JitterPercent", "%d is too much; it must be at most 100", s.JitterPercent)
	}
	total := time.Duration(0)
	for _, d := range s.Delays {
		if d < 0 {
			wrong.Add("Delays", "%s is negative; it must be at least 0s", d)
		}
		total += min(max(d, 0), maxDelays+1) // without overflow
	}
	if total > maxDelays {
		wrong.Add("Delays", "the sum is too long; it must be at most 30 days")
	}
	return wrong
}

// Next returns how long to wait after an event's attempt number attempts has
// failed, counting from 1, or more == false if that was the last. rnd is 64
// random bits. The delay counts from the end of the failed attempt.
func (s Schedule) Next(attempts int, rnd uint64) (delay time.Duration, more bool) {
	delays := s.delays()
	if attempts < 1 {
		panic("webhook: Schedule.Next before the first attempt")
	}
	if attempts > len(delays) {
		return 0, false
	}
	base := delays[attempts-1]
	jitter := s.JitterPercent
	switch {
	case jitter == 0:
		jitter = 20
	case jitter < 0:
		jitter = 0
	}
	spread := base / 100 * time.Duration(min(jitter, 100))
	// The high word of rnd × n is uniform over [0, n), with an error below n/2⁶⁴.
	up, _ := bits.Mul64(rnd, 2*uint64(spread)+1)
	return base - spread + time.Duration(up), true
}

// Waits returns the delays before the second attempt, before the third, and so on, without jitter.
func (s Schedule) Waits() []time.Duration { return append([]time.Duration(nil), s.delays()...) }

func (s Schedule) delays() []time.Duration {
	if s.Delays == nil {
		return contractDelays
	}
	return s.Delays
}
