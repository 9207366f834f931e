// Package redis implements kv.KV on Redis (6.2 or later) or Valkey: one server, a server with Sentinel, or
// a Cluster. It is the store of a service that runs as several processes. Use [Open] with a URL, or [New]
// with your own client. It is tested on Redis 7.0. Valkey has the same commands, but is not tested.
//
// # Guarantees
//
// A commit is one Lua script. Redis executes it alone and writes it to its log and its replicas as a unit,
// so it is executed completely or not at all. If the server does not have the script, after SCRIPT FLUSH or
// a restart, the store sends it again. The store never repeats a Commit or a Claim automatically: a commit
// whose reply is lost returns kv.ErrUnknown.
//
// A commit that returned is as durable as the server's settings make it. With "appendonly yes" and
// "appendfsync always" it survives kill -9 and a power cut. With "appendfsync everysec" it survives kill
// -9, but a power cut loses the last second. Without appendonly, a restart loses all commits since the last
// snapshot.
//
// Replication is asynchronous. A failover to a replica that lags behind loses commits that had returned: a
// token used in those moments can be used again. With Config.Replicas every commit, including a rejected
// one, waits for that many replicas and returns kv.ErrUnknown if they do not confirm the data. Together with
// min-replicas-to-write this limits the loss to a failover that promotes a replica without the commit. No
// setting of Redis rules that out. Operators who cannot accept this loss need PostgreSQL with a synchronous
// replica.
//
// Leases are on the server, so they outlive the process that holds them. Items expire by the clock of the
// primary. Tasks are due by the time that is passed to Claim. Times have milliseconds; expiries and due
// times are rounded up.
//
// While a Cluster moves a slot, calls on its partitions can return kv.ErrUnavailable until the move is
// complete.
//
// Concurrent commits, reads and charges of rate counters for one node share a few connections. Charges of
// one partition share one run of their script, and so do commits of one partition that have no item and no
// task in common. Each call has its own result: if one commit of a run conflicts, the others are executed.
// If a connection breaks, the outcome of its calls is unknown. A connection that hangs delays only its own
// calls.
//
// # Settings of the server
//
//	appendonly yes                 otherwise a restart loses commits
//	appendfsync always             otherwise a power cut loses the last second
//	maxmemory-policy noeviction    otherwise marks of used tokens vanish; Open rejects another
//	min-replicas-to-write 1        with replicas, besides Config.Replicas
//	min-replicas-max-lag 10
//
// If Config.Prefix is verge, an ACL user needs
//
//	~{verge:* +get +set +del +mget +zadd +zrem +zcard +zrangebyscore
//	+zrangebylex +hset +hget +hdel +hlen +eval +evalsha +time +wait +info
//	+ping +client +hello
//
// and on a Cluster also +cluster, +asking and +command. Without +info, Open cannot read the eviction policy
// and trusts the operator. Open runs every command once, so that a missing permission is reported when the
// service starts. With +config|get as well, `verge kv check` can report the loss in a restart.
//
// # Layout in Redis
//
// All keys of a partition have the same hash tag and so are on the same node:
//
//	{verge:p}i:<name>   string: an item: expiry, transaction, value; with a TTL
//	{verge:p}n          zset:   all items' names, for List in byte order
//	{verge:p}x          zset:   names by expiry, to find the expired ones
//	{verge:p}d          zset:   task IDs by the time when they can be claimed
//	{verge:p}t          hash:   =<id> due time and payload, @<id> the latest lease
//	{verge:p}r:<name>   string: a rate counter in microseconds; with a TTL
//	{verge:p}w          string: written before a WAIT for replicas; with a TTL
//
// On a Cluster, the tag of a rate counter also has the number of a shard, as in {verge:p%s17}r:<name>.
// verge is Config.Prefix and p is the partition, with "}" and "%" escaped. Commits and claims remove
// expired names from n and x, a few at a time. The store never scans the keyspace.
package redis

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/verge-id/verge/core/kv"
)

// Config configures a Store. The zero value works.
type Config struct {
	// Prefix begins every key, so that several services can share a server. It consists of letters, digits,
	// "-", "_" and ".". Empty: "verge".
	Prefix string

	// Replicas is the number of replicas that must have a commit before it returns nil. A rejected commit
	// waits until they have the items that its checks read. If fewer confirm it within WaitTimeout, the
	// commit returns kv.ErrUnknown, though the primary has it. Zero: the commit waits only for the primary.
	Replicas int

	// WaitTimeout is how long a commit waits for Replicas. Zero: one second. A client given to New
	// needs a longer ReadTimeout than this.
	WaitTimeout time.Duration

	// TLS is for Open with a rediss URL, with or without +cluster or +sentinel. It is needed for a private
	// CA or a client's certificate. Nil: the system's CAs. New ignores it.
	TLS *tls.Config

	// Random makes leases unique. Nil: crypto/rand.
	Random io.Reader
}

// Store implements kv.KV and kv.Meter.
type Store struct {
	config  Config
	client  redis.UniversalClient
	owned   bool // created by Open
	commits atomic.Uint64
	claims  atomic.Uint64

	batchers sync.Map // of route, to *batcher
}

var (
	_ kv.KV       = (*Store)(nil)
	_ kv.Meter    = (*Store)(nil)
	_ kv.Measurer = (*Store)(nil)
)

// New returns a Store on a *redis.Client (including Sentinel's) or a *redis.ClusterClient. It does not
// contact the server: see Check. The client must not repeat commands automatically (MaxRetries: -1),
// because a repeated commit hides that its first reply was lost. The caller closes the client.
func New(client redis.UniversalClient, c Config) (*Store, error) {
	c.Prefix = cmp.Or(c.Prefix, "verge")
	for _, b := range []byte(c.Prefix) {
		if !('a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9' || b == '-' || b == '_' ||
			b == '.') {
			return nil, fmt.Errorf("redis: prefix %q: only letters, digits, \"-\", \"_\" and \".\" "+
				"can begin a key", c.Prefix)
		}
	}
	if c.Replicas < 0 || c.WaitTimeout < 0 {
		return nil, fmt.Errorf("redis: Replicas is %d and WaitTimeout is %v: neither can be negative",
			c.Replicas, c.WaitTimeout)
	}
	c.WaitTimeout = cmp.Or(c.WaitTimeout, defaultWait)
	if c.WaitTimeout < time.Millisecond {
		return nil, fmt.Errorf("redis: a wait of %v for replicas is too short: it must be at least 1ms",
			c.WaitTimeout)
	}
	if c.Random == nil {
		c.Random = rand.Reader
	}
	retries, timeout := 0, time.Duration(0)
	switch client := client.(type) {
	case *redis.Client:
		retries, timeout = client.Options().MaxRetries, client.Options().ReadTimeout
	case *redis.ClusterClient:
		if o := client.Options(); o.ReadOnly || o.RouteByLatency || o.RouteRandomly {
			return nil, errors.New("redis: the client reads from replicas, which lag behind; " +
				"turn ReadOnly, RouteByLatency and RouteRandomly off")
		}
		retries, timeout = client.Options().MaxRetries, client.Options().ReadTimeout
	default:
		return nil, fmt.Errorf("redis: a %T cannot find the server of a key; "+
			"use *redis.Client or *redis.ClusterClient", client)
	}
	if retries > 0 {
		return nil, fmt.Errorf("redis: the client repeats commands up to %d times automatically; set "+
			"MaxRetries to -1", retries)
	}
	if c.Replicas > 0 && timeout > 0 && timeout <= c.WaitTimeout {
		return nil, fmt.Errorf("redis: the client's ReadTimeout %v ends before WaitTimeout %v "+
			"does; make it longer", timeout, c.WaitTimeout)
	}
	return &Store{config: c, client: client}, nil
}

// Close closes the connections that Open opened.
func (s *Store) Close() error {
	if !s.owned {
		return nil
	}
	return s.client.Close()
}

// base returns the prefix of all keys of the partition, which is its hash tag. An escaped "}" cannot end
// the tag early, and no two partitions have the same base.
func (s *Store) base(p kv.Partition) string {
	return "{" + s.config.Prefix + ":" + escaper.Replace(string(p)) + "}"
}

var escaper = strings.NewReplacer("%", "%25", "}", "%7D")

// fixed returns the keys that every partition has.
func fixed(base string) []string { return []string{base + "n", base + "x", base + "d", base + "t"} }

// Get implements kv.KV.
func (s *Store) Get(ctx context.Context, key kv.Key) (kv.Item, error) {
	base := s.base(key.Partition)
	reply, err := s.do(ctx, request{base: base, repeatable: true, size: 1,
		args: []any{"get", base + "i:" + key.Name}})
	if errors.Is(err, redis.Nil) {
		return kv.Item{}, kv.ErrNotFound
	}
	if err != nil {
		return kv.Item{}, err
	}
	return decodeItem(key, reply)
}

// List implements kv.KV. It reads each item at some time during the call, but not all at the same time.
func (s *Store) List(ctx context.Context, prefix kv.Key, after string, n int) ([]kv.Item, error) {
	base := s.base(prefix.Partition)
	from, to := "["+prefix.Name, "["+prefix.Name+"\xff" // sorts after every name, because names are ASCII
	if after >= prefix.Name && after != "" {
		from = "(" + after
	}
	if from == "[" {
		from = "-"
	}
	var items []kv.Item
	for len(items) < n {
		const most = 128 // names, and so values, in one request
		want := min(max(n-len(items), 16), most)
		names, values, err := s.page(ctx, base, from, to, want)
		if err != nil {
			return nil, err
		}
		expired := false
		for i, value := range values {
			if value == nil {
				expired = true
				continue
			}
			if len(items) == n {
				break
			}
			item, err := decodeItem(kv.Key{Partition: prefix.Partition, Name: text(names[i])}, value)
			if err != nil {
				return nil, err
			}
			items = append(items, item)
		}
		if expired {
			// The current page is correct without the sweep. The sweep makes the next one shorter.
			s.do(ctx, request{base: base, script: sweepScript, keys: fixed(base),
				args: []any{strconv.Itoa(2 * most)}})
		}
		if len(names) < want {
			break
		}
		from = "(" + text(names[len(names)-1])
	}
	return items, nil
}

// page returns up to n names of the index from one bound to another, and the value of each: nil for an item
// that has expired.
func (s *Store) page(ctx context.Context, base, from, to string, n int) (names, values []any, err error) {
	reply, err := s.do(ctx, request{base: base, repeatable: true,
		args: []any{"zrangebylex", base + "n", from, to, "limit", "0", strconv.Itoa(n)}})
	if err != nil {
		return nil, nil, err
	}
	names, ok := reply.([]any)
	if !ok {
		return nil, nil, damaged("the reply of the index is a %T", reply)
	}
	if len(names) == 0 {
		return nil, nil, nil
	}
	get := make([]any, 1, 1+len(names))
	get[0] = "mget"
	for _, name := range names {
		get = append(get, base+"i:"+text(name))
	}
	reply, err = s.do(ctx, request{base: base, repeatable: true, args: get})
	if err != nil {
		return nil, nil, err
	}
	values, ok = reply.([]any)
	if !ok || len(values) != len(names) {
		return nil, nil, damaged("the reply to a request for the values of %d names is a %T", len(names),
			reply)
	}
	return names, values, nil
}

// maxClaim is the maximum number of tasks per Claim, because the server is blocked during a claim. If more
// tasks are due, next is in the past.
const maxClaim = 1000

// Claim implements kv.KV. If the reply is lost, the error is kv.ErrUnavailable and the tasks stay
// leased until the lease ends.
func (s *Store) Claim(
	ctx context.Context, p kv.Partition, now time.Time, lease time.Duration, n int,
) ([]kv.Task, time.Time, error) {
	n = min(max(n, 0), maxClaim)
	var fence [16]byte
	if _, err := io.ReadFull(s.config.Random, fence[:]); err != nil {
		return nil, time.Time{}, fmt.Errorf("redis: %w: reading randomness for a lease: %w",
			kv.ErrUnavailable, err)
	}
	id := hex.EncodeToString(fence[:])
	base := s.base(p)
	sweep := 0
	// The turn shifts by one after 64 claims. Otherwise claims that rotate through the partitions would
	// always sweep the same ones.
	if turn := s.claims.Add(1); turn%sweepEvery == turn/64%sweepEvery {
		sweep = sweepEvery * sweepAtOnce
	}
	reply, err := s.do(ctx, request{base: base, script: claimScript, keys: fixed(base), args: []any{
		strconv.FormatInt(floor(now), 10), strconv.FormatInt(ceil(now.Add(lease)), 10),
		strconv.Itoa(n), strconv.Itoa(sweep), id,
	}})
	if err != nil {
		return nil, time.Time{}, err
	}
	parts, _ := reply.([]any)
	if len(parts)%2 != 1 {
		return nil, time.Time{}, damaged("the reply to a claim is %v", reply)
	}
	var next time.Time
	if at := text(parts[0]); at != "" {
		ms, err := strconv.ParseFloat(at, 64)
		if err != nil {
			return nil, time.Time{}, damaged("the reply contains the due time %q", at)
		}
		next = time.UnixMilli(int64(ms)).UTC()
	}
	tasks := make([]kv.Task, 0, len(parts)/2)
	for i := 1; i < len(parts); i += 2 {
		task, err := decodeTask(text(parts[i]), parts[i+1])
		if err != nil {
			return nil, time.Time{}, err
		}
		task.Lease = id + "-" + strconv.Itoa(len(tasks)+1)
		tasks = append(tasks, task)
	}
	return tasks, next, nil
}
