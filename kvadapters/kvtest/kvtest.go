// Package kvtest checks that a store keeps the promises of package kv. Use [Run] in the test of an adapter.
// Use [Faulty] to give other tests a store with faults.
//
// The test of an adapter is a few lines:
//
//	func TestKV(t *testing.T) {
//		kvtest.Run(t, func(t *testing.T) kvtest.Harness {
//			clock := kvtest.NewClock()
//			store := memory.New(memory.Config{Now: clock.Now})
//			return kvtest.Harness{KV: store, Now: clock.Now, Advance: clock.Advance}
//		})
//	}
//
// Each subtest has the name of the promise that it checks. The suite uses only times of whole milliseconds,
// because a store may not keep finer ones.
package kvtest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/verge-id/verge/kvadapters/internal/promises"
)

// Harness is an empty store with its clock. Its fields are KV, Now, Advance, ClockRuns and Reopen.
type Harness = promises.Harness

// Clock is a clock that moves only when Advance is called.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock returns a clock at an arbitrary whole second.
func NewClock() *Clock {
	return &Clock{now: time.Date(2026, 11, 20, 22, 10, 0, 0, time.UTC)}
}

// Now returns the clock's time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves the clock.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// Run checks every promise of package kv. It calls open once for each subtest. open returns an empty
// store and closes it by t.Cleanup.
func Run(t *testing.T, open func(t *testing.T) Harness) {
	for _, group := range promises.Groups() {
		t.Run(group.Name, func(t *testing.T) {
			for _, p := range group.Promises {
				t.Run(p.Name, func(t *testing.T) {
					h := open(t)
					if lacking := p.Lacking(h); lacking != "" {
						t.Skip(lacking)
					}
					p.Prove(context.Background(), t, h)
				})
			}
		})
	}
}
