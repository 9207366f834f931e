// Package engine holds the one interface of everything that runs the core.
//
// There are two engines. *core.Service runs the core natively, in this process. *wasmhost.Engine runs it
// as a WebAssembly guest. The packages that use an engine need not know which one it is.
package engine

import (
	"context"
	"errors"
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

// ErrNoUsage means that the core keeps no usage, because it is a module of an earlier release.
var ErrNoUsage = errors.New("engine: this module keeps no usage")

// Engine runs the core. Its methods may be called concurrently.
//
// If an engine has a method Close() error, the caller that opened it calls Close after the last request
// and job.
type Engine interface {
	// Handle serves a request of the public API or of a hosted page. It returns soon after ctx is
	// done. If it returns status 503 or 500 with neither header nor body, the server adds both.
	Handle(ctx context.Context, req *web.Request) *web.Response

	// Admin serves a request of the operators' API, under the same rules.
	Admin(ctx context.Context, req *web.Request) *web.Response

	// Ready reports whether the KV can be reached.
	Ready(ctx context.Context) error

	// Apply checks a site, integration.Site as JSON, and puts it into the store.
	Apply(ctx context.Context, site []byte) error

	// Record writes sums of the core's usage (host.UsageEvent). It may be given the same ones
	// again, and after an error it must be. If the core is of a release that keeps no usage, the error is
	// ErrNoUsage.
	Record(ctx context.Context, t host.Totals) error

	// Partitions returns all partitions that may have tasks. They are the same at every call.
	Partitions() []kv.Partition

	// Claim leases up to n due tasks of the partition. next is the time at which the earliest unclaimed task
	// is due or free. It is zero if there are no others.
	Claim(ctx context.Context, p kv.Partition, n int) (jobs []host.Job, next time.Time, err error)

	// Run does a claimed job and records the outcome. Only the store causes an error: a delivery
	// that failed is an outcome. After an error the job comes back when its lease runs out.
	Run(ctx context.Context, job host.Job) error

	// Defer gives back the lease of a job without counting an attempt. The job can be claimed again
	// from until on. A lease that was lost meanwhile is no error.
	Defer(ctx context.Context, job host.Job, until time.Time) error

	// RunDue claims and runs all due tasks, one at a time. It returns the time at which the next task is due,
	// or zero.
	RunDue(ctx context.Context) (next time.Time, err error)
}
