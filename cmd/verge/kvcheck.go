package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters/kvtest/promises"
)

// kvReport is all that a check found out.
type kvReport struct {
	Store   string `json:"store"`
	Scratch string `json:"scratch"`
	OK      bool   `json:"ok"` // everything that was tried holds, and nothing is left

	kvAbout
	RoundTrips []kvRoundTrip `json:"round_trips,omitempty"`
	Expiry     *kvExpiry     `json:"expiry,omitempty"`
	Subjects   []*kvSubject  `json:"subjects"`

	CleanedUp bool   `json:"cleaned_up"`
	Error     string `json:"error,omitempty"` // why the check ended early, or could not clean up
}

// kvRoundTrip is how long a call took, one at a time, now and from here.
type kvRoundTrip struct {
	Call     string  `json:"call"`
	N        int     `json:"n"`
	MedianMS float64 `json:"median_ms"`
	P99MS    float64 `json:"p99_ms"`
}

// kvExpiry is when items were gone, by the store's clock.
type kvExpiry struct {
	N        int     `json:"n"`
	LateMS   float64 `json:"at_most_late_ms"` // includes one round trip and the clock's uncertainty
	WithinMS float64 `json:"within_ms"`
}

// kvSubject is the promises about one thing.
type kvSubject struct {
	Name     string      `json:"name"`
	Promises []kvPromise `json:"promises"`
	missing  int         // not tried yet
}

type kvPromise struct {
	Name   string `json:"name"`
	Proven bool   `json:"proven"`
	Seen   string `json:"seen,omitempty"` // what speaks against it, or kept it from being tried
	ended  bool   // by the check's end and not by the store
}

func (s *kvSubject) failed() (failed []kvPromise, ended bool) {
	for _, p := range s.Promises {
		if p.ended {
			ended = true
		} else if !p.Proven {
			failed = append(failed, p)
		}
	}
	return failed, ended
}

// kvProof tries one promise and returns what speaks against it, or "".
type kvProof struct {
	about promises.Subject
	name  string
	try   func(context.Context) string
}

const (
	// kvAtOnce is how many promises are tried at the same time: some wait for
	// seconds to pass, and the store may be far away.
	kvAtOnce = 8

	// kvEraseTime is for removing the scratch place, whatever has happened.
	kvEraseTime = 15 * time.Second

	// kvSettle is how long after its first answer a server may still be
	// working off what was sent before.
	kvSettle = 300 * time.Millisecond
)

// checkKV tries all that is safe in the scratch place and removes the place.
// It tells say what it finds while it goes on.
func checkKV(ctx context.Context, shown string, s scratch, wall func() time.Time, eraseFor time.Duration, say *kvPrinter) *kvReport {
	r := &kvReport{Store: shown, Scratch: s.where(), Subjects: []*kvSubject{}}
	err := r.run(ctx, s, wall, say)
	r.OK = err == nil
	for _, subject := range r.Subjects {
		if failed, ended := subject.failed(); len(failed) > 0 || ended {
			r.OK = false
		}
	}
	if err != nil {
		r.Error = err.Error()
		say.stopped(r.Error)
	}
	// A signal ends the check, but not its clearing up.
	erasing, cancel := context.WithTimeout(context.WithoutCancel(ctx), eraseFor)
	defer cancel()
	err = eraseScratch(erasing, s)
	if err == nil && !r.OK {
		// A write whose reply was lost may have lain in a queue until just now.
		time.Sleep(kvSettle)
		err = eraseScratch(erasing, s)
	}
	if err != nil {
		r.OK = false
		r.Error = fmt.Sprintf("could not clean up: %v; what is left lies under %s…", err, r.Scratch)
		say.stopped(r.Error)
	} else {
		r.CleanedUp = true
	}
	say.end(r)
	return r
}

// eraseScratch tries again for as long as it may: the store may just be
// recovering from what the check met.
func eraseScratch(ctx context.Context, s scratch) error {
	for {
		err := s.erase(ctx)
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

func (r *kvReport) run(ctx context.Context, s scratch, wall func() time.Time, say *kvPrinter) error {
	about, err := s.about(ctx)
	if err != nil {
		return ended(ctx, err)
	}
	r.kvAbout = about
	if len(r.Clocks) > 0 {
		if meaning := r.worstClock().meaning(); meaning != "" {
			r.Warnings = append(r.Warnings, meaning)
		}
	}
	say.begin(r)

	clock := medianClock(about.Clocks)
	now := func() time.Time { return wall().Add(clock.ahead()) }
	if r.RoundTrips, err = roundTrips(ctx, s, now); err != nil {
		return ended(ctx, err)
	}
	if commit := r.RoundTrips[0].MedianMS; commit > kvFar {
		r.Warnings = append(r.Warnings, fmt.Sprintf("a Commit takes %s from here, and every request that writes waits for it: let Verge run near its store", shortMS(commit)))
	}
	say.roundTrips(r)
	say.clocks(r)

	// Alone, so that it measures the store and not the check.
	var proofs []kvProof
	expiry := kvProof{promises.Expiry, "an item is there until its time and gone from then on", nil}
	against := r.measureExpiry(ctx, s, now, clock)
	expiry.try = func(context.Context) string { return against }
	proofs = append(append(proofs, expiry), s.more()...)

	stores := 0
	for _, group := range promises.Groups() {
		for _, p := range group.Promises {
			if p.Needs&promises.Idle != 0 {
				continue
			}
			stores++
			h, err := s.store(strconv.Itoa(stores))
			if err != nil {
				return ended(ctx, err)
			}
			h.Now, h.ClockRuns = now, true
			if p.Lacking(h) != "" {
				continue
			}
			proofs = append(proofs, kvProof{p.About, p.Name, func(ctx context.Context) string { return prove(ctx, p, h) }})
		}
	}
	r.try(ctx, proofs, say)
	if ctx.Err() != nil {
		return ended(ctx, nil)
	}
	return nil
}

// ended is err, unless the check was told to end.
func ended(ctx context.Context, err error) error {
	switch cause := context.Cause(ctx); {
	case cause == nil:
		return err
	case errors.Is(cause, context.Canceled):
		return errors.New("interrupted")
	default:
		return cause
	}
}

// try runs the proofs, several at a time, those that wait for time to pass first.
func (r *kvReport) try(ctx context.Context, proofs []kvProof, say *kvPrinter) {
	subjects := map[promises.Subject]*kvSubject{}
	for _, about := range []promises.Subject{promises.Atomicity, promises.Visibility, promises.Values, promises.Order,
		promises.Expiry, promises.Leases, promises.Counters, promises.Durability, kvLock} {
		subject := &kvSubject{Name: string(about)}
		for _, p := range proofs {
			if p.about == about {
				subject.missing++
			}
		}
		if subject.missing > 0 {
			subjects[about] = subject
			r.Subjects = append(r.Subjects, subject)
		}
	}
	slices.SortStableFunc(proofs, func(a, b kvProof) int {
		waits := func(p kvProof) int {
			if p.about == promises.Expiry || p.about == promises.Leases {
				return 0
			}
			return 1
		}
		return waits(a) - waits(b)
	})

	var mu sync.Mutex
	var workers sync.WaitGroup
	queue := make(chan kvProof)
	for range kvAtOnce {
		workers.Go(func() {
			for p := range queue {
				seen := p.try(ctx)
				found := kvPromise{Name: p.name, Proven: seen == "", Seen: seen}
				if seen != "" && ctx.Err() != nil {
					found.Seen, found.ended = "not tried to the end", true
				}
				mu.Lock()
				subject := subjects[p.about]
				subject.Promises = append(subject.Promises, found)
				if subject.missing--; subject.missing == 0 {
					say.subject(r, subject)
				}
				mu.Unlock()
			}
		})
	}
	for _, p := range proofs {
		queue <- p
	}
	close(queue)
	workers.Wait()
}

// prove returns the first thing that speaks against the promise.
func prove(ctx context.Context, p promises.Promise, h promises.Harness) string {
	ctx, end := context.WithCancel(ctx)
	defer end()
	h.KV = unhurried(h.KV)
	if reopen := h.Reopen; reopen != nil {
		h.Reopen = func() kv.KV { return unhurried(reopen()) }
	}
	h.Advance = func(d time.Duration) {
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
	}
	w := &witness{end: end}
	done := make(chan struct{})
	go func() { // of its own, as Fatalf ends it
		defer close(done)
		defer func() {
			if v := recover(); v != nil {
				w.Errorf("panic: %v", v)
			}
		}()
		if ctx.Err() != nil {
			w.Fatalf("%v", ctx.Err())
		}
		p.Prove(ctx, w, h)
	}()
	<-done
	return w.seen()
}

// witness hears what a proof has to tell, and ends the proof at the first word
// against its promise: what comes behind is mostly its consequence.
type witness struct {
	end   func()
	mu    sync.Mutex
	first string
}

var _ promises.T = (*witness)(nil)

func (w *witness) Helper() {}

func (w *witness) Errorf(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.first == "" {
		w.first = fmt.Sprintf(format, args...)
		w.end()
	}
}

func (w *witness) Fatalf(format string, args ...any) {
	w.Errorf(format, args...)
	runtime.Goexit()
}

func (w *witness) Failed() bool { return w.seen() != "" }

func (w *witness) seen() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.first
}

// unhurried sees every write through, whose caller may leave meanwhile: what
// is under way when the scratch place is erased would be there afterwards.
func unhurried(store kv.KV) kv.KV {
	if m, ok := store.(kv.Meter); ok {
		return unhurriedMeter{unhurriedKV{store}, m}
	}
	return unhurriedKV{store}
}

type unhurriedKV struct{ kv.KV }

func (u unhurriedKV) Commit(ctx context.Context, tx kv.Tx) error {
	return u.KV.Commit(toTheEnd(ctx), tx)
}

func (u unhurriedKV) Claim(ctx context.Context, p kv.Partition, now time.Time, lease time.Duration, n int) ([]kv.Task, time.Time, error) {
	return u.KV.Claim(toTheEnd(ctx), p, now, lease, n)
}

type unhurriedMeter struct {
	unhurriedKV
	meter kv.Meter
}

func (u unhurriedMeter) Spend(ctx context.Context, p kv.Partition, now time.Time, charges []kv.Charge) ([]time.Time, error) {
	return u.meter.Spend(toTheEnd(ctx), p, now, charges)
}

// toTheEnd never ends, unless it has: adapters bound every call themselves.
func toTheEnd(ctx context.Context) context.Context {
	if ctx.Err() != nil {
		return ctx
	}
	return context.WithoutCancel(ctx)
}

// medianClock is the clock by which items expire, as good as one clock can
// stand for several.
func medianClock(clocks []kvClock) kvClock {
	if len(clocks) == 0 {
		return kvClock{}
	}
	sorted := slices.Clone(clocks)
	slices.SortFunc(sorted, func(a, b kvClock) int { return cmp.Compare(a.AheadMS, b.AheadMS) })
	median := sorted[len(sorted)/2]
	for _, c := range clocks {
		median.WithinMS = max(median.WithinMS, math.Abs(c.AheadMS-median.AheadMS)+c.WithinMS)
	}
	return median
}

const kvLock = promises.Subject("lock")

// Round trips are measured over so many calls of each kind, or for so long.
const (
	kvCalls    = 200
	kvCallTime = 4 * time.Second

	kvFar = 20 // milliseconds from where on a store is said to be far away
)

func roundTrips(ctx context.Context, s scratch, now func() time.Time) ([]kvRoundTrip, error) {
	h, err := s.store("calls")
	if err != nil {
		return nil, err
	}
	const p = kv.Partition("p")
	value := make([]byte, 300) // about what an outcome has
	commit := func(i int) error {
		name := "n" + strconv.Itoa(i)
		return h.KV.Commit(toTheEnd(ctx), kv.Tx{ID: name, Partition: p, Checks: []kv.Check{{Name: name}},
			Puts: []kv.Put{{Name: name, Value: value, Expires: now().Add(time.Hour)}}})
	}
	get := func(i int) error {
		_, err := h.KV.Get(ctx, kv.Key{Partition: p, Name: "n" + strconv.Itoa(i)})
		return err
	}
	var all []kvRoundTrip
	n := kvCalls
	for _, call := range []struct {
		name string
		do   func(i int) error
	}{{"Commit", commit}, {"Get", get}} {
		took := make([]float64, 0, n)
		for i, began := 0, now(); i < n && (i < 2 || now().Sub(began) < kvCallTime) && ctx.Err() == nil; i++ {
			at := now()
			if err := call.do(i); err != nil {
				return all, fmt.Errorf("%s: %w", call.name, err)
			}
			took = append(took, milliseconds(now().Sub(at)))
		}
		if ctx.Err() != nil {
			return all, ctx.Err()
		}
		n = len(took) // Get finds what Commit wrote
		slices.Sort(took)
		all = append(all, kvRoundTrip{call.name, n, took[n/2], took[(99*n+99)/100-1]})
	}
	return all, nil
}

// Expiry is measured on so many items that expire one after the other.
const (
	kvItems = 8
	kvApart = 40 * time.Millisecond

	// kvSlack is what a store may be late or early beyond what is known of its
	// clock: clocks are corrected, and drift, while nobody looks.
	kvSlack = 5 * time.Millisecond
)

// measureExpiry watches items expire, by the store's clock.
func (r *kvReport) measureExpiry(ctx context.Context, s scratch, now func() time.Time, clock kvClock) string {
	h, err := s.store("expiry")
	if err != nil {
		return err.Error()
	}
	slowest := time.Duration(r.RoundTrips[0].P99MS * float64(time.Millisecond))
	first := now().Add(300*time.Millisecond + 2*kvItems*slowest).Truncate(time.Millisecond)
	var mu sync.Mutex
	against, measured := "", &kvExpiry{WithinMS: clock.WithinMS}
	var items sync.WaitGroup
	for i := range kvItems {
		items.Go(func() {
			expires := first.Add(time.Duration(i) * kvApart)
			late, wrong := watchExpiry(ctx, h.KV, "e"+strconv.Itoa(i), expires, now, clock.within()+kvSlack)
			mu.Lock()
			defer mu.Unlock()
			if wrong != "" {
				against = wrong
				return
			}
			measured.N++
			measured.LateMS = max(measured.LateMS, milliseconds(late))
		})
	}
	items.Wait()
	if against == "" {
		measured.LateMS += clock.WithinMS
		r.Expiry = measured
	}
	return against
}

// watchExpiry returns how long after its time the item was surely gone.
func watchExpiry(ctx context.Context, store kv.KV, name string, expires time.Time, now func() time.Time, slack time.Duration) (late time.Duration, against string) {
	const p = kv.Partition("p")
	err := store.Commit(toTheEnd(ctx), kv.Tx{ID: "put-" + name, Partition: p, Puts: []kv.Put{{Name: name, Value: []byte("1"), Expires: expires}}})
	if err != nil {
		return 0, fmt.Sprintf("commit: %v", err)
	}
	for ctx.Err() == nil {
		asked := now()
		_, err := store.Get(ctx, kv.Key{Partition: p, Name: name})
		told := now()
		switch {
		case errors.Is(err, kv.ErrNotFound) && told.Before(expires.Add(-slack)):
			return 0, fmt.Sprintf("an item was gone %.1f ms before its time", milliseconds(expires.Sub(told)))
		case errors.Is(err, kv.ErrNotFound):
			return max(0, told.Sub(expires)), ""
		case err != nil:
			return 0, fmt.Sprintf("get: %v", err)
		case asked.After(expires.Add(slack)):
			return 0, fmt.Sprintf("an item was still there %.1f ms after its time", milliseconds(asked.Sub(expires)))
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
		}
	}
	return 0, ctx.Err().Error()
}
