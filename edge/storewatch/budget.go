package storewatch

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/verge-id/verge/core/kv"
)

// budget holds how much longer a request may wait for the store.
type budget struct {
	whole time.Duration

	mu   sync.Mutex
	left time.Duration
}

type budgetKey struct{}

// The shortest and the longest budget. A slow commit takes longer than minBudget. A whole request has
// 15 s, so maxBudget leaves time for an answer.
const (
	minBudget = 100 * time.Millisecond
	maxBudget = 12 * time.Second
)

// CheckBudget refuses a budget that is too short or too long for a request.
func CheckBudget(d time.Duration) error {
	if d < minBudget || d > maxBudget {
		return fmt.Errorf("%s is not from %s to %s", d, minBudget, maxBudget)
	}
	return nil
}

// WithBudget returns the context of a request whose calls to the store may together take no longer than
// d. A call that uses up the budget ends as if its deadline were over: a read with kv.ErrUnavailable, a
// commit that may have reached the store with kv.ErrUnknown. Later calls are not begun and return
// kv.ErrUnavailable. The request itself goes on, so that it can answer.
//
// WithBudget relies on the store to return when its context is done. All stores do, except for a read
// of bolt's file from a disk that hangs.
func WithBudget(ctx context.Context, d time.Duration) context.Context {
	return context.WithValue(ctx, budgetKey{}, &budget{whole: d, left: d})
}

func (b *budget) err() error {
	return fmt.Errorf("the request has waited %v for the store, its whole budget (store.budget): %w",
		b.whole, context.DeadlineExceeded)
}

// spend begins one call; done ends it. A context without a budget has no limit here, because background
// jobs have limits of their own.
func spend(ctx context.Context) (within context.Context, done func(), err error) {
	b, ok := ctx.Value(budgetKey{}).(*budget)
	if !ok {
		return ctx, func() {}, nil
	}
	b.mu.Lock()
	left := b.left
	b.mu.Unlock()
	if left <= 0 {
		return nil, nil, fmt.Errorf("%w: %w", kv.ErrUnavailable, b.err())
	}
	begin := time.Now()
	c := &call{Context: ctx, budget: b, end: begin.Add(left)}
	return c, func() {
		c.stop()
		b.mu.Lock()
		b.left -= time.Since(begin)
		b.mu.Unlock()
	}, nil
}

// call is the context of one call to the store. It is done when the budget is used up. A timer for that
// costs more than an answer from memory does. So the timer starts when the store asks for the channel to
// wait on, and not before.
type call struct {
	context.Context // of the request
	budget          *budget
	end             time.Time

	mu     sync.Mutex
	timed  context.Context // the request's with the timer; nil: no timer has started
	cancel context.CancelFunc
}

// Done starts the timer.
func (c *call) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timed == nil {
		c.timed, c.cancel = context.WithDeadlineCause(c.Context, c.end, c.budget.err())
	}
	return c.timed.Done()
}

// Err needs no timer to tell whether the budget is used up.
func (c *call) Err() error {
	if !time.Now().Before(c.end) {
		c.Done() // the timer ends as it starts
	}
	return c.current().Err()
}

// Deadline returns when the budget or the request ends, whichever is earlier.
func (c *call) Deadline() (time.Time, bool) {
	if d, ok := c.Context.Deadline(); ok && d.Before(c.end) {
		return d, true
	}
	return c.end, true
}

// Value lets context.Cause find the cause, and contexts that a store derives from c end with it.
func (c *call) Value(key any) any { return c.current().Value(key) }

func (c *call) current() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timed == nil {
		return c.Context
	}
	return c.timed
}

func (c *call) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cancel != nil {
		c.cancel()
	}
}
