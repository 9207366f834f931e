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
	within, cancel := context.WithTimeoutCause(ctx, left, b.err())
	return within, func() {
		cancel()
		b.mu.Lock()
		b.left -= time.Since(begin)
		b.mu.Unlock()
	}, nil
}
