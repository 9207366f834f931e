package conformance_test

import (
	"context"
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/testharness"
)

// sharing opens the store of another harness.
func sharing(h *testharness.Harness) func(func() time.Time) kv.KV {
	return func(func() time.Time) kv.KV { return h.KV }
}

// partitions are the default partitions of a harness.
var partitions = []kv.Partition{"c", "p0"}

// everything lists the items of the store. Tasks are not among them.
func everything(t testing.TB, h *testharness.Harness) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, p := range partitions {
			for after := ""; ; {
				items, err := h.KV.List(context.Background(), kv.Key{Partition: p}, after, 100)
				if err != nil {
					t.Fatal(err)
				}
				for _, it := range items {
					after = it.Key.Name
					if !yield(fmt.Sprintf("%s %s %q", it.Key, it.Tx, it.Value)) {
						return
					}
				}
				if len(items) < 100 {
					break
				}
			}
		}
	}
}
