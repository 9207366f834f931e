package kvcheck

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters"
	"github.com/verge-id/verge/kvadapters/internal/promises"
	"github.com/verge-id/verge/kvadapters/memory"
	"github.com/verge-id/verge/testharness/stores"
)

// checkable is a store to check. keys returns its data.
type checkable struct {
	url  string
	keys func() map[string]string
}

func miniredisHere(t *testing.T) (*miniredis.Miniredis, checkable) {
	m := miniredis.RunT(t)
	m.ClockTTL(true)
	// A busy machine takes seconds for a reply.
	return m, checkable{"redis://" + m.Addr() + "?read_timeout=5m", func() map[string]string {
		keys := map[string]string{}
		for _, key := range m.Keys() {
			keys[key] = ""
		}
		if len(keys) > 0 {
			keys["values"] = m.Dump()
		}
		return keys
	}}
}

func keysOf(servers ...*stores.Redis) func() map[string]string {
	return func() map[string]string {
		keys := map[string]string{}
		for _, s := range servers {
			found, _ := s.Do("keys", "*").([]any)
			for _, key := range found {
				keys[key.(string)] = fmt.Sprint(s.Do("dump", key))
			}
			if n := s.Do("dbsize").(int64); n != int64(len(found)) {
				keys["dbsize"] = fmt.Sprint(n) // it also counts expired items that are not removed yet
			}
		}
		return keys
	}
}

func postgresHere(p *stores.Postgres) checkable {
	return checkable{p.URL("verge"), func() map[string]string {
		keys := map[string]string{}
		schemas, _ := p.Do(`SELECT array_agg(nspname::text) FROM pg_namespace
			WHERE nspname NOT LIKE 'pg\_%' AND nspname NOT IN ('public', 'information_schema')`).([]any)
		for _, schema := range schemas {
			keys[schema.(string)] = ""
			if schema != "verge" {
				continue
			}
			for _, table := range []string{"items", "tasks", "counters"} {
				rows := p.Do(`SELECT coalesce(string_agg(r::text, '|' ORDER BY r::text), '') FROM verge.` + table + ` r`)
				keys["verge."+table] = rows.(string)
			}
		}
		return keys
	}}
}

func boltHere(t *testing.T) checkable {
	dir := t.TempDir()
	return checkable{"bolt:" + filepath.Join(dir, "verge.db"), func() map[string]string {
		keys := map[string]string{}
		filepath.WalkDir(dir, func(path string, _ os.DirEntry, _ error) error {
			if path != dir {
				b, _ := os.ReadFile(path)
				keys[path] = string(b)
			}
			return nil
		})
		return keys
	}}
}

// checkables are the kinds of stores. Memory has no URL: its scratch place is inMemory.
var checkables = []struct {
	name string
	open func(t *testing.T) checkable
}{
	{"memory", func(*testing.T) checkable {
		return checkable{keys: func() map[string]string { return nil }}
	}},
	{"miniredis", func(t *testing.T) checkable { _, c := miniredisHere(t); return c }},
	{"redis", func(t *testing.T) checkable {
		s := stores.StartRedis(t, stores.Durable...)
		return checkable{s.URL(), keysOf(s)}
	}},
	{"cluster", func(t *testing.T) checkable {
		nodes := stores.StartCluster(t, 3)
		return checkable{nodes.URL(), keysOf(nodes...)}
	}},
	{"postgres", func(t *testing.T) checkable { return postgresHere(stores.StartPostgres(t)) }},
	{"bolt", boltHere},
}

// fillAsAService writes data like a service's.
func fillAsAService(t *testing.T, url string) {
	t.Helper()
	store, closeStore, err := address(t, url).Open(t.Context(), kvadapters.OpenConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer closeStore()
	for _, p := range []kv.Partition{"p0", "s-1", "config"} {
		err := store.Commit(t.Context(), kv.Tx{ID: "live", Partition: p,
			Puts: []kv.Put{{Name: "a", Value: []byte("1")},
				{Name: "b", Expires: time.Now().Add(time.Hour)}},
			Schedule: []kv.Task{{ID: "t", Due: time.Now().Add(time.Hour)}}})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func address(t *testing.T, url string) kvadapters.Address {
	t.Helper()
	at, err := kvadapters.ParseAddress(url)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// scratchOn opens a scratch place of that name on the store of a URL.
func scratchOn(t *testing.T, url, name string) scratch {
	t.Helper()
	s, err := openScratch(t.Context(), address(t, url), name, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.close() })
	return s
}

// inMemory is a scratch place without an operator's store.
type inMemory struct{}

func (inMemory) where() string                        { return "nowhere" }
func (inMemory) about(context.Context) (about, error) { return about{Server: "memory"}, nil }
func (inMemory) more() []proof                        { return nil }
func (inMemory) erase(context.Context) error          { return nil }
func (inMemory) close() error                         { return nil }
func (inMemory) store(string) (promises.Harness, error) {
	return promises.Harness{KV: memory.New(memory.Config{})}, nil
}

// bent is a scratch place whose stores are changed.
type bent struct {
	scratch
	bend func(kv.KV) kv.KV
}

func (b bent) store(name string) (promises.Harness, error) {
	h, err := b.scratch.store(name)
	if err == nil {
		h.KV = b.bend(h.KV)
	}
	return h, err
}

// editing is a store that changes the transactions that it receives.
type editing struct {
	kv.KV
	edit func(*kv.Tx)
}

func (e editing) Commit(ctx context.Context, tx kv.Tx) error {
	e.edit(&tx)
	return e.KV.Commit(ctx, tx)
}
