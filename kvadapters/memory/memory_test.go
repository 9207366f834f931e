package memory_test

import (
	"testing"

	"github.com/verge-id/verge/kvadapters/kvtest"
	"github.com/verge-id/verge/kvadapters/memory"
)

func TestKV(t *testing.T) {
	kvtest.Run(t, func(t *testing.T) kvtest.Harness {
		clock := kvtest.NewClock()
		store := memory.New(memory.Config{Now: clock.Now})
		return kvtest.Harness{KV: store, Now: clock.Now, Advance: clock.Advance}
	})
}
