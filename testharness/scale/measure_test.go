package scale

import (
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/testharness/faultproxy"
	"github.com/verge-id/verge/testharness/wait"
)

// result is the measurement of one store with a number of instances.
type result struct {
	store     string
	version   string
	instances int

	session cost // one whole session without webhooks
	event   cost // one event
	wall    time.Duration

	pending, finished extent // of one session

	rest, peak, perThousand float64 // resident memory of an instance in MiB
	connections             float64 // of an instance
	idle                    float64 // cores of an instance at rest
	calls                   map[string]float64
	byStep                  []float64 // calls of the store in each request, if known
	trips                   []float64 // round trips to the store that each request waits for, if known
}

// cost is processor time of the service and of the store's server.
type cost struct{ service, server time.Duration }

func (c cost) minus(other cost) cost { return cost{c.service - other.service, c.server - other.server} }

func (c cost) over(n int) cost {
	return cost{c.service / time.Duration(n), c.server / time.Duration(n)}
}

// eventsOf is the number of events of a whole session: started and completed.
const eventsOf = 2

// measure runs all parts on one store.
func measure(t testing.TB, s store, n, sessions int) result {
	t.Helper()
	sink := newReceiver(t)
	srv := s.open(t)
	d := deploy(t, srv.url, sink.URL, free, n)
	r := result{store: s.name, version: srv.version, instances: n, rest: d.resident()}
	size := func() (e extent) {
		if srv.size != nil {
			e = srv.size(d)
		}
		return e
	}
	expected := 0
	run := func(count, events int, do func(i int) error) (spent cost, took time.Duration) {
		t.Helper()
		before, begin := cost{d.cpu(), srv.cpu()}, time.Now()
		if err := each(count, do); err != nil {
			t.Fatal(err)
		}
		expected += count * events
		wait.Until(t, "all events", func() bool { return sink.count() >= expected })
		took = time.Since(begin)
		time.Sleep(300 * time.Millisecond) // until the last deliveries are recorded
		return cost{d.cpu(), srv.cpu()}.minus(before), took
	}
	whole := func(integration string) func(i int) error {
		return func(i int) error { return d.walk(i, integration) }
	}
	run(max(sessions/10, *usersFlag), eventsOf, whole(withEvents)) // connections and plans of queries
	rest := min(3*time.Second, time.Duration(sessions)*10*time.Millisecond)
	begun := d.cpu()
	time.Sleep(rest)
	r.idle = float64(d.cpu()-begun) / float64(rest) / float64(n)
	if s.shared && n == 1 {
		r.byStep, r.trips = callsByStep(t, d, sink), roundTrips(t, s)
		expected += eventsOf * probes
	}

	empty, resident := size(), d.resident()
	run(sessions, 1, func(i int) error {
		_, err := d.startSession(d.at(i, 0), withEvents)
		return err
	})
	if s.name == "memory" || s.shared { // a bolt instance starts again for each size
		r.perThousand = (d.resident() - resident) * 1000 / float64(sessions)
	}
	started := size()
	r.pending = started.minus(empty).over(sessions)

	spent, _ := run(sessions, 0, whole(withoutEvents))
	r.session = spent.over(sessions)
	before, calls := size(), d.calls()
	spent, took := run(sessions, eventsOf, whole(withEvents))
	r.event = spent.over(sessions).minus(r.session).over(eventsOf)
	r.wall = took / time.Duration(sessions)
	r.calls = map[string]float64{}
	for operation, count := range d.calls() {
		r.calls[operation] = (count - calls[operation]) / float64(sessions)
	}
	r.peak = d.peak()
	r.connections = float64(srv.connections()) / float64(n)
	r.finished = size().minus(before).over(sessions)
	if sink.count() != expected || sink.doubled > 0 {
		t.Fatalf("%s: %d events were lost and %d came twice", s.name, expected-sink.count(), sink.doubled)
	}
	return r
}

// probes is the number of sessions whose requests are counted one at a time.
const probes = 5

// callsByStep returns the number of calls of the store in each request of a session: the least of several
// sessions, because tasks of the background count, too. The caches of the instance are filled.
func callsByStep(t testing.TB, d *deployment, sink *receiver) []float64 {
	t.Helper()
	least := make([]float64, len(steps))
	count := func() (sum float64) {
		for operation, n := range d.calls() {
			if operation != "claim" {
				sum += n
			}
		}
		return sum
	}
	for probe := range probes {
		events, release := sink.count(), sink.hold()
		before := count()
		err := d.walkWith(0, withEvents, func(step int) {
			now := count()
			if calls := now - before; probe == 0 || calls < least[step] {
				least[step] = calls
			}
			before = now
		})
		release()
		if err != nil {
			t.Fatal(err)
		}
		wait.Until(t, "the events of a probe", func() bool { return sink.count() >= events+eventsOf })
		time.Sleep(50 * time.Millisecond) // until the deliveries are recorded
	}
	return least
}

// distance is a round trip to a far region. It is much longer than a request takes otherwise.
const distance = 200 * time.Millisecond

// roundTrips returns the number of times that each request of a session waits for a store at a distance: the
// least of several sessions, because some of them fill caches.
func roundTrips(t testing.TB, s store) []float64 {
	t.Helper()
	srv := s.open(t)
	proxy := faultproxy.New(t, srv.addr, faultproxy.Config{Delay: distance,
		Odds: faultproxy.Odds{faultproxy.Delay: 1}})
	d := deploy(t, strings.Replace(srv.url, srv.addr, proxy.Addr(), 1), newReceiver(t).URL, free, 1)
	if err := d.walk(0, withoutEvents); err != nil {
		t.Fatal(err)
	}
	proxy.On()
	defer proxy.Off()
	least := make([]float64, len(steps))
	for probe := range 3 {
		begin := time.Now()
		err := d.walkWith(0, withoutEvents, func(step int) {
			trips := math.Round(float64(time.Since(begin)) / float64(distance))
			if probe == 0 || trips < least[step] {
				least[step] = trips
			}
			begin = time.Now()
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return least
}

func (e extent) minus(other extent) extent {
	e.bytes, e.rows = e.bytes-other.bytes, e.rows-other.rows
	for i := range e.kept {
		e.kept[i].rows -= other.kept[i].rows
		e.kept[i].bytes -= other.kept[i].bytes
	}
	return e
}

func (e extent) over(n int) extent {
	e.bytes, e.rows = e.bytes/float64(n), e.rows/float64(n)
	for i := range e.kept {
		e.kept[i].rows /= float64(n)
		e.kept[i].bytes /= float64(n)
	}
	return e
}

// TestProcessorTime_OfProcess compares the time of this process in /proc with the time that the system
// reports to it.
func TestProcessorTime_OfProcess(t *testing.T) {
	before, begin := processorTime(t, os.Getpid()), own(t)
	for own(t)-begin < 60*time.Millisecond {
	}
	got, want := processorTime(t, os.Getpid())-before, own(t)-begin
	if got < want-4*clockTick || got > want+4*clockTick {
		t.Errorf("/proc has %s, the system reports %s", got, want)
	}
}
