package kvtest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters/memory"
)

const histories = 40

// A check that accepts every store is useless. It must reject these stores.
func TestLinearizable_BrokenStores(t *testing.T) {
	for name, broken := range map[string]func(kv.KV) kv.KV{
		"checks are made before the commit": func(s kv.KV) kv.KV { return &checksApart{KV: s} },
		"puts and deletes are two commits":  func(s kv.KV) kv.KV { return &halves{KV: s} },
		"reads are sometimes one write behind": func(s kv.KV) kv.KV {
			return &stale{KV: s, old: make(map[kv.Key]kv.Item)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(10 * histories) {
				store := broken(memory.New(memory.Config{}))
				if porcupine.CheckOperationsTimeout(sequential, record(t, store, seed, "p"),
					time.Minute) == porcupine.Illegal {
					return
				}
			}
			t.Error("the check explained every history of a broken store")
		})
	}
}

type checksApart struct{ kv.KV }

func (s *checksApart) Commit(ctx context.Context, tx kv.Tx) error {
	if err := s.KV.Commit(ctx, kv.Tx{ID: tx.ID, Partition: tx.Partition, Checks: tx.Checks}); err != nil {
		return err
	}
	time.Sleep(10 * time.Microsecond)
	tx.Checks = nil
	return s.KV.Commit(ctx, tx)
}

type halves struct{ kv.KV }

func (s *halves) Commit(ctx context.Context, tx kv.Tx) error {
	deletes := tx.Deletes
	tx.Deletes = nil
	if err := s.KV.Commit(ctx, tx); err != nil {
		return err
	}
	time.Sleep(10 * time.Microsecond)
	return s.KV.Commit(ctx, kv.Tx{ID: tx.ID, Partition: tx.Partition, Deletes: deletes})
}

type stale struct {
	kv.KV
	mu    sync.Mutex
	calls int
	old   map[kv.Key]kv.Item
}

func (s *stale) Get(ctx context.Context, key kv.Key) (kv.Item, error) {
	it, err := s.KV.Get(ctx, key)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	if old, ok := s.old[key]; ok && s.calls%7 == 0 {
		return old, nil
	}
	if err == nil {
		s.old[key] = it
	}
	return it, err
}
