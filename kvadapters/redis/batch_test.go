package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/testharness/wait"
)

// gate is a send function that reports each batch and blocks until the test continues it.
type gate struct {
	batches chan []*pending
	open    chan struct{}
}

func newGate() (*batcher, *gate) {
	g := &gate{make(chan []*pending, 100), make(chan struct{})}
	return &batcher{send: func(batch []*pending) {
		g.batches <- batch
		wait.For(g.open)
		for _, p := range batch {
			p.reply, p.sent = p.base, true
		}
	}}, g
}

// queued waits until n requests wait for a batch.
func queued(b *batcher, n int) {
	for {
		b.mu.Lock()
		waiting := len(b.queue)
		b.mu.Unlock()
		if waiting == n {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

func TestBatch_Stuck(t *testing.T) {
	b, g := newGate()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer close(g.open)
	for i := range quickMost + slowMost {
		wg.Go(func() { b.do(context.Background(), nil, request{base: fmt.Sprint(i)}) })
		if batch := wait.For(g.batches); len(batch) != 1 || batch[0].base != fmt.Sprint(i) {
			t.Errorf("batch %d has %d requests", i, len(batch))
		}
	}
	// The maximum number of batches is blocked. The further requests wait and form the next batch.
	for range batchMost + 1 {
		wg.Go(func() { b.do(context.Background(), nil, request{}) })
	}
	queued(b, batchMost+1)
	time.Sleep(2 * slowAfter)
	if len(g.batches) > 0 {
		t.Errorf("more than %d batches are in progress", quickMost+slowMost)
	}
	g.open <- struct{}{}
	if batch := wait.For(g.batches); len(batch) != batchMost {
		t.Errorf("the next batch has %d requests, want %d", len(batch), batchMost)
	}
	queued(b, 1)
}

func TestBatch_CancelledCaller(t *testing.T) {
	b, g := newGate()
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("given up")
	type answer struct {
		sent bool
		err  error
	}
	ask := func(name string) chan answer {
		c := make(chan answer, 1)
		go func() {
			_, sent, err := b.do(ctx, nil, request{base: name})
			c <- answer{sent, err}
		}()
		return c
	}
	// The maximum number of batches is blocked, so that the next request waits.
	var stuck []chan answer
	for range quickMost + slowMost {
		stuck = append(stuck, ask("stuck"))
		wait.For(g.batches)
	}
	left := ask("waiting")
	queued(b, 1)
	cancel(why)
	for _, c := range stuck {
		if a := wait.For(c); !a.sent || a.err != why {
			t.Errorf("a request in a batch: %v, want sent and the caller's reason", a)
		}
	}
	if a := wait.For(left); a.sent || a.err != why {
		t.Errorf("a request that waited: %v, want not sent and the caller's reason", a)
	}
	close(g.open)
	reply, sent, err := b.do(context.Background(), nil, request{base: "next"})
	if reply != "next" || !sent || err != nil {
		t.Errorf("afterwards: %v, %v, %v", reply, sent, err)
	}
	for len(g.batches) > 0 {
		batch := wait.For(g.batches)
		if slices.ContainsFunc(batch, func(p *pending) bool { return p.base == "waiting" }) {
			t.Error("a request was sent after its caller learned that it was not")
		}
	}
}

// TestBatch puts requests of every kind into one batch, including failing ones.
func TestBatch(t *testing.T) {
	m := miniredis.RunT(t)
	s, err := Open(t.Context(), "redis://"+m.Addr(), Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	node := s.client.(*redis.Client)
	err = s.Commit(t.Context(), kv.Tx{ID: "1", Partition: "p",
		Puts: []kv.Put{{Name: "a", Value: []byte("v")}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Lpush("{verge:limits}r:list", "stray"); err != nil {
		t.Fatal(err)
	}

	now := time.Now().UnixMicro()
	spends := func(names ...string) *pending {
		sp := &spend{at: now}
		for _, name := range names {
			sp.charges = append(sp.charges, charge{"{verge:limits}r:" + name, 1000, 2000})
		}
		return &pending{request: request{base: "{verge:limits}", script: spendScript, share: sp}, node: node}
	}
	get := func(name string) *pending {
		r := request{base: "{verge:p}", repeatable: true, args: []any{"get", "{verge:p}i:" + name}}
		return &pending{request: r, node: node}
	}
	// The server knows the scripts, as in most cases.
	for _, sc := range []*script{spendScript, commitScript} {
		if err := node.ScriptLoad(t.Context(), sc.text).Err(); err != nil {
			t.Fatal(err)
		}
	}
	a, absent := get("a"), get("absent")
	first, second, third := spends("x", "y"), spends("x"), spends("x", "z")
	s.sendBatch(route{}, []*pending{a, first, absent, second, third})
	if a.err != nil || !a.sent || len(text(a.reply)) != itemHeader+len("1v") {
		t.Errorf("get: %q, %v", a.reply, a.err)
	}
	if absent.err != redis.Nil {
		t.Errorf("get of nothing: %v, %v", absent.reply, absent.err)
	}
	for _, c := range []struct {
		name string
		p    *pending
		want []any
	}{
		{"the first", first, []any{int64(-1), int64(-1)}},
		{"the second sees the first", second, []any{now + 1000}},
		{"the third exceeds the burst of one counter and charges neither", third,
			[]any{now + 2000, int64(-1)}},
	} {
		if got, _ := c.p.reply.([]any); c.p.err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, %v, want %v", c.name, c.p.reply, c.p.err, c.want)
		}
	}
	for name, want := range map[string]string{"x": fmt.Sprint(now + 2000), "y": fmt.Sprint(now + 1000)} {
		if v, err := m.Get("{verge:limits}r:" + name); v != want || err != nil {
			t.Errorf("counter %s: %q, %v, want %q", name, v, err, want)
		}
	}
	if m.Exists("{verge:limits}r:z") {
		t.Error("a request charged counter z although another counter denied it")
	}

	good, bad, other := spends("z"), spends("list"), spends("z")
	s.sendBatch(route{}, []*pending{good, bad, other})
	if bad.err == nil || good.err != nil || other.err != nil {
		t.Errorf("a spend on a counter that is not a number: %v; the others of its batch: %v, %v",
			bad.err, good.err, other.err)
	}
	if v, _ := m.Get("{verge:limits}r:z"); v != fmt.Sprint(now+2000) {
		t.Errorf("counter z has %q, want each of its two requests counted once: %d", v, now+2000)
	}
	m.Set("{verge:limits}r:text", "stray")
	_, err = s.Spend(t.Context(), "limits", time.Now(), []kv.Charge{{Name: "text", Cost: 1, Burst: 1}})
	if !errors.Is(err, kv.ErrUnavailable) || !strings.Contains(err.Error(), "choose another prefix") {
		t.Errorf("a counter that is not a number: %v", err)
	}
	m.Close()
	gone := []*pending{get("a"), spends("x")}
	s.sendBatch(route{}, gone)
	for _, p := range gone {
		if p.err == nil {
			t.Error("a request to a stopped server returned no error")
		}
	}
}

func TestSpends_CounterOnce(t *testing.T) {
	run := (&spend{1, []charge{{"a", 2, 3}, {"b", 4, 5}}}).run("")
	run.take(&spend{6, []charge{{"b", 7, 8}}})
	keys, args := run.words()
	if got, want := fmt.Sprint(keys, args), "[a b] [1 2 1 2 3 2 4 5 6 1 2 7 8]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
