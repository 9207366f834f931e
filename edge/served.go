package edge

import (
	"context"
	"errors"
	"time"

	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/edge/engine"
	"github.com/verge-id/verge/edge/internal/keyringfile"
	"github.com/verge-id/verge/edge/internal/storehealth"
)

// served is an engine for requests from the network. Each request has one budget for all its calls to
// the store. The engine is ready only while its instance has every key that the fleet uses.
type served struct {
	engine.Engine
	ring      *keyringfile.Live
	budget    time.Duration
	endpoints map[string]AdminEndpoint
}

// Handle implements engine.Engine.
func (s served) Handle(ctx context.Context, req *web.Request) *web.Response {
	return s.Engine.Handle(storehealth.WithBudget(ctx, s.budget), req)
}

// Admin implements engine.Engine.
func (s served) Admin(ctx context.Context, req *web.Request) *web.Response {
	return listed(s.Engine.Admin(storehealth.WithBudget(ctx, s.budget), req), req, s.endpoints)
}

// Ready implements engine.Engine.
func (s served) Ready(ctx context.Context) error {
	return errors.Join(s.ring.Ready(), s.Engine.Ready(ctx))
}

// CheckStoreBudget returns an error if a [Config.StoreBudget] is too short or too long for a request.
func CheckStoreBudget(d time.Duration) error { return storehealth.CheckBudget(d) }
