package kv

import (
	"context"
	"time"
)

// Space is the storage of a store. A number below 0 is unknown.
type Space struct {
	Size     int64 // bytes of Verge's data, including Unused
	Unused   int64 // bytes of Size that new data can reuse
	Free     int64 // bytes that the disk or the memory limit still accepts
	Capacity int64 // bytes of that disk or memory limit
	DeadRows int64 // deleted rows of tasks whose space cannot be reused yet

	// Overdue is for how long the oldest expired item waits for its removal.
	Overdue time.Duration
}

// Measurer is a capability of stores that know their storage. Verge asks once a minute, so the call must be
// cheap, however large the store is.
type Measurer interface {
	Measure(ctx context.Context) (Space, error)
}
