package bench

import (
	"fmt"
	"testing"
	"time"

	"github.com/verge-id/verge/testharness/wait"
)

// BenchmarkDelivery measures the outbox on each store. backlog is the time in which 10,000 events leave it
// for one receiver; the goal is 2,500 events a second. steady is the time from a start to its event at 100
// starts a second; the goal of its 99th percentile is 20 ms.
func BenchmarkDelivery(b *testing.B) {
	b.Run("memory", func(b *testing.B) { delivery(b, onMemory, nil) })
	b.Run("bolt", func(b *testing.B) { delivery(b, onBolt, nil) })
	b.Run("redis", func(b *testing.B) {
		server := startRedis(b)
		delivery(b, server.open, &server)
	})
}

// delivery measures one store. server is the store's Redis, or nil.
func delivery(b *testing.B, open storage, server *redisServer) {
	receiver := newSink(b)
	s := newService(b, open(b), receiver.url)
	first := receiver.expect(1)
	size := len(askOnce(b, s.addr, s.startRequest()))
	wait.For(first)
	bare := newForwarder(b, receiver, server, size)
	busy := busy
	if server != nil {
		busy = server.busy
	}
	b.Run("backlog", func(b *testing.B) {
		const backlog = 10_000
		// timed returns the cost of an event that send has the receiver get.
		timed := func(send func() error) cost {
			return measure(b, backlog, busy, func(n int) error {
				all := receiver.expect(n)
				if err := send(); err != nil {
					return err
				}
				return within(time.Minute, all)
			})
		}
		var f, v cost
		for b.Loop() {
			b.StopTimer()
			s.pause()
			f = timed(func() error { return bare.drain(backlog) })
			s.begin(b, backlog)
			b.StartTimer()
			v = timed(func() error { s.resume(); return nil })
		}
		b.ReportMetric(1e9/v.wall, "events/s")
		b.ReportMetric(1e9/f.wall, "floor-events/s")
		b.ReportMetric(f.wall/v.wall, "ratio")
		b.ReportMetric(f.cpu/v.cpu, "cpu-ratio")
	})
	b.Run("steady", func(b *testing.B) { steady(b, s, bare, receiver) })
}

// steady measures the time from a start to its event. The service and its floor take turns, so that both run
// on the same machine: it can be a third slower a minute later, which is more than the difference.
func steady(b *testing.B, s *service, bare *forwarder, receiver *sink) {
	const events = 500
	toVerge, err := dial(s.addr)
	if err != nil {
		b.Fatal(err)
	}
	defer toVerge.Close()
	toFloor, err := dial(bare.addr)
	if err != nil {
		b.Fatal(err)
	}
	defer toFloor.Close()
	sent, floorSent := make(map[string]time.Time, events), make(map[string]time.Time, events)
	all := receiver.expect(2 * events)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for i := range events {
		wait.For(tick.C)
		at := time.Now()
		id, err := s.startOnce(toVerge)
		if err != nil {
			b.Fatal(err)
		}
		sent[id] = at
		wait.For(tick.C)
		id, at = fmt.Sprintf("steady%d", i), time.Now()
		if _, err := toFloor.ask(request("POST", "/", "", id)); err != nil {
			b.Fatal(err)
		}
		floorSent[id] = at
	}
	if err := within(time.Minute, all); err != nil {
		b.Fatal(err)
	}
	verge, floor := receiver.delays(sent), receiver.delays(floorSent)
	for _, percent := range []int{50, 99} {
		v, f := float64(verge[events*percent/100]), float64(floor[events*percent/100])
		b.ReportMetric(v, fmt.Sprintf("p%d-ns", percent))
		b.ReportMetric(f, fmt.Sprintf("floor-p%d-ns", percent))
		b.ReportMetric(f/v, fmt.Sprintf("p%d-ratio", percent))
	}
}

func within(limit time.Duration, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-time.After(limit):
		return fmt.Errorf("not all events arrived within %s", limit)
	}
}
