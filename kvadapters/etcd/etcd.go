// Package etcd keeps a kv.KV on etcd 3.4 or later: one server or a cluster. It is for operators who
// already run etcd and for whom it matters more that no acknowledged write is ever lost, not even in a
// failover, than how many writes a second they get. Use Open with a URL.
//
// # What it promises
//
// A commit is one etcd transaction: it happens completely or not at all, in one order for all instances
// and partitions. It is on the disks of a majority before it returns. Neither kill -9 of any server nor
// the election of another leader takes it back. Reads are linearizable too. A cluster without a
// majority answers kv.ErrUnavailable.
//
// A commit is sent once. If no byte of it left this process, or a server refused it, it returns
// kv.ErrUnavailable. If after that the connection breaks, the leader changes or the time is up, it
// returns kv.ErrUnknown. A refusal for lack of space is ErrUnknown too: etcd applies the request that
// crosses its quota and then reports that it has no space.
//
// An item expires exactly when Config.Now of the instance that reads it reaches its expiry, because the
// expiry is stored with the item. Claims and charges use the times that their callers give. So the
// clocks of all instances must differ by less than tokens and leases can tolerate.
//
// Leases of tasks are in etcd, so they survive a restart of everything. A lease ends with a number that
// is drawn for its claim. It is valid until another claim, schedule or cancel of the task.
//
// # What it costs
//
// Every write waits for a majority's fsync. Expect hundreds a second with one caller and some thousands
// with many, on good disks. Get and List are one round trip. A Commit is one round trip, or two if it
// cancels or replaces a task that it does not hold or writes where an expired item lies. Claim is one
// to three, and one more if something is due; it returns at most 100 tasks. Spend is one as long as no
// other instance charges the same counters.
//
// A transaction within kv.MaxTx keeps within etcd's limit of 128 operations: if it has more, they are
// packed into transactions inside the transaction. A transaction above Config.MaxRequest (1.5 MiB, the
// servers' default) is refused before it is sent, although kv's own limits allow 4 MiB.
//
// # How items expire
//
// Every expiring item has an entry in order of expiry. Every Config.SweepEvery each instance looks for
// past entries, 32 at a time. One transaction deletes an entry with its item, if both are as they were
// seen. So any number of instances can sweep. RATIONALE.md above this folder says why etcd's own leases
// are not used.
//
// # Layout in etcd
//
// All keys are under the URL's prefix. Their parts are separated by spaces. Times are nanoseconds as 16
// hex digits that sort:
//
//	format                            "1"
//	i <partition> <name>              an item: Tx, expiry, value
//	x <expiry> i <partition> <name>   its entry for the sweep
//	t <partition> <ID>                a task: due time, payload
//	d <partition> <ready> <ID>        its entry in the order of claims: when it
//	                                  is due or, claimed, when its lease ends
//	l <partition> <ID>                the lease of its latest claim, if any
//	m <partition> <name>              a rate counter: its TAT
//	x <minute> m <partition> <name>   its entry for the sweep
//
// A claim moves the task's entry to the end of the lease, so no claim passes a task that another one
// holds. The lease contains that instant, so its holder can finish the task without reading first.
//
// # Settings of the servers
//
//   - --auto-compaction-mode=periodic --auto-compaction-retention=1m, or something like it. Until a
//     compaction etcd keeps every old version, and claims pass the entries of tasks that were finished
//     long ago. Verge reads no old versions. The setting is for the whole cluster: if you share it with
//     programs that watch or read the past, keep what they need.
//   - --quota-backend-bytes: 2 GiB by default, 8 GiB at most. Plan for four times what is kept (items
//     until they expire, events until they are delivered) and defragment now and then. A full quota
//     refuses every write until there is space again and the alarm is disarmed.
//   - Disks on which an fsync takes less than 10 ms, and three or five servers.
//   - With authentication: a user whose role has readwrite on the prefix.
//
// etcd keeps all keys in memory, with some hundred bytes for each. Use Redis for millions of open
// sessions.
package etcd

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/verge-id/verge/core/kv"
)

// Config of a Store. The zero value works.
type Config struct {
	// Now is the clock by which items expire. Nil: time.Now.
	Now func() time.Time

	// Random makes leases unique; each claim reads 8 bytes. It must allow concurrent reads. Nil:
	// crypto/rand.
	Random io.Reader

	// TLS holds the roots and the client's certificate. If it is set, etcd:// uses TLS as well. Nil: no
	// TLS for etcd://, and the system's roots for etcds://.
	TLS *tls.Config

	// Timeout bounds every round trip, within the caller's context. Zero: 5 s, which is longer than the
	// election of a leader takes with etcd's defaults.
	Timeout time.Duration

	// MaxRequest is the servers' --max-request-bytes. A larger transaction is refused before it is
	// sent. Zero: 1.5 MiB, the servers' default.
	MaxRequest int

	// SweepEvery is how often the Store looks for what has expired. Zero: 10 s. Negative: never, so
	// another instance has to.
	SweepEvery time.Duration

	// SweepGrace is how long expired items stay in etcd, invisible. It must exceed the difference
	// between the clocks of two instances. Otherwise one instance deletes what has not yet expired for
	// the other. Zero: 1 minute.
	SweepGrace time.Duration
}

// Valid reports what is wrong with a URL, as far as it can tell without a server.
func Valid(url string) error {
	_, err := parseURL(url)
	return err
}

// Store implements kv.KV and kv.Meter.
type Store struct {
	layout
	client     *clientv3.Client
	now        func() time.Time
	random     io.Reader
	timeout    time.Duration
	maxRequest int
	grace      time.Duration
	counters   *lru.Cache[string, counter]

	stop  context.CancelFunc
	swept sync.WaitGroup
	once  sync.Once
}

var (
	_ kv.KV    = (*Store)(nil)
	_ kv.Meter = (*Store)(nil)
)

// maxCounters bounds the rate counters whose state is remembered. A counter that was forgotten costs a
// second round trip.
const maxCounters = 64 * 1024

// readTries is how often a read is sent while no server answers, about 25 ms apart. That is enough to
// get past a server that has just died, and few enough that a denial does not take all of
// Config.Timeout. Transactions are sent once.
const readTries = 10

// Open connects to the servers of the URL
//
//	etcd://[user:password@]host[:port][,host[:port]...][/prefix]
//
// (etcds:// for TLS; without a prefix it is "verge") and proves by one small transaction that the
// servers can be written to. After that the Store recovers from every outage by itself.
func Open(ctx context.Context, url string, c Config) (*Store, error) {
	addr, err := parseURL(url)
	if err != nil {
		return nil, err
	}
	return open(ctx, addr, c)
}

func open(ctx context.Context, addr address, c Config) (*Store, error) {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Random == nil {
		c.Random = rand.Reader
	}
	if c.Timeout <= 0 {
		c.Timeout = 5 * time.Second
	}
	if c.MaxRequest <= 0 {
		c.MaxRequest = 3 << 19
	}
	if c.SweepEvery == 0 {
		c.SweepEvery = 10 * time.Second
	}
	if c.SweepGrace <= 0 {
		c.SweepGrace = time.Minute
	}
	if addr.tls && c.TLS == nil {
		c.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	counters, err := lru.New[string, counter](maxCounters)
	if err != nil {
		return nil, err
	}
	retry := backoff.Config{
		BaseDelay:  100 * time.Millisecond,
		Multiplier: 1.6,
		Jitter:     0.2,
		MaxDelay:   2 * time.Second,
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints:            addr.endpoints,
		TLS:                  c.TLS,
		Username:             addr.user,
		Password:             addr.password,
		DialTimeout:          c.Timeout,
		DialKeepAliveTime:    10 * time.Second,
		DialKeepAliveTimeout: 3 * time.Second,
		MaxCallSendMsgSize:   c.MaxRequest + 512<<10,
		MaxUnaryRetries:      readTries,
		Logger:               zap.NewNop(), // the errors say what went wrong
		DialOptions: []grpc.DialOption{
			grpc.WithStatsHandler(sent{}),
			// By default grpc would wait up to two minutes before it tries a server again.
			grpc.WithConnectParams(grpc.ConnectParams{Backoff: retry, MinConnectTimeout: 2 * time.Second}),
			grpc.WithChainUnaryInterceptor(failFast),
		},
	})
	if err != nil {
		return nil, failed("connecting", err)
	}
	s := &Store{
		layout:     layout{addr.prefix},
		client:     client,
		now:        c.Now,
		random:     c.Random,
		timeout:    c.Timeout,
		maxRequest: c.MaxRequest,
		grace:      c.SweepGrace,
		counters:   counters,
	}
	if err := s.checkFormat(ctx); err != nil {
		client.Close()
		return nil, err
	}
	life, stop := context.WithCancel(context.Background())
	s.stop = stop
	if c.SweepEvery > 0 {
		s.swept.Go(func() { s.sweepUntil(life, c.SweepEvery) })
	}
	return s, nil
}

// failFast makes a call fail at once if no server can be reached. By default the client waits until the
// time is up: an outage would hold every caller for all of Config.Timeout and then hide its cause.
func failFast(
	ctx context.Context, method string, req, reply any, cc *grpc.ClientConn,
	invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
) error {
	return invoke(ctx, method, req, reply, cc, append(opts, grpc.WaitForReady(false))...)
}

// Close ends the sweep and closes the connections. Calls that are under way fail.
func (s *Store) Close() error {
	var err error
	s.once.Do(func() {
		s.stop()
		s.swept.Wait()
		err = s.client.Close()
	})
	return err
}

func (s *Store) checkFormat(ctx context.Context) error {
	key := s.format()
	resp, _, err := s.txn(ctx,
		[]clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(key), "=", 0)},
		[]clientv3.Op{clientv3.OpPut(key, format)},
		[]clientv3.Op{clientv3.OpGet(key)})
	if err != nil {
		return failed("opening", err)
	}
	if found, ok := ranged(resp)[key]; ok && string(found.Value) != format {
		return fmt.Errorf("etcd: key %q says format %q, but this version reads format %q: "+
			"use the version that wrote it, or another prefix", key, found.Value, format)
	}
	return nil
}

// txn makes one round trip. left says whether any part of it left this process.
func (s *Store) txn(
	ctx context.Context, cmps []clientv3.Cmp, then, otherwise []clientv3.Op,
) (resp *clientv3.TxnResponse, left bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	var flag *atomic.Bool
	ctx, flag = withSent(ctx)
	// With this a server that is cut off from its cluster says so at once, before it accepts the
	// request.
	ctx = clientv3.WithRequireLeader(ctx)
	resp, err = s.client.Txn(ctx).If(cmps...).Then(then...).Else(otherwise...).Commit()
	return resp, flag.Load(), err
}

// read gets the keys as of one instant. The read is linearizable. It writes nothing, so it adds no
// entry to the servers' log.
func (s *Store) read(ctx context.Context, gets []clientv3.Op) (map[string]*mvccpb.KeyValue, error) {
	gets, _ = nested(gets, nil)
	resp, _, err := s.txn(ctx, nil, gets, nil)
	if err != nil {
		return nil, err
	}
	return ranged(resp), nil
}

// ranged collects what the executed branch of resp read.
func ranged(resp *clientv3.TxnResponse) map[string]*mvccpb.KeyValue {
	found := make(map[string]*mvccpb.KeyValue)
	for _, op := range resp.Responses {
		if inner := op.GetResponseTxn(); inner != nil {
			for key, v := range ranged((*clientv3.TxnResponse)(inner)) {
				found[key] = v
			}
		}
		for _, v := range op.GetResponseRange().GetKvs() {
			found[string(v.Key)] = v
		}
	}
	return found
}

// Limits that follow from etcd's --max-txn-ops, which is 128 by default. It bounds the compares and
// each branch of a transaction. A transaction inside another may use what the outer one left over; the
// inner ones are not added up. A kv.Tx within kv.MaxTx has at most 128 compares. If it has more than
// 128 operations, its compares are few enough to leave room for 32: each part has two compares, or two
// operations, or one compare and four operations.
const (
	maxOps   = 128
	innerOps = 32
)

// nested packs the branches into transactions inside the transaction if they are too long for one.
func nested(then, otherwise []clientv3.Op) (_, _ []clientv3.Op) {
	if len(then) <= maxOps && len(otherwise) <= maxOps {
		return then, otherwise
	}
	return packed(then), packed(otherwise)
}

func packed(ops []clientv3.Op) []clientv3.Op {
	var out []clientv3.Op
	for len(ops) > 0 {
		n := min(innerOps, len(ops))
		out = append(out, clientv3.OpTxn(nil, ops[:n], nil))
		ops = ops[n:]
	}
	return out
}

// Get implements kv.KV.
func (s *Store) Get(ctx context.Context, key kv.Key) (kv.Item, error) {
	if err := cancelled(ctx, "get"); err != nil {
		return kv.Item{}, err
	}
	stored := s.item(key.Partition, key.Name)
	resp, err := s.get(ctx, stored)
	if err != nil {
		return kv.Item{}, failed("get", err)
	}
	if len(resp.Kvs) == 0 {
		return kv.Item{}, kv.ErrNotFound
	}
	rec, ok := decodeItem(resp.Kvs[0].Value)
	switch {
	case !ok:
		return kv.Item{}, damaged(stored, "holds no item")
	case rec.expired(sortable(s.now())):
		return kv.Item{}, kv.ErrNotFound
	}
	return rec.export(key), nil
}

func (s *Store) get(
	ctx context.Context, key string, opts ...clientv3.OpOption,
) (*clientv3.GetResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	return s.client.Get(clientv3.WithRequireLeader(ctx), key, opts...)
}

// listPage bounds how many items one answer of the server has.
const listPage = 256

// List implements kv.KV. A page of more than 256 items is read in several
// steps, between which the items may change.
func (s *Store) List(ctx context.Context, prefix kv.Key, after string, n int) ([]kv.Item, error) {
	if err := cancelled(ctx, "list"); err != nil {
		return nil, err
	}
	from := s.item(prefix.Partition, prefix.Name)
	end := clientv3.GetPrefixRangeEnd(from)
	if after != "" {
		from = max(from, s.item(prefix.Partition, after)+"\x00")
	}
	head := len(s.item(prefix.Partition, ""))
	now := sortable(s.now())
	var items []kv.Item
	for len(items) < n && from < end {
		page := min(n-len(items), listPage)
		resp, err := s.get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(int64(page)))
		if err != nil {
			return nil, failed("list", err)
		}
		for _, found := range resp.Kvs {
			rec, ok := decodeItem(found.Value)
			if !ok {
				return nil, damaged(string(found.Key), "holds no item")
			}
			if !rec.expired(now) {
				items = append(items,
					rec.export(kv.Key{Partition: prefix.Partition, Name: string(found.Key[head:])}))
			}
			from = string(found.Key) + "\x00"
		}
		if !resp.More {
			break
		}
	}
	return items, nil
}
