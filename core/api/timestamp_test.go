package api

import (
	"math/rand/v2"
	"testing"
	"time"
)

// Contract 2: RFC 3339 in UTC, with milliseconds, cut off and not rounded.
func TestTimestamp(t *testing.T) {
	check := func(at time.Time) {
		if got, want := timestamp(at), at.UTC().Format("2006-01-02T15:04:05.000Z"); got != want {
			t.Errorf("%v is %s, want %s", at, got, want)
		}
	}
	for _, at := range []time.Time{{}, time.Unix(0, 0), time.Unix(1, 999_999_999), time.Unix(1<<31, 5_000_000),
		time.UnixMilli(1<<48 - 1),
		time.Date(2026, 2, 28, 23, 59, 59, 999_499_999, time.FixedZone("", -7*3600))} {
		check(at)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		check(time.UnixMicro(rng.Int64N(1 << 58)))
	}
}
