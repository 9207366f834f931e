package testharness_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/webhook"
	"github.com/verge-id/verge/kvadapters/redis"
	"github.com/verge-id/verge/testharness"
)

// What the package promises its users beyond the service itself.
func TestOwnReceiver(t *testing.T) {
	var h *testharness.Harness
	var got []error
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got = append(got, webhook.Verify(h.Publisher.L1.WebhookSecret, r.Header, b, h.Now(), 0))
	}))
	defer receiver.Close()
	h = newHarness(t, &opts{WebhookURL: receiver.URL + "/hooks"})
	h.Start(nil)
	h.Settle()
	if len(got) != 1 || got[0] != nil || len(h.Sink.Deliveries()) != 0 {
		t.Errorf("the test's own receiver got %v, the sink %d", got, len(h.Sink.Deliveries()))
	}
}

// Without options the store is a miniredis, whose time is the harness's.
func TestDefaultEngine(t *testing.T) {
	h := testharness.New(t, nil)
	if _, ok := h.KV.(*redis.Store); !ok {
		t.Fatalf("the store is a %T", h.KV)
	}
	key := kv.Key{Partition: "own", Name: "a"}
	for name, move := range map[string]func(time.Duration){
		"Advance":   h.Advance,
		"AdvanceTo": func(d time.Duration) { h.AdvanceTo(h.Now().Add(d)) },
		"Pause":     h.Pause,
	} {
		t.Run(name, func(t *testing.T) {
			err := h.KV.Commit(t.Context(), kv.Tx{ID: name, Partition: key.Partition,
				Puts: []kv.Put{{Name: key.Name, Expires: h.Now().Add(time.Hour)}}})
			if err != nil {
				t.Fatal(err)
			}
			move(time.Hour - time.Millisecond)
			if _, err := h.KV.Get(t.Context(), key); err != nil {
				t.Errorf("a millisecond before its expiry: %v", err)
			}
			move(time.Millisecond)
			if _, err := h.KV.Get(t.Context(), key); !errors.Is(err, kv.ErrNotFound) {
				t.Errorf("at its expiry: %v", err)
			}
		})
	}
}

func TestAdvance(t *testing.T) {
	h := newHarness(t, nil)
	h.Sink.Next(testharness.Answer(503))
	h.Start(nil)
	if next := h.Settle(); next.Sub(testharness.Epoch) < 4*time.Second || next.Sub(testharness.Epoch) > 6*time.Second {
		t.Errorf("the next thing falls due at %v", next)
	}
	h.Pause(time.Hour)
	if n := len(h.Sink.Deliveries()); n != 1 {
		t.Errorf("Pause ran something: %d requests", n)
	}
	h.Advance(0)
	if n := len(h.Sink.Deliveries()); n != 3 {
		t.Errorf("%d requests after all that was due has run, want 3", n)
	}
	if !h.Now().Equal(testharness.Epoch.Add(time.Hour)) {
		t.Errorf("the clock stands at %v", h.Now())
	}
	if next := h.Settle(); !next.IsZero() {
		t.Errorf("something is still due at %v", next)
	}
}
