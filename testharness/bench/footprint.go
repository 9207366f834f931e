package main

import (
	"fmt"
	"runtime"

	"github.com/verge-id/verge/kvadapters/memory"
)

// footprint prints what a pending session costs to keep.
func footprint() error {
	const sessions = 20_000
	for _, webhook := range []string{"", "https://sink.invalid/"} {
		store := memory.New(memory.Config{})
		s, err := newService(store, webhook)
		if err != nil {
			return err
		}
		s.pause()
		before, heap := store.Size(), heapInUse()
		if err := s.begin(sessions); err != nil {
			return err
		}
		after, grown := store.Size(), heapInUse()-heap
		name := "without webhook"
		if webhook != "" {
			name = "with webhook, started event not yet delivered"
		}
		fmt.Printf("pending session, %s: %d bytes in the KV, %d bytes of heap\n", name,
			(after.Bytes-before.Bytes)/sessions, max(grown, 0)/sessions)
		s.stop()
	}
	fmt.Println()
	return nil
}

func heapInUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
