// Package keyringfile keeps the key ring of a running server up to date. It follows the file of the ring, and
// the set of keys that the instances share in the store, so that a rotation needs no restart (contract 16).
//
// [Open] compares the ring with the store before the server starts, and rejects a ring that does not belong
// to the store. [Live.Run] then checks both every few seconds. Package core/keyset has the rules.
package keyringfile

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/keyring"
	"github.com/verge-id/verge/core/keyset"
	"github.com/verge-id/verge/core/kv"
)

// lookEach is the interval at which the server checks the file and the store. It is well below
// keyset.Settle, so that every instance has a key before it becomes active.
const lookEach = 3 * time.Second

// rereadMost is the minimum time before the next check if a token names an awaited key, and before the next
// comparison of a stale ring.
const rereadMost = 500 * time.Millisecond

// staleAfter is the time after the last comparison with the store when the ring seals nothing. A key that was
// announced since is active for less than that. So other instances accept all data that was sealed with the
// previous key: the time is less than the one until the new key is alone, even with the difference of clocks.
const staleAfter = time.Minute

// meetTime is the maximum time of a comparison that only reads.
const meetTime = 5 * time.Second

// Config configures a Live.
type Config struct {
	host.Host // KV, Now, Random and Log are required

	// Name is the host name to which tokens are bound.
	Name string

	// Keyring is the initial ring.
	Keyring keyring.File

	// File reads the ring's file again. Nil: the ring never changes.
	File func() ([]byte, error)

	// FileEach is the interval at which File is called if it takes long. It is then called in the
	// background, so that no comparison with the store waits for it. It is called earlier while other
	// instances have a key that this one lacks. Zero: File is fast, and each check calls it.
	FileEach time.Duration

	// Observe is called after each check, with the number of the fleet's active keys that this instance
	// lacks, the id of the active key, the ids of all keys of the ring, and whether File failed. Nil: no
	// call.
	Observe func(missing int, sealing string, keys []string, unread bool)
}

// Live is the key ring of a running server: its Sealer and its KV.
type Live struct {
	*keyset.Ring
	cfg     Config
	awaited chan struct{}
	late    chan struct{} // requests an early comparison with the store

	// met is when the ring was last compared with the store, in milliseconds since 1970. 0: Run was not
	// called. The service's own clock does not count, and neither does the monotonic one, which can stop
	// while the machine sleeps.
	met atomic.Int64

	mu        sync.Mutex
	last      []byte // the file's content when it was last used
	lastError string // the last reported error
	unread    bool   // File failed

	slow slowFile
}

// slowFile is the state of a File that is called in the background.
type slowFile struct {
	mu      sync.Mutex
	running bool
	begun   time.Time // of the last call
	content []byte    // nil: no call has returned
	err     error
}

// Open returns the ring after comparing it with the store. It fails if the ring does not belong to the
// store, or lacks a key that the other instances use. The error contains the ring's origin.
func Open(ctx context.Context, cfg Config) (*Live, error) {
	l := &Live{cfg: cfg, awaited: make(chan struct{}, 1), late: make(chan struct{}, 1)}
	var err error
	l.Ring, err = keyset.New(keyset.Config{
		Host:    cfg.Host,
		Name:    cfg.Name,
		Keyring: cfg.Keyring,
		Awaited: l.await,
		Stale:   l.stale,
	})
	if err != nil {
		return nil, err
	}
	if cfg.File != nil {
		l.last, _ = cfg.File()
		l.slow.begun, l.slow.content = cfg.Now(), l.last
	}
	if err := l.Refresh(ctx); err != nil {
		return nil, fmt.Errorf("the key ring cannot be compared with the store's set of keys: %w", err)
	}
	if err := l.Ready(); err != nil {
		return nil, err
	}
	l.observe()
	return l, nil
}

// await requests an early check of the file.
func (l *Live) await() { request(l.awaited) }

// request sends on a channel that has room for one request, unless it has one.
func request(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Run follows the file and the store until ctx is done. If the file is missing, readable by others or
// damaged, Run logs that and continues with the current keys.
func (l *Live) Run(ctx context.Context) {
	l.met.Store(time.Now().UnixMilli())
	var following sync.WaitGroup
	// A look can take long: it may wait for the file, or sign all records with a new key.
	following.Go(func() { repeat(ctx, l.late, l.meet) })
	defer following.Wait()
	repeat(ctx, l.awaited, func(ctx context.Context) {
		l.look(ctx, false) // it logs its error
	})
}

// meet compares the ring with the store, and notes when.
func (l *Live) meet(ctx context.Context) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, meetTime)
	defer cancel()
	if l.Meet(ctx) == nil {
		l.met.Store(began.UnixMilli())
	}
}

// repeat calls do at each interval, and earlier on request, until ctx is done.
func repeat(ctx context.Context, requested <-chan struct{}, do func(context.Context)) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(lookEach):
		case <-requested:
		}
		do(ctx)
		select {
		case <-ctx.Done():
			return
		case <-time.After(rereadMost):
		}
	}
}

// stale reports whether the last comparison with the store is too old to seal. If it is, the next one begins
// immediately.
func (l *Live) stale() bool {
	met := l.met.Load()
	if met == 0 || time.Since(time.UnixMilli(met)).Abs() < staleAfter {
		return false
	}
	request(l.late)
	return true
}

// Look reads the file again and compares the ring with the store, as Run does every few seconds. It logs
// changes and errors. The error is about the file or the store; Ready reports whether the ring is
// compatible. With FileEach, Look starts to read the file, and the next check uses it.
func (l *Live) Look(ctx context.Context) error { return l.look(ctx, true) }

func (l *Live) look(ctx context.Context, requested bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	sealed := l.SealingKey()
	looked := l.compare(ctx, requested)
	err := looked
	if err == nil {
		if err = l.Ready(); err == nil {
			err = l.Lags()
		}
	}
	l.observe()
	switch {
	case ctx.Err() != nil:
	case kv.Failed(err):
		// Package storehealth reports a failure of the store.
		l.cfg.Log.Debug("key ring", "error", err.Error())
	case err != nil && err.Error() != l.lastError:
		l.lastError = err.Error()
		l.cfg.Log.Error("key ring", "error", l.lastError, "ready", l.Ready() == nil)
	case err == nil && l.lastError != "":
		l.cfg.Log.Info("key ring complete again", "was", l.lastError)
		l.lastError = ""
	}
	if now := l.SealingKey(); now != sealed {
		l.cfg.Log.Info("active key changed", "key", now, "before", sealed)
	}
	return looked
}

// compare uses the file's current content and compares the ring with the store. It does the second even if
// the file cannot be read: other instances may announce a key during that time.
func (l *Live) compare(ctx context.Context, requested bool) error {
	unread := l.reread(requested)
	l.unread = unread != nil
	if err := l.Refresh(ctx); err != nil {
		return fmt.Errorf("the key ring cannot be compared with the store's set of keys: %w", err)
	}
	if l.cfg.FileEach > 0 && l.Lags() != nil {
		// Other instances have just announced a key: it becomes active keyset.Settle later.
		_, _ = l.content(false) // the next check uses it
	}
	if unread != nil {
		return fmt.Errorf("the key ring cannot be read again; the keys in use stay: %w", unread)
	}
	return nil
}

// reread uses the file's content if it has changed.
func (l *Live) reread(requested bool) error {
	if l.cfg.File == nil {
		return nil
	}
	b, err := l.content(requested)
	if err != nil || bytes.Equal(b, l.last) {
		return err
	}
	ring, err := keyring.Parse(b)
	if err != nil {
		return err
	}
	if err := l.Use(ring); err != nil {
		return err
	}
	l.last = b
	l.cfg.Log.Info("key ring read again", "keys", len(ring.Keys))
	return nil
}

// content returns the file's content. With FileEach, it returns the content that was last read, and starts
// to read it if that is due: at the interval, on request, or if this instance lacks a key.
func (l *Live) content(requested bool) ([]byte, error) {
	if l.cfg.FileEach == 0 {
		return l.cfg.File()
	}
	s, now := &l.slow, l.cfg.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	each := l.cfg.FileEach
	if l.Ready() != nil || l.Lags() != nil {
		each = min(each, lookEach)
	}
	if !s.running && (requested || now.Sub(s.begun).Abs() >= each) {
		s.running, s.begun = true, now
		go func() {
			b, err := l.cfg.File()
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.running, s.err = false, err; err == nil {
				s.content = b
			}
			l.await() // so that the content is used now
		}()
	}
	return s.content, s.err
}

func (l *Live) observe() {
	if l.cfg.Observe != nil {
		l.cfg.Observe(l.Standing().Lacking(l.cfg.Now()), l.SealingKey(), l.KeyIDs(), l.unread)
	}
}
