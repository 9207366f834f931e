package outbox

import (
	"testing"
	"time"

	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/internal/metric"
	"github.com/verge-id/verge/core/internal/testhost"
	"github.com/verge-id/verge/core/internal/timeline"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/webhook"
	"github.com/verge-id/verge/kvadapters/kvtest"
)

// name adds a name of the log to the store, as an event of that time would.
func (w *fixture) name(t testing.TB, p kv.Partition, prefix, integration string, at time.Time) {
	t.Helper()
	id, err := kv.NewTxID(w.Outbox.Random)
	coretest.Must(t, err)
	name := prefix + integration + "/" + placeOf(at, webhook.NewID(w.Outbox.Random))
	coretest.Must(t, w.Memory.Commit(ctx,
		kv.Tx{ID: id, Partition: p, Puts: []kv.Put{{Name: name, Value: []byte("x")}}}))
}

// Undelivered counts the log entries of real attempts.
func TestUndelivered_MatchesLog(t *testing.T) {
	w := newFixture(t)
	all, more, err := w.Undelivered(ctx)
	if err != nil || more || len(all) != 0 {
		t.Fatalf("an empty log: %v, %v, %v", all, more, err)
	}
	w.answer = status(503)
	e := w.schedule(t)
	coretest.Must(t, w.run(t, w.claimOne(t)))
	created, err := time.Parse(time.RFC3339, e.CreatedAt)
	coretest.Must(t, err)
	all, more, err = w.Undelivered(ctx)
	want := Undelivered{Integration: testUUID, Waiting: 1, Oldest: created.UTC()}
	if err != nil || more || len(all) != 1 || all[0] != want {
		t.Errorf("one waits: %+v, %v, %v, want %+v", all, more, err, want)
	}
	w.answer = status(410)
	w.retry(t)
	all, _, err = w.Undelivered(ctx)
	want = Undelivered{Integration: testUUID, Dead: 1, Newest: created.UTC()}
	if err != nil || len(all) != 1 || all[0] != want {
		t.Errorf("one is dead: %+v, %v, want %+v", all, err, want)
	}
}

// An integration with very many events hides no other, and the call reads a limited number of names.
func TestUndelivered_Bounded(t *testing.T) {
	w := newFixture(t)
	now := ms(w.Clock.Now())
	first, last := "00000000-0000-4000-8000-000000000000", testhost.Other
	for n := range 500 {
		w.name(t, "p0", deadInLog, first, now.Add(-time.Duration(n)*time.Second))
	}
	w.name(t, "p0", deadInLog, last, now)
	w.name(t, "p1", waitingInLog, last, now.Add(-time.Hour))
	w.name(t, part, waitingInLog, last, now.Add(-2*time.Hour))
	asked := 0
	w.Store.Decide = func(c kvtest.Call) kvtest.Fault {
		asked++
		return kvtest.Pass
	}
	all, more, err := w.Undelivered(ctx)
	if err != nil || more || len(all) != 2 || asked > 8 {
		t.Fatalf("%+v, %v, %v, with %d calls", all, more, err, asked)
	}
	want := Undelivered{Integration: last, Waiting: 2, Dead: 1, Oldest: now.Add(-2 * time.Hour), Newest: now}
	if all[0] != want {
		t.Errorf("the event that waits longest: %+v, want %+v", all[0], want)
	}
	if u := all[1]; u.Integration != first || !u.More || u.Dead < 50 || u.Dead > 100 || !u.Newest.Equal(now) {
		t.Errorf("the one with many: %+v", u)
	}

	// With very many integrations, the call stops early and reports that there are more.
	for n := range 2 * mostCounted {
		id := timeline.Prefix(time.UnixMilli(int64(n)))[4:16]
		w.name(t, "p0", waitingInLog, "11111111-1111-4111-8111-"+id, now)
	}
	all, more, err = w.Undelivered(ctx)
	if err != nil || !more || len(all) < mostCounted/8 || len(all) > mostCounted {
		t.Errorf("%d integrations, %v, %v", len(all), more, err)
	}
}

// A name that this service did not write is not counted as an event.
func TestUndelivered_ForeignNames(t *testing.T) {
	w := newFixture(t)
	w.name(t, "p0", waitingInLog, "no-uuid", w.Clock.Now())
	all, _, err := w.Undelivered(ctx)
	if err != nil || len(all) != 0 || w.counts[metric.NotAuthentic] != 1 {
		t.Errorf("%+v, %v, suspected %d", all, err, w.counts[metric.NotAuthentic])
	}
}
