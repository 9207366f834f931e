package edge

import (
	"crypto/rand"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters/kvtest"
	"github.com/verge-id/verge/kvadapters/memory"
)

func TestPartitionsOnlyGrow(t *testing.T) {
	store := memory.New(memory.Config{})
	for _, c := range []struct {
		n   int
		err string
	}{
		{1, ""}, {1, ""}, {16, ""}, {16, ""},
		{4, "store.partitions: 4, but sessions of this store are spread over 16; set it to 16 or more"},
		{17, ""}, {16, "spread over 17"},
	} {
		checked := CheckPartitions(t.Context(), store, c.n)
		err := keepPartitions(t.Context(), store, rand.Reader, c.n)
		if (checked == nil) != (err == nil) || err != nil && checked.Error() != err.Error() {
			t.Errorf("%d partitions: %v, but the check said %v", c.n, err, checked)
		}
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%d partitions: %v, want %q", c.n, err, c.err)
		}
		if few := new(PartitionsError); err != nil && (!errors.As(err, &few) || few.Configured != c.n) {
			t.Errorf("%d partitions: the caller cannot tell that no new try helps: %v", c.n, err)
		}
	}
}

func TestPartitionsOfInstancesThatStartAtOnce(t *testing.T) {
	store := memory.New(memory.Config{})
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			if err := keepPartitions(t.Context(), store, rand.Reader, 16); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

func TestPartitionsOnAStoreThatFails(t *testing.T) {
	store := &kvtest.Faulty{
		KV:     memory.New(memory.Config{}),
		Decide: kvtest.Script(kvtest.Pass, kvtest.LoseReply),
	}
	if err := keepPartitions(t.Context(), store, rand.Reader, 2); err != nil {
		t.Errorf("its own write, whose reply was lost: %v", err)
	}
	store = &kvtest.Faulty{KV: memory.New(memory.Config{}), Decide: kvtest.Script(kvtest.Reject)}
	if err := keepPartitions(t.Context(), store, rand.Reader, 2); !errors.Is(err, kv.ErrUnavailable) {
		t.Errorf("%v, want unavailable", err)
	}
}
