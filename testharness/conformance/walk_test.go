package conformance_test

import (
	"testing"
	"time"

	"github.com/verge-id/verge/testharness"
)

// The walk of one verification, as the contract begins with it (spec, What the service does).
func TestWalk(t *testing.T) {
	for _, level := range []string{"L1", "L2"} {
		t.Run(level, func(t *testing.T) {
			h := newHarness(t, nil)
			i := map[string]*testharness.Integration{"L1": h.Publisher.L1, "L2": h.Publisher.L2}[level]
			s := h.Start(testharness.Body{"integration_id": i.ID, "state": "s-1",
				"external_user_id": "user-42"})
			h.Advance(30 * time.Second)
			back := h.Approve(s)
			if back.SessionID != s.SessionID || back.State != "s-1" || len(back.ResultToken) < 20 {
				t.Errorf("callback %+v", back)
			}
			h.Advance(time.Second)
			r := h.Validate(back.ResultToken)
			want := map[string]any{"valid": true, "verified": true, "level": level,
				"challenge_age": float64(i.ChallengeAge),
				"session_id":    s.SessionID, "integration_id": i.ID,
				"validated_at": "2026-11-20T22:10:31.000Z"}
			wantJSON(t, r, 200, want)
			wantTypes(t, h, s.SessionID, "verification.started", "verification.completed")
		})
	}
}
