package storehealth

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/verge-id/verge/core/kv"
)

// budget is the remaining time that a request may wait for the store.
type budget struct {
	whole time.Duration

	mu   sync.Mutex
	left time.Duration
}

type budgetKey struct{}

// The limits of a budget. A slow commit takes longer than minBudget. A request has 15 s, so maxBudget leaves
// time for a response.
const (
	minBudget = 100 * time.Millisecond
	maxBudget = 12 * time.Second
)

// CheckBudget returns an error if a budget is too short or too long for a request.
func CheckBudget(d time.Duration) error {
	if d < minBudget || d > maxBudget {
		return fmt.Errorf("%s is not from %s to %s", d, minBudget, maxBudget)
	}
	return nil
}

// WithBudget returns the context of a request whose calls to the store may together take up to d. A call that
// exceeds the budget ends as with a deadline: a read with kv.ErrUnavailable, a commit that may have reached
// the store with kv.ErrUnknown. Later calls return kv.ErrUnavailable without reaching the store. The context
// of the request itself stays active, so that the request can return a response.
//
// The store must return when its context is done. All stores do, except for a read of bolt's file from a
// disk that hangs.
func WithBudget(ctx context.Context, d time.Duration) context.Context {
	return context.WithValue(ctx, budgetKey{}, &budget{whole: d, left: d})
}

func (b *budget) err() error {
	return fmt.Errorf("the request has waited %v for the store, its whole budget (store.budget): %w",
		b.whole, context.DeadlineExceeded)
}

// spend begins one call; done ends it. A context without a budget is not limited, because background jobs
// have their own limits.
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

// call is the context of one call to the store. It is done when the budget is used up. Its timer starts when
// the store calls Done, because a timer costs more than a response from memory.
type call struct {
	context.Context // of the request
	budget          *budget
	end             time.Time

	mu     sync.Mutex
	timed  context.Context // the request's context with the timer; nil until the timer starts
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

// Err returns an error if the budget is used up, even if no timer has started.
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

// Value lets context.Cause find the cause. Contexts that a store derives from c end with c.
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
