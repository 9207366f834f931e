package etcd_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters/etcd"
	"github.com/verge-id/verge/kvadapters/kvtest"
	"github.com/verge-id/verge/testharness/stores"
)

func open(t *testing.T, url string, c etcd.Config) *etcd.Store {
	t.Helper()
	s, err := etcd.Open(t.Context(), url, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// prefixes numbers the stores that share a server, so that each has a prefix of its own.
var prefixes atomic.Int64

func freshPrefix() string { return fmt.Sprint("kv", prefixes.Add(1)) }

func TestKV(t *testing.T) {
	t.Parallel()
	server := stores.StartEtcd(t)
	kvtest.Run(t, func(t *testing.T) kvtest.Harness {
		clock := kvtest.NewClock()
		url, c := server.URL(freshPrefix()), etcd.Config{Now: clock.Now}
		store := open(t, url, c)
		return kvtest.Harness{KV: store, Now: clock.Now, Advance: clock.Advance, Reopen: func() kv.KV {
			store.Close()
			server.Kill()
			server.Start()
			server.Wait()
			return open(t, url, c)
		}}
	})
}

func TestGetAndCommitAreLinearizable(t *testing.T) {
	t.Parallel()
	kvtest.Linearizable(t, open(t, stores.StartEtcd(t).URL("verge"), etcd.Config{}), 40)
}
