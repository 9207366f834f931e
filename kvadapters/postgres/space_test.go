package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters/kvtest"
	"github.com/verge-id/verge/kvadapters/postgres"
	"github.com/verge-id/verge/testharness/stores"
	"github.com/verge-id/verge/testharness/wait"
)

func measure(t *testing.T, s kv.Measurer) kv.Space {
	t.Helper()
	space, err := s.Measure(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return space
}

func TestMeasure(t *testing.T) {
	t.Parallel()
	clock := kvtest.NewClock()
	server := stores.StartPostgres(t)
	// The name of the schema needs quotes.
	s := open(t, server.URL("verge-1"), postgres.Config{Now: clock.Now, SweepEvery: 50 * time.Millisecond})
	before := measure(t, s)
	if before.Overdue != 0 || before.Free != -1 || before.Capacity != -1 || before.Unused != -1 {
		t.Errorf("an empty store: %+v", before)
	}
	for i := range 20 {
		tx := kv.Tx{ID: fmt.Sprint(i), Partition: "p", Puts: []kv.Put{
			{Name: fmt.Sprint("a", i), Value: make([]byte, 8000), Expires: clock.Now().Add(time.Minute)},
			{Name: fmt.Sprint("b", i)}}}
		if err := s.Commit(t.Context(), tx); err != nil {
			t.Fatal(err)
		}
	}
	if after := measure(t, s); after.Size <= before.Size || after.Overdue != 0 {
		t.Errorf("with items: %+v, before: %+v", after, before)
	}
	clock.Advance(time.Minute + 30*time.Second) // the grace has not passed
	if space := measure(t, s); space.Overdue != 30*time.Second {
		t.Errorf("expired for 30 s: %+v", space)
	}
	clock.Advance(time.Hour)
	wait.Until(t, "the expired items are removed", func() bool { return measure(t, s).Overdue == 0 })
}
