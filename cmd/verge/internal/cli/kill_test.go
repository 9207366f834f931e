package cli

import (
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/verge-id/verge/testharness/faultproxy"
	"github.com/verge-id/verge/testharness/long"
	"github.com/verge-id/verge/testharness/stores"
	"github.com/verge-id/verge/testharness/wait"
)

// TestKill kills the process at random points of many verifications and starts another one on the same
// store. It checks that all acknowledged results stay true:
//
//   - I3: the started event of every started session and the completed event of every completed one
//     arrive in the end, with the same bytes each time (I4).
//   - I1: no result token validates twice, neither at the same time nor before and after a crash.
func TestKill(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		store string
		open  func(t *testing.T) string
		lease time.Duration // how long a killed process keeps its tasks from the next one
	}{
		{"bolt", func(t *testing.T) string { return "bolt:" + filepath.Join(t.TempDir(), "verge.db") }, 0},
		{"redis", func(t *testing.T) string { return stores.StartRedis(t, stores.Durable...).URL() },
			11 * time.Second}, // of the shorter timeout below
	} {
		t.Run(c.store, func(t *testing.T) {
			t.Parallel()
			kills := long.Pick(t, "TestKill", 2, 200)
			seed := faultproxy.Seed(t, rand.Uint64())
			killing(t, c.open(t), kills, c.lease, rand.New(rand.NewPCG(seed, 0)))
		})
	}
}

func killing(t *testing.T, kv string, kills int, lease time.Duration, rng *rand.Rand) {
	sink := newEvents(t)
	sink.trust(testSecret)
	site := newSite(t, kv, sink.URL, unlimited+"[webhooks]\ntimeout = \"2s\"\n")
	var all []*walked
	for n := range kills {
		in := site.start()

		// A token that was validated before the crash does not validate again. The last ones come
		// first.
		for i := range min(len(all), 4) {
			w := all[len(all)-1-i]
			if i%2 == 1 {
				w = all[rng.IntN(len(all))]
			}
			if w.valid == 0 {
				continue
			}
			if valid, status, body := in.validate(w.token); valid || status != 409 {
				t.Fatalf("I1: kill %d: a token that was validated before the crash: %d %s", n, status, body)
			}
		}

		users := startVisitors(in.publisher)
		quota := 1 + rng.IntN(24) // walks ended before the kill
		wait.Until(t, "walks",
			func() bool { return users.count(func(*walked) bool { return true }) >= quota })
		time.Sleep(time.Duration(rng.IntN(3000)) * time.Microsecond)
		in.kill()
		all = append(all, users.stop()...)
		wait.For(in.ended)
	}

	started, completed, validated := settle(t, site.start(), all, sink, lease)
	if started < kills || completed == 0 || validated == 0 {
		t.Errorf("the test did too little: %d started, %d completed, %d validated",
			started, completed, validated)
	}
	t.Logf("%d kills: %d sessions started, %d completed, %d validated", kills, started, completed, validated)
}

// settle checks all walks at the end: no event of them is lost (I3) or changed (I4), and no token has
// validated twice (I1). lease is how long an instance that was killed keeps its tasks from others.
func settle(t *testing.T, in *served, all []*walked, sink *events, lease time.Duration) (
	started, completed, validated int) {
	t.Helper()
	for _, w := range all {
		if w.token != "" {
			// The tokens whose validation the kill interrupted are validated again at the end.
			if valid, _, _ := in.validate(w.token); valid {
				w.valid++
			}
		}
		if w.valid > 1 {
			t.Errorf("I1: the token of %s validated %d times", w.id, w.valid)
		}
		validated += w.valid
	}
	arrived := func() bool {
		for _, w := range all {
			if w.started && !sink.has(w.id, "started") || w.completed && !sink.has(w.id, "completed") {
				return false
			}
		}
		return true
	}
	within(lease+patience, arrived)
	for _, w := range all {
		if w.started {
			if started++; !sink.has(w.id, "started") {
				t.Errorf("I3: the started event of %s was lost", w.id)
			}
		}
		if w.completed {
			if completed++; !sink.has(w.id, "completed") {
				t.Errorf("I3: the completed event of %s was lost", w.id)
			}
		}
	}
	for _, what := range sink.complaints() {
		t.Errorf("I4: %s", what)
	}
	return started, completed, validated
}
