package postgres_test

import (
	"testing"
	"time"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters/kvtest"
	"github.com/verge-id/verge/kvadapters/postgres"
	"github.com/verge-id/verge/testharness/stores"
)

// Behind a PgBouncer in transaction mode, each transaction may use another connection to the server.
func TestPooler_TransactionMode(t *testing.T) {
	t.Parallel()
	server := stores.StartPostgres(t)
	s := open(t, stores.StartPgBouncer(t, server).URL(server, "verge"), postgres.Config{})
	kvtest.Linearizable(t, s, 3)
	commit(t, s, kv.Tx{ID: "task",
		Schedule: []kv.Task{{ID: "t", Due: time.Unix(1, 0), Payload: []byte("x")}}})
	tasks, _, err := s.Claim(t.Context(), part, time.Now(), time.Second, 10)
	if err != nil || len(tasks) != 1 || string(tasks[0].Payload) != "x" {
		t.Errorf("claim: %v, %v", tasks, err)
	}
	items, err := s.List(t.Context(), kv.Key{Partition: "linear0"}, "", 10)
	if err != nil {
		t.Errorf("list: %v, %v", items, err)
	}
	charge := []kv.Charge{{Name: "c", Cost: time.Second, Burst: time.Second}}
	if before, err := s.Spend(t.Context(), part, time.Now(), charge); err != nil || !before[0].IsZero() {
		t.Errorf("spend: %v, %v", before, err)
	}
}
