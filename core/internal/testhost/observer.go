package testhost

import (
	"context"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/kv"
)

// Observer is a host.Observer that calls the functions that are not nil.
type Observer struct {
	OnCount      func(event string)
	OnMeasure    func(host.Measurement)
	OnCountUsage func(host.UsageEvent)
	OnWake       func(due time.Time)
}

// About implements host.Observer.
func (o Observer) About(context.Context, host.RequestInfo) {}

// Count implements host.Observer.
func (o Observer) Count(event string) {
	if o.OnCount != nil {
		o.OnCount(event)
	}
}

// Measure implements host.Observer.
func (o Observer) Measure(m host.Measurement) {
	if o.OnMeasure != nil {
		o.OnMeasure(m)
	}
}

// CountUsage implements host.Observer.
func (o Observer) CountUsage(t host.UsageEvent) {
	if o.OnCountUsage != nil {
		o.OnCountUsage(t)
	}
}

// Wake implements host.Observer.
func (o Observer) Wake(_ kv.Partition, due time.Time) {
	if o.OnWake != nil {
		o.OnWake(due)
	}
}
