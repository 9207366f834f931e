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
	b.Run("steady", func(b *testing.B) { steady(b, receiver, bare.sender(b), s.sender(b)) })
}

// sender sends one request whose event the receiver gets, and returns the event's session.
type sender func() (session string, err error)

// sender starts sessions over one connection.
func (s *service) sender(b *testing.B) sender {
	to, err := dial(s.addr)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { to.Close() })
	return func() (string, error) { return s.startOnce(to) }
}

// sender has the forwarder post events over one connection.
func (f *forwarder) sender(b *testing.B) sender {
	to, err := dial(f.addr)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { to.Close() })
	n := 0
	return func() (string, error) {
		n++
		session := fmt.Sprintf("steady%d", n)
		_, err := to.ask(request("POST", "/", "", session))
		return session, err
	}
}

// steady measures the time from a request to its event. Verge and the floor take turns, so that both run on
// the same machine: it can be a third slower a minute later, which is more than the difference.
func steady(b *testing.B, receiver *sink, floor, verge sender) {
	const events = 500
	all := receiver.expect(2 * events)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	times := func(send sender, sent map[string]time.Time) {
		wait.For(tick.C)
		at := time.Now()
		session, err := send()
		if err != nil {
			b.Fatal(err)
		}
		sent[session] = at
	}
	sent, floorSent := make(map[string]time.Time, events), make(map[string]time.Time, events)
	for range events {
		times(verge, sent)
		times(floor, floorSent)
	}
	if err := within(time.Minute, all); err != nil {
		b.Fatal(err)
	}
	v, f := receiver.delays(sent), receiver.delays(floorSent)
	for _, percent := range []int{50, 99} {
		v, f := float64(v[events*percent/100]), float64(f[events*percent/100])
		b.ReportMetric(v, fmt.Sprintf("p%d-ns", percent))
		b.ReportMetric(f, fmt.Sprintf("floor-p%d-ns", percent))
		b.ReportMetric(f/v, fmt.Sprintf("p%d-ratio", percent))
	}
}

// BenchmarkDeliveryLog is steady on Redis for a service whose log has 10,000 delivered events. The floor is
// the same service with an empty log.
func BenchmarkDeliveryLog(b *testing.B) {
	const entries = 10_000
	receiver := newSink(b)
	empty := newService(b, startRedis(b).open(b), receiver.url)
	full := newService(b, startRedis(b).open(b), receiver.url)
	all := receiver.expect(entries)
	full.begin(b, entries)
	if err := within(5*time.Minute, all); err != nil {
		b.Fatal(err)
	}
	b.Run("redis", func(b *testing.B) { steady(b, receiver, empty.sender(b), full.sender(b)) })
}

func within(limit time.Duration, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-time.After(limit):
		return fmt.Errorf("not all events arrived within %s", limit)
	}
}
