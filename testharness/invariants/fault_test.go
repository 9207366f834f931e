package invariants_test

import (
	"context"
	"testing"
	"time"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters/kvtest"
	"github.com/verge-id/verge/testharness/faultproxy"
	"github.com/verge-id/verge/testharness/stores"
)

const clients = 4

// network are odds at which most walks succeed and every run has faults.
var network = faultproxy.Odds{
	faultproxy.Delay: .05, faultproxy.Slow: .01, faultproxy.Reject: .1,
	faultproxy.DropRequest: .015, faultproxy.DropReply: .03, faultproxy.HangRequest: .003,
	faultproxy.HangReply: .006,
}

// trouble puts load on a service, lets a fault begin and end, and audits the result.
func trouble(t *testing.T, c setup, seed uint64, fault func(b *ledger)) {
	t.Helper()
	b := newLedger(newService(t, c), seed)
	stop := b.load(clients)
	if !within(recovery, func() bool { return b.walks.Load() >= clients }) {
		t.Error("no walk succeeds before the fault")
	}
	fault(b)
	since := time.Now()
	b.recovers(t, since)
	time.Sleep(300 * time.Millisecond) // and under load
	stop()
	b.audit(t, since)
}

// stale is the time for which the directory caches.
const stale = 5 * time.Second

// A store in this process whose calls fail.
func TestFaultsOfCalls(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(testing.TB) kv.KV{"memory": openMemory, "bolt": openBolt} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seed := faultproxy.Seed(t, 1)
			f := newFaulty(open(t), seed, map[kvtest.Fault]float64{
				kvtest.Reject: .03, kvtest.LoseRequest: .02, kvtest.LoseReply: .05, kvtest.Delay: .02})
			clock := &clock{}
			trouble(t, setup{Store: f, Clock: clock}, seed, func(*ledger) {
				f.on.Store(true)
				for n := range 60 * times() {
					time.Sleep(25 * time.Millisecond)
					f.Deliver(context.Background())
					if n%2 == 0 && n < 60 { // no token lives for more than 5 minutes
						clock.Jump(stale) // so that the directory reads the store, too
					}
				}
				f.on.Store(false)
				f.Deliver(context.Background())
			})
		})
	}
}

// A network between Verge and a server of the Redis protocol.
func TestFaultsOfTheNetwork(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(t *testing.T) (addr string){
		"miniredis": func(t *testing.T) string { return startMiniredis(t).Addr() },
		"redis":     func(t *testing.T) string { return stores.StartRedis(t).Addr() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seed := faultproxy.Seed(t, 1)
			p := faultproxy.New(t, start(t), faultproxy.Config{Seed: seed, Odds: network})
			store := openRedis(t, "redis://"+p.Addr()+"?"+impatient)
			trouble(t, setup{Store: store, Shared: true, Partitions: 4}, seed, func(*ledger) { cutOff(t, p) })
		})
	}
}

// cutOff makes the network lose requests and replies, then hang, and then be down.
func cutOff(t *testing.T, p *faultproxy.Proxy) {
	t.Helper()
	p.On()
	time.Sleep(time.Duration(times()) * 4 * time.Second)
	p.Use(faultproxy.Always(faultproxy.HangReply))
	time.Sleep(500 * time.Millisecond)
	p.Down()
	time.Sleep(500 * time.Millisecond)
	must(t, p.Up())
	p.Off()
	t.Log(p.Summary())
	if p.Count(faultproxy.DropReply) == 0 || p.Count(faultproxy.DropRequest) == 0 {
		t.Error("the faults hit no request")
	}
}
