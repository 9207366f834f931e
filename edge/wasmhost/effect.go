package wasmhost

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/wasm/abi"
)

// ports are what effects are carried out on.
type ports struct {
	kv    kv.KV
	meter kv.Meter
	fetch host.Fetcher
	log   *slog.Logger
	count func(event string)
	wake  func(p kv.Partition, due time.Time)
}

// do carries out one effect and returns the reply. An effect that cannot be
// read is one that nobody can rely on: nothing was done.
func (p *ports) do(ctx context.Context, rec abi.Record) (abi.Status, []byte) {
	switch rec.Kind {
	case abi.KVGet:
		return carry(rec.Body, abi.ReadKey, func(k kv.Key) (abi.Status, []byte) {
			it, err := p.kv.Get(ctx, k)
			if errors.Is(err, kv.ErrNotFound) {
				return abi.NotFound, nil
			}
			return reply(err, func() []byte { return abi.AppendItem(nil, it) })
		})
	case abi.KVCommit:
		return carry(rec.Body, abi.ReadTx, func(tx kv.Tx) (abi.Status, []byte) {
			err := p.kv.Commit(ctx, tx)
			var conflict *kv.Conflict
			if errors.As(err, &conflict) {
				return abi.Conflicted, abi.AppendConflict(nil, conflict)
			}
			return reply(err, func() []byte { return nil })
		})
	case abi.KVClaim:
		return carry(rec.Body, abi.ReadClaim, func(c abi.Claim) (abi.Status, []byte) {
			tasks, next, err := p.kv.Claim(ctx, c.Partition, c.Now, c.Lease, c.N)
			return reply(err, func() []byte { return abi.AppendTasks(nil, tasks, next) })
		})
	case abi.KVList:
		return carry(rec.Body, abi.ReadListing, func(l abi.List) (abi.Status, []byte) {
			items, err := p.kv.List(ctx, l.Prefix, l.After, l.N)
			return reply(err, func() []byte { return abi.AppendItems(nil, items) })
		})
	case abi.KVSpend:
		return carry(rec.Body, abi.ReadSpend, func(s abi.Spend) (abi.Status, []byte) {
			times, err := p.meter.Spend(ctx, s.Partition, s.Now, s.Charges)
			return reply(err, func() []byte { return abi.AppendTimes(nil, times) })
		})
	case abi.Fetch:
		return carry(rec.Body, abi.ReadFetch, func(q host.FetchRequest) (abi.Status, []byte) {
			answer, err := p.fetch.Fetch(ctx, q)
			var failed *host.FetchError
			switch {
			case errors.As(err, &failed):
				return abi.NoAnswer, abi.AppendFetchError(nil, failed.Reason, failed.Err.Error())
			case err != nil:
				return abi.NoAnswer, abi.AppendFetchError(nil, host.FetchNetwork, err.Error())
			}
			return abi.OK, abi.AppendFetched(nil, answer)
		})
	}
	return abi.Unavailable, []byte("the host knows no such effect")
}

func carry[T any](body []byte, read func([]byte) (T, error), do func(T) (abi.Status, []byte)) (abi.Status, []byte) {
	v, err := read(body)
	if err != nil {
		return abi.Unavailable, []byte(err.Error())
	}
	return do(v)
}

func reply(err error, body func() []byte) (abi.Status, []byte) {
	if err == nil {
		return abi.OK, body()
	}
	o := abi.OutcomeOf(err)
	if o.Status == abi.Failed { // a store's errors are one of the two
		o.Status = abi.Unavailable
	}
	return o.Status, []byte(o.Text)
}

// heed takes a notice. One that cannot be read is a line in the log.
func (p *ports) heed(rec abi.Record) {
	switch rec.Kind {
	case abi.Log:
		l, err := abi.ReadLog(rec.Body)
		if err != nil {
			p.log.Error("the guest's log cannot be read", "error", err.Error())
			return
		}
		attrs := make([]slog.Attr, len(l.Attrs))
		for i, a := range l.Attrs {
			attrs[i] = slog.Any(a.Key, plain(a.Value))
		}
		p.log.LogAttrs(context.Background(), slog.Level(l.Level), l.Message, attrs...)
	case abi.Count:
		p.count(string(rec.Body))
	case abi.Wake:
		if partition, due, err := abi.ReadWake(rec.Body); err == nil {
			p.wake(partition, due)
		}
	}
}

// plain is the value that JSON is of, or its text.
func plain(b []byte) any {
	var v any
	if json.Unmarshal(b, &v) != nil {
		return string(b)
	}
	return v
}
