package kvcheck

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/verge-id/verge/core/kv"
)

// medianClock returns the clock for the expiry of items. With several clocks, it is the best approximation
// for all.
func medianClock(clocks []clock) clock {
	if len(clocks) == 0 {
		return clock{}
	}
	sorted := slices.Clone(clocks)
	slices.SortFunc(sorted, func(a, b clock) int { return cmp.Compare(a.AheadMS, b.AheadMS) })
	median := sorted[len(sorted)/2]
	for _, c := range clocks {
		median.WithinMS = max(median.WithinMS, math.Abs(c.AheadMS-median.AheadMS)+c.WithinMS)
	}
	return median
}

const (
	// Round trips are measured over this many calls of each kind, or for this long.
	calls    = 200
	callTime = 4 * time.Second

	// farMS is the duration of a Commit in milliseconds above which the store counts as far away.
	farMS = 20
)

func roundTrips(ctx context.Context, s scratch, now func() time.Time) ([]roundTrip, error) {
	h, err := s.store("calls")
	if err != nil {
		return nil, err
	}
	const p = kv.Partition("p")
	value := make([]byte, 300) // about the size of an outcome
	commit := func(i int) error {
		name := "n" + strconv.Itoa(i)
		return h.KV.Commit(toTheEnd(ctx), kv.Tx{ID: name, Partition: p, Checks: []kv.Check{{Name: name}},
			Puts: []kv.Put{{Name: name, Value: value, Expires: now().Add(time.Hour)}}})
	}
	get := func(i int) error {
		_, err := h.KV.Get(ctx, kv.Key{Partition: p, Name: "n" + strconv.Itoa(i)})
		return err
	}
	var all []roundTrip
	n := calls
	for _, call := range []struct {
		name string
		do   func(i int) error
	}{{"Commit", commit}, {"Get", get}} {
		took := make([]float64, 0, n)
		began := now()
		for i := 0; i < n && (i < 2 || now().Sub(began) < callTime) && ctx.Err() == nil; i++ {
			at := now()
			if err := call.do(i); err != nil {
				return all, fmt.Errorf("%s: %w", call.name, err)
			}
			took = append(took, milliseconds(now().Sub(at)))
		}
		if ctx.Err() != nil {
			return all, ctx.Err()
		}
		n = len(took) // Get reads the items of Commit
		slices.Sort(took)
		all = append(all, roundTrip{call.name, n, took[n/2], took[(99*n+99)/100-1]})
	}
	return all, nil
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

const (
	// Expiry is measured on this many items that expire one at a time.
	expiryItems = 8
	expiryApart = 40 * time.Millisecond

	// expirySlack is how late or early a store may be beyond the known uncertainty of its clock: clocks
	// drift, and are corrected, during the check.
	expirySlack = 5 * time.Millisecond
)

// measureExpiry watches items expire, by the store's clock. It returns a violation of the promise, or "".
func (r *Report) measureExpiry(ctx context.Context, s scratch, now func() time.Time, clock clock) string {
	h, err := s.store("expiry")
	if err != nil {
		return err.Error()
	}
	slowest := time.Duration(r.RoundTrips[0].P99MS * float64(time.Millisecond))
	first := now().Add(300*time.Millisecond + 2*expiryItems*slowest).Truncate(time.Millisecond)
	var mu sync.Mutex
	against, measured := "", &expiry{WithinMS: clock.WithinMS}
	var items sync.WaitGroup
	for i := range expiryItems {
		items.Go(func() {
			expires := first.Add(time.Duration(i) * expiryApart)
			late, wrong := watchExpiry(ctx, h.KV, "e"+strconv.Itoa(i), expires, now,
				clock.within()+expirySlack)
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

// watchExpiry writes an item and returns how long after its expiry it was certainly gone, or a violation of
// the promise.
func watchExpiry(ctx context.Context, store kv.KV, name string, expires time.Time, now func() time.Time,
	slack time.Duration) (late time.Duration, against string) {
	const p = kv.Partition("p")
	err := store.Commit(toTheEnd(ctx), kv.Tx{ID: "put-" + name, Partition: p,
		Puts: []kv.Put{{Name: name, Value: []byte("1"), Expires: expires}}})
	if err != nil {
		return 0, fmt.Sprintf("commit: %v", err)
	}
	for ctx.Err() == nil {
		asked := now()
		_, err := store.Get(ctx, kv.Key{Partition: p, Name: name})
		seen := now()
		switch {
		case errors.Is(err, kv.ErrNotFound) && seen.Before(expires.Add(-slack)):
			return 0, fmt.Sprintf("an item was gone %.1f ms before its time", milliseconds(expires.Sub(seen)))
		case errors.Is(err, kv.ErrNotFound):
			return max(0, seen.Sub(expires)), ""
		case err != nil:
			return 0, fmt.Sprintf("get: %v", err)
		case asked.After(expires.Add(slack)):
			return 0, fmt.Sprintf("an item was still there %.1f ms after its time",
				milliseconds(asked.Sub(expires)))
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
		}
	}
	return 0, ctx.Err().Error()
}
