package invariants_test

import (
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters/bolt"
	"github.com/verge-id/verge/kvadapters/kvtest"
	"github.com/verge-id/verge/kvadapters/memory"
	"github.com/verge-id/verge/kvadapters/postgres"
	"github.com/verge-id/verge/kvadapters/redis"
	"github.com/verge-id/verge/testharness/long"
	"github.com/verge-id/verge/testharness/stores"
)

// impatient are options of a Redis URL that close a silent connection soon enough for a test.
const impatient = "read_timeout=700ms&write_timeout=700ms&dial_timeout=700ms&pool_timeout=1s&pool_size=24"

// patient are options of a Redis URL for tests without faults, with limits far above the time that a slow
// machine needs.
const patient = "read_timeout=1m&write_timeout=1m&dial_timeout=1m&pool_timeout=1m"

func openRedis(t testing.TB, url string) kv.KV {
	t.Helper()
	s, err := redis.Open(t.Context(), url, redis.Config{})
	must(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// faultTimeout is the time limit of a statement in tests that wait for it.
const faultTimeout = 2 * time.Second

func openPostgres(t testing.TB, url string, timeout time.Duration) kv.KV {
	t.Helper()
	s, err := postgres.Open(t.Context(), url, postgres.Config{Timeout: timeout})
	must(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

func openBolt(t testing.TB) kv.KV {
	t.Helper()
	s, err := bolt.Open(filepath.Join(t.TempDir(), "verge.db"), bolt.Config{})
	must(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

func openMemory(testing.TB) kv.KV { return memory.New(memory.Config{}) }

// startMiniredis starts a server of the Redis protocol that needs no installation.
func startMiniredis(t testing.TB) *miniredis.Miniredis {
	if stores.RedisInstalled() {
		long.Skip(t, "TestFaultsOfTheNetwork")
	}
	t.Helper()
	m := miniredis.NewMiniRedis()
	must(t, m.Start())
	t.Cleanup(m.Close)
	return m
}

// faulty is a store with a switch for faults.
type faulty struct {
	*kvtest.Faulty
	on atomic.Bool
}

func newFaulty(store kv.KV, seed uint64, odds map[kvtest.Fault]float64) *faulty {
	f := &faulty{}
	decide := kvtest.Seeded(seed, odds)
	f.Faulty = &kvtest.Faulty{KV: store, Decide: func(c kvtest.Call) kvtest.Fault {
		if f.on.Load() {
			return decide(c)
		}
		return kvtest.Pass
	}}
	return f
}

// times returns the factor VERGE_FAULT_TIMES, by default 1: the tests of random faults run that much longer.
func times() int {
	n, _ := strconv.Atoi(os.Getenv("VERGE_FAULT_TIMES"))
	return max(1, n)
}
