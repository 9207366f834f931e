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

// Small requests of many callers are sent in batches. A batch is written and read as a whole, and each
// request has its own reply. Sending and receiving a request costs a server and a client more than
// executing it. No request waits for later ones: the requests that arrive while batches are in progress
// form the next batch.
const (
	// quickMost is the maximum number of batches in progress per node. A batch that takes longer than
	// slowAfter counts as slow, and up to slowMost slow ones are allowed in addition. So a dead connection
	// or a slow network delays only the requests of its own batch.
	quickMost = 2
	slowMost  = 8
	slowAfter = 500 * time.Microsecond

	batchMost  = 64       // requests in one batch
	batchBytes = 16 << 10 // a larger request is sent alone
)

// batcher sends the requests of one kind to one node.
type batcher struct {
	send func([]*pending)

	mu    sync.Mutex
	queue []*pending
	quick int // batches in progress
	slow  int // batches in progress for longer than slowAfter, not counted in quick
}

// pending is a request that waits for its batch or is part of one in progress.
type pending struct {
	request
	node    *redis.Client
	claimed atomic.Bool   // set by the batch that takes the request, or by a caller that stops waiting before
	done    chan struct{} // closed when the fields below are set

	reply any
	sent  bool
	err   error
}

// do sends the request in a batch and returns the result of Store.send. If ctx ends, it returns
// immediately, and a request that no batch has taken yet is never sent.
func (b *batcher) do(ctx context.Context, node *redis.Client, r request) (reply any, sent bool, err error) {
	p := &pending{request: r, node: node, done: make(chan struct{})}
	b.mu.Lock()
	b.queue = append(b.queue, p)
	b.start()
	b.mu.Unlock()
	select {
	case <-p.done:
		return p.reply, p.sent, p.err
	case <-ctx.Done():
		return nil, !p.claimed.CompareAndSwap(false, true), context.Cause(ctx)
	}
}

// start begins a batch if a request waits and a batch may begin. The caller holds mu.
func (b *batcher) start() {
	if len(b.queue) > 0 && b.quick < quickMost && b.quick+b.slow < quickMost+slowMost {
		b.quick++
		go b.sendNext()
	}
}

// sendNext sends one batch, unless no request is waiting.
func (b *batcher) sendNext() {
	runtime.Gosched() // lets other callers join this batch
	b.mu.Lock()
	n := min(len(b.queue), batchMost)
	batch := make([]*pending, 0, n)
	for _, p := range b.queue[:n] {
		if p.claimed.CompareAndSwap(false, true) {
			batch = append(batch, p)
		}
	}
	if b.queue = b.queue[n:]; len(b.queue) == 0 {
		b.queue = nil
	}
	if len(batch) == 0 { // another batch took the request, or its caller stopped waiting
		b.quick--
		b.start()
		b.mu.Unlock()
		return
	}
	b.mu.Unlock()

	late := time.AfterFunc(slowAfter, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.quick, b.slow = b.quick-1, b.slow+1
		b.start()
	})
	b.send(batch)
	b.mu.Lock()
	if late.Stop() {
		b.quick--
	} else {
		b.slow--
	}
	b.start()
	b.mu.Unlock()
	for _, p := range batch {
		close(p.done)
	}
}

// route is the destination of a batch. Commits that wait for replicas block their connection, so they have
// a separate batcher.
type route struct {
	addr  string
	waits bool
}

// sendBatched sends the request for the node in a batch.
func (s *Store) sendBatched(
	ctx context.Context, node *redis.Client, r request,
) (reply any, sent bool, err error) {
	to := route{node.Options().Addr, r.commit && s.config.Replicas > 0}
	b, ok := s.batchers.Load(to)
	if !ok {
		b, _ = s.batchers.LoadOrStore(to, &batcher{send: func(batch []*pending) { s.sendBatch(to, batch) }})
	}
	return b.(*batcher).do(ctx, node, r)
}

// shareable is a request to a script that can execute several such requests in one run.
type shareable interface {
	// run begins a run of the script for the partition whose keys begin with base.
	run(base string) run
	// replies returns the number of parts of the run's reply that belong to the request.
	replies() int
}

// run is one run of a script, for one or several requests.
type run interface {
	// take adds a request if the run can include it, and reports whether it did.
	take(shareable) bool
	// words returns the keys and arguments of the script.
	words() (keys []string, args []any)
	// harmless reports whether each request may be retried alone after the run failed, although a part of
	// the run may have been executed.
	harmless() bool
}

// command is a command of a pipeline. It executes one request, or several in one run of their script.
type command struct {
	request
	of      []*pending
	shared  run // nil: the request has a separate command
	reached atomic.Bool
	cmd     *redis.Cmd
}

// take adds a request to the command if one run of their script can execute both, and reports whether it
// did.
func (c *command) take(p *pending) bool {
	if c.shared == nil || p.share == nil || c.base != p.base || !c.shared.take(p.share) {
		return false
	}
	c.of = append(c.of, p)
	return true
}

// again reports whether each request of the command is retried alone, because the server rejected them
// together.
func (c *command) again() bool {
	var rejection redis.Error
	if len(c.of) == 1 || !errors.As(c.cmd.Err(), &rejection) {
		return false
	}
	_, nothing := explain(rejection.Error())
	return nothing || c.shared.harmless()
}

// sendBatch executes the requests. It merges the spends of one partition into one run of their script, and
// likewise the commits of one partition, which costs the server much less than separate runs.
// If the server rejects a run, because of one counter or one key of a wrong type, sendBatch retries each of
// its requests alone.
func (s *Store) sendBatch(to route, batch []*pending) {
	// All requests have the same address. If its client was replaced in the meantime, the last request has
	// the new one.
	node := batch[len(batch)-1].node
	// Writes go first: their reply shows the client whether its connection still leads to a primary.
	slices.SortStableFunc(batch, func(a, b *pending) int {
		switch {
		case a.repeatable == b.repeatable:
			return 0
		case b.repeatable:
			return -1
		}
		return 1
	})
	commands := runs(batch)
	s.pipeline(node, to.waits, commands)

	var again []*command
	for _, c := range commands {
		if c.again() {
			for _, p := range c.of {
				again = append(again, alone(p))
			}
		}
	}
	if len(again) > 0 {
		s.pipeline(node, to.waits, again)
	}
}

// runs returns the commands for the requests of a batch.
func runs(batch []*pending) []*command {
	commands := make([]*command, 0, len(batch))
	for _, p := range batch {
		if !slices.ContainsFunc(commands, func(c *command) bool { return c.take(p) }) {
			commands = append(commands, alone(p))
		}
	}
	return commands
}

func alone(p *pending) *command {
	return &command{request: p.request, of: []*pending{p}, shared: p.run()}
}

// pipeline executes the commands in one pipeline. Several callers wait for it, so it is limited by the
// client's timeouts, not by a caller's context.
func (s *Store) pipeline(node *redis.Client, waits bool, commands []*command) {
	ctx := context.Background()
	pipe := node.Pipeline()
	for _, c := range commands {
		c.cmd = redis.NewCmd(ctx, c.command(c.shared, false, &c.reached)...)
		pipe.Process(ctx, c.cmd)
	}
	var replicas confirmation
	if waits {
		replicas = s.confirm(ctx, pipe, commands[0].base)
	}
	pipe.Exec(ctx)
	for _, c := range commands {
		reply, err := c.cmd.Result()
		parts, _ := reply.([]any)
		for _, p := range c.of {
			p.reply, p.sent, p.err = reply, c.reached.Load(), err
			if p.share != nil && len(parts) >= p.share.replies() {
				n := p.share.replies()
				p.reply, parts = parts[:n:n], parts[n:]
			}
			if waits {
				p.reply, p.err = s.confirmed(p.request, p.reply, p.err, replicas)
			}
		}
	}
}
