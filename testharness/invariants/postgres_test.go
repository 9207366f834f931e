package invariants_test

import (
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/testharness/faultproxy"
	"github.com/verge-id/verge/testharness/long"
	"github.com/verge-id/verge/testharness/stores"
)

// PostgreSQL: faults of a server, a failover, and a network that fails.
func TestFaultsOfPostgres(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		short bool // part of the short run
		fault func(s *stores.Postgres)
	}{
		{"kill -9, and back with its data", true, func(s *stores.Postgres) {
			for range 2 {
				s.Kill()
				time.Sleep(500 * time.Millisecond)
				s.Start()
				time.Sleep(500 * time.Millisecond)
			}
		}},
		{"a restart in order", false, func(s *stores.Postgres) {
			s.Stop()
			time.Sleep(300 * time.Millisecond)
			s.Start()
		}},
		{"it is read-only", false, func(s *stores.Postgres) {
			s.Set("default_transaction_read_only", "on")
			time.Sleep(time.Second)
			s.Set("default_transaction_read_only", "off")
		}},
		{"it has no replica to wait for", false, func(s *stores.Postgres) {
			s.Set("synchronous_standby_names", "nobody")
			time.Sleep(4 * time.Second) // a commit waits for 2
			s.Set("synchronous_standby_names", "")
		}},
		{"SIGSTOP", false, func(s *stores.Postgres) {
			s.Freeze()
			time.Sleep(2500 * time.Millisecond)
			s.Thaw()
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if !c.short {
				long.Skip(t, "TestFaultsOfPostgres")
			}
			t.Parallel()
			s := stores.StartPostgres(t)
			on := setup{Store: openPostgres(t, s.URL("verge"), faultTimeout), Shared: true, Partitions: 4}
			trouble(t, on, faultproxy.Seed(t, 1), func(b *ledger) { c.fault(s); b.rejected(t) })
		})
	}
	t.Run("a failover to a synchronous replica", func(t *testing.T) {
		long.Skip(t, "TestFaultsOfPostgres")
		t.Parallel()
		primary := stores.StartPostgres(t)
		replica := primary.Replica("one")
		primary.Set("synchronous_standby_names", "one")
		url := strings.Replace(primary.URL("verge"), primary.Addr(), primary.Addr()+","+replica.Addr(), 1)
		on := setup{Store: openPostgres(t, url, faultTimeout), Shared: true, Partitions: 4}
		trouble(t, on, faultproxy.Seed(t, 1), func(b *ledger) {
			primary.Kill()
			time.Sleep(500 * time.Millisecond)
			replica.Promote()
			b.rejected(t)
		})
	})
	t.Run("the network", func(t *testing.T) {
		t.Parallel()
		server := stores.StartPostgres(t)
		seed := faultproxy.Seed(t, 1)
		p := faultproxy.New(t, server.Addr(), faultproxy.Config{Seed: seed, Odds: network})
		url := strings.Replace(server.URL("verge"), server.Addr(), p.Addr(), 1)
		on := setup{Store: openPostgres(t, url, faultTimeout), Shared: true, Partitions: 4}
		trouble(t, on, seed, func(*ledger) { cutOff(t, p) })
	})
}

// rejected checks that the fault had an effect: some request was rejected.
func (b *ledger) rejected(t *testing.T) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.calls[503] == 0 {
		t.Errorf("the fault hit no request: %v", b.calls)
	}
}
