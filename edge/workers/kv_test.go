package workers_test

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters/kvtest"
	"github.com/verge-id/verge/testharness/long"
	"github.com/verge-id/verge/testharness/workerd"
)

// A Durable Object keeps every promise of a store, even if its process is killed.
func TestKV(t *testing.T) {
	server := workerd.Start(t, nil)
	kvtest.Run(t, func(t *testing.T) kvtest.Harness {
		site := server.Site(t, workerd.Config{Now: kvtest.NewClock().Now()})
		return kvtest.Harness{KV: site.KV(), Now: site.Now, Advance: site.Advance, Reopen: func() kv.KV {
			server.Restart(t)
			return site.KV()
		}}
	})
}

func TestGetAndCommitAreLinearizable(t *testing.T) {
	long.Skip(t, "TestGetAndCommitAreLinearizable")
	kvtest.Linearizable(t, workerd.Shared(t).Site(t, workerd.Config{}).KV(), 40)
}

// Whether a commit without a reply has happened is not known. Any other effect without
// a reply has failed.
func TestKV_EffectWithoutReply(t *testing.T) {
	site := workerd.Shared(t).Site(t, workerd.Config{Store: dead{}})
	key := kv.Key{Partition: "p0", Name: "n"}
	if _, err := site.KV().Get(t.Context(), key); !errors.Is(err, kv.ErrUnavailable) {
		t.Errorf("get: %v", err)
	}
	tx := kv.Tx{ID: "t", Partition: "p0"}
	if err := site.KV().Commit(t.Context(), tx); !errors.Is(err, kv.ErrUnknown) {
		t.Errorf("commit: %v", err)
	}
}

// dead is a store whose connection breaks at every call.
type dead struct{ kv.KV }

func (dead) Get(context.Context, kv.Key) (kv.Item, error) { panic(http.ErrAbortHandler) }
func (dead) Commit(context.Context, kv.Tx) error          { panic(http.ErrAbortHandler) }
