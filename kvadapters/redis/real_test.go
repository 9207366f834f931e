package redis_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters/kvtest"
	"github.com/verge-id/verge/kvadapters/redis"
	"github.com/verge-id/verge/testharness/stores"
)

func TestKVOnRedis(t *testing.T) {
	t.Parallel()
	s := stores.StartRedis(t, stores.Durable...)
	kvtest.Run(t, func(t *testing.T) kvtest.Harness {
		s.Do("flushall")
		return kvtest.Harness{
			KV: open(t, s.URL(), redis.Config{}), Now: time.Now, Advance: time.Sleep, ClockRuns: true,
			Reopen: func() kv.KV {
				s.Kill()
				s.Start()
				return open(t, s.URL(), redis.Config{})
			},
		}
	})
}

func TestKVOnACluster(t *testing.T) {
	t.Parallel()
	nodes := stores.StartCluster(t, 3)
	kvtest.Run(t, func(t *testing.T) kvtest.Harness {
		for _, n := range nodes {
			n.Do("flushall")
		}
		url := "redis+cluster://" + nodes[0].Addr()
		return kvtest.Harness{
			KV: open(t, url, redis.Config{}), Now: time.Now, Advance: time.Sleep, ClockRuns: true,
			Reopen: func() kv.KV {
				for _, n := range nodes {
					n.Kill()
				}
				for _, n := range nodes {
					n.Start()
				}
				nodes.Wait()
				return open(t, url, redis.Config{})
			},
		}
	})
}

func TestCluster_PartitionsSpread(t *testing.T) {
	nodes := stores.StartCluster(t, 3)
	s := open(t, "redis+cluster://"+nodes[0].Addr(), redis.Config{})
	for i := range 64 {
		tx := kv.Tx{
			ID:        "id",
			Partition: kv.Partition(fmt.Sprint("p", i)),
			Puts:      []kv.Put{{Name: "a"}},
			Schedule:  []kv.Task{{ID: "t", Due: time.Unix(1, 0)}},
		}
		if err := s.Commit(t.Context(), tx); err != nil {
			t.Fatal(err)
		}
	}
	total := int64(0)
	for _, n := range nodes {
		size := n.Do("dbsize").(int64)
		total += size
		if size < 4*8 {
			t.Errorf("one of three nodes has %d keys of 64 partitions with four each", size)
		}
	}
	if total != 4*64 {
		t.Errorf("%d keys for 64 partitions of an item and a task, want four each", total)
	}
}

// TestCluster_Counters charges rate counters on a Cluster, whose nodes share those of a partition.
func TestCluster_Counters(t *testing.T) {
	t.Parallel()
	nodes := stores.StartCluster(t, 3)
	for _, n := range nodes {
		n.Do("config", "set", "cluster-require-full-coverage", "no")
	}
	s := open(t, "redis+cluster://"+nodes[0].Addr()+"?addr="+nodes[1].Addr(), redis.Config{})
	t.Run("spread", func(t *testing.T) { countersSpread(t, nodes, s) })
	t.Run("given back together", func(t *testing.T) { chargesGivenBackTogether(t, s) })
	t.Run("given back", func(t *testing.T) { chargesGivenBack(t, nodes[2], s) })
}

// The counters of one partition must not all be on one node.
func countersSpread(t *testing.T, nodes []*stores.Redis, s kv.Meter) {
	const counters = 300
	for i := range counters {
		charge := []kv.Charge{{Name: fmt.Sprint("c", i), Cost: time.Second, Burst: time.Minute}}
		if _, err := s.Spend(t.Context(), "limits", time.Now(), charge); err != nil {
			t.Fatal(err)
		}
	}
	total := int64(0)
	for _, n := range nodes {
		size := n.Do("dbsize").(int64)
		total += size
		if size < counters/6 {
			t.Errorf("one of three nodes has %d of %d counters", size, counters)
		}
	}
	if total != counters {
		t.Errorf("the nodes have %d counters, want %d", total, counters)
	}
}

// A charge that another node denies, or that it cannot apply, is given back. The last node ends.
func chargesGivenBack(t *testing.T, last *stores.Redis, s kv.Meter) {
	now := time.Now().Truncate(time.Microsecond)
	spend := func(charges ...kv.Charge) ([]time.Time, error) {
		return s.Spend(t.Context(), "limits", now, charges)
	}
	wide := func(name string) kv.Charge {
		return kv.Charge{Name: name, Cost: time.Second, Burst: time.Minute}
	}
	full := kv.Charge{Name: "full", Cost: time.Second, Burst: time.Second}
	if _, err := spend(full); err != nil {
		t.Fatal(err)
	}
	for i := range 60 { // on all shards, before and after the denial
		first, last := wide(fmt.Sprint("first", i)), wide(fmt.Sprint("last", i))
		tats, err := spend(first, full, last)
		if err != nil || !tats[0].IsZero() || !tats[1].Equal(now.Add(time.Second)) || !tats[2].IsZero() {
			t.Fatalf("denied: %v, %v", tats, err)
		}
		if tats, err = spend(first, last); err != nil || !tats[0].IsZero() || !tats[1].IsZero() {
			t.Fatalf("after the denial: %v, %v", tats, err)
		}
	}
	last.Kill()
	failures := 0
	for i := range 60 {
		up, other := wide(fmt.Sprint("up", i)), wide(fmt.Sprint("other", i))
		if _, err := spend(up); err != nil {
			continue // it is on the node that is down
		}
		if _, err := spend(up, other); err == nil {
			continue
		}
		failures++
		if tats, err := spend(up); err != nil || !tats[0].Equal(now.Add(time.Second)) {
			t.Errorf("after a failure of the other node: %v, %v, want one charge", tats, err)
		}
	}
	if failures == 0 {
		t.Error("no call met the node that is down")
	}
}

// A counter that others charge meanwhile has their charges and no others.
func chargesGivenBackTogether(t *testing.T, s kv.Meter) {
	now := time.Now().Truncate(time.Microsecond)
	shared := kv.Charge{Name: "shared", Cost: time.Second, Burst: time.Hour}
	full := kv.Charge{Name: "spent", Cost: time.Second, Burst: time.Second}
	spend := func(charges ...kv.Charge) []time.Time {
		tats, err := s.Spend(t.Context(), "limits", now, charges)
		if err != nil {
			t.Error(err)
		}
		return tats
	}
	spend(full)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 50 {
				spend(shared, full)
				spend(shared)
			}
		})
	}
	wg.Wait()
	if tat := spend(shared)[0]; !tat.Equal(now.Add(200 * time.Second)) {
		t.Errorf("the counter is %v, want 200 charges after %v", tat, now)
	}
}
