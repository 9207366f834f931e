package outbox

import (
	"testing"
	"time"

	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/webhook"
)

// Stores keep whole milliseconds and may round up. An event that falls due between two of them would
// wait for its first attempt.
func TestAnEventIsDueAtOnceOnAStoreThatRoundsUp(t *testing.T) {
	w := newWorld(t)
	for _, fine := range []time.Duration{0, 1, 999_999 * time.Nanosecond} {
		now := w.Clock.Now().Truncate(time.Millisecond).Add(fine)
		e := webhook.Started(webhook.Head{ID: webhook.NewID(w.Random), CreatedAt: now, SessionID: "svc_sess_x"},
			now.Add(time.Minute))
		task, err := Event(w.Sealer, e, testUUID, now)
		coretest.Must(t, err)
		up := task.Due.Add(time.Millisecond - 1).Truncate(time.Millisecond)
		if up.After(now) || now.Sub(task.Due) >= time.Millisecond {
			t.Errorf("at %v: due %v, which a store rounds up to %v", now, task.Due, up)
		}
	}
}
