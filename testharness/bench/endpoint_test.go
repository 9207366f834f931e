package bench

import (
	"context"
	"io"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/ratelimit"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/edge"
	"github.com/verge-id/verge/edge/engine"
	"github.com/verge-id/verge/edge/otlp"
	"github.com/verge-id/verge/edge/wasmhost"
	"github.com/verge-id/verge/kvadapters/bolt"
	"github.com/verge-id/verge/kvadapters/memory"
	"github.com/verge-id/verge/kvadapters/postgres"
	"github.com/verge-id/verge/testharness/guestcode"
	"github.com/verge-id/verge/testharness/stores"
	"github.com/verge-id/verge/testharness/testenv"
	"github.com/verge-id/verge/testharness/wait"
	"github.com/verge-id/verge/wasm/settings"
)

// storage opens an empty store that is closed when the benchmark ends.
type storage func(b *testing.B) kv.KV

func onMemory(*testing.B) kv.KV { return memory.New(memory.Config{}) }

func onBolt(b *testing.B) kv.KV {
	store, err := bolt.Open(filepath.Join(b.TempDir(), "verge.db"), bolt.Config{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_, mean, largest := store.Written()
		b.ReportMetric(mean, "commits/write")
		b.ReportMetric(float64(largest), "commits/largest-write")
		store.Close()
	})
	return store
}

// onPostgres opens a database of a server that writes to the disk by PostgreSQL's defaults. requests/flush is
// the number of requests of Verge per flush of the server's log to the disk. The server adds up its flushes
// when a connection ends.
func onPostgres(b *testing.B) storage {
	server := stores.StartPostgresOnDisk(b)
	return func(b *testing.B) kv.KV {
		flushes := func() int64 {
			const others = "SELECT count(*) FROM pg_stat_activity " +
				"WHERE datname <> '' AND pid <> pg_backend_pid()"
			wait.Until(b, "connections ended", func() bool { return server.Do(others) == int64(0) })
			return server.Do("SELECT wal_sync FROM pg_stat_wal").(int64)
		}
		before := flushes()
		store, err := postgres.Open(b.Context(), server.URL("verge"), postgres.Config{})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			store.Close()
			b.ReportMetric(float64(b.N)/float64(flushes()-before), "requests/flush")
		})
		return store
	}
}

// endpoint is a request that is measured.
type endpoint struct {
	name     string // with the goal of its ratio, if it has one
	open     storage
	sink     string
	requests func(*service, *testing.B) func(i int) []byte
	change   func(*testing.B, *edge.Config) // nil: none
}

func starts(s *service, _ *testing.B) func(int) []byte { return always(s.startRequest()) }

// run measures the endpoint and a floor that writes as many bytes.
func (e endpoint) run(
	b *testing.B, floor func(b *testing.B, n int) (addr string), busy func() time.Duration,
) {
	b.Run(e.name, func(b *testing.B) {
		s := newService(b, e.open(b), e.sink, func(c *edge.Config) {
			if e.change != nil {
				e.change(b, c)
			}
		})
		requests := e.requests(s, b)
		sample := requests(b.N)
		addr := floor(b, len(askOnce(b, s.addr, sample)))
		compare(b, busy, load(b, connections, addr, always(sample)), load(b, connections, s.addr, requests))
	})
}

func BenchmarkEndpoint(b *testing.B) {
	for _, e := range []endpoint{
		{"start, no webhook, memory/goal=0.70", onMemory, "", starts, nil},
		{"validate, memory/goal=0.65", onMemory, "", (*service).validations, nil},
		{"reconcile, memory/goal=0.80", onMemory, "", (*service).reconcile, nil},
		{"start, one prepared response", onMemory, "", starts, prepared},
		{"start with webhook, memory", onMemory, noSink, starts, nil},
		{"start with webhook, 1 % traced", onMemory, noSink, starts, traced},
		{"start with webhook, bolt", onBolt, noSink, starts, nil},
		{"validate, bolt", onBolt, "", (*service).validations, nil},
	} {
		e.run(b, floor, busy)
	}
}

func BenchmarkEndpointPostgres(b *testing.B) {
	// validate is not measured: preparing as many tokens takes a minute each time.
	endpoint{"start with webhook, postgres", onPostgres(b), noSink, starts, nil}.run(b, floor, busy)
}

func BenchmarkEndpointRedis(b *testing.B) {
	r, aof := startRedis(b), startRedis(b, "--appendonly", "yes", "--appendfsync", "everysec")
	endpoint{"validate, redis/goal=0.75", r.open, "", (*service).validations, nil}.run(b, r.floor, r.busy)
	endpoint{"start with webhook, redis", r.open, noSink, starts, nil}.run(b, r.floor, r.busy)
	endpoint{
		"validate, redis, everysec",
		aof.open,
		"",
		(*service).validations,
		nil,
	}.run(b, aof.floor, aof.busy)
}

// prepared has the server respond without the core, always with the same response: its ratio is the highest
// that a core could reach.
func prepared(_ *testing.B, c *edge.Config) {
	c.Engine = func(ctx context.Context, at edge.Setup) (engine.Engine, error) {
		return &preparedEngine{Engine: at.Native}, nil
	}
}

// preparedEngine responds to all requests as its core does to the first one.
type preparedEngine struct {
	engine.Engine
	once     sync.Once
	response *web.Response
}

// Handle implements engine.Engine.
func (e *preparedEngine) Handle(ctx context.Context, req *web.Request) *web.Response {
	e.once.Do(func() { e.response = e.Engine.Handle(ctx, req) })
	return e.response
}

// traced records 1 % of the requests and sends them to a collector that discards them. The collector runs on
// the same processors.
func traced(b *testing.B, c *edge.Config) {
	addr := serve(b, func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) // an error means that the exporter has ended
	})
	provider, err := otlp.Open(context.Background(), otlp.Config{Endpoint: "http://" + addr, Sample: 0.01})
	if err != nil {
		b.Fatal(err)
	}
	c.Tracer = provider
	c.Store.Close = func() error { return provider.Shutdown(context.Background()) }
}

// BenchmarkEndpointWasm measures the core in guests and, for a floor, natively. It uses a store in memory,
// which hides least of the difference.
func BenchmarkEndpointWasm(b *testing.B) {
	for _, e := range []endpoint{
		{"start, wasm/goal=0.50", onMemory, "", starts, nil},
		{"validate, wasm/goal=0.50", onMemory, "", (*service).validations, nil},
		{"reconcile, wasm/goal=0.50", onMemory, "", (*service).reconcile, nil},
	} {
		b.Run(e.name, func(b *testing.B) {
			of := func(changes ...func(*edge.Config)) work {
				s := newService(b, e.open(b), e.sink, changes...)
				return load(b, connections, s.addr, e.requests(s, b))
			}
			inGuests := of(guests(b)) // first: compiling takes longer than a connection may be idle
			compare(b, busy, of(), inGuests)
		})
	}
}

// guests runs the core in guests, with changes of their host's configuration.
func guests(b *testing.B, changes ...func(*wasmhost.Config)) func(*edge.Config) {
	b.Helper()
	module := testenv.Module(b)
	cache := guestcode.Cache(b, module)
	return func(c *edge.Config) {
		c.Engine = func(ctx context.Context, at edge.Setup) (engine.Engine, error) {
			config := wasmhost.Config{Host: at.Host, Module: module, Guest: settings.Config{Config: at.Core},
				Meter: ratelimit.NewLocal(0).Meter(), Cache: cache}
			for _, change := range changes {
				change(&config)
			}
			return wasmhost.New(ctx, config)
		}
	}
}
