package workers_test

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/core/webhook"
	"github.com/verge-id/verge/testharness/long"
	"github.com/verge-id/verge/testharness/wait"
	"github.com/verge-id/verge/testharness/workerd"
	"github.com/verge-id/verge/wasm/settings"
)

// retrying is a guest's configuration with these waits between the attempts of a webhook.
func retrying(waits ...time.Duration) settings.Config {
	return settings.Config{Config: core.Config{Schedule: webhook.Schedule{Delays: waits}}}
}

// In these tests nothing calls RunDue. Alarms run what falls due.

// cameAs waits until the event has arrived and was answered with these statuses.
func (in *inbox) cameAs(t *testing.T, id, event string, statuses ...int) {
	t.Helper()
	wait.Until(t, event, func() bool { return slices.Equal(in.statuses(id, event), statuses) })
}

func TestEventsAreDeliveredByAlarm(t *testing.T) {
	in := newInbox(t)
	s, _ := newSite(t, in, workerd.Config{})
	id, redirect := s.start()
	in.cameAs(t, id, "verification.started", 204)
	result := s.approve(redirect)
	in.cameAs(t, id, "verification.completed", 204)
	s.want(s.validate(result), http.StatusOK, "")
	s.want(s.validate(result), http.StatusConflict, "ALREADY_USED")
}

func TestAlarm_Retry(t *testing.T) {
	in := newInbox(t)
	in.answer(http.StatusInternalServerError)
	guest := retrying(300*time.Millisecond, time.Hour)
	s, site := newSite(t, in, workerd.Config{Guest: guest, Offset: 48 * time.Hour})
	id, _ := s.start()
	wait.Until(t, "two attempts that fail",
		func() bool { return len(in.statuses(id, "verification.started")) == 2 })
	in.answer(0)
	site.Advance(time.Hour)
	in.cameAs(t, id, "verification.started", 500, 500, 204)
}

func TestAlarm_Expiry(t *testing.T) {
	in := newInbox(t)
	s, site := newSite(t, in, workerd.Config{Offset: -time.Hour})
	id, _ := s.start()
	site.Advance(10*time.Minute + time.Second)
	in.cameAs(t, id, "verification.expired", 204)
	a := s.do("GET", s.base+web.SessionsPath+id, bearer(s.key), nil)
	if a.text("status") != "EXPIRED" {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// A task that cannot be done is tried again, but not in a loop.
func TestNoAlarmSpins(t *testing.T) {
	site := workerd.Shared(t).Site(t, workerd.Config{}) // its guest has no key ring and does not begin
	due := []kv.Task{{ID: "t", Due: time.Now()}}
	err := site.KV().Commit(t.Context(), kv.Tx{ID: "t", Partition: "p0", Schedule: due})
	if err != nil {
		t.Fatal(err)
	}
	tries := func() int { return strings.Count(site.Logs(), "cannot claim tasks") }
	wait.Until(t, "a second try", func() bool { return tries() >= 2 })
	begin, before := time.Now(), tries()
	time.Sleep(500 * time.Millisecond)
	if n, most := tries()-before, 1+int(time.Since(begin)/time.Second); n > most {
		t.Errorf("%d tries within a moment, want one a second", n)
	}
}

// After an alarm that failed, another one comes.
func TestAlarm_CannotArm(t *testing.T) {
	in := newInbox(t)
	in.answer(http.StatusInternalServerError)
	s, site := newSite(t, in,
		workerd.Config{Guest: retrying(300*time.Millisecond, 300*time.Millisecond, 300*time.Millisecond)})
	site.BreakAlarm()
	id, _ := s.start()
	wait.Until(t, "all attempts", func() bool { return len(in.statuses(id, "verification.started")) == 4 })
	log := site.Logs()
	if strings.Contains(log, "an alarm has thrown") || !strings.Contains(log, `"error":"broken"`) {
		t.Errorf("the log:\n%s", log)
	}
}

// The platform limits the requests and the CPU time of one alarm.
func TestAlarm_Backlog(t *testing.T) {
	long.Skip(t, "TestAlarm_Backlog")
	in := newInbox(t)
	s, site := newSite(t, in, workerd.Config{Offset: -time.Hour})
	ids := make([]string, 450)
	for n := range ids {
		ids[n], _ = s.start()
	}
	arrived := func(event string) {
		t.Helper()
		wait.Until(t, "all of "+event, func() bool {
			return !slices.ContainsFunc(ids, func(id string) bool { return len(in.statuses(id, event)) == 0 })
		})
		for _, id := range ids {
			if got := in.statuses(id, event); !slices.Equal(got, []int{204}) {
				t.Errorf("%s came %v", event, got)
			}
		}
	}
	arrived("verification.started")
	site.Advance(10*time.Minute + time.Second)
	arrived("verification.expired")
	if most := site.MostJobs(); most > 200 || most < 100 {
		t.Errorf("an alarm ran %d jobs of 900, and may run 200", most)
	}
}

func TestSingleUse(t *testing.T) {
	s, site := newSite(t, newInbox(t), workerd.Config{})
	_, redirect := s.start()
	result := s.approve(redirect)
	const n = 50
	var wg sync.WaitGroup
	statuses := make([]int, n)
	for i := range n {
		wg.Go(func() { statuses[i] = s.validate(result).status })
	}
	wg.Wait()
	slices.Sort(statuses)
	want := append([]int{http.StatusOK}, slices.Repeat([]int{http.StatusConflict}, n-1)...)
	if !slices.Equal(statuses, want) {
		t.Errorf("%d simultaneous validates return %v, want one 200 and the rest 409", n, statuses)
	}
	// The alarm that delivers the session's events may still be active.
	wait.Until(t, "the end of all requests in the guest",
		func() bool { _, live := site.Guest(); return live == 0 })
}

// contract 27: a receiver that hangs takes only the places of its own destination.
func TestAlarm_HangingReceiver(t *testing.T) {
	in := newInbox(t)
	release := make(chan struct{})
	var asked atomic.Int64
	hanging := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked.Add(1)
		wait.For(release)
	}))
	defer hanging.Close()
	defer close(release)
	s, site := newSite(t, in, workerd.Config{FetchTimeout: 5 * time.Minute})
	const other = "c3d1a6b2-47e8-4f19-b6aa-90de4b7c5101"
	both := shop(in, "secret", webhookSecret)
	i := maps.Clone(both["integrations"].([]any)[0].(map[string]any))
	i["id"], i["webhook_url"] = other, hanging.URL
	both["integrations"] = append(both["integrations"].([]any), i)
	apply(t, site, both)
	for range 10 {
		s.startOn(other)
	}
	id, _ := s.start()
	in.cameAs(t, id, "verification.started", 204)
	if n := asked.Load(); n > 2 {
		t.Errorf("the hanging receiver has %d requests, and the limit is two", n)
	}
}

// Events for a slow receiver are postponed. Each arrives once.
func TestAlarm_SlowReceiver(t *testing.T) {
	t.Parallel()
	long.Skip(t, "TestAlarm_SlowReceiver")
	in := newInbox(t)
	in.delay = 900 * time.Millisecond
	s, _ := newSite(t, in, workerd.Config{})
	ids := make([]string, 12) // 5.4 s of work in two places; a job waits for at most 4 s
	for n := range ids {
		ids[n], _ = s.start()
	}
	wait.Until(t, "all events", func() bool {
		for _, id := range ids {
			if len(in.statuses(id, "verification.started")) == 0 {
				return false
			}
		}
		return true
	})
	for _, id := range ids {
		if got := in.statuses(id, "verification.started"); !slices.Equal(got, []int{204}) {
			t.Errorf("an event came %v", got)
		}
	}
}
