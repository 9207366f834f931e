package host

import (
	"context"
	"testing"
	"time"
)

// WithDefaults sets every port that the core calls without a nil check.
func TestHost_Defaults(t *testing.T) {
	h := WithDefaults(Host{})
	h.About(t.Context(), RequestInfo{})
	h.Count("late_answer_ignored")
	h.Measure(Measurement{})
	h.CountUsage(UsageEvent{})
	h.Wake("p0", time.Time{})
	h.Log.Info("discarded")
	if ok, err := h.Verify(context.Background(), "ES256", nil, nil, nil); ok || err == nil {
		t.Errorf("a host without Verify: %v, %v; want an error, so that nothing is proven", ok, err)
	}
}
