package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters/bolt"
	"github.com/verge-id/verge/kvadapters/etcd"
	"github.com/verge-id/verge/kvadapters/kvtest/promises"
	"github.com/verge-id/verge/kvadapters/redis"
)

// scratch is a place on an operator's store where promises can be proven.
type scratch interface {
	// where is how the names of all that is written begin.
	where() string

	// about asks the servers about themselves.
	about(ctx context.Context) (kvAbout, error)

	// store returns an empty store of its own; its clock is the caller's affair.
	store(name string) (promises.Harness, error)

	// more is what this kind of store promises besides those of package kv.
	more() []kvProof

	// erase removes all that was written. Nothing may be under way.
	erase(ctx context.Context) error

	close() error
}

// kvAbout is what servers say of themselves, and what follows from it.
type kvAbout struct {
	Server    string        `json:"server"`
	Clocks    []kvClock     `json:"clocks,omitempty"`
	ClockNote string        `json:"clock_note,omitempty"` // where there are no clocks to compare
	Settings  []kvSetting   `json:"settings,omitempty"`
	NotProven []kvNotProven `json:"not_proven"`
	Warnings  []string      `json:"warnings,omitempty"`
}

// kvClock is a server's clock compared with this machine's.
type kvClock struct {
	Server   string  `json:"server"`
	AheadMS  float64 `json:"ahead_ms"`  // negative: behind
	WithinMS float64 `json:"within_ms"` // the truth lies so far to either side
}

func (c kvClock) ahead() time.Duration  { return time.Duration(c.AheadMS * float64(time.Millisecond)) }
func (c kvClock) within() time.Duration { return time.Duration(c.WithinMS * float64(time.Millisecond)) }

// kvSetting is a server's setting. Value is empty where it may not be asked.
type kvSetting struct {
	Server string `json:"server"`
	Name   string `json:"name"`
	Value  string `json:"value"`
}

// kvNotProven is a promise that a check of a store in use cannot prove.
type kvNotProven struct {
	What string `json:"what"`
	Why  string `json:"why"`
}

func openScratch(ctx context.Context, at storeAt, name string, now func() time.Time) (scratch, error) {
	switch at.kind {
	case "redis":
		s, err := redis.OpenScratch(ctx, at.url, at.redis(), name)
		if err != nil {
			return nil, err
		}
		return redisScratch{s, now, at.replicas}, nil
	case "etcd":
		s, err := etcd.OpenScratch(ctx, at.url, etcd.Config{Now: now, TLS: at.tls}, name)
		if err != nil {
			return nil, err
		}
		return etcdScratch{s, now}, nil
	case "bolt":
		return newBoltScratch(at.path, name, now)
	}
	panic("no scratch on " + at.kind)
}

type redisScratch struct {
	s        *redis.Scratch
	now      func() time.Time
	replicas int
}

func (r redisScratch) where() string                   { return r.s.KeysBegin() }
func (r redisScratch) erase(ctx context.Context) error { return r.s.Erase(ctx) }
func (r redisScratch) close() error                    { return r.s.Close() }

func (redisScratch) more() []kvProof { return nil }

func (r redisScratch) store(name string) (promises.Harness, error) {
	return promises.Harness{KV: r.s.Store(name)}, nil
}

func (r redisScratch) about(ctx context.Context) (kvAbout, error) {
	servers, err := r.s.Servers(ctx, r.now)
	if err != nil {
		return kvAbout{}, err
	}
	return aboutRedis(servers, r.replicas), nil
}

// aboutRedis judges what the primaries say.
func aboutRedis(servers []redis.Server, replicas int) kvAbout {
	var a kvAbout
	products := map[string]bool{}
	connected := map[string]bool{}
	values := map[string]map[string]bool{} // of each setting, over all servers
	for _, s := range servers {
		if s.Product != "" && !products[s.Product] {
			products[s.Product] = true
			a.Server += ", " + s.Product
		}
		connected[s.Replicas] = true
		a.Clocks = append(a.Clocks, kvClock{s.Addr, milliseconds(s.Ahead), milliseconds(s.Within)})
		for _, name := range redis.AskedSettings {
			if values[name] == nil {
				values[name] = map[string]bool{}
			}
			values[name][s.Settings[name]] = true
			a.Settings = append(a.Settings, kvSetting{s.Addr, name, s.Settings[name]})
		}
	}
	a.Server = strings.TrimPrefix(a.Server, ", ")
	if a.Server == "" {
		a.Server = "Redis of a version that it does not tell"
	}
	if len(servers) > 1 {
		a.Server += fmt.Sprintf(", a Cluster of %d primaries", len(servers))
	}

	some := func(name, value string) bool { return values[name][value] }
	warn := func(format string, args ...any) { a.Warnings = append(a.Warnings, fmt.Sprintf(format, args...)) }
	restart := "Nothing was restarted, as the store may be in use. "
	switch {
	case some("appendonly", "no"):
		restart += "appendonly is no: a restart forgets everything since the last snapshot."
		warn("appendonly is no: after a restart, tokens that were used can be used again; set appendonly yes")
	case some("appendonly", ""):
		restart += "The servers may not be asked for appendonly: see that it is yes, and appendfsync always."
	case some("appendfsync", "always"):
		restart += "appendonly yes with appendfsync always keeps every write through kill -9 and a power cut, if the disk keeps its word."
	case some("appendfsync", ""):
		restart += "appendonly is yes; appendfsync may not be asked: with anything but always, a power cut takes the last second or more."
	}
	if some("appendonly", "yes") && !some("appendonly", "no") && (some("appendfsync", "everysec") || some("appendfsync", "no")) {
		restart = "Nothing was restarted, as the store may be in use. appendonly is yes, but appendfsync is not always: kill -9 loses nothing, a power cut the last second or more."
		warn("appendfsync is not always: a power cut takes the last second, or more, of what was acknowledged; set appendfsync always")
	}
	a.NotProven = append(a.NotProven, kvNotProven{"a restart", restart})
	if some("cluster-require-full-coverage", "yes") && len(servers) > 1 {
		warn("cluster-require-full-coverage is yes: while one primary is down without a replica that takes over, the whole Cluster refuses; give each primary a replica")
	}

	failover := "No primary was failed over. Replication is asynchronous: a replica that lags and is promoted forgets writes that were acknowledged. "
	switch {
	case len(connected) == 1 && connected["0"]:
		failover += "No replicas are connected, so there is nothing to fail over to."
	case replicas > 0:
		failover += fmt.Sprintf("Every write here waited for replicas (%d), which narrows that and does not close it.", replicas)
	case connected[""]:
		failover += "The servers do not tell whether they have replicas; with some, set store.replicas and min-replicas-to-write."
	default:
		failover += "Replicas are connected: set store.replicas and min-replicas-to-write to narrow that."
	}
	if len(connected) != 1 || !connected["0"] {
		if replicas == 0 && !connected[""] {
			warn("replicas are connected, but no write waits for them: set store.replicas to 1 or more, or a failover can forget what was acknowledged")
		}
		if some("min-replicas-to-write", "0") && replicas > 0 {
			warn("min-replicas-to-write is 0: a primary that is cut off from its replicas goes on taking writes that the next one will not have")
		}
	}
	a.NotProven = append(a.NotProven, kvNotProven{"a failover", failover})

	full := "The servers were not filled up. "
	switch {
	case some("maxmemory", "") || some("maxmemory-policy", ""):
		full += "maxmemory or maxmemory-policy may not be asked: see that the policy is noeviction."
	case some("maxmemory", "0"):
		full += "maxmemory is 0: nothing bounds them but the machine, and a server without memory is killed."
		warn("maxmemory is 0: set a bound below what the machine has, with maxmemory-policy noeviction, so that a full server refuses writes and is not killed")
	default:
		full += "maxmemory-policy noeviction refuses writes then and removes nothing."
	}
	if values["maxmemory-policy"] != nil && !some("maxmemory-policy", "noeviction") && !some("maxmemory-policy", "") && some("maxmemory", "0") {
		warn("maxmemory-policy is not noeviction: as soon as maxmemory is set, used marks can be evicted")
	}
	a.NotProven = append(a.NotProven, kvNotProven{"full memory", full})
	return a
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

type etcdScratch struct {
	s   *etcd.Scratch
	now func() time.Time
}

func (e etcdScratch) where() string                   { return e.s.KeysBegin() }
func (e etcdScratch) erase(ctx context.Context) error { return e.s.Erase(ctx) }
func (e etcdScratch) close() error                    { return e.s.Close() }

func (etcdScratch) more() []kvProof { return nil }

func (e etcdScratch) store(name string) (promises.Harness, error) {
	return promises.Harness{KV: e.s.Store(name)}, nil
}

func (e etcdScratch) about(ctx context.Context) (kvAbout, error) {
	servers, members := e.s.Servers(ctx)
	return aboutEtcd(servers, members), nil
}

// defaultQuota is etcd's own where --quota-backend-bytes is not set.
const defaultQuota = 2 << 30

// aboutEtcd judges what the servers say.
func aboutEtcd(servers []etcd.Server, members int) kvAbout {
	a := kvAbout{
		Server: "etcd of a version that it does not tell",
		ClockNote: "etcd's own clock does not matter: what expires does so by the clocks of Verge's instances, " +
			"which must agree to within a second; let all of them set their clocks by NTP",
	}
	versions := map[string]bool{}
	for _, s := range servers {
		if s.Version != "" {
			versions[s.Version] = true
		}
		a.Settings = append(a.Settings, kvSetting{s.Addr, "version", s.Version})
		quota := s.Quota
		if quota == 0 {
			quota = defaultQuota
		}
		if s.Size > quota/4*3 {
			a.Warnings = append(a.Warnings, fmt.Sprintf("%s: the database has %d MiB; at its quota (%d MiB unless set otherwise) every write is refused: compact and defragment", s.Addr, s.Size>>20, quota>>20))
		}
		for _, alarm := range s.Alarms {
			a.Warnings = append(a.Warnings, fmt.Sprintf("%s: alarm: %s", s.Addr, alarm))
		}
	}
	if len(versions) > 0 {
		a.Server = "etcd " + strings.Join(slices.Sorted(maps.Keys(versions)), ", ")
	}
	failover := "No server was stopped. "
	switch {
	case members == 0:
		failover += "How many members the cluster has may not be asked: with three or five, a failover forgets nothing that was acknowledged."
	case members < 3:
		failover += fmt.Sprintf("The cluster has %d of the 3 members that it takes to go on when one is lost; what was acknowledged is on the disks of a majority.", members)
		a.Warnings = append(a.Warnings, fmt.Sprintf("the cluster has %d of the 3 members that it takes to outlive the loss of one", members))
	default:
		failover += fmt.Sprintf("The cluster has %d members; what was acknowledged is on the disks of a majority, and no failover forgets it.", members)
	}
	if members > 0 {
		a.Server += fmt.Sprintf(", %d %s", members, plural(members, "member"))
	}
	a.NotProven = []kvNotProven{
		{"a restart", "Nothing was restarted, as the store may be in use. etcd answers after an fsync, if the disk keeps its word."},
		{"a failover", failover},
		{"a full quota", "The database was not filled up. Whether old versions are compacted cannot be asked: see that --auto-compaction-retention is set."},
	}
	return a
}

func plural(n int, word string) string {
	if n == 1 {
		return word
	}
	return word + "s"
}

// boltScratch is a directory beside the operator's file, with a file for each
// store: what is proven is the disk, its fsync and its locks.
type boltScratch struct {
	dir string
	now func() time.Time

	mu   sync.Mutex
	open []*bolt.Store
}

func newBoltScratch(path, name string, now func() time.Time) (scratch, error) {
	dir := filepath.Dir(path)
	for { // verge makes the directories that are missing, on the same disk
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) || dir == filepath.Dir(dir) {
			break
		}
		dir = filepath.Dir(dir)
	}
	dir = filepath.Join(dir, name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	return &boltScratch{dir: dir, now: now}, nil
}

func (b *boltScratch) where() string { return b.dir + string(filepath.Separator) }

func (b *boltScratch) about(context.Context) (kvAbout, error) {
	return kvAbout{
		Server:    "files beside it, on the same disk",
		ClockNote: "this machine's clock decides, and nobody else's",
		NotProven: []kvNotProven{
			{"a power cut", "Files were closed and opened again. That fsync reaches the disk, the disk alone can promise; one that is mounted from elsewhere often does not."},
			{"a full disk", "The disk was not filled up: then writes are refused until there is space and Verge is restarted."},
		},
	}, nil
}

func (b *boltScratch) store(name string) (promises.Harness, error) {
	s, err := b.openFile(name)
	if err != nil {
		return promises.Harness{}, err
	}
	latest := s
	return promises.Harness{KV: s, Reopen: func() kv.KV {
		if err := latest.Close(); err != nil {
			return brokenKV{err}
		}
		if latest, err = b.openFile(name); err != nil {
			return brokenKV{err}
		}
		return latest
	}}, nil
}

func (b *boltScratch) openFile(name string) (*bolt.Store, error) {
	s, err := bolt.Open(filepath.Join(b.dir, name+".db"), bolt.Config{Now: b.now})
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open = append(b.open, s)
	return s, nil
}

// more shows that a second process would be refused: a lock is about the open
// file, whoever has it.
func (b *boltScratch) more() []kvProof {
	return []kvProof{{"lock", "a file that one process has open is refused to another", func(context.Context) string {
		if _, err := b.openFile("locked"); err != nil {
			return err.Error()
		}
		second, err := bolt.Open(filepath.Join(b.dir, "locked.db"), bolt.Config{LockTimeout: 100 * time.Millisecond})
		if err != nil {
			return ""
		}
		second.Close()
		return "the file was opened twice at the same time: this disk keeps no locks, and two processes would destroy the file; take a local disk"
	}}}
}

func (b *boltScratch) erase(context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.open {
		s.Close() // the file goes anyway
	}
	b.open = nil
	return os.RemoveAll(b.dir)
}

func (b *boltScratch) close() error { return nil }

// brokenKV is a store that could not be opened again.
type brokenKV struct{ err error }

func (b brokenKV) Get(context.Context, kv.Key) (kv.Item, error) { return kv.Item{}, b.err }
func (b brokenKV) Commit(context.Context, kv.Tx) error          { return b.err }
func (b brokenKV) Claim(context.Context, kv.Partition, time.Time, time.Duration, int) ([]kv.Task, time.Time, error) {
	return nil, time.Time{}, b.err
}
func (b brokenKV) List(context.Context, kv.Key, string, int) ([]kv.Item, error) { return nil, b.err }
