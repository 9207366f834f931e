// Package etcd keeps a kv.KV on etcd 3.4 or later: one server or a cluster. It
// is for operators who run etcd already and want that no acknowledged write is
// ever lost, failovers included, more than they want many writes a second.
// Use Open with a URL.
//
// # What it promises
//
// A commit is one etcd transaction: it happens as a whole or not at all, in
// one order for all instances and partitions, and is on the disks of a
// majority before it returns. Neither kill -9 of any server nor the election
// of another leader takes it back. Reads are linearizable as well. A cluster
// without a majority answers kv.ErrUnavailable.
//
// A commit is sent once. If no byte of it left this process, or a server
// refused it, it is kv.ErrUnavailable; if the connection breaks, the leader
// changes or the time is up after that, it is kv.ErrUnknown. A refusal for
// want of space is ErrUnknown too: etcd applies the request that crosses its
// quota and then says that it has no space.
//
// What expires is gone at its exact instant by Config.Now of whoever asks,
// since the instant is stored with it. Claims and charges go by the times
// that their callers give. So the clocks of all instances must agree to
// within what their tokens and leases can bear.
//
// Leases of tasks are in etcd: a restart of everything keeps them. Each ends
// in a number that is drawn for its claim, and stands until another claim,
// schedule or cancel of the task.
//
// # What it costs
//
// Every write waits for a majority's fsync; expect hundreds a second with
// one caller, some thousands with many, on good disks. Get and List are one
// round trip. A Commit is one, but two if it cancels or replaces a task that
// it does not hold or writes where an expired item lies. Claim is one to
// three, and one more where something is due; it returns at most 100 tasks.
// Spend is one while no other instance charges the same counters.
//
// A transaction within kv.MaxTx keeps within etcd's limit of 128 operations:
// where it has more, they go as transactions inside the transaction. A
// transaction above Config.MaxRequest (1.5 MiB, as with the servers) is
// refused before it is sent; kv's own limits would allow 4 MiB.
//
// # How items expire
//
// Every expiring item has an entry in order of expiry, and each instance looks
// every Config.SweepEvery for entries that are past, 32 at a time. An entry
// goes in one transaction with its item, if both are as they were seen, so any
// number of instances can sweep. RATIONALE.md above this folder says why
// etcd's own leases are not used.
//
// # What is where
//
// All under the URL's prefix, parts separated by spaces, times as 16 hex
// digits of nanoseconds that sort:
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
// A claim moves the task's entry to the end of the lease, so no claim passes a
// task that another holds; and a lease names that instant, so its holder
// finishes the task without reading first.
//
// # What an operator sets
//
//   - --auto-compaction-mode=periodic --auto-compaction-retention=1m, or the
//     like: until compaction etcd keeps every old version, and claims pass the
//     entries of tasks that are long done. Verge reads no old versions. This
//     is for the whole cluster: a cluster shared with others that watch or
//     read the past keeps what they need.
//   - --quota-backend-bytes: 2 GiB unless set, 8 GiB at most. Count four times
//     what lives (items for as long as they are kept, events until delivered)
//     and defragment now and then. A full quota refuses every write until
//     space is made and the alarm is disarmed.
//   - Disks on which an fsync takes less than 10 ms; three or five servers.
//   - With authentication: a user whose role has readwrite on the prefix.
//
// etcd keeps all keys in memory, some hundred bytes for each: millions of open
// sessions belong on Redis.
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

	// Random makes leases unique; 8 bytes a claim. Nil: crypto/rand. It is
	// read concurrently.
	Random io.Reader

	// TLS holds roots and client certificate. Nil: plain for etcd://, the
	// system's roots for etcds://. Set, it makes etcd:// TLS as well.
	TLS *tls.Config

	// Timeout bounds every round trip, within the caller's context. Zero: 5 s,
	// which outlasts the election of a leader with etcd's defaults.
	Timeout time.Duration

	// MaxRequest is the servers' --max-request-bytes. A transaction above it
	// is refused before it is sent. Zero: 1.5 MiB, as with the servers.
	MaxRequest int

	// SweepEvery is how often the Store looks for what has expired. Zero:
	// 10 s. Negative: never; another instance has to.
	SweepEvery time.Duration

	// SweepGrace is how long what has expired stays in etcd, unseen. It must
	// exceed what the clocks of two instances can differ by, or one deletes
	// what has not expired for the other. Zero: 1 minute.
	SweepGrace time.Duration
}

// Valid finds what is wrong with a URL as far as that can be told without a server.
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

// maxCounters bounds the rate counters whose state is remembered; one that is
// forgotten costs a second round trip.
const maxCounters = 64 * 1024

// readTries is how often a read is sent while no server answers, about 25 ms
// apart: enough to pass over one that has just died, and too few to hold up a
// denial for all of Config.Timeout. Transactions are sent once.
const readTries = 10

// Open connects to the servers of the URL
//
//	etcd://[user:password@]host[:port][,host[:port]...][/prefix]
//
// (etcds:// for TLS; the prefix is "verge" where none is given) and proves by
// one small transaction that they can be written to. After that the Store
// finds its way back from every outage by itself.
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
	retry := backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second}
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
		Logger:               zap.NewNop(), // what went wrong is in the errors
		DialOptions: []grpc.DialOption{
			grpc.WithStatsHandler(sent{}),
			// By itself grpc would wait for up to two minutes before it tries
			// a server again.
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

// failFast undoes the client's habit of waiting for a server until the time is
// up: an outage would hold every caller for all of Config.Timeout, and then
// hide its cause.
func failFast(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	return invoke(ctx, method, req, reply, cc, append(opts, grpc.WaitForReady(false))...)
}

// Close ends the sweep and closes the connections. Calls under way fail.
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
		return fmt.Errorf("etcd: key %q says format %q, this version reads format %q: use the version that wrote it, or another prefix", key, found.Value, format)
	}
	return nil
}

// txn makes one round trip. left says whether any of it left this process.
func (s *Store) txn(ctx context.Context, cmps []clientv3.Cmp, then, otherwise []clientv3.Op) (resp *clientv3.TxnResponse, left bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	var flag *atomic.Bool
	ctx, flag = withSent(ctx)
	// A server cut off from its cluster then says so at once, before it has
	// taken the request on.
	resp, err = s.client.Txn(clientv3.WithRequireLeader(ctx)).If(cmps...).Then(then...).Else(otherwise...).Commit()
	return resp, flag.Load(), err
}

// read gets the keys as of one instant. It is linearizable and, without
// anything to write, costs the servers no entry in their log.
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

// Limits of etcd's --max-txn-ops, 128 unless set otherwise: it bounds the
// compares and each branch of a transaction, and what a transaction inside
// has left is what the one around it did not use; but it does not add up the
// transactions inside. A kv.Tx within kv.MaxTx has at most 128 compares, and
// where it has more than 128 operations it has few enough compares to leave
// room for 32 (each part has two compares, or two operations, or one compare
// and four operations).
const (
	maxOps   = 128
	innerOps = 32
)

// nested packs the branches into transactions inside the transaction where
// they are too many for one.
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

func (s *Store) get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	return s.client.Get(clientv3.WithRequireLeader(ctx), key, opts...)
}

// listPage bounds one answer of the server.
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
				items = append(items, rec.export(kv.Key{Partition: prefix.Partition, Name: string(found.Key[head:])}))
			}
			from = string(found.Key) + "\x00"
		}
		if !resp.More {
			break
		}
	}
	return items, nil
}
