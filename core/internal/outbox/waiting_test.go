package outbox

import (
	"reflect"
	"testing"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/kv"
)

func (w *fixture) waiting(t testing.TB) []UndeliveredEvent {
	t.Helper()
	all, err := w.Waiting(ctx, part, "", 100)
	coretest.Must(t, err)
	return all
}

// Contract 27: an event that will be retried is visible with its reason, from its first failure until it
// ends.
func TestWaiting_VisibleUntilEnd(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(t *testing.T, w *fixture)
		dead int
	}{
		"delivered": {func(t *testing.T, w *fixture) {
			w.answer = status(204)
			coretest.Must(t, w.run(t, w.claimOne(t)))
		}, 0},
		"refused": {func(t *testing.T, w *fixture) {
			w.answer = status(410)
			coretest.Must(t, w.run(t, w.claimOne(t)))
		}, 1},
		"dropped": {func(t *testing.T, w *fixture) {
			coretest.Must(t, w.Drop(ctx, w.claimOne(t), ErrNotDead))
		}, 0},
	} {
		t.Run("contract 27: "+name, func(t *testing.T) {
			w := newFixture(t)
			e := w.schedule(t)
			if got := w.waiting(t); len(got) != 0 {
				t.Errorf("an event that was not tried yet waits for a retry: %+v", got)
			}
			for n, last := range []string{host.FetchRefused, host.FetchTLS, host.FetchDNS} {
				w.answer = fails(last)
				coretest.Must(t, w.run(t, w.claimOne(t)))
				_, next := w.claim(t)
				due := next.Truncate(time.Millisecond)
				want := UndeliveredEvent{Event: e.ID, Type: e.Type, Session: e.SessionID,
					Integration: testUUID, Last: last, Attempts: n + 1,
					At: w.Clock.Now().Truncate(time.Millisecond), Due: &due}
				if got := w.waiting(t); len(got) != 1 || !reflect.DeepEqual(got[0], want) {
					t.Fatalf("%+v, want %+v", got, want)
				}
				w.Clock.Advance(next.Sub(w.Clock.Now()))
			}
			c.end(t, w)
			w.idle(t)
			if got := w.waiting(t); len(got) != 0 || len(w.dead(t)) != c.dead {
				t.Errorf("the event has ended and still waits: %+v; dead: %+v", got, w.dead(t))
			}
		})
	}
}

// Contract 27: an event that an internal error postpones waits visibly as well, and can be sent now once the
// operator has fixed the error.
func TestWaiting_Postponed(t *testing.T) {
	w := newFixture(t)
	e := w.schedule(t)
	whole, on := *w.Outbox, w.Host.Host
	on.Sealer = secretless{w.Outbox.Sealer}
	w.Directory = integration.NewDirectory(on)
	coretest.Must(t, w.run(t, w.claimOne(t)))
	got := w.waiting(t)
	if len(got) != 1 || got[0].Event != e.ID || got[0].Last != noSecret || got[0].Attempts != 0 ||
		got[0].Due.Before(w.Clock.Now().Add(postponeFirst).Truncate(time.Millisecond)) {
		t.Fatalf("%+v", got)
	}
	*w.Outbox = whole
	coretest.Must(t, w.SendNow(ctx, part, e.ID, ""))
	coretest.Must(t, w.run(t, w.claimOne(t)))
	if got := w.waiting(t); len(got) != 0 || len(w.posts) != 1 {
		t.Errorf("%d requests were sent, and these events wait: %+v", len(w.posts), got)
	}
}

// If the lease was lost, the attempt is not recorded.
func TestWaiting_LostLease(t *testing.T) {
	w := newFixture(t)
	w.schedule(t)
	late := w.claimOne(t)
	w.Clock.Advance(lease)
	w.claimOne(t) // another instance has the lease now
	late.Until = w.Clock.Now().Add(lease)
	w.answer = status(503)
	coretest.Must(t, w.run(t, late))
	if got := w.waiting(t); len(got) != 0 {
		t.Errorf("%+v", got)
	}
}

// Contract 19: events are not kept permanently.
func TestWaiting_Expiry(t *testing.T) {
	w := newFixture(t)
	w.schedule(t)
	w.answer = status(503)
	coretest.Must(t, w.run(t, w.claimOne(t)))
	due := w.waiting(t)[0].Due
	w.Clock.Advance(due.Add(DeadLife).Sub(w.Clock.Now()) - time.Millisecond)
	if len(w.waiting(t)) != 1 {
		t.Error("an event that is still to be tried is not visible")
	}
	w.Clock.Advance(time.Millisecond)
	items, err := w.Memory.List(ctx, kv.Key{Partition: part, Name: waitingPrefix}, "", 5)
	if err != nil || len(items) != 0 {
		t.Errorf("%d waiting events are left, %v", len(items), err)
	}
}
