package admin

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/internal/outbox"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/operate"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/core/webhook"
	"github.com/verge-id/verge/kvadapters/kvtest"
)

// eventPage is a page of the events of all integrations.
type eventPage[T any] struct {
	Deliveries []T
	Next       string
}

// bury makes n dead events of a partition.
func (w *fixture) bury(t testing.TB, p kv.Partition, n int) (ids []string) {
	t.Helper()
	return w.try(t, p, n, func(host.FetchRequest) (int, error) { return 400, nil })
}

// try makes n events of a partition and attempts each of them once.
func (w *fixture) try(t testing.TB, p kv.Partition, n int, answer func(host.FetchRequest) (int, error)) (
	ids []string) {
	t.Helper()
	w.answer = answer
	for range n {
		head := webhook.Head{ID: webhook.NewID(w.Random), CreatedAt: w.Clock.Now(), IntegrationID: testUUID,
			SessionID: "svc_sess_x"}
		e := webhook.Started(head, w.Clock.Now())
		task, err := outbox.Event(w.Sealer, e, testUUID, w.Clock.Now())
		coretest.Must(t, err)
		coretest.Must(t, w.Host.KV.Commit(ctx, kv.Tx{ID: e.ID, Partition: p, Schedule: []kv.Task{task}}))
		ids = append(ids, e.ID)
	}
	tasks, _, err := w.Host.KV.Claim(ctx, p, w.Clock.Now(), time.Minute, n)
	coretest.Must(t, err)
	for _, task := range tasks {
		m, body, err := outbox.Read(task)
		coretest.Must(t, err)
		job := host.Job{Partition: p, Task: task, Until: w.Clock.Now().Add(time.Minute)}
		coretest.Must(t, w.Operations.Outbox.Deliver(ctx, job, m, body))
	}
	return ids
}

func TestDeliveriesArePagedOverPartitions(t *testing.T) {
	for _, counts := range [][3]int{{0, 0, 0}, {1, 2, 3}, {200, 0, 1}, {200, 200, 0}, {0, 201, 0},
		{150, 100, 199}, {0, 0, 200}} {
		t.Run(fmt.Sprintf("contract 27: %v dead events", counts), func(t *testing.T) {
			w := newFixture(t)
			want := map[string]bool{}
			for n, count := range counts {
				for _, id := range w.bury(t, w.Operations.Partitions[n], count) {
					want[id] = true
				}
			}
			cursor := ""
			for pages := 0; ; pages++ {
				if pages > 5 {
					t.Fatal("the pages do not end")
				}
				path := operate.ListDeliveries.Path
				if cursor != "" {
					path += "?after=" + cursor
				}
				var page eventPage[operate.UndeliveredEvent]
				if e := w.ask(t, "GET", path, "", &page); e != nil {
					t.Fatal(e)
				}
				if page.Deliveries == nil || len(page.Deliveries) > 200 {
					t.Fatalf("a page has %d events; null: %v", len(page.Deliveries), page.Deliveries == nil)
				}
				for _, d := range page.Deliveries {
					if !want[d.Event] {
						t.Errorf("%s is shown twice or was never there", d.Event)
					}
					delete(want, d.Event)
				}
				if cursor = page.Next; cursor == "" {
					break
				}
			}
			if len(want) != 0 {
				t.Errorf("%d events are not shown", len(want))
			}
		})
	}
}

func TestEventsThatWaitAreListedApartFromTheDead(t *testing.T) {
	w := newFixture(t)
	dead := w.bury(t, "p0", 2)
	waiting := map[string]kv.Partition{}
	for _, p := range []kv.Partition{"p0", "p2"} {
		w.try(t, p, 1, func(host.FetchRequest) (int, error) {
			return 0, &host.FetchError{Reason: host.FetchTLS, Err: errors.New("x")}
		})
		page, err := w.Operations.Outbox.Waiting(ctx, p, "", 5)
		coretest.Must(t, err)
		waiting[page[0].Event] = p
	}
	var shown eventPage[operate.UndeliveredEvent]
	e := w.ask(t, "GET", operate.ListDeliveries.Path+"?state=waiting", "", &shown)
	if e != nil || len(shown.Deliveries) != 2 {
		t.Fatalf("contract 27: %+v, %v", shown, e)
	}
	for _, d := range shown.Deliveries {
		if waiting[d.Event] == "" || d.Last != host.FetchTLS || d.Attempts != 1 ||
			!d.Due.After(w.Clock.Now()) {
			t.Errorf("contract 27: %+v", d)
		}
	}
	for _, state := range []string{"", "?state=dead"} {
		var shown eventPage[operate.UndeliveredEvent]
		if e := w.ask(t, "GET", operate.ListDeliveries.Path+state, "", &shown); e != nil ||
			len(shown.Deliveries) != len(dead) {
			t.Errorf("contract 27: %s: %+v, %v", state, shown, e)
		}
	}
	w.rejected(t, web.InvalidRequest, "GET", operate.ListDeliveries.Path+"?state=delivered", "")
}

// Operators learn whose events have not arrived, counted over all partitions.
func TestUndeliveredIsCounted(t *testing.T) {
	w := newFixture(t)
	var none operate.Undelivered
	if e := w.ask(t, "GET", operate.ListUndelivered.Path, "", &none); e != nil || none.Publishers == nil ||
		len(none.Publishers) > 0 {
		t.Errorf("contract 27: before there is an event: %+v, %v", none, e)
	}
	w.bury(t, "p0", 2)
	w.bury(t, "p2", 1)
	w.try(t, "p1", 1, func(host.FetchRequest) (int, error) { return 503, nil })
	var all operate.Undelivered
	if e := w.ask(t, "GET", operate.ListUndelivered.Path, "", &all); e != nil || len(all.Publishers) != 1 ||
		all.More {
		t.Fatalf("contract 27: %+v, %v", all, e)
	}
	p := all.Publishers[0]
	if i := p.Integrations[0]; i.Oldest == nil || i.Newest == nil || !i.Oldest.Equal(*p.Oldest) ||
		!i.Newest.Equal(*p.Newest) {
		t.Errorf("contract 27: the times of the only integration: %+v, of its publisher: %+v", i, p)
	}
	if p.Waiting != 1 || p.Dead != 3 || p.More || p.Oldest == nil || p.Newest == nil ||
		len(p.Integrations) != 1 || p.Integrations[0].Integration != testUUID || p.Integrations[0].Dead != 3 {
		t.Errorf("contract 27: %+v", p)
	}
}

func TestResend(t *testing.T) {
	w := newFixture(t)
	id := w.bury(t, "p2", 1)[0]
	path := "/admin/v1/deliveries/" + id + "/resend"
	w.Store.Decide = func(c kvtest.Call) kvtest.Fault {
		if c.Partition == "p1" {
			return kvtest.Reject
		}
		return kvtest.Pass
	}
	w.rejected(t, web.Unavailable, "POST", path, "") // it may be in the partition that does not answer
	w.Store.Decide = nil
	if e := w.ask(t, "POST", path, "", nil); e != nil {
		t.Errorf("contract 27: %v", e)
	}
	var page struct{ Audit []operate.AuditEntry }
	w.must(t, "GET", operate.ListAudit.Path+"?publisher_id=pub_a", "", &page)
	if len(page.Audit) == 0 || page.Audit[0].Target != id {
		t.Errorf("contract 42: the publisher's audit has %+v", page.Audit)
	}
	w.rejected(t, web.NotFound, "POST", path, "")
	for _, bad := range []string{"x", "evt_", "evt_x", testUUID, "evt_" + testUUID + "0"} {
		w.rejected(t, web.InvalidRequest, "POST", "/admin/v1/deliveries/"+bad+"/resend", "")
	}
	tasks, _, err := w.Host.KV.Claim(ctx, "p2", w.Clock.Now(), time.Minute, 5)
	if err != nil || len(tasks) != 1 {
		t.Errorf("contract 27: %d tasks, %v", len(tasks), err)
	}
}
