package redis_test

import (
	"fmt"
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
