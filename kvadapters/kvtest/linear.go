package kvtest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/verge-id/verge/core/kv"
)

// Linearizable records the given number of histories of concurrent clients. Each history has its number as
// seed and a separate partition, and some of its requests and replies are lost. The test fails on the first
// history that is not linearizable.
func Linearizable(t *testing.T, store kv.KV, histories int) {
	t.Helper()
	for seed := range uint64(histories) {
		if err := explain(t, store, seed, kv.Partition(fmt.Sprint("linear", seed))); err != nil {
			t.Fatal(err)
		}
	}
}

// explain records one history and returns an error if it is not linearizable.
func explain(t *testing.T, store kv.KV, seed uint64, p kv.Partition) error {
	t.Helper()
	history := record(t, store, seed, p)
	if result := porcupine.CheckOperationsTimeout(sequential, history, time.Minute); result != porcupine.Ok {
		return fmt.Errorf("seed %d: %v: the history is not linearizable:\n%v",
			seed, result, history)
	}
	return nil
}

// Get and Commit are linearizable: each call takes effect at one time between its start and its return.
// Here concurrent clients record their results, and porcupine searches for an order of such times that
// explains them. A commit with an unknown outcome has no return: it may take effect at any later time, or
// never.

// cellNames are the keys of one history. cells is its state: the writer of each key, or "" if the key has
// no item.
var cellNames = [3]string{"a", "b", "c"}

type cells [len(cellNames)]string

// operation is one call: a Get of one cell or, if id is set, a Commit.
type operation struct {
	get    int
	id     string
	checks map[int]string
	puts   []int
	delete []int
}

// reply is the result of a call.
type reply struct {
	tx       string         // of Get
	conflict map[int]string // items of the conflict of a rejected commit
	rejected bool
	unknown  bool
}

var sequential = porcupine.Model{
	Init: func() any { return cells{} },
	Step: func(state, input, output any) (bool, any) {
		s, op, out := state.(cells), input.(operation), output.(reply)
		if op.id == "" {
			return out.tx == s[op.get], s
		}
		stands := true
		found := make(map[int]string)
		for i, tx := range op.checks {
			if s[i] != tx {
				stands = false
				if s[i] != "" {
					found[i] = s[i]
				}
			}
		}
		if !stands {
			return out.unknown || out.rejected && fmt.Sprint(found) == fmt.Sprint(out.conflict), s
		}
		for _, i := range op.puts {
			s[i] = op.id
		}
		for _, i := range op.delete {
			s[i] = ""
		}
		return out.unknown || !out.rejected, s
	},
}

// record runs clients against the store and returns their calls and results.
func record(t *testing.T, store kv.KV, seed uint64, p kv.Partition) []porcupine.Operation {
	const clients, calls = 5, 25
	var (
		clock   atomic.Int64
		mu      sync.Mutex
		history []porcupine.Operation
		wg      sync.WaitGroup
	)
	faulty := &Faulty{KV: store, Decide: func() func(Call) Fault {
		decide := Seeded(seed, map[Fault]float64{LoseReply: 0.03, LoseRequest: 0.02, Delay: 0.02})
		return func(c Call) Fault {
			if c.Method != "Commit" {
				return Pass
			}
			return decide(c)
		}
	}()}
	for client := range clients {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(client)))
			var seen cells // this client's last results, so that most of its checks hold
			for n := range calls {
				op := operation{get: rng.IntN(len(cellNames))}
				if rng.IntN(2) == 0 {
					op = randomCommit(rng, fmt.Sprintf("%d.%d", client, n), seen)
				}
				call := clock.Add(1)
				out, err := do(faulty, p, op)
				if err != nil {
					t.Errorf("client %d: %v", client, err)
					return
				}
				ret := clock.Add(1)
				if out.unknown {
					ret = math.MaxInt64
				}
				seen.learn(op, out)
				mu.Lock()
				history = append(history, porcupine.Operation{ClientId: client, Input: op, Call: call,
					Output: out, Return: ret})
				mu.Unlock()
				if rng.IntN(10) == 0 {
					faulty.Deliver(context.Background())
				}
			}
		})
	}
	wg.Wait()
	return history
}

func randomCommit(rng *rand.Rand, id string, seen cells) operation {
	op := operation{id: id, checks: make(map[int]string)}
	for i := range cellNames {
		if rng.IntN(2) == 0 {
			op.checks[i] = seen[i]
		}
		switch rng.IntN(5) {
		case 0, 1:
			op.puts = append(op.puts, i)
		case 2:
			op.delete = append(op.delete, i)
		}
	}
	return op
}

func (seen *cells) learn(op operation, out reply) {
	switch {
	case op.id == "":
		seen[op.get] = out.tx
	case out.rejected:
		for i := range op.checks {
			seen[i] = out.conflict[i]
		}
	case !out.unknown:
		for _, i := range op.puts {
			seen[i] = op.id
		}
		for _, i := range op.delete {
			seen[i] = ""
		}
	}
}

func do(store kv.KV, p kv.Partition, op operation) (reply, error) {
	if op.id == "" {
		it, err := store.Get(context.Background(), kv.Key{Partition: p, Name: cellNames[op.get]})
		if err != nil && !errors.Is(err, kv.ErrNotFound) {
			return reply{}, err
		}
		return reply{tx: it.Tx}, nil
	}
	tx := kv.Tx{ID: op.id, Partition: p}
	for i, want := range op.checks {
		tx.Checks = append(tx.Checks, kv.Check{Name: cellNames[i], Tx: want})
	}
	for _, i := range op.puts {
		tx.Puts = append(tx.Puts, kv.Put{Name: cellNames[i]})
	}
	for _, i := range op.delete {
		tx.Deletes = append(tx.Deletes, cellNames[i])
	}
	err := store.Commit(context.Background(), tx)
	var c *kv.Conflict
	switch {
	case errors.As(err, &c):
		out := reply{rejected: true, conflict: make(map[int]string)}
		for i, name := range cellNames {
			if it, ok := c.Item(name); ok {
				out.conflict[i] = it.Tx
			}
		}
		return out, nil
	case errors.Is(err, kv.ErrUnknown):
		return reply{unknown: true}, nil
	}
	return reply{}, err
}
