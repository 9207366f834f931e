package effect_test

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/wasm/abi"
	"github.com/verge-id/verge/wasm/effect"
)

var (
	ctx = context.Background()
	at  = time.Date(2026, 11, 20, 22, 10, 0, 0, time.UTC)
)

// port is a store, a meter and a way out that answers as it is told and keeps
// what it was asked.
type port struct {
	asked []any
	err   error
}

var (
	anItem = kv.Item{Key: kv.Key{Partition: "p0", Name: "n"}, Value: []byte("v"), Tx: "t", Expires: at}
	aTask  = kv.Task{ID: "t", Due: at, Payload: []byte("p"), Lease: "l"}
	answer = host.FetchResponse{Status: 204, Header: map[string]string{"Date": "x"}, Body: []byte("b")}
)

func (p *port) ask(args ...any) error { p.asked = args; return p.err }

func (p *port) Get(_ context.Context, k kv.Key) (kv.Item, error) { return anItem, p.ask(k) }
func (p *port) Commit(_ context.Context, tx kv.Tx) error         { return p.ask(tx) }
func (p *port) Claim(_ context.Context, q kv.Partition, now time.Time, lease time.Duration, n int) ([]kv.Task, time.Time, error) {
	return []kv.Task{aTask}, at, p.ask(q, now, lease, n)
}
func (p *port) List(_ context.Context, prefix kv.Key, after string, n int) ([]kv.Item, error) {
	return []kv.Item{anItem}, p.ask(prefix, after, n)
}
func (p *port) Spend(_ context.Context, q kv.Partition, now time.Time, charges []kv.Charge) ([]time.Time, error) {
	return []time.Time{at}, p.ask(q, now, charges)
}
func (p *port) Fetch(_ context.Context, q host.FetchRequest) (host.FetchResponse, error) {
	return answer, p.ask(q)
}

// What is asked at one end is asked at the other, and what is answered there
// comes back, errors included.
func TestThereAndBack(t *testing.T) {
	p := &port{}
	carry := &effect.Ports{KV: p, Meter: p, Fetch: p}
	do := func(k abi.Kind, body []byte) (abi.Status, []byte) { return carry.Do(ctx, k, body) }
	store, fetcher := effect.Store(do), effect.Fetcher(do)

	tx := kv.Tx{ID: "tx", Partition: "p0", Puts: []kv.Put{{Name: "n", Value: []byte("v")}}}
	charges := []kv.Charge{{Name: "c", Cost: time.Second, Burst: time.Minute}}
	request := host.FetchRequest{Method: "POST", URL: "https://shop.example", Header: map[string]string{"A": "b"}, Body: []byte("b")}
	unavailable, unknown := []error{kv.ErrUnavailable}, []error{kv.ErrUnavailable, kv.ErrUnknown}
	for _, c := range []struct {
		name   string
		call   func() ([]any, error)
		asked  []any
		want   []any
		errors []error // that come back as themselves
	}{
		{"get", func() ([]any, error) { v, err := store.Get(ctx, anItem.Key); return []any{v}, err }, []any{anItem.Key}, []any{anItem}, append([]error{kv.ErrNotFound}, unavailable...)},
		{"commit", func() ([]any, error) { return nil, store.Commit(ctx, tx) }, []any{tx}, nil, unknown},
		{"claim", func() ([]any, error) {
			v, next, err := store.Claim(ctx, "p0", at, time.Second, 3)
			return []any{v, next}, err
		},
			[]any{kv.Partition("p0"), at, time.Second, 3}, []any{[]kv.Task{aTask}, at}, unavailable},
		{"list", func() ([]any, error) { v, err := store.List(ctx, anItem.Key, "a", 3); return []any{v}, err }, []any{anItem.Key, "a", 3}, []any{[]kv.Item{anItem}}, unavailable},
		{"spend", func() ([]any, error) { v, err := store.Spend(ctx, "l", at, charges); return []any{v}, err }, []any{kv.Partition("l"), at, charges}, []any{[]time.Time{at}}, unavailable},
		{"fetch", func() ([]any, error) { v, err := fetcher.Fetch(ctx, request); return []any{v}, err }, []any{request}, []any{answer}, nil},
	} {
		p.err = nil
		got, err := c.call()
		if err != nil || !reflect.DeepEqual(got, c.want) || !reflect.DeepEqual(p.asked, c.asked) {
			t.Errorf("%s: %v\nasked %+v, want %+v\ngot   %+v, want %+v", c.name, err, p.asked, c.asked, got, c.want)
		}
		for _, want := range c.errors {
			p.err = want
			if _, err := c.call(); !errors.Is(err, want) {
				t.Errorf("%s: %v comes back as %v", c.name, want, err)
			}
		}
	}

	p.err = errors.New("boom")
	if _, err := store.Get(ctx, anItem.Key); !errors.Is(err, kv.ErrUnavailable) || err.Error() != "boom" {
		t.Errorf("an error that a store should not have: %v", err)
	}
	p.err = &kv.Conflict{Items: []kv.Item{anItem}, Lost: []string{"t"}}
	var conflict *kv.Conflict
	if err := store.Commit(ctx, tx); !errors.As(err, &conflict) || !reflect.DeepEqual(conflict, p.err) {
		t.Errorf("a conflict comes back as %v", err)
	}
	for _, c := range []struct {
		err    error
		reason string
	}{{&host.FetchError{Reason: host.FetchBlocked, Err: errors.New("off limits")}, host.FetchBlocked}, {errors.New("off limits"), host.FetchNetwork}} {
		p.err = c.err
		var fetch *host.FetchError
		if _, err := fetcher.Fetch(ctx, request); !errors.As(err, &fetch) || fetch.Reason != c.reason || fetch.Err.Error() != "off limits" {
			t.Errorf("%v comes back as %v", c.err, err)
		}
	}
}

// What cannot be read was surely not done.
func TestWhatCannotBeRead(t *testing.T) {
	p := &port{}
	carry := &effect.Ports{KV: p, Meter: p, Fetch: p}
	for _, k := range []abi.Kind{0, abi.KVGet, abi.KVCommit, abi.KVClaim, abi.KVList, abi.KVSpend, abi.Fetch, abi.Respond, 99} {
		if status, _ := carry.Do(ctx, k, []byte{1}); status != abi.Unavailable || p.asked != nil {
			t.Errorf("kind %d: status %d, asked %v", k, status, p.asked)
		}
	}
}
