package redis_test

import (
	"testing"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters/redis"
	"github.com/verge-id/verge/testharness/stores"
)

func measure(t *testing.T, s *redis.Store) kv.Space {
	t.Helper()
	space, err := s.Measure(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return space
}

func TestMeasure(t *testing.T) {
	t.Parallel()
	server := stores.StartRedis(t)
	s := open(t, server.URL(), redis.Config{})
	if got := measure(t, s); got.Size <= 0 || got.Free != -1 || got.Capacity != -1 {
		t.Errorf("without maxmemory: %+v", got)
	}
	const limit = 64 << 20
	server.Do("config", "set", "maxmemory", "64mb")
	server.Do("config", "set", "maxmemory-policy", "noeviction")
	if got := measure(t, s); got.Capacity != limit || got.Free != limit-got.Size {
		t.Errorf("with maxmemory: %+v", got)
	}
	server.Do("acl", "setuser", "default", "-info")
	if got := measure(t, s); got.Size != -1 || got.Free != -1 {
		t.Errorf("without the right to run INFO: %+v", got)
	}
}

func TestMeasure_Cluster(t *testing.T) {
	t.Parallel()
	nodes := stores.StartCluster(t, 3)
	for _, n := range nodes {
		n.Do("config", "set", "maxmemory", "64mb")
	}
	s := open(t, "redis+cluster://"+nodes[0].Addr(), redis.Config{})
	if got := measure(t, s); got.Capacity != 3*64<<20 || got.Size <= 0 {
		t.Errorf("three nodes: %+v", got)
	}
}
