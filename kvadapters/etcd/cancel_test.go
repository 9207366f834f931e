package etcd_test

import (
	"slices"
	"testing"
	"time"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters/etcd"
	"github.com/verge-id/verge/testharness/stores"
)

// The claim comes exactly between the cancel's look at the task and its write: it runs when the commit
// asks for the time.
func TestACancelWhoseTaskIsClaimedMeanwhileLeavesNothing(t *testing.T) {
	server := stores.StartEtcd(t)
	other := open(t, server.URL("verge"), etcd.Config{SweepEvery: -1})
	due := time.Unix(1, 0)
	meanwhile := func() {}
	s := open(t, server.URL("verge"), etcd.Config{SweepEvery: -1, Now: func() time.Time {
		meanwhile()
		return time.Unix(2, 0)
	}})
	commit(t, s, kv.Tx{ID: "s", Schedule: []kv.Task{{ID: "t", Due: due}}})
	claimed := 0
	meanwhile = func() {
		tasks, _, err := other.Claim(t.Context(), part, due, time.Minute, 1)
		if err != nil {
			t.Error(err)
		}
		claimed += len(tasks)
	}
	commit(t, s, kv.Tx{ID: "c", Cancel: []string{"t"}})
	if claimed != 1 {
		t.Errorf("%d claims got the task before it was cancelled, want one", claimed)
	}
	if left := keysUnder(t, server, "verge/"); !slices.Equal(left, []string{"verge/format"}) {
		t.Errorf("after the cancel the keys are %q, want only the format", left)
	}
}
