package postgres

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/testharness/stores"
)

// A pooler that shares the server's connections takes LISTEN and passes no signals on. An operator who has
// not said pooler=transaction is told.
func TestAPoolerThatSwallowsSignalsIsNoticed(t *testing.T) {
	t.Parallel()
	server := stores.StartPostgres(t)
	pooler := stores.StartPgBouncer(t, server)
	url := strings.Replace(server.URL("verge"), server.Addr(), pooler, 1) + "&pooler=transaction"
	s, err := Open(t.Context(), url, Config{Timeout: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.signals = true
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	err = s.Signals(ctx, func(p kv.Partition) { t.Errorf("heard %q", p) })
	if err == nil || !strings.Contains(err.Error(), "signals do not arrive") {
		t.Errorf("%v, want that signals do not arrive", err)
	}
}
