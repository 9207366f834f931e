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
)

// gate is a send that tells of each batch and lets none through unasked.
type gate struct {
	batches chan []*passenger
	open    chan struct{}
}

func newGate() (*batcher, *gate) {
	g := &gate{make(chan []*passenger, 100), make(chan struct{})}
	return &batcher{send: func(batch []*passenger) {
		g.batches <- batch
		<-g.open
		for _, p := range batch {
			p.reply, p.sent = p.base, true
		}
	}}, g
}

// queued waits until so many requests wait for a batch.
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

func TestABatchThatIsStuckHoldsUpOnlyThoseAboard(t *testing.T) {
	b, g := newGate()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer close(g.open)
	for i := range near + far {
		wg.Go(func() { b.do(context.Background(), nil, request{base: fmt.Sprint(i)}) })
		if batch := <-g.batches; len(batch) != 1 || batch[0].base != fmt.Sprint(i) {
			t.Errorf("batch %d has %d requests", i, len(batch))
		}
	}
	// Now connections enough are stuck: the rest waits, and travels together.
	for range batchMost + 1 {
		wg.Go(func() { b.do(context.Background(), nil, request{}) })
	}
	queued(b, batchMost+1)
	time.Sleep(2 * patience)
	if len(g.batches) > 0 {
		t.Errorf("more than %d batches are under way", near+far)
	}
	g.open <- struct{}{}
	if batch := <-g.batches; len(batch) != batchMost {
		t.Errorf("%d requests travel together, want %d", len(batch), batchMost)
	}
	queued(b, 1)
}

func TestACallerWhoLeavesKnowsWhetherTheRequestDid(t *testing.T) {
	b, g := newGate()
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("left")
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
	// Those that are stuck leave room for no other.
	var stuck []chan answer
	for range near + far {
		stuck = append(stuck, ask("aboard"))
		<-g.batches
	}
	left := ask("left behind")
	queued(b, 1)
	cancel(why)
	for _, c := range stuck {
		if a := <-c; !a.sent || a.err != why {
			t.Errorf("aboard: %v, want sent, and why the caller left", a)
		}
	}
	if a := <-left; a.sent || a.err != why {
		t.Errorf("not aboard: %v, want surely not sent", a)
	}
	close(g.open)
	if reply, sent, err := b.do(context.Background(), nil, request{base: "next"}); reply != "next" || !sent || err != nil {
		t.Errorf("afterwards: %v, %v, %v", reply, sent, err)
	}
	for len(g.batches) > 0 {
		if batch := <-g.batches; slices.ContainsFunc(batch, func(p *passenger) bool { return p.base == "left behind" }) {
			t.Error("sent behind the back of the caller who was told that it was not")
		}
	}
}

// TestBatch puts requests of every kind into one batch, some of which fail.
func TestBatch(t *testing.T) {
	m := miniredis.RunT(t)
	s, err := Open(t.Context(), "redis://"+m.Addr(), Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	node := s.client.(*redis.Client)
	if err := s.Commit(t.Context(), kv.Tx{ID: "1", Partition: "p", Puts: []kv.Put{{Name: "a", Value: []byte("v")}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Lpush("{verge:limits}r:list", "stray"); err != nil {
		t.Fatal(err)
	}

	now := time.Now().UnixMicro()
	spends := func(names ...string) *passenger {
		sp := &spend{at: now}
		for _, name := range names {
			sp.charges = append(sp.charges, charge{"{verge:limits}r:" + name, 1000, 2000})
		}
		r := request{base: "{verge:limits}", script: spendScript, spend: sp}
		r.keys, r.args = merge(sp)
		return &passenger{request: r, node: node}
	}
	get := func(name string) *passenger {
		return &passenger{request: request{base: "{verge:p}", repeatable: true, args: []any{"get", "{verge:p}i:" + name}}, node: node}
	}
	// The scripts are known, as they mostly are.
	for _, sc := range []*script{spendScript, commitScript} {
		if err := node.ScriptLoad(t.Context(), sc.text).Err(); err != nil {
			t.Fatal(err)
		}
	}
	a, absent := get("a"), get("absent")
	first, second, third := spends("x", "y"), spends("x"), spends("x", "z")
	s.sendBatch(route{}, []*passenger{a, first, absent, second, third})
	if a.err != nil || !a.sent || len(text(a.reply)) != itemHeader+len("1v") {
		t.Errorf("get: %q, %v", a.reply, a.err)
	}
	if absent.err != redis.Nil {
		t.Errorf("get of nothing: %v, %v", absent.reply, absent.err)
	}
	for _, c := range []struct {
		name string
		p    *passenger
		want []any
	}{
		{"the first", first, []any{int64(-1), int64(-1)}},
		{"the second sees the first", second, []any{now + 1000}},
		{"the third is over the burst of one and charges neither", third, []any{now + 2000, int64(-1)}},
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
		t.Error("counter z was charged by a request that another counter denied")
	}

	good, bad, other := spends("z"), spends("list"), spends("z")
	s.sendBatch(route{}, []*passenger{good, bad, other})
	if bad.err == nil || good.err != nil || other.err != nil {
		t.Errorf("one counter is none: %v; those who travel with it: %v, %v", bad.err, good.err, other.err)
	}
	if v, _ := m.Get("{verge:limits}r:z"); v != fmt.Sprint(now+2000) {
		t.Errorf("counter z holds %q, want each of its two requests counted once: %d", v, now+2000)
	}
	m.Set("{verge:limits}r:text", "stray")
	if _, err := s.Spend(t.Context(), "limits", time.Now(), []kv.Charge{{Name: "text", Cost: 1, Burst: 1}}); !errors.Is(err, kv.ErrUnavailable) || !strings.Contains(err.Error(), "choose another prefix") {
		t.Errorf("a counter that is no number: %v", err)
	}
	m.Close()
	gone := []*passenger{get("a"), spends("x")}
	s.sendBatch(route{}, gone)
	for _, p := range gone {
		if p.err == nil {
			t.Error("an answer of a server that is gone")
		}
	}
}

func TestKeysAreNamedOnceInAMerge(t *testing.T) {
	keys, args := merge(
		&spend{1, []charge{{"a", 2, 3}, {"b", 4, 5}}},
		&spend{6, []charge{{"b", 7, 8}}},
	)
	if got, want := fmt.Sprint(keys, args), "[a b] [1 2 1 2 3 2 4 5 6 1 2 7 8]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
