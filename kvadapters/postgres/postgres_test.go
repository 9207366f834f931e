package postgres_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters/kvtest"
	"github.com/verge-id/verge/kvadapters/postgres"
	"github.com/verge-id/verge/testharness/stores"
)

func open(t *testing.T, url string, c postgres.Config) *postgres.Store {
	t.Helper()
	s, err := postgres.Open(t.Context(), url, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// schemas numbers the stores that share a server, so that each has its own schema.
var schemas atomic.Int64

func freshSchema() string { return fmt.Sprint("kv", schemas.Add(1)) }

func TestKV(t *testing.T) {
	t.Parallel()
	server := stores.StartPostgres(t)
	kvtest.Run(t, func(t *testing.T) kvtest.Harness {
		clock := kvtest.NewClock()
		url, c := server.URL(freshSchema()), postgres.Config{Now: clock.Now}
		store := open(t, url, c)
		return kvtest.Harness{KV: store, Now: clock.Now, Advance: clock.Advance, Reopen: func() kv.KV {
			store.Close()
			server.Kill()
			server.Start()
			return open(t, url, c)
		}}
	})
}

func TestGetAndCommitAreLinearizable(t *testing.T) {
	t.Parallel()
	kvtest.Linearizable(t, open(t, stores.StartPostgres(t).URL("verge"), postgres.Config{}), 40)
}
