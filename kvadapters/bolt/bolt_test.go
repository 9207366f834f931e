package bolt_test

import (
	"path/filepath"
	"testing"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters/bolt"
	"github.com/verge-id/verge/kvadapters/kvtest"
)

func TestKV(t *testing.T) {
	kvtest.Run(t, func(t *testing.T) kvtest.Harness {
		clock := kvtest.NewClock()
		path := filepath.Join(t.TempDir(), "verge.db")
		var store *bolt.Store
		open := func() kv.KV {
			if store != nil {
				if err := store.Close(); err != nil {
					t.Fatal(err)
				}
			}
			var err error
			if store, err = bolt.Open(path, bolt.Config{Now: clock.Now}); err != nil {
				t.Fatal(err)
			}
			return store
		}
		t.Cleanup(func() { store.Close() })
		return kvtest.Harness{KV: open(), Now: clock.Now, Advance: clock.Advance, Reopen: open}
	})
}
