package redis_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters/redis"
	"github.com/verge-id/verge/testharness/stores"
)

// atOnce makes n commits at the same time and returns their errors.
func atOnce(t *testing.T, s kv.KV, n int, tx func(i int) kv.Tx) []error {
	t.Helper()
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = s.Commit(t.Context(), tx(i)) })
	}
	wg.Wait()
	return errs
}

func TestBatch_WaitsForReplicas(t *testing.T) {
	primary := stores.StartRedis(t)
	replica := primary.Replica()
	healthy := open(t, primary.URL(), redis.Config{Replicas: 1, WaitTimeout: time.Minute})
	s := open(t, primary.URL(), redis.Config{Replicas: 1, WaitTimeout: time.Second})
	commit(t, healthy, mark("first", "taken"))
	// Every third commit is rejected because of its own check.
	pick := func(round string) func(i int) kv.Tx {
		return func(i int) kv.Tx {
			if i%3 == 0 {
				return mark(fmt.Sprint(round, i), "taken")
			}
			return mark(fmt.Sprint(round, i), fmt.Sprint(round, i))
		}
	}
	conflicts := func(err error) bool {
		var c *kv.Conflict
		return errors.As(err, &c) && len(c.Items) == 1 && c.Items[0].Tx == "first"
	}
	for i, err := range atOnce(t, healthy, 60, pick("there")) {
		if i%3 == 0 && !conflicts(err) || i%3 != 0 && err != nil {
			t.Errorf("commit %d, with a replica: %v", i, err)
		}
	}
	replica.Freeze()
	for i, err := range atOnce(t, s, 60, pick("frozen")) {
		if !errors.Is(err, kv.ErrUnknown) || !strings.Contains(err.Error(), "0 of 1 replicas") {
			t.Errorf("commit %d, with a frozen replica: %v", i, err)
		}
	}
	// A call that does not wait for replicas is not delayed by calls that do.
	if _, err := s.Get(t.Context(), kv.Key{Partition: "p", Name: "taken"}); err != nil {
		t.Error(err)
	}
	replica.Thaw()
}

func TestBatch_SeparateResults(t *testing.T) {
	primary := stores.StartRedis(t)
	s := open(t, primary.URL(), redis.Config{})
	commit(t, s, mark("first", "taken"))
	primary.Do("set", "{verge:wrong}n", "stray")
	big := strings.Repeat("x", kv.MaxValue)
	for i, err := range atOnce(t, s, 120, func(i int) kv.Tx {
		tx := mark(fmt.Sprint(i), fmt.Sprint(i))
		switch i % 4 {
		case 0:
			tx = mark(fmt.Sprint(i), "taken")
		case 1:
			tx.Partition = "wrong"
		case 2:
			tx.Puts[0].Value = []byte(big)
		}
		return tx
	}) {
		var c *kv.Conflict
		switch i % 4 {
		case 0:
			if !errors.As(err, &c) || c.Items[0].Tx != "first" {
				t.Errorf("commit %d: %v, want the conflict with the first", i, err)
			}
		case 1:
			wantRejected(t, err, "WRONGTYPE")
		default:
			if err != nil {
				t.Errorf("commit %d: %v", i, err)
				continue
			}
			it, err := s.Get(t.Context(), kv.Key{Partition: "p", Name: fmt.Sprint(i)})
			if err != nil || it.Tx != fmt.Sprint(i) {
				t.Errorf("item %d is from %q, %v", i, it.Tx, err)
			}
		}
	}
}
