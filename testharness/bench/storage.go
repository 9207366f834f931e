package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters/bolt"
	"github.com/verge-id/verge/kvadapters/memory"
)

// storage opens an empty store. closed ends it and returns a note on how it was
// used.
type storage func() (store kv.KV, closed func() string, err error)

func onMemory() (kv.KV, func() string, error) {
	return memory.New(memory.Config{}), func() string { return "" }, nil
}

func onBolt() (kv.KV, func() string, error) {
	dir, err := os.MkdirTemp("", "verge-bench-")
	if err != nil {
		return nil, nil, err
	}
	store, err := bolt.Open(filepath.Join(dir, "verge.db"), bolt.Config{})
	if err != nil {
		return nil, nil, err
	}
	return store, func() string {
		s := store.Stats()
		store.Close()
		os.RemoveAll(dir)
		return fmt.Sprintf("%.1f commits a write, largest %d", s.Mean(), s.Largest)
	}, nil
}
