// Package engine is what the edge and its tests know of whatever runs the core.
//
// There are two engines: *core.Service runs the core in this process, natively,
// and *wasmhost.Engine runs it as a WebAssembly guest. To everybody around them
// they are the same.
package engine

import (
	"context"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/web"
)

// Names of the engines, as configurations and the operators' API have them.
const (
	Native = "native"
	WASM   = "wasm"
)

// Engine runs the core. Its methods may be called concurrently.
//
// An engine that has a method Close() error is closed by whoever opened it,
// after its last request and job.
type Engine interface {
	// Handle answers a request of the public API or of a hosted page. It
	// returns soon after ctx is done. An answer with status 503 or 500 and
	// neither header nor body is put into words by the server.
	Handle(ctx context.Context, req *web.Request) *web.Response

	// Admin answers a request of the operators' API, under the same rules.
	Admin(ctx context.Context, req *web.Request) *web.Response

	// Ready reports whether the KV can be reached.
	Ready(ctx context.Context) error

	// Apply checks a site, integration.Site as JSON, and puts it into the store.
	Apply(ctx context.Context, site []byte) error

	// Partitions are all that tasks lie in, the same at every call.
	Partitions() []kv.Partition

	// Claim leases up to n due tasks of the partition. next is when the
	// earliest one not claimed falls due or comes free, zero if there is none.
	Claim(ctx context.Context, p kv.Partition, n int) (jobs []host.Job, next time.Time, err error)

	// Run does a claimed job and records the outcome. An error is the store's:
	// a delivery that failed is an outcome and no error. After an error the
	// job comes back when its lease runs out.
	Run(ctx context.Context, job host.Job) error

	// Defer gives the lease of a job back, to be claimed no sooner than until,
	// without counting an attempt. A lease that was lost meanwhile is no error.
	Defer(ctx context.Context, job host.Job, until time.Time) error

	// RunDue claims and runs everything that is due, one job after the other.
	// It returns when the next task falls due, zero if there is none.
	RunDue(ctx context.Context) (next time.Time, err error)
}
