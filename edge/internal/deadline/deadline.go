// Package deadline limits the time of a call as context.WithDeadlineCause does, but starts its timer only
// when the call begins to wait. A timer costs more than a response from memory.
package deadline

import (
	"context"
	"sync"
	"time"
)

// Context is the context of a call with a deadline. Contexts that are derived from it end with it.
type Context struct {
	context.Context // of the caller
	end             time.Time
	cause           func() error // nil: context.DeadlineExceeded

	mu      sync.Mutex
	timed   context.Context // the caller's context with the timer; nil until the timer starts
	cancel  context.CancelFunc
	stopped bool
}

// New returns a context that is done at end, with that cause, or when the caller's context is done or Stop is
// called.
func New(caller context.Context, end time.Time, cause func() error) *Context {
	return &Context{Context: caller, end: end, cause: cause}
}

// Stop ends the context and releases its timer.
func (c *Context) Stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
	if c.cancel != nil {
		c.cancel()
	}
}

// Done starts the timer.
func (c *Context) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timed == nil {
		var cause error
		if c.cause != nil {
			cause = c.cause()
		}
		c.timed, c.cancel = context.WithDeadlineCause(c.Context, c.end, cause)
		if c.stopped {
			c.cancel()
		}
	}
	return c.timed.Done()
}

// Err returns an error after the end and after Stop, even if no timer has started.
func (c *Context) Err() error {
	c.mu.Lock()
	ended := c.stopped || !time.Now().Before(c.end)
	c.mu.Unlock()
	if ended {
		c.Done() // the timer ends as it starts
	}
	return c.current().Err()
}

// Deadline returns the end of this context or of the caller's, whichever is earlier.
func (c *Context) Deadline() (time.Time, bool) {
	if d, ok := c.Context.Deadline(); ok && d.Before(c.end) {
		return d, true
	}
	return c.end, true
}

// Value lets context.Cause find the cause.
func (c *Context) Value(key any) any { return c.current().Value(key) }

func (c *Context) current() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timed == nil {
		return c.Context
	}
	return c.timed
}
