package main

import (
	"context"
	"time"

	"github.com/verge-id/verge/wasm/abi"
)

// taskContext is a context that the host ends, because the host keeps the time. The zero value has not
// ended.
type taskContext struct {
	done chan struct{} // created when Done is first called, which is rare
	err  error
}

var _ context.Context = (*taskContext)(nil)

func (c *taskContext) end(reason abi.Reason) {
	if c.err != nil {
		return
	}
	if c.err = context.Canceled; reason == abi.DeadlineExceeded {
		c.err = context.DeadlineExceeded
	}
	if c.done != nil {
		close(c.done)
	}
}

// Deadline implements context.Context. The guest does not know the deadline.
func (c *taskContext) Deadline() (time.Time, bool) { return time.Time{}, false }

// Done implements context.Context.
func (c *taskContext) Done() <-chan struct{} {
	if c.done == nil {
		if c.done = make(chan struct{}); c.err != nil {
			close(c.done)
		}
	}
	return c.done
}

// Err implements context.Context.
func (c *taskContext) Err() error { return c.err }

// Value implements context.Context.
func (c *taskContext) Value(any) any { return nil }
