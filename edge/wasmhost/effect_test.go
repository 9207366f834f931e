package wasmhost_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters/memory"
	"github.com/verge-id/verge/testharness/wait"
)

type effectKey struct{}

// insideEffects is a store that records the effect of each call.
type insideEffects struct {
	kv.KV
	mu    sync.Mutex
	found []string
}

func (s *insideEffects) Get(ctx context.Context, key kv.Key) (kv.Item, error) {
	kind, _ := ctx.Value(effectKey{}).(string)
	s.mu.Lock()
	s.found = append(s.found, kind)
	s.mu.Unlock()
	return s.KV.Get(ctx, key)
}

// An effect is carried out with the context that the host created for it, so that a trace shows the guest's
// request and, below it, the host's work.
func TestEffect_Context(t *testing.T) {
	store := &insideEffects{KV: memory.New(memory.Config{})}
	cfg := config(t, goodGuest)
	cfg.KV = store
	type callerKey struct{}
	var mu sync.Mutex
	var begun, ended []string
	cfg.Effect = func(ctx context.Context, kind string) (context.Context, func()) {
		if kind == "sign" { // a guest's self-test, which belongs to no request
			return ctx, func() {}
		}
		mu.Lock()
		defer mu.Unlock()
		if ctx.Value(callerKey{}) == nil {
			t.Errorf("the effect %s lacks the context of its request", kind)
		}
		begun = append(begun, kind)
		return context.WithValue(ctx, effectKey{}, kind), func() {
			mu.Lock()
			defer mu.Unlock()
			ended = append(ended, kind)
		}
	}
	e := start(t, cfg)
	if err := e.Ready(context.WithValue(t.Context(), callerKey{}, "of the caller")); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "the effect, which runs concurrently with the request, ends", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(ended) > 0
	})
	mu.Lock()
	defer mu.Unlock()
	if want := []string{"get"}; !slices.Equal(begun, want) || !slices.Equal(ended, want) ||
		!slices.Equal(store.found, want) {
		t.Errorf("begun %q, ended %q, in the store %q, want %q", begun, ended, store.found, want)
	}
}

type aboutObserver struct {
	*heard
	about func(context.Context, host.RequestInfo)
}

func (o aboutObserver) About(ctx context.Context, a host.RequestInfo) { o.about(ctx, a) }

// A guest's information about a request reaches the host with the request's context, and only in the form
// of ids.
func TestAbout_ReachesHost(t *testing.T) {
	type callerKey struct{}
	said := make(chan host.RequestInfo, 8)
	cfg := config(t, goodGuest)
	cfg.Observer = aboutObserver{&heard{}, func(ctx context.Context, a host.RequestInfo) {
		if ctx.Value(callerKey{}) == nil {
			t.Error("contract 48: a notice lacks the context of its request")
		}
		said <- a
	}}
	e := start(t, cfg)
	get(e, context.WithValue(t.Context(), callerKey{}, "of the caller"), "/nowhere")
	select {
	case a := <-said:
		if a != (host.RequestInfo{Code: "NOT_FOUND"}) {
			t.Errorf("contract 48: a request for nothing is about %+v", a)
		}
	default:
		t.Error("contract 48: the guest has not reported the request info")
	}
}
