package kvcheck

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/verge-id/verge/kvadapters"
	"github.com/verge-id/verge/kvadapters/internal/promises"
)

// Config configures a check. The zero value works.
type Config struct {
	// Now is the clock of this machine. Nil: time.Now.
	Now func() time.Time

	// Random makes the name of the scratch place unique. Nil: crypto/rand.Reader.
	Random io.Reader

	// Timeout is the maximum time of a check after the store is open, without the cleanup. Zero: three
	// minutes.
	Timeout time.Duration

	// Progress, if not nil, receives the findings of the check as they are made, in plain English.
	Progress io.Writer
}

// defaultTimeout is long enough for a store on another continent.
const defaultTimeout = 3 * time.Minute

// Run checks the store at an address. The error is an *UnusableError if the store cannot be opened; it is
// then unchanged. Otherwise the report has all findings, including whether the check was completed.
func Run(ctx context.Context, at kvadapters.Address, c Config) (*Report, error) {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Random == nil {
		c.Random = rand.Reader
	}
	c.Timeout = cmp.Or(c.Timeout, defaultTimeout)
	if c.Progress == nil {
		c.Progress = io.Discard
	}
	name, err := scratchName(c.Random)
	if err != nil {
		return nil, err
	}
	shown := at.String()
	if at.Path != "" {
		shown = "bolt:" + at.Path
	}
	opening, cancel := context.WithTimeout(ctx, kvadapters.OpenTimeout)
	s, err := openScratch(opening, at, name, c.Now)
	cancel()
	if err != nil {
		return nil, &UnusableError{Store: shown, Err: err}
	}
	defer s.close()
	return newCheck(shown, s, c).run(ctx), nil
}

// scratchName returns a unique name that shows its origin to operators.
func scratchName(random io.Reader) (string, error) {
	var b [8]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return "", fmt.Errorf("reading randomness: %w", err)
	}
	return "verge-check-" + hex.EncodeToString(b[:]), nil
}

const (
	// atOnce is the number of promises that are tried at the same time. Some wait for seconds to pass, and
	// the store may be far away.
	atOnce = 8

	// eraseTime is the time limit for removing the scratch place, in all cases.
	eraseTime = 15 * time.Second

	// settleTime is how long a server may still work on earlier requests after it has responded again.
	settleTime = 300 * time.Millisecond
)

// check is one running check.
type check struct {
	scratch  scratch
	now      func() time.Time // this machine's clock
	timeout  time.Duration
	eraseFor time.Duration
	progress text
	report   *Report
}

func newCheck(shown string, s scratch, c Config) *check {
	return &check{scratch: s, now: c.Now, timeout: c.Timeout, eraseFor: eraseTime, progress: text{c.Progress},
		report: &Report{Store: shown, Scratch: s.where(), Subjects: []*subject{}}}
}

// run tries all harmless proofs, and removes the scratch place.
func (c *check) run(ctx context.Context) *Report {
	r := c.report
	checking, cancel := context.WithTimeoutCause(ctx, c.timeout, fmt.Errorf("not done within %s", c.timeout))
	err := c.tryAll(checking)
	cancel()
	r.OK = err == nil
	for _, subject := range r.Subjects {
		if failed, ended := subject.failed(); len(failed) > 0 || ended {
			r.OK = false
		}
	}
	if err != nil {
		r.Error = err.Error()
		c.progress.stopped(r)
	}
	if err := c.cleanUp(context.WithoutCancel(ctx)); err != nil { // even after a signal
		r.OK = false
		r.Error = fmt.Sprintf("could not clean up: %v; remaining items are under %s…", err, r.Scratch)
		c.progress.stopped(r)
	} else {
		r.CleanedUp = true
	}
	c.progress.ended(r)
	return r
}

func (c *check) cleanUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.eraseFor)
	defer cancel()
	err := c.erase(ctx)
	if err == nil && !c.report.OK {
		// A write without a reply may have waited in a queue until now.
		time.Sleep(settleTime)
		err = c.erase(ctx)
	}
	return err
}

// erase retries until ctx ends: the store may be recovering from a fault during the check.
func (c *check) erase(ctx context.Context) error {
	for {
		err := c.scratch.erase(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-time.After(500 * time.Millisecond):
		case <-ctx.Done():
			return err
		}
	}
}

// tryAll fills the report. The error is the reason why it ended early.
func (c *check) tryAll(ctx context.Context) error {
	r := c.report
	var err error
	if r.about, err = c.scratch.about(ctx); err != nil {
		return whyEnded(ctx, err)
	}
	if len(r.Clocks) > 0 {
		if meaning := r.worstClock().meaning(); meaning != "" {
			r.Warnings = append(r.Warnings, meaning)
		}
	}
	c.progress.began(r)

	clock := medianClock(r.Clocks)
	now := func() time.Time { return c.now().Add(clock.ahead()) } // the store's clock
	if r.RoundTrips, err = roundTrips(ctx, c.scratch, now); err != nil {
		return whyEnded(ctx, err)
	}
	if commit := r.RoundTrips[0].MedianMS; commit > farMS {
		r.Warnings = append(r.Warnings,
			fmt.Sprintf("a Commit takes %s from here, and every request that writes "+
				"waits for it: let Verge run near its store", shortMS(commit)))
	}
	c.progress.measured(r)

	// Expiry is measured before the other proofs begin: their load would distort it.
	against := r.measureExpiry(ctx, c.scratch, now, clock)
	proofs := append([]proof{{
		about: promises.Expiry,
		name:  "an item exists until its expiry and is absent from that time",
		try:   func(context.Context) string { return against },
	}}, c.scratch.more()...)
	kvs, err := c.kvProofs(now)
	if err != nil {
		return whyEnded(ctx, err)
	}
	c.tryProofs(ctx, append(proofs, kvs...))
	if ctx.Err() != nil {
		return whyEnded(ctx, nil)
	}
	return nil
}

// kvProofs returns the promises of package kv that can be tried on a store in use, each in a separate
// store.
func (c *check) kvProofs(now func() time.Time) (proofs []proof, err error) {
	stores := 0
	for _, group := range promises.Groups() {
		for _, p := range group.Promises {
			if p.Needs&promises.Idle != 0 {
				continue
			}
			stores++
			h, err := c.scratch.store(strconv.Itoa(stores))
			if err != nil {
				return nil, err
			}
			h.Now, h.ClockRuns = now, true
			if p.Lacking(h) != "" {
				continue
			}
			try := func(ctx context.Context) string { return prove(ctx, p, h) }
			proofs = append(proofs, proof{p.About, p.Name, try})
		}
	}
	return proofs, nil
}

// whyEnded returns err, unless the check was interrupted or its time is over.
func whyEnded(ctx context.Context, err error) error {
	switch cause := context.Cause(ctx); {
	case cause == nil:
		return err
	case errors.Is(cause, context.Canceled):
		return errors.New("interrupted")
	default:
		return cause
	}
}

// lock is a subject of files only.
const lock = promises.Subject("lock")

// subjects are all subjects, in the order of the report.
var subjects = []promises.Subject{promises.Atomicity, promises.Visibility, promises.Values, promises.Order,
	promises.Expiry, promises.Leases, promises.Counters, promises.Durability, lock}

// tryProofs tries the proofs, several at a time. Proofs that wait for time to pass come first.
func (c *check) tryProofs(ctx context.Context, proofs []proof) {
	r := c.report
	reported := map[promises.Subject]*subject{}
	for _, about := range subjects {
		subject := &subject{Name: string(about)}
		for _, p := range proofs {
			if p.about == about {
				subject.untried++
			}
		}
		if subject.untried > 0 {
			reported[about] = subject
			r.Subjects = append(r.Subjects, subject)
		}
	}
	slices.SortStableFunc(proofs, func(a, b proof) int {
		rank := func(p proof) int {
			if p.about == promises.Expiry || p.about == promises.Leases {
				return 0
			}
			return 1
		}
		return rank(a) - rank(b)
	})

	var mu sync.Mutex
	var workers sync.WaitGroup
	queue := make(chan int)
	for range atOnce {
		workers.Go(func() {
			for place := range queue {
				p := proofs[place]
				seen := p.try(ctx)
				found := promise{Name: p.name, Proven: seen == "", Seen: seen, place: place}
				if seen != "" && ctx.Err() != nil {
					found.Seen, found.ended = "not tried to the end", true
				}
				mu.Lock()
				subject := reported[p.about]
				subject.Promises = append(subject.Promises, found)
				slices.SortFunc(subject.Promises, func(a, b promise) int { return a.place - b.place })
				if subject.untried--; subject.untried == 0 {
					c.progress.proved(r, subject)
				}
				mu.Unlock()
			}
		})
	}
	for place := range proofs {
		queue <- place
	}
	close(queue)
	workers.Wait()
}
