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

// insideEffects is a store that notes of which effect a call is a part.
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

// An effect is carried out with the context that the host has made for it, so that a trace shows what a guest
// asked for, and below it what the host did for that.
func TestAnEffectHasAContextOfItsOwn(t *testing.T) {
	store := &insideEffects{KV: memory.New(memory.Config{})}
	cfg := config(t, goodGuest)
	cfg.KV = store
	type callerKey struct{}
	var mu sync.Mutex
	var begun, ended []string
	cfg.Effect = func(ctx context.Context, kind string) (context.Context, func()) {
		if kind == "sign" { // a guest's test of itself, which is nobody's request
			return ctx, func() {}
		}
		mu.Lock()
		defer mu.Unlock()
		if ctx.Value(callerKey{}) == nil {
			t.Errorf("the effect %s has not the context of its request", kind)
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
	wait.Until(t, "the effect, which runs beside the request, ends", func() bool {
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

// What a guest says a request is about reaches the host with the request's context, and only in the form of
// ids.
func TestAGuestSaysWhatARequestIsAbout(t *testing.T) {
	type callerKey struct{}
	said := make(chan host.RequestInfo, 8)
	cfg := config(t, goodGuest)
	cfg.Observer = aboutObserver{&heard{}, func(ctx context.Context, a host.RequestInfo) {
		if ctx.Value(callerKey{}) == nil {
			t.Error("contract 48: a notice has not the context of its request")
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
		t.Error("contract 48: the guest has not said what the request is about")
	}
}
