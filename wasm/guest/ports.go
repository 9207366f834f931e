package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/wasm/abi"
)

// store is the host's KV: each call is an effect. A reply that makes no sense
// is an unknown outcome, which grants nothing.
type store struct{ *guest }

var (
	_ kv.KV    = store{}
	_ kv.Meter = store{}
)

// Get implements kv.KV.
func (s store) Get(_ context.Context, key kv.Key) (kv.Item, error) {
	status, reply := s.effect(abi.KVGet, abi.AppendKey(nil, key))
	if status == abi.NotFound {
		return kv.Item{}, kv.ErrNotFound
	}
	return read(status, reply, kv.ErrUnavailable, abi.ReadItem)
}

// Commit implements kv.KV.
func (s store) Commit(_ context.Context, tx kv.Tx) error {
	status, reply := s.effect(abi.KVCommit, abi.AppendTx(nil, tx))
	switch status {
	case abi.OK:
		return nil
	case abi.Conflicted:
		conflict, err := abi.ReadConflict(reply)
		if err != nil {
			return fmt.Errorf("%w: %w", kv.ErrUnknown, err)
		}
		return conflict
	}
	return failure(status, reply, kv.ErrUnknown)
}

// Claim implements kv.KV.
func (s store) Claim(_ context.Context, p kv.Partition, now time.Time, lease time.Duration, n int) ([]kv.Task, time.Time, error) {
	status, reply := s.effect(abi.KVClaim, abi.AppendClaim(nil, abi.Claim{Partition: p, Now: now, Lease: lease, N: n}))
	if status != abi.OK {
		return nil, time.Time{}, failure(status, reply, kv.ErrUnavailable)
	}
	tasks, next, err := abi.ReadTasks(reply)
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("%w: %w", kv.ErrUnavailable, err)
	}
	return tasks, next, nil
}

// List implements kv.KV.
func (s store) List(_ context.Context, prefix kv.Key, after string, n int) ([]kv.Item, error) {
	status, reply := s.effect(abi.KVList, abi.AppendList(nil, abi.List{Prefix: prefix, After: after, N: n}))
	return read(status, reply, kv.ErrUnavailable, abi.ReadItems)
}

// Spend implements kv.Meter.
func (s store) Spend(_ context.Context, p kv.Partition, now time.Time, charges []kv.Charge) ([]time.Time, error) {
	status, reply := s.effect(abi.KVSpend, abi.AppendSpend(nil, abi.Spend{Partition: p, Now: now, Charges: charges}))
	times, err := read(status, reply, kv.ErrUnavailable, abi.ReadTimes)
	if err == nil && len(times) != len(charges) {
		err = fmt.Errorf("%w: %d charges are answered by %d times", kv.ErrUnavailable, len(charges), len(times))
	}
	return times, err
}

// read decodes a reply that is OK.
func read[T any](status abi.Status, reply []byte, otherwise error, decode func([]byte) (T, error)) (T, error) {
	var none T
	if status != abi.OK {
		return none, failure(status, reply, otherwise)
	}
	v, err := decode(reply)
	if err != nil {
		return none, fmt.Errorf("%w: %w", otherwise, err)
	}
	return v, nil
}

// failure is the error of a reply that is not OK; otherwise is what a status
// that does not belong here is taken for.
func failure(status abi.Status, reply []byte, otherwise error) error {
	switch {
	case status == abi.Unavailable:
		return abi.Outcome{Status: status, Text: string(reply)}.Err()
	case status == abi.Unknown && otherwise == kv.ErrUnknown:
		return abi.Outcome{Status: status, Text: string(reply)}.Err()
	}
	return fmt.Errorf("%w: the host answers with status %d", otherwise, status)
}

// fetcher is the host's way out.
type fetcher struct{ *guest }

var _ host.Fetcher = fetcher{}

// Fetch implements host.Fetcher.
func (f fetcher) Fetch(_ context.Context, req host.FetchRequest) (host.FetchResponse, error) {
	status, reply := f.effect(abi.Fetch, abi.AppendFetch(nil, req))
	if status == abi.OK {
		resp, err := abi.ReadFetched(reply)
		if err != nil {
			return host.FetchResponse{}, &host.FetchError{Reason: host.FetchNetwork, Err: err}
		}
		return resp, nil
	}
	if status == abi.NoAnswer {
		if reason, text, err := abi.ReadFetchError(reply); err == nil {
			return host.FetchResponse{}, abi.FetchErrorOf(reason, text)
		}
	}
	return host.FetchResponse{}, &host.FetchError{Reason: host.FetchNetwork, Err: fmt.Errorf("the host answers with status %d", status)}
}

// logger hands records to the host, who knows the time and where they go.
type logger struct {
	*guest
	level slog.Level
	attrs []abi.LogAttr
	group string
}

// Enabled implements slog.Handler.
func (l logger) Enabled(_ context.Context, level slog.Level) bool { return level >= l.level }

// Handle implements slog.Handler.
func (l logger) Handle(_ context.Context, r slog.Record) error {
	attrs := append([]abi.LogAttr(nil), l.attrs...)
	r.Attrs(func(a slog.Attr) bool {
		attrs = flatten(attrs, l.group, a)
		return true
	})
	l.log(abi.LogRecord{Level: int8(r.Level), Message: r.Message, Attrs: attrs})
	return nil
}

// WithAttrs implements slog.Handler.
func (l logger) WithAttrs(more []slog.Attr) slog.Handler {
	l.attrs = append([]abi.LogAttr(nil), l.attrs...)
	for _, a := range more {
		l.attrs = flatten(l.attrs, l.group, a)
	}
	return l
}

// WithGroup implements slog.Handler.
func (l logger) WithGroup(name string) slog.Handler {
	if name != "" {
		l.group += name + "."
	}
	return l
}

// flatten adds an attribute; those of a group have its name before theirs.
func flatten(attrs []abi.LogAttr, group string, a slog.Attr) []abi.LogAttr {
	v := a.Value.Resolve()
	if v.Kind() == slog.KindGroup {
		if a.Key != "" {
			group += a.Key + "."
		}
		for _, member := range v.Group() {
			attrs = flatten(attrs, group, member)
		}
		return attrs
	}
	if a.Equal(slog.Attr{}) {
		return attrs
	}
	return append(attrs, abi.LogAttr{Key: group + a.Key, Value: jsonOf(v)})
}

func jsonOf(v slog.Value) []byte {
	if v.Kind() == slog.KindDuration {
		return quoted(v.Duration().String())
	}
	any := v.Any()
	var err error
	if e, ok := any.(error); ok {
		return quoted(e.Error())
	}
	b, err := json.Marshal(any)
	if err != nil {
		return quoted(fmt.Sprint(any))
	}
	return b
}

func quoted(s string) []byte {
	b, err := json.Marshal(s)
	if err != nil {
		return []byte(`""`) // no string fails
	}
	return b
}
