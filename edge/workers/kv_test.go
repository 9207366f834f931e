package workers_test

import (
	"testing"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters/kvtest"
	"github.com/verge-id/verge/testharness/workerd"
)

// A Durable Object keeps every promise of a store, also when its process is killed.
func TestKV(t *testing.T) {
	server := workerd.Start(t, nil)
	kvtest.Run(t, func(t *testing.T) kvtest.Harness {
		site := server.Site(t, workerd.Config{Now: kvtest.NewClock().Now()})
		return kvtest.Harness{KV: site.KV(), Now: site.Now, Advance: site.Advance, Reopen: func() kv.KV {
			server.Restart(t)
			return site.KV()
		}}
	})
}

func TestGetAndCommitAreLinearizable(t *testing.T) {
	kvtest.Linearizable(t, workerd.Shared(t).Site(t, workerd.Config{}).KV(), 40)
}
