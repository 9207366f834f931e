package kvtest_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters/bolt"
	"github.com/verge-id/verge/kvadapters/kvtest"
	"github.com/verge-id/verge/kvadapters/memory"
)

// Two stores with different structures get the same random calls on the same clock. Their results must be
// the same in every detail, so that code developed on memory behaves the same on bolt.
func TestMemoryAndBolt_SameResults(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			clock := kvtest.NewClock()
			onDisk, err := bolt.Open(filepath.Join(t.TempDir(), "verge.db"),
				bolt.Config{Now: clock.Now, SweepEvery: time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			defer onDisk.Close()
			d := &differ{
				T: t, rng: rand.New(rand.NewPCG(seed, 1)), clock: clock,
				stores: [2]kv.KV{memory.New(memory.Config{Now: clock.Now}), onDisk},
			}
			for n := range 600 {
				d.step(n)
				if t.Failed() {
					t.Fatalf("at step %d", n)
				}
			}
		})
	}
}

type differ struct {
	*testing.T
	rng    *rand.Rand
	clock  *kvtest.Clock
	stores [2]kv.KV
	txs    []string
	leases [2][]kv.Held // the leases of the same claims, one list for each store
}

func (d *differ) pick(prefix string, n int) string { return fmt.Sprint(prefix, d.rng.IntN(n)) }

func (d *differ) soon() time.Time {
	return d.clock.Now().Add(time.Duration(d.rng.IntN(40)-15) * time.Second)
}

func (d *differ) step(n int) {
	p := kv.Partition(d.pick("p", 2))
	switch d.rng.IntN(10) {
	case 0:
		d.clock.Advance(time.Duration(d.rng.IntN(8)) * time.Second)
	case 1, 2, 3:
		d.claim(p)
	case 4:
		d.list(p)
	default:
		d.commit(n, p)
	}
}

func (d *differ) commit(n int, p kv.Partition) {
	tx := kv.Tx{ID: fmt.Sprint("tx", n), Partition: p}
	for range d.rng.IntN(2) {
		c := kv.Check{Name: d.pick("n", 8)}
		if len(d.txs) > 0 && d.rng.IntN(2) == 0 {
			c.Tx = d.txs[max(0, len(d.txs)-1-d.rng.IntN(5))]
		}
		tx.Checks = append(tx.Checks, c)
	}
	for i := range d.rng.IntN(3) {
		put := kv.Put{Name: d.pick("n", 8), Value: fmt.Append(nil, n, i)}
		if d.rng.IntN(2) == 0 {
			put.Expires = d.soon()
		}
		tx.Puts = append(tx.Puts, put)
	}
	for range d.rng.IntN(4) / 3 {
		tx.Deletes = append(tx.Deletes, d.pick("n", 8))
	}
	for i := range d.rng.IntN(4) {
		tx.Schedule = append(tx.Schedule, kv.Task{
			ID:      d.pick("t", 30),
			Due:     d.soon(),
			Payload: fmt.Append(nil, n, i),
		})
	}
	for range d.rng.IntN(2) {
		tx.Cancel = append(tx.Cancel, d.pick("t", 30))
	}
	held := -1
	if len(d.leases[0]) > 0 && d.rng.IntN(2) == 0 {
		held = max(0, len(d.leases[0])-1-d.rng.IntN(8))
	}
	var outcomes [2]string
	for i, s := range d.stores {
		tx.Held = nil
		if held >= 0 {
			tx.Held = []kv.Held{d.leases[i][held]}
		}
		err := s.Commit(d.Context(), tx)
		var c *kv.Conflict
		switch {
		case errors.As(err, &c):
			outcomes[i] = fmt.Sprint("conflict ", show(c.Items), c.Lost)
		case err != nil:
			d.Fatal(err)
		default:
			outcomes[i] = "done"
		}
	}
	if outcomes[0] == "done" {
		d.txs = append(d.txs, tx.ID)
	}
	d.same("commit", outcomes)
}

func (d *differ) claim(p kv.Partition) {
	now, lease, n := d.soon(), time.Duration(d.rng.IntN(20))*time.Second, d.rng.IntN(6)
	var outcomes [2]string
	for i, s := range d.stores {
		tasks, next, err := s.Claim(d.Context(), p, now, lease, n)
		if err != nil {
			d.Fatal(err)
		}
		for _, task := range tasks {
			outcomes[i] += fmt.Sprintf("%s due %v %q, ", task.ID, task.Due.UTC(), task.Payload)
			d.leases[i] = append(d.leases[i], kv.Held{TaskID: task.ID, Lease: task.Lease})
		}
		outcomes[i] += fmt.Sprint("next ", next.UTC())
	}
	d.same("claim", outcomes)
}

func (d *differ) list(p kv.Partition) {
	after, n := "", 1+d.rng.IntN(9)
	if d.rng.IntN(2) == 0 {
		after = d.pick("n", 8)
	}
	var outcomes [2]string
	for i, s := range d.stores {
		items, err := s.List(d.Context(), kv.Key{Partition: p, Name: "n"}, after, n)
		if err != nil {
			d.Fatal(err)
		}
		outcomes[i] = fmt.Sprint(show(items))
		for _, it := range items {
			one, err := s.Get(d.Context(), it.Key)
			if err != nil || !slices.Equal(show([]kv.Item{one}), show([]kv.Item{it})) {
				d.Errorf("get of the listed %v: %v, %v", it, one, err)
			}
		}
	}
	d.same("list", outcomes)
}

func show(items []kv.Item) []string {
	var out []string
	for _, it := range items {
		out = append(out, fmt.Sprintf("%v=%q of %s until %v", it.Key, it.Value, it.Tx, it.Expires.UTC()))
	}
	return out
}

func (d *differ) same(call string, outcomes [2]string) {
	if outcomes[0] != outcomes[1] {
		d.Errorf("%s:\nmemory: %s\nbolt:   %s", call, outcomes[0], outcomes[1])
	}
}
