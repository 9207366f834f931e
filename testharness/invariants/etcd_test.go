package invariants_test

import (
	"testing"
	"time"

	"github.com/verge-id/verge/testharness/faultproxy"
	"github.com/verge-id/verge/testharness/stores"
)

// etcd: another leader, the death of the leader, and a network that fails.
func TestFaultsOfEtcd(t *testing.T) {
	t.Parallel()
	t.Run("the leader changes, and is killed", func(t *testing.T) {
		t.Parallel()
		cluster := stores.StartEtcdCluster(t, 3)
		on := setup{Store: openEtcd(t, cluster.URL("verge")), Shared: true, Partitions: 2}
		trouble(t, on, faultproxy.Seed(t, 1), func(*book) {
			for range 2 {
				cluster.MoveLeader()
				time.Sleep(300 * time.Millisecond)
			}
			leader := cluster.Leader()
			leader.Kill()
			time.Sleep(3 * time.Second) // an election takes one to two seconds
			leader.Start()
			cluster.Wait()
		})
	})
	t.Run("the network", func(t *testing.T) {
		t.Parallel()
		server := stores.StartEtcd(t)
		seed := faultproxy.Seed(t, 1)
		// One connection carries all requests, so one fault hits many of them.
		p := faultproxy.New(t, server.Addr, faultproxy.Config{Seed: seed, Odds: faultproxy.Odds{
			faultproxy.Delay: .05, faultproxy.Slow: .003, faultproxy.DropRequest: .004,
			faultproxy.DropReply: .008}})
		on := setup{Store: openEtcd(t, "etcd://"+p.Addr()+"/verge"), Shared: true, Partitions: 2}
		trouble(t, on, seed, func(*book) {
			p.On()
			time.Sleep(3 * time.Second)
			p.Use(faultproxy.Always(faultproxy.HangReply)) // the only connection brings no reply
			time.Sleep(time.Second)
			p.Off()
			t.Log(p.Summary())
		})
	})
}
