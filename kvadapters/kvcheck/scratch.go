package kvcheck

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters"
	"github.com/verge-id/verge/kvadapters/bolt"
	"github.com/verge-id/verge/kvadapters/internal/promises"
	"github.com/verge-id/verge/kvadapters/postgres"
	"github.com/verge-id/verge/kvadapters/redis"
)

// scratch is a place on an operator's store where promises can be proven.
type scratch interface {
	// where returns the prefix of all names that are written.
	where() string

	// about asks the servers for information about themselves.
	about(ctx context.Context) (about, error)

	// store returns a separate, empty store. The caller sets its clock.
	store(name string) (promises.Harness, error)

	// more returns the proofs of this kind of store in addition to package kv's.
	more() []proof

	// erase removes all data that was written. No calls may be in progress.
	erase(ctx context.Context) error

	close() error
}

// UnusableError is the reason why a store cannot be checked. It wraps kv.ErrUnavailable if a server did not
// respond or rejected a request.
type UnusableError struct {
	Store string // without passwords
	Err   error
}

func (e *UnusableError) Unwrap() error { return e.Err }

// Error leaves out the names of keys, which are meaningless to an operator here. It adds a guess if servers
// give no clear reason.
func (e *UnusableError) Error() string {
	reason := e.Err.Error()
	before, behind, found := strings.Cut(reason, kv.ErrUnavailable.Error()+": ")
	if found && (strings.HasPrefix(before, "redis: {") ||
		strings.HasPrefix(before, "postgres: ")) {
		reason = behind
	}
	for _, sign := range []string{"EOF", "deadline exceeded", "server preface",
		"first record does not look like a TLS handshake", "i/o timeout"} {
		if strings.Contains(reason, sign) {
			reason += " (does a server of this kind listen there, with TLS or without as the URL says?)"
			break
		}
	}
	return e.Store + " cannot be used: " + reason
}

func openScratch(ctx context.Context, at kvadapters.Address, name string, now func() time.Time) (
	scratch, error) {
	switch at.Kind {
	case kvadapters.Redis:
		s, err := at.RedisConfig().OpenScratch(ctx, at.URL, name)
		if err != nil {
			return nil, err
		}
		return redisScratch{s, now, at.Replicas}, nil
	case kvadapters.Postgres:
		s, err := postgres.Config{Now: now, TLS: at.TLS}.OpenScratch(ctx, at.URL, name)
		if err != nil {
			return nil, err
		}
		return postgresScratch{s}, nil
	case kvadapters.Bolt:
		return newBoltScratch(at.Path, name, now)
	}
	return nil, fmt.Errorf("a store of kind %q is part of this process: there is nothing to check", at.Kind)
}

type redisScratch struct {
	s        *redis.Scratch
	now      func() time.Time
	replicas int
}

func (r redisScratch) where() string                   { return r.s.KeysBegin() }
func (r redisScratch) erase(ctx context.Context) error { return r.s.Erase(ctx) }
func (r redisScratch) close() error                    { return r.s.Close() }

func (redisScratch) more() []proof { return nil }

func (r redisScratch) store(name string) (promises.Harness, error) {
	return promises.Harness{KV: r.s.Store(name)}, nil
}

func (r redisScratch) about(ctx context.Context) (about, error) {
	servers, err := r.s.Servers(ctx, r.now)
	if err != nil {
		return about{}, err
	}
	return aboutRedis(servers, r.replicas), nil
}

type postgresScratch struct{ s *postgres.Scratch }

func (p postgresScratch) where() string                   { return p.s.Begins() }
func (p postgresScratch) erase(ctx context.Context) error { return p.s.Erase(ctx) }
func (p postgresScratch) close() error                    { return p.s.Close() }

func (postgresScratch) more() []proof { return nil }

func (p postgresScratch) store(name string) (promises.Harness, error) {
	return promises.Harness{KV: p.s.Store(name)}, nil
}

func (p postgresScratch) about(ctx context.Context) (about, error) {
	server, err := p.s.Server(ctx)
	if err != nil {
		return about{}, err
	}
	on, seen := p.s.Signals(ctx)
	return aboutPostgres(server, on, seen), nil
}

// boltScratch is a directory next to the operator's file, with a file for each store. It tests the disk,
// its fsync and its locks.
type boltScratch struct {
	dir string
	now func() time.Time

	mu   sync.Mutex
	open []*bolt.Store
}

func newBoltScratch(path, name string, now func() time.Time) (scratch, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file; name a file, which need not exist", path)
	}
	dir := filepath.Dir(path)
	for { // verge creates missing directories, on the same disk
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

func (b *boltScratch) about(context.Context) (about, error) {
	return about{
		Server:    "files next to it, on the same disk",
		ClockNote: "only this machine's clock is used",
		NotProven: []notProven{
			{"a power cut", "Files were closed and opened again. Only the disk can promise that " +
				"fsync reaches it; a mounted network disk often does not."},
			{"a full disk", "The disk was not filled up. When it is full, " +
				"writes fail until there is space."},
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
			return failedKV{err}
		}
		if latest, err = b.openFile(name); err != nil {
			return failedKV{err}
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

// more proves that a second process would be rejected: a lock belongs to the open file, so a second opening
// in this process meets it too.
func (b *boltScratch) more() []proof {
	const promise = "a file that one process has open is locked for others"
	return []proof{{lock, promise, func(context.Context) string {
		if _, err := b.openFile("locked"); err != nil {
			return err.Error()
		}
		path := filepath.Join(b.dir, "locked.db")
		second, err := bolt.Open(path, bolt.Config{LockTimeout: 100 * time.Millisecond})
		if err != nil {
			return ""
		}
		second.Close()
		return "the file was opened twice at the same time: this disk keeps no locks, " +
			"and two processes would destroy the file; take a local disk"
	}}}
}

func (b *boltScratch) erase(context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.open {
		s.Close() // the file is removed even after an error
	}
	b.open = nil
	return os.RemoveAll(b.dir)
}

func (b *boltScratch) close() error { return nil }

// failedKV represents a store that could not be opened again.
type failedKV struct{ err error }

func (f failedKV) Get(context.Context, kv.Key) (kv.Item, error) { return kv.Item{}, f.err }
func (f failedKV) Commit(context.Context, kv.Tx) error          { return f.err }

func (f failedKV) Claim(context.Context, kv.Partition, time.Time, time.Duration, int) (
	[]kv.Task, time.Time, error) {
	return nil, time.Time{}, f.err
}

func (f failedKV) List(context.Context, kv.Key, string, int) ([]kv.Item, error) { return nil, f.err }
