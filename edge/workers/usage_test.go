package workers_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters/kvtest"
	"github.com/verge-id/verge/kvadapters/memory"
	"github.com/verge-id/verge/testharness/wait"
	"github.com/verge-id/verge/testharness/workerd"
)

// usage adds up what a store has of an integration, by outcome, and returns how many items there are.
func usage(t *testing.T, store kv.KV, integration string) (counts map[string]int, items int) {
	t.Helper()
	counts = map[string]int{}
	for n := range 8 {
		prefix := kv.Key{Partition: kv.Partition(fmt.Sprint("u", n)), Name: "u/" + integration + "/"}
		all, err := store.List(t.Context(), prefix, "", 100)
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range all {
			items++
			var of map[string]any
			if err := json.Unmarshal(item.Value, &of); err != nil {
				t.Fatal(err)
			}
			for outcome, n := range of {
				if n, ok := n.(float64); ok {
					counts[outcome] += int(n)
				}
			}
		}
	}
	return counts, items
}

// A request records the isolate's counts, immediately the first time and later at intervals. An alarm does
// so, too. The client has its response long before.
func TestUsageIsRecordedByTheWay(t *testing.T) {
	in := newInbox(t)
	s, site := newSite(t, in, workerd.Config{UsageEach: 300 * time.Millisecond, Offset: -time.Hour})
	s.start()
	wait.Until(t, "the first start is recorded", func() bool {
		counts, _ := usage(t, site.KV(), integrationID)
		return counts["started"] == 1
	})
	for range 4 {
		_, redirect := s.start()
		s.approve(redirect)
	}
	wait.Until(t, "what followed is recorded", func() bool {
		counts, _ := usage(t, site.KV(), integrationID)
		return counts["started"] == 5 && counts["completed"] == 4
	})
	site.Advance(10*time.Minute + time.Second)
	wait.Until(t, "what an alarm has ended is recorded", func() bool {
		counts, _ := usage(t, site.KV(), integrationID)
		return counts["expired"] == 1
	})
	if counts, items := usage(t, site.KV(), integrationID); items != 1 {
		t.Errorf("%v in %d items, want one of the isolate and day", counts, items)
	}
	used, err := site.KV().List(t.Context(), kv.Key{Partition: "c", Name: "c/use/"}, "", 10)
	if err != nil || len(used) != 1 {
		t.Errorf("%d keys were used, %v", len(used), err)
	}
	site.Client().CloseIdleConnections()
}

// A store failure loses no counts, and a lost reply does not count them twice.
func TestUsageOutlastsTheStoresFailures(t *testing.T) {
	store := &kvtest.Faulty{KV: memory.New(memory.Config{})}
	s, site := newSite(t, newInbox(t), workerd.Config{Store: store})
	for n := range 6 {
		s.start()
		fault := []kvtest.Fault{kvtest.Reject, kvtest.LoseReply, kvtest.Pass}[n%3]
		store.Decide = func(c kvtest.Call) kvtest.Fault {
			if c.Method == "Commit" && strings.HasPrefix(string(c.Tx.Partition), "u") {
				return fault
			}
			return kvtest.Pass
		}
		if err := site.RecordUsage(); (err != nil) != (fault != kvtest.Pass) {
			t.Errorf("%s: %v", fault, err)
		}
	}
	if counts, items := usage(t, store.KV, integrationID); counts["started"] != 6 || items != 1 {
		t.Errorf("%v in %d items, want 6 started in one", counts, items)
	}
}
