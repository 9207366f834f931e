package etcd_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters/etcd"
	"github.com/verge-id/verge/kvadapters/kvtest"
	"github.com/verge-id/verge/testharness/stores"
	"github.com/verge-id/verge/testharness/wait"
)

const part = kv.Partition("p")

func commit(t *testing.T, s kv.KV, tx kv.Tx) {
	t.Helper()
	tx.Partition = part
	if err := s.Commit(t.Context(), tx); err != nil {
		t.Fatalf("commit %s: %v", tx.ID, err)
	}
}

// Servers with the default limit of 128 operations must accept every transaction within kv.MaxTx,
// whatever it consists of.
func TestEveryMixOfPartsFitsIntoADefaultServer(t *testing.T) {
	server := stores.StartEtcd(t)
	clock := kvtest.NewClock()
	soon := clock.Now().Add(time.Hour)
	for _, taskParts := range []int{0, 1, 2, 10, 21, 32, 43, 50, 63, 64} {
		others := []string{"checks by Tx", "checks of expired items", "puts that expire", "held tasks"}
		for _, other := range others {
			t.Run(fmt.Sprintf("%d tasks replaced beside %s", taskParts, other), func(t *testing.T) {
				s := open(t, server.URL(freshPrefix()), etcd.Config{Now: clock.Now})
				var tx kv.Tx
				for i := range taskParts {
					id := fmt.Sprintf("t%02d", i)
					commit(t, s, kv.Tx{ID: id, Schedule: []kv.Task{{ID: id, Due: clock.Now()}}})
					if i%3 == 2 {
						tx.Cancel = append(tx.Cancel, id)
					} else {
						tx.Schedule = append(tx.Schedule, kv.Task{ID: id, Due: soon})
					}
				}
				for at := 0; at < taskParts; at += 100 {
					if _, _, err := s.Claim(t.Context(), part, clock.Now(), time.Minute, 100); err != nil {
						t.Fatal(err)
					}
				}
				for i := range kv.MaxTx - taskParts {
					name := fmt.Sprintf("n%02d", i)
					switch other {
					case "checks by Tx":
						commit(t, s, kv.Tx{ID: "before", Puts: []kv.Put{{Name: name}}})
						tx.Checks = append(tx.Checks, kv.Check{Name: name, Tx: "before"})
					case "checks of expired items":
						commit(t, s, kv.Tx{ID: "before", Puts: []kv.Put{{Name: name, Expires: clock.Now()}}})
						tx.Checks = append(tx.Checks, kv.Check{Name: name})
					case "puts that expire":
						tx.Puts = append(tx.Puts, kv.Put{Name: name, Expires: soon})
					case "held tasks":
						commit(t, s, kv.Tx{ID: "before", Schedule: []kv.Task{{ID: name, Due: clock.Now()}}})
						tasks, _, err := s.Claim(t.Context(), part, clock.Now(), time.Minute, 1)
						if err != nil || len(tasks) != 1 {
							t.Fatal(tasks, err)
						}
						tx.Held = append(tx.Held, kv.Held{TaskID: name, Lease: tasks[0].Lease})
					}
				}
				tx.ID = "full"
				commit(t, s, tx)
				tasks, _, err := s.Claim(t.Context(), part, soon, time.Minute, 64)
				if err != nil {
					t.Fatal(err)
				}
				replaced := 0
				for _, task := range tasks {
					if strings.HasPrefix(task.ID, "t") && task.Due.Equal(soon) {
						replaced++
					}
				}
				if replaced != len(tx.Schedule) {
					t.Errorf("%d tasks were replaced, want %d", replaced, len(tx.Schedule))
				}
			})
		}
	}
}

func TestATooLargeTransactionIsRefusedWithAdvice(t *testing.T) {
	server := stores.StartEtcd(t)
	s := open(t, server.URL("verge"), etcd.Config{})
	tx := kv.Tx{ID: "big"}
	for i := range 25 { // together with their encoding more than 1.5 MiB
		tx.Puts = append(tx.Puts, kv.Put{Name: fmt.Sprint("n", i), Value: make([]byte, kv.MaxValue)})
	}
	tx.Partition = part
	refused := func(s kv.KV, want string) {
		t.Helper()
		err := s.Commit(t.Context(), tx)
		unavailable := errors.Is(err, kv.ErrUnavailable) && !errors.Is(err, kv.ErrUnknown)
		if !unavailable || !strings.Contains(err.Error(), want) {
			t.Errorf("commit: %v, want ErrUnavailable that says %s", err, want)
		}
		if _, err := s.Get(t.Context(), kv.Key{Partition: part, Name: "n0"}); !errors.Is(err,
			kv.ErrNotFound) {
			t.Errorf("an item of the refused transaction: %v, want ErrNotFound", err)
		}
	}
	refused(s, "split it, or raise --max-request-bytes")
	// If the adapter is configured for larger requests than the servers take, the servers refuse.
	refused(open(t, server.URL("verge"), etcd.Config{MaxRequest: 8 << 20}), "Config.MaxRequest is above")

	tx.Puts = tx.Puts[:23] // the server takes what the adapter sends
	value := make([]byte, kv.MaxValue)
	for _, less := range []int{0, 8 << 10, 16 << 10, 24 << 10} {
		tx.Puts[22].Value = value[less:]
		commit(t, s, tx)
	}
}

func TestRepeatedPartsOfATransactionCountAsInMemory(t *testing.T) {
	s := open(t, stores.StartEtcd(t).URL("verge"), etcd.Config{})
	due := time.Unix(1, 0)
	commit(t, s, kv.Tx{
		ID:      "twice",
		Checks:  []kv.Check{{Name: "a"}, {Name: "a"}},
		Puts:    []kv.Put{{Name: "a", Value: []byte("1")}, {Name: "a", Value: []byte("2")}, {Name: "b"}},
		Deletes: []string{"b", "b", "c"},
		Schedule: []kv.Task{{ID: "t", Due: due}, {ID: "t", Due: due, Payload: []byte("2")},
			{ID: "u", Due: due}},
		Cancel: []string{"u", "u", "v"},
	})
	if it, err := s.Get(t.Context(), kv.Key{Partition: part, Name: "a"}); err != nil ||
		string(it.Value) != "2" {
		t.Errorf("a holds %q, %v, want the later put's 2", it.Value, err)
	}
	if _, err := s.Get(t.Context(), kv.Key{Partition: part, Name: "b"}); !errors.Is(err, kv.ErrNotFound) {
		t.Errorf("b: %v, want ErrNotFound: deletes come after puts", err)
	}
	tasks, next, err := s.Claim(t.Context(), part, due, time.Second, 10)
	if err != nil || len(tasks) != 1 || string(tasks[0].Payload) != "2" || !next.IsZero() {
		t.Errorf("claim: %v, next %v, %v, want only t as scheduled last", tasks, next, err)
	}
}

// If an expired item is in the way, a compare for absence would fail. The commit demands instead that
// the item is still the one that was seen.
func TestOneOfManyReplacesAnExpiredItem(t *testing.T) {
	clock := kvtest.NewClock()
	s := open(t, stores.StartEtcd(t).URL("verge"), etcd.Config{Now: clock.Now})
	for round := range 20 {
		name := fmt.Sprint("n", round)
		commit(t, s, kv.Tx{ID: "old", Puts: []kv.Put{{Name: name, Expires: clock.Now()}}})
		errs := make(chan error)
		const callers = 8
		for i := range callers {
			go func() {
				errs <- s.Commit(t.Context(), kv.Tx{
					ID:        fmt.Sprint(i),
					Partition: part,
					Checks:    []kv.Check{{Name: name}},
					Puts:      []kv.Put{{Name: name}},
				})
			}()
		}
		won := 0
		for range callers {
			var c *kv.Conflict
			switch err := wait.For(errs); {
			case err == nil:
				won++
			case !errors.As(err, &c) || len(c.Items) != 1 || c.Items[0].Tx == "old":
				t.Errorf("%v, want a conflict with the winner's item", err)
			}
		}
		if won != 1 {
			t.Errorf("round %d: %d of %d replaced the expired item, want one", round, won, callers)
		}
	}
}
