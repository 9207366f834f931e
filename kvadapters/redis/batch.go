package redis

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// Small requests of many callers travel together: written at once, answered
// at once, each with an answer of its own. It costs a server and a client
// more to send and receive a request than to carry it out. Nobody waits for
// company: what comes in while batches are under way makes up the next one.
const (
	// near is how many batches may be under way to one node. One that is away
	// for longer than patience counts no more, so that a connection that has
	// died, or a slow network, holds up nobody but those aboard; until there
	// are far of those.
	near     = 1
	far      = 8
	patience = 500 * time.Microsecond

	batchMost  = 64       // requests in one
	batchBytes = 16 << 10 // a larger request travels alone
)

// batcher sends the requests for one node.
type batcher struct {
	send func([]*passenger)

	mu    sync.Mutex
	queue []*passenger
	near  int
	far   int
}

// passenger is a request on its way in a batch.
type passenger struct {
	request
	node   *redis.Client
	aboard atomic.Bool   // claimed, by the batch that takes it or the caller who leaves
	done   chan struct{} // closed when what follows is set

	reply any
	sent  bool
	err   error
}

// do sends the request with others and returns what send of a Store does. A
// caller whose ctx ends leaves: before the batch does, and then surely nothing
// is sent, or behind it.
func (b *batcher) do(ctx context.Context, node *redis.Client, r request) (reply any, sent bool, err error) {
	p := &passenger{request: r, node: node, done: make(chan struct{})}
	b.mu.Lock()
	b.queue = append(b.queue, p)
	b.depart()
	b.mu.Unlock()
	select {
	case <-p.done:
		return p.reply, p.sent, p.err
	case <-ctx.Done():
		return nil, !p.aboard.CompareAndSwap(false, true), context.Cause(ctx)
	}
}

// depart begins a batch if somebody waits and one may leave. It needs mu.
func (b *batcher) depart() {
	if len(b.queue) > 0 && b.near < near && b.near+b.far < near+far {
		b.near++
		go b.fly()
	}
}

// fly sends one batch.
func (b *batcher) fly() {
	runtime.Gosched() // whoever is about to ask comes along
	b.mu.Lock()
	n := min(len(b.queue), batchMost)
	batch := make([]*passenger, 0, n)
	for _, p := range b.queue[:n] {
		if p.aboard.CompareAndSwap(false, true) {
			batch = append(batch, p)
		}
	}
	if b.queue = b.queue[n:]; len(b.queue) == 0 {
		b.queue = nil
	}
	b.mu.Unlock()

	late := time.AfterFunc(patience, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.near, b.far = b.near-1, b.far+1
		b.depart()
	})
	b.send(batch)
	b.mu.Lock()
	if late.Stop() {
		b.near--
	} else {
		b.far--
	}
	b.depart()
	b.mu.Unlock()
	for _, p := range batch {
		close(p.done)
	}
}

// route is where a batch goes. Commits that wait for replicas hold up their
// connection, so they have one of their own.
type route struct {
	addr  string
	waits bool
}

// together sends the request for the node in a batch.
func (s *Store) together(ctx context.Context, node *redis.Client, r request) (reply any, sent bool, err error) {
	to := route{node.Options().Addr, r.commit && s.config.Replicas > 0}
	b, ok := s.batchers.Load(to)
	if !ok {
		b, _ = s.batchers.LoadOrStore(to, &batcher{send: func(batch []*passenger) { s.sendBatch(to, batch) }})
	}
	return b.(*batcher).do(ctx, node, r)
}

// seat is a command of a pipeline, and whom it is for: one request, or several
// spends in one.
type seat struct {
	request
	of      []*passenger
	reached atomic.Bool
	cmd     *redis.Cmd
}

// sendBatch does the requests. Spends of one partition become one run of
// their script, which costs the server little more than one of them would; it
// changes nothing before it has read everything, so that where one of them
// cannot be counted, each is tried for itself.
func (s *Store) sendBatch(to route, batch []*passenger) {
	if len(batch) == 0 {
		return
	}
	// Of one address; where its client was replaced meanwhile, the last knows.
	node := batch[len(batch)-1].node
	// What writes goes first: from the first answer the client sees that it is
	// connected to a primary no more.
	slices.SortStableFunc(batch, func(a, b *passenger) int {
		switch {
		case a.repeatable == b.repeatable:
			return 0
		case b.repeatable:
			return -1
		}
		return 1
	})
	seats := make([]*seat, 0, len(batch))
	for _, p := range batch {
		i := -1
		if p.spend != nil {
			i = slices.IndexFunc(seats, func(s *seat) bool { return s.spend != nil && s.base == p.base })
		}
		if i < 0 {
			seats = append(seats, &seat{request: p.request, of: []*passenger{p}})
		} else {
			seats[i].of = append(seats[i].of, p)
		}
	}
	for _, seat := range seats {
		if len(seat.of) > 1 {
			spends := make([]*spend, len(seat.of))
			for i, p := range seat.of {
				spends[i] = p.spend
			}
			seat.keys, seat.args = merge(spends...)
		}
	}
	s.carry(node, to.waits, seats)

	var again []*seat
	for _, together := range seats {
		var refusal redis.Error
		if len(together.of) > 1 && errors.As(together.cmd.Err(), &refusal) {
			for _, p := range together.of {
				again = append(again, &seat{request: p.request, of: []*passenger{p}})
			}
		}
	}
	if len(again) > 0 {
		s.carry(node, to.waits, again)
	}
}

// carry does the commands in one pipeline. It belongs to no caller, so the
// client's timeouts bound it and nobody's context.
func (s *Store) carry(node *redis.Client, waits bool, seats []*seat) {
	ctx := context.Background()
	pipe := node.Pipeline()
	for _, seat := range seats {
		seat.cmd = redis.NewCmd(ctx, seat.command(false, &seat.reached)...)
		pipe.Process(ctx, seat.cmd)
	}
	var waited *redis.IntCmd
	if waits {
		waited = s.wait(ctx, pipe)
	}
	pipe.Exec(ctx)
	for _, seat := range seats {
		reply, err := seat.cmd.Result()
		if waits {
			reply, err = s.waited(seat.request, reply, err, waited)
		}
		parts, _ := reply.([]any)
		for _, p := range seat.of {
			p.reply, p.sent, p.err = reply, seat.reached.Load(), err
			if p.spend != nil && len(parts) >= len(p.spend.charges) {
				n := len(p.spend.charges)
				p.reply, parts = parts[:n:n], parts[n:]
			}
		}
	}
}
