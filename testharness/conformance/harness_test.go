package conformance_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/verge-id/verge/core/webhook"
	"github.com/verge-id/verge/testharness"
)

// Guarantees of the harness itself, on every engine.
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

func TestAdvance(t *testing.T) {
	h := newHarness(t, nil)
	h.Sink.Next(testharness.Answer(503))
	h.Start(nil)
	if in := h.Settle().Sub(testharness.Epoch); in < 4*time.Second || in > 6*time.Second {
		t.Errorf("the next thing falls due in %v", in)
	}
	h.Pause(time.Hour)
	if n := len(h.Sink.Deliveries()); n != 1 {
		t.Errorf("Pause ran something: %d requests", n)
	}
	h.Advance(0)
	if n := len(h.Sink.Deliveries()); n != 3 {
		t.Errorf("%d requests after all due tasks, want 3", n)
	}
	if !h.Now().Equal(testharness.Epoch.Add(time.Hour)) {
		t.Errorf("the clock is at %v", h.Now())
	}
	if next := h.Settle(); !next.IsZero() {
		t.Errorf("something is still due at %v", next)
	}
}
