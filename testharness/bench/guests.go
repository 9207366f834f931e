package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tetratelabs/wazero"

	"github.com/verge-id/verge/core/api"
	"github.com/verge-id/verge/core/ratelimit"
	"github.com/verge-id/verge/edge"
	"github.com/verge-id/verge/edge/engine"
	"github.com/verge-id/verge/edge/wasmhost"
	"github.com/verge-id/verge/kvadapters/memory"
	"github.com/verge-id/verge/wasm/settings"
)

// engineOf opens what runs the core of a service.
type engineOf func(ctx context.Context, at edge.Setup) (engine.Engine, error)

// compiled spares each round compiling the module again.
var compiled = sync.OnceValue(wazero.NewCompilationCache)

// guests runs the core in guests of a module.
func guests(module []byte) engineOf {
	return func(ctx context.Context, at edge.Setup) (engine.Engine, error) {
		packed, err := settings.Pack(at.Core)
		if err != nil {
			return nil, err
		}
		h := at.Host
		return wasmhost.New(ctx, wasmhost.Config{Module: module, Guest: packed,
			KV: h.KV, Meter: ratelimit.NewLocal(0).Meter(), Fetch: h.Fetch, Sign: h.Sign, Sealer: h.Sealer,
			Log: h.Log, Tally: h.Tally, Wake: h.Wake, Cache: compiled()})
	}
}

// engines prints how many requests the guests of a module answer, beside the native core. It uses a memory
// store, which hides least of the difference.
func engines(length time.Duration, only string, module []byte) error {
	lines := []struct {
		name string
		next func(s *service) (func() []byte, error)
	}{
		{"start, wasm", func(s *service) (func() []byte, error) { return always(s.startRequest()), nil }},
		{"validate, wasm", func(s *service) (func() []byte, error) {
			return s.validations(int(mostPerSecond * length.Seconds()))
		}},
		{"reconcile, wasm", func(s *service) (func() []byte, error) {
			_, text, err := s.session()
			return always(request("GET", api.SessionsPath+text, s.key, "")), err
		}},
	}
	heading := sync.OnceFunc(func() {
		fmt.Printf("%-28s %10s %10s %7s %6s %7s\n",
			"answers per second", "wasm", "native", "ratio", "goal", "of CPU")
	})
	for _, line := range lines {
		if !strings.Contains(line.name, only) {
			continue
		}
		heading()
		one := func(runs engineOf) (pace, error) {
			s, err := newServiceOn(runs, memory.New(memory.Config{}), "")
			if err != nil {
				return pace{}, err
			}
			defer s.stop()
			next, err := line.next(s)
			if err != nil {
				return pace{}, err
			}
			return endpoint{}.measure(s.addr, length, next)
		}
		var wasm, bare, ratio, cpu []float64
		for range rounds {
			n, err := one(nil)
			if err != nil {
				return fmt.Errorf("%s, natively: %w", line.name, err)
			}
			w, err := one(guests(module))
			if err != nil {
				return fmt.Errorf("%s: %w", line.name, err)
			}
			wasm, bare = append(wasm, w.rate), append(bare, n.rate)
			ratio, cpu = append(ratio, w.rate/n.rate), append(cpu, n.cpu/w.cpu)
		}
		fmt.Printf("%-28s %10.0f %10.0f %7.2f %6s %7.2f  %.2f to %.2f\n",
			line.name, median(wasm), median(bare), median(ratio), "0.50", median(cpu),
			slices.Min(ratio), slices.Max(ratio))
	}
	return nil
}

// always returns the same request.
func always(req []byte) func() []byte { return func() []byte { return req } }

// validations returns requests that validate a token of its own each, nil
// after n of them.
func (s *service) validations(n int) (func() []byte, error) {
	requests, err := s.results(n)
	return once(requests), err
}

// once returns one request after the other, and nil after the last.
func once(requests [][]byte) func() []byte {
	var at atomic.Int64
	return func() []byte {
		if i := int(at.Add(1)) - 1; i < len(requests) {
			return requests[i]
		}
		return nil
	}
}
