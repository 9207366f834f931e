package redis

import (
	"context"
	"crypto/fips140"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/verge-id/verge/core/kv"
)

// script is a Lua script. A server identifies it by the hash of its text.
type script struct{ text, sha string }

// newScript computes the hash by which Redis identifies a script. The hash has no security purpose, so it
// is computed even in a process under GODEBUG=fips140=only.
func newScript(text string) *script {
	var sum [sha1.Size]byte
	fips140.WithoutEnforcement(func() { sum = sha1.Sum([]byte(text)) })
	return &script{text, hex.EncodeToString(sum[:])}
}

var (
	//go:embed commit.lua
	commitText string
	//go:embed claim.lua
	claimText string
	//go:embed sweep.lua
	sweepText string
	//go:embed spend.lua
	spendText string
	//go:embed giveback.lua
	giveBackText string
	//go:embed probe.lua
	probeText string

	commitScript   = newScript(commitText)
	claimScript    = newScript(claimText)
	sweepScript    = newScript(sweepText)
	spendScript    = newScript(spendText)
	giveBackScript = newScript(giveBackText)
	probeScript    = newScript(probeText)
)

// request is a command or a script for the primary that owns a partition.
type request struct {
	base   string
	script *script // nil: args are a command
	keys   []string
	args   []any
	share  shareable // input of the script, instead of keys and args; nil: its runs cannot be shared

	repeatable bool // read only, so it may be executed twice
	commit     bool // waits for the replicas; a lost reply is ErrUnknown
	size       int  // approximate number of bytes, if it may be sent in a batch; 0: it is sent alone
}

// marked is the last argument of a command. The client encodes it last before it sends the command. So if
// it is not marked as sent, the command was certainly not sent.
type marked struct {
	value any
	sent  *atomic.Bool
}

func (m marked) MarshalBinary() ([]byte, error) {
	m.sent.Store(true)
	if b, ok := m.value.([]byte); ok {
		return b, nil
	}
	return []byte(text(m.value)), nil
}

// Attempts at one request, with pauses between them. A server that redirects to another server, or that is
// moving keys, has executed nothing. All pauses together are shorter than half a second.
const (
	attempts   = 6
	firstPause = 10 * time.Millisecond
)

// do sends the request until the server responds or finally rejects it. Its errors are redis.Nil and those
// of package kv.
func (s *Store) do(ctx context.Context, r request) (any, error) {
	load, asking, addr := false, false, ""
	var last error
	for attempt, pause := 0, firstPause; attempt < attempts; attempt++ {
		if ctx.Err() != nil {
			return nil, s.unavailable(r, errors.Join(context.Cause(ctx), last))
		}
		node, err := s.node(ctx, r.base, addr)
		if err != nil {
			return nil, s.unavailable(r, errors.Join(err, last))
		}
		reply, sent, err := s.send(ctx, node, r, load, asking)
		var rejection redis.Error
		switch {
		case err == nil, errors.Is(err, redis.Nil), errors.Is(err, kv.ErrUnknown):
			return reply, err
		case !errors.As(err, &rejection):
			if ctx.Err() == nil { // otherwise the error is not the server's
				s.reload(ctx)
			}
			if r.repeatable && attempt == 0 {
				last = err
				continue
			}
			if sent {
				return nil, s.lost(r, err)
			}
			return nil, s.unavailable(r, err)
		}
		last = err
		code, rest, _ := strings.Cut(err.Error(), " ")
		load, asking, addr = false, false, ""
		switch code {
		case "NOSCRIPT":
			load = true
			continue
		case "MOVED", "ASK":
			fields := strings.Fields(rest)
			if s.cluster() == nil {
				return nil, s.unavailable(r, errors.New("the server belongs to a Cluster: "+clusterHint))
			}
			if len(fields) == 2 {
				addr = fields[1]
			}
			asking = code == "ASK"
			s.reload(ctx)
			if attempt == 0 {
				continue
			}
		case "TRYAGAIN":
		default:
			if code == "CLUSTERDOWN" || code == "READONLY" {
				s.reload(ctx)
			}
			return nil, s.rejected(r, err)
		}
		if err := sleep(ctx, pause); err != nil {
			break
		}
		pause *= 2
	}
	return nil, s.unavailable(r, last)
}

// send sends the request once to the node. sent is false only if certainly no byte left this process.
func (s *Store) send(
	ctx context.Context, node *redis.Client, r request, load, asking bool,
) (reply any, sent bool, err error) {
	if !load && !asking && r.size > 0 && r.size <= batchBytes {
		return s.sendBatched(ctx, node, r)
	}
	waits := r.commit && s.config.Replicas > 0
	var reached atomic.Bool
	cmd := redis.NewCmd(ctx, r.command(r.run(), load, &reached)...)
	if !waits && !asking {
		node.Process(ctx, cmd)
		reply, err = cmd.Result()
		return reply, reached.Load(), err
	}

	// One pipeline uses one connection: ASKING and WAIT apply only to their connection.
	pipe := node.Pipeline()
	if asking {
		pipe.Process(ctx, redis.NewCmd(ctx, "asking"))
	}
	pipe.Process(ctx, cmd)
	var replicas confirmation
	if waits {
		replicas = s.confirm(ctx, pipe, r.base)
	}
	pipe.Exec(ctx)
	reply, err = cmd.Result()
	if waits {
		reply, err = s.confirmed(r, reply, err, replicas)
	}
	return reply, reached.Load(), err
}

// run returns a run of the script for the request, or nil if the script's runs cannot be shared.
func (r request) run() run {
	if r.share == nil {
		return nil
	}
	return r.share.run(r.base)
}

// command returns the command for the request, or for all requests of shared. With load, it contains the
// script's text.
func (r request) command(shared run, load bool, reached *atomic.Bool) []any {
	if shared != nil {
		r.keys, r.args = shared.words()
	}
	args := make([]any, 0, 3+len(r.keys)+len(r.args))
	if r.script != nil {
		if load {
			args = append(args, "eval", r.script.text)
		} else {
			args = append(args, "evalsha", r.script.sha)
		}
		args = append(args, strconv.Itoa(len(r.keys)))
		for _, key := range r.keys {
			args = append(args, key)
		}
	}
	args = append(args, r.args...)
	args[len(args)-1] = marked{args[len(args)-1], reached}
	return args
}

// confirmation has the replies of a pipeline's last commands, which wait for the replicas.
type confirmation struct {
	mark *redis.Cmd
	wait *redis.IntCmd
}

// confirm adds commands to a pipeline that wait until the replicas have the data that its commands read or
// wrote. By its documentation WAIT waits for the writes of its own connection, and a rejected commit has read
// those of others. So there is always a write before it, although Redis 7.0 waits for all writes.
func (s *Store) confirm(ctx context.Context, pipe redis.Pipeliner, base string) confirmation {
	c := confirmation{
		mark: redis.NewCmd(ctx, "set", base+"w", "1", "px", "1000"),
		wait: redis.NewIntCmd(ctx, "wait", s.config.Replicas, s.config.WaitTimeout.Milliseconds()),
	}
	pipe.Process(ctx, c.mark)
	pipe.Process(ctx, c.wait)
	return c
}

// confirmed returns the reply to a commit after the wait for replicas. A conflict waits as well: its item may
// be from the caller's own first try, or the record of an earlier response.
func (s *Store) confirmed(r request, reply any, err error, c confirmation) (any, error) {
	if err != nil {
		return reply, err
	}
	replicas, err := c.wait.Result()
	if err == nil && !accepted(reply) {
		err = c.mark.Err()
	}
	if err == nil && replicas >= int64(s.config.Replicas) {
		return reply, nil
	}
	if err == nil {
		err = fmt.Errorf("%d of %d replicas have confirmed it after %v",
			replicas, s.config.Replicas, s.config.WaitTimeout)
	}
	return nil, s.unknown(r, fmt.Errorf("the primary has responded to the commit, but not enough replicas "+
		"have its data: %w", err))
}

func (s *Store) cluster() *redis.ClusterClient {
	c, _ := s.client.(*redis.ClusterClient)
	return c
}

// node returns the primary at addr, or the owner of the slot of base if addr is empty.
func (s *Store) node(ctx context.Context, base, addr string) (*redis.Client, error) {
	cluster := s.cluster()
	if cluster == nil {
		return s.client.(*redis.Client), nil
	}
	if addr != "" {
		found := make(chan *redis.Client, 1)
		err := cluster.ForEachMaster(ctx, func(_ context.Context, c *redis.Client) error {
			if c.Options().Addr == addr {
				select {
				case found <- c:
				default:
				}
			}
			return nil
		})
		if err == nil && len(found) == 1 {
			return <-found, nil
		}
	}
	return cluster.MasterForKey(ctx, base)
}

// reload makes the client fetch the Cluster's slots again. It does not wait for the result.
func (s *Store) reload(ctx context.Context) {
	if cluster := s.cluster(); cluster != nil {
		cluster.ReloadState(ctx)
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
