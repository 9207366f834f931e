package scale

import (
	"fmt"
	"math"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters"
)

const (
	perCommit  = kv.MaxTx // tasks that one commit schedules
	dueNow     = 10       // tasks that a claim returns
	claimCount = 300
	warmUp     = 30 // claims before the measured ones
)

// claimed is the processor time of a claim of dueNow tasks, with a number of timers pending.
type claimed struct {
	store  string
	timers int
	cost   cost
}

// opened opens a store in this process.
func opened(t testing.TB, srv server) kv.KV {
	t.Helper()
	address, err := kvadapters.ParseAddress(srv.url)
	if err != nil {
		t.Fatal(err)
	}
	store, closeStore, err := address.Open(t.Context(), kvadapters.OpenConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeStore() })
	return store
}

// counter is the measurement of one rate counter that many requests spend, such as a publisher's.
type counter struct {
	store     string
	cost      cost
	perSecond float64
}

// spends measures n spends of one counter, as many at the same time as there are users.
func spends(t testing.TB, s store, n int) counter {
	t.Helper()
	srv := s.open(t)
	meter, ok := opened(t, srv).(kv.Meter)
	if !ok {
		t.Fatalf("%s keeps no counters", s.name)
	}
	charge := []kv.Charge{{Name: "counter", Cost: time.Microsecond, Burst: time.Hour}}
	spend := func(int) error {
		_, err := meter.Spend(t.Context(), "limits", time.Now(), charge)
		return err
	}
	if err := each(*usersFlag, spend); err != nil { // connections
		t.Fatal(err)
	}
	before, begin := cost{own(t), srv.cpu()}, time.Now()
	if err := each(n, spend); err != nil {
		t.Fatal(err)
	}
	return counter{s.name, cost{own(t), srv.cpu()}.minus(before).over(n),
		float64(n) / time.Since(begin).Seconds()}
}

// claims measures claims on one store with growing numbers of timers.
func claims(t testing.TB, s store, timers []int) (results []claimed) {
	t.Helper()
	srv := s.open(t)
	store := opened(t, srv)
	now, filled := time.Now(), 0
	schedule(t, store, "due/", 0, dueNow, now.Add(-time.Hour))
	for _, n := range timers {
		schedule(t, store, "timer/", filled, n, now.Add(1000*time.Hour))
		filled = n
		runtime.GC() // otherwise claims pay for the memory of the previous commits
		var before cost
		for i := range warmUp + claimCount {
			if i == warmUp {
				before = cost{own(t), srv.cpu()}
			}
			now = now.Add(2 * time.Millisecond) // the leases of the previous claim have ended
			got, _, err := store.Claim(t.Context(), "p0", now, time.Millisecond, dueNow)
			if err != nil || len(got) != dueNow {
				t.Fatalf("%s: a claim returned %d tasks, %v", s.name, len(got), err)
			}
		}
		results = append(results,
			claimed{s.name, n, cost{own(t), srv.cpu()}.minus(before).over(claimCount)})
	}
	return results
}

// schedule adds tasks with the numbers from from to below to.
func schedule(t testing.TB, store kv.KV, kind string, from, to int, due time.Time) {
	t.Helper()
	err := each((to-from+perCommit-1)/perCommit, func(part int) error {
		first := from + part*perCommit
		tx := kv.Tx{ID: fmt.Sprint(kind, first), Partition: "p0"}
		for i := first; i < min(first+perCommit, to); i++ {
			tx.Schedule = append(tx.Schedule, kv.Task{ID: fmt.Sprint(kind, i),
				Due: due.Add(time.Duration(i) * time.Millisecond), Payload: make([]byte, 100)})
		}
		return store.Commit(t.Context(), tx)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// own returns the processor time of this process.
func own(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// extrapolate returns the cost of a claim with more timers than were measured. Indexes are trees, so the cost
// grows at most by the same amount each time that the number of timers is multiplied by the same factor.
func extrapolate(few, many claimed, timers int) time.Duration {
	a, b := few.cost.service+few.cost.server, many.cost.service+many.cost.server
	step := math.Log(float64(many.timers) / float64(few.timers))
	factor := math.Log(float64(timers)/float64(many.timers)) / step
	return b + max(0, time.Duration(float64(b-a)*factor))
}
