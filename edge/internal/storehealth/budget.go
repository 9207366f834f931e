package storehealth

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/edge/internal/deadline"
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
	c := deadline.New(ctx, begin.Add(left), b.err)
	return c, func() {
		c.Stop()
		b.mu.Lock()
		b.left -= time.Since(begin)
		b.mu.Unlock()
	}, nil
}
