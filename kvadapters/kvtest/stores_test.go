package kvtest_test

import (
	"path/filepath"
	"testing"

	"github.com/verge-id/verge/kvadapters/bolt"
	"github.com/verge-id/verge/kvadapters/kvtest"
	"github.com/verge-id/verge/kvadapters/memory"
)

func TestGetAndCommitAreLinearizable(t *testing.T) {
	const histories = 40
	t.Run("memory", func(t *testing.T) {
		kvtest.Linearizable(t, memory.New(memory.Config{}), histories)
	})
	t.Run("bolt", func(t *testing.T) {
		s, err := bolt.Open(filepath.Join(t.TempDir(), "verge.db"), bolt.Config{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		kvtest.Linearizable(t, s, histories)
	})
}
