package redis_test

import (
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters/kvtest"
	"github.com/verge-id/verge/kvadapters/redis"
	"github.com/verge-id/verge/testharness/long"
	"github.com/verge-id/verge/testharness/stores"
)

func open(t *testing.T, url string, c redis.Config) *redis.Store {
	t.Helper()
	s, err := redis.Open(t.Context(), url, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// mini is a miniredis whose TTLs follow the clock. Its time is a millisecond behind the clock: miniredis
// removes a key at its time, Redis only after it.
func mini(t *testing.T) (*miniredis.Miniredis, *kvtest.Clock, func(time.Duration)) {
	t.Helper()
	m := miniredis.RunT(t)
	clock := kvtest.NewClock()
	set := func() { m.SetTime(clock.Now().Add(-time.Millisecond)) }
	set()
	m.ClockTTL(true)
	return m, clock, func(d time.Duration) {
		clock.Advance(d)
		set()
	}
}

func TestKVOnMiniredis(t *testing.T) {
	if stores.RedisInstalled() {
		long.Skip(t, "TestKVOnMiniredis")
	}
	kvtest.Run(t, func(t *testing.T) kvtest.Harness {
		m, clock, advance := mini(t)
		url := "redis://" + m.Addr()
		return kvtest.Harness{KV: open(t, url, redis.Config{}), Now: clock.Now, Advance: advance,
			Reopen: func() kv.KV { return open(t, url, redis.Config{}) }}
	})
}
