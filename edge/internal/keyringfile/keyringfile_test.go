package keyringfile

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/keyring"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters/memory"
)

// file is a key ring file.
type file struct {
	mu    sync.Mutex
	b     []byte
	err   error
	reads int
	takes time.Duration // each read
}

func (f *file) read() ([]byte, error) {
	time.Sleep(f.takes)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reads++
	return f.b, f.err
}

// wasRead waits until the file has been read again.
func (f *file) wasRead() {
	count := func() int {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.reads
	}
	for before := count(); count() == before; {
		time.Sleep(10 * time.Millisecond)
	}
	synctest.Wait()
}

func (f *file) put(b []byte, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.b, f.err = b, err
}

func (f *file) save(t *testing.T, kr keyring.File) {
	t.Helper()
	b, err := kr.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	f.put(b, nil)
}

type live struct {
	*Live
	file *file
	log  *strings.Builder

	mu      sync.Mutex
	missing int
	sealing string
	unread  bool
}

// missingKeys returns the last value of the metric.
func (l *live) missingKeys() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.missing
}

// sealingKey returns the last value of the metric.
func (l *live) sealingKey() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sealing
}

// isUnread returns the last value of the metric.
func (l *live) isUnread() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.unread
}

func start(t *testing.T, store *memory.Store, kr keyring.File) (*live, error) {
	t.Helper()
	return startSlow(t, store, kr, 0, 0)
}

// startSlow starts with a file that is read at an interval, and takes that long.
func startSlow(t *testing.T, store *memory.Store, kr keyring.File, each, takes time.Duration) (*live, error) {
	t.Helper()
	l := &live{file: &file{takes: takes}, log: &strings.Builder{}}
	l.file.save(t, kr)
	var err error
	l.Live, err = Open(t.Context(), Config{
		Host: host.Host{
			KV:     store,
			Now:    time.Now,
			Random: rand.Reader,
			Log:    slog.New(slog.NewTextHandler(l.log, nil)),
		},
		Name: "verify.example", Keyring: kr, File: l.file.read, FileEach: each,
		Observe: func(missing int, sealing string, keys []string, unread bool) {
			if !slices.Contains(keys, sealing) {
				t.Errorf("the ring seals with %s, which is not among its keys %v", sealing, keys)
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			l.missing, l.sealing, l.unread = missing, sealing, unread
		},
	})
	return l, err
}

func generate(t *testing.T) keyring.File {
	t.Helper()
	kr, err := keyring.Generate(rand.Reader, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return kr
}

func settle() { time.Sleep(2*lookEach + time.Second); synctest.Wait() }

// TestLive_Follow rotates a key, damages the file and retires a key while the server runs (contract 16).
func TestLive_Follow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kr := generate(t)
		l, err := start(t, memory.New(memory.Config{Now: time.Now}), kr)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go l.Run(ctx)
		seal := func() []byte {
			t.Helper()
			b, err := l.Seal("flow", []byte(`{"a":1}`))
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
		old := seal()
		time.Sleep(time.Hour)

		if err := kr.Rotate(rand.Reader, time.Now(), time.Minute); err != nil {
			t.Fatal(err)
		}
		l.file.save(t, kr)
		settle()
		if got := hex.EncodeToString(seal()[1:5]); got != kr.Keys[1].ID || l.sealingKey() != got {
			t.Errorf("contract 16: before the new key's time %s seals, and the metric says %s", got,
				l.sealingKey())
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if got := hex.EncodeToString(seal()[1:5]); got != kr.Keys[0].ID || l.sealingKey() != got {
			t.Errorf("contract 16: after a rotation %s seals, the metric says %s", got, l.sealingKey())
		}
		if _, _, err := l.Open("flow", old); err != nil {
			t.Errorf("contract 16: a rotation invalidated a live token: %v", err)
		}

		l.file.put([]byte(`{"version":1,"keys":[]}`), nil)
		settle()
		settle()
		l.file.put(nil, errors.New("it can be read by others"))
		settle()
		settle()
		if _, _, err := l.Open("flow", old); err != nil || l.Ready() != nil {
			t.Errorf("after the file was damaged, a token is rejected: %v", err)
		}
		if n := strings.Count(l.log.String(), "cannot be read again"); n != 2 {
			t.Errorf("two faults were reported %d times:\n%s", n, l.log)
		}

		if err := kr.Retire(kr.Keys[1].ID, time.Now(), 0, true); err != nil {
			t.Fatal(err)
		}
		l.file.save(t, kr)
		settle()
		if _, _, err := l.Open("flow", old); !errors.Is(err, host.ErrNotAuthentic) {
			t.Errorf("a retired key is still accepted: %v", err)
		}
		if !strings.Contains(l.log.String(), `complete again" was="the key ring cannot be read again`) {
			t.Errorf("the log lacks the end of the fault, or its cause:\n%s", l.log)
		}
	})
}

// Contract 16: "the instance reads its ring again immediately".
func TestLive_AwaitedKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(memory.Config{Now: time.Now})
		kr := generate(t)
		first, err := start(t, store, kr)
		if err != nil {
			t.Fatal(err)
		}
		late, err := start(t, store, kr)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go first.Run(ctx)
		go late.Run(ctx)
		time.Sleep(time.Hour)
		if err := kr.Rotate(rand.Reader, time.Now(), 0); err != nil {
			t.Fatal(err)
		}
		first.file.save(t, kr)
		time.Sleep(time.Minute)
		synctest.Wait()
		sealed, err := first.Seal("flow", []byte(`{}`))
		if err != nil {
			t.Fatal(err)
		}
		if n := late.missingKeys(); late.Ready() == nil || n != 1 {
			t.Errorf("contract 16: an instance without the fleet's key is ready (%v) and lacks %d "+
				"keys by its metric",
				late.Ready(), n)
		}
		// One because it lags and one because it is not ready.
		if n := strings.Count(late.log.String(), "level=ERROR"); n != 2 {
			t.Errorf("the log has %d errors, want one for each state:\n%s", n, late.log)
		}
		late.file.wasRead() // the next regular check is far away
		late.file.save(t, kr)
		if _, _, err := late.Open("flow", sealed); !errors.Is(err, host.ErrKeyAwaited) {
			t.Errorf("contract 16: %v, want ErrKeyAwaited", err)
		}
		time.Sleep(2 * rereadMost)
		synctest.Wait()
		if _, _, err := late.Open("flow", sealed); err != nil || late.Ready() != nil {
			t.Errorf("contract 16: right after the file was read: %v, ready %v", err, late.Ready())
		}
	})
}

// The server must not start, and the error must contain the ring's origin.
func TestOpen_ForeignRing(t *testing.T) {
	store := memory.New(memory.Config{Now: time.Now})
	ours, theirs := generate(t), generate(t)
	if _, err := start(t, store, ours); err != nil {
		t.Fatal(err)
	}
	_, err := start(t, store, theirs)
	for _, file := range []keyring.File{ours, theirs} {
		if err == nil || !strings.Contains(err.Error(), file.Keys[0].Fingerprint()) {
			t.Fatalf("I13: %v, want both fingerprints", err)
		}
	}
	if _, err := start(t, store, ours); err != nil {
		t.Errorf("I13: afterwards the store's own ring is rejected: %v", err)
	}
}

// Contract 59: a program that prints the ring runs once a minute, on request, and while a key is missing. It
// never delays a comparison with the store.
func TestLive_SlowFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const each, takes = time.Minute, 5 * time.Second
		store := memory.New(memory.Config{Now: time.Now})
		kr := generate(t)
		first, err := startSlow(t, store, kr, each, takes)
		if err != nil {
			t.Fatal(err)
		}
		late, err := startSlow(t, store, kr, each, takes)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go first.Run(ctx)
		go late.Run(ctx)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if late.file.reads < 9 || late.file.reads > 11 {
			t.Errorf("contract 59: the program ran %d times in ten minutes", late.file.reads)
		}
		if err := kr.Rotate(rand.Reader, time.Now(), 0); err != nil {
			t.Fatal(err)
		}
		first.file.save(t, kr)
		late.file.save(t, kr)
		if err := first.Look(ctx); err != nil { // SIGHUP
			t.Error(err)
		}
		for range 120 { // the second instance finds the key in the store
			time.Sleep(500 * time.Millisecond)
			synctest.Wait()
			if err := late.Ready(); err != nil {
				t.Fatalf("contract 59: an instance is not ready during a rotation: %v", err)
			}
		}
		for _, l := range []*live{first, late} {
			if l.sealingKey() != kr.Keys[0].ID {
				t.Errorf(
					"contract 59: %s is active after the rotation, want %s",
					l.sealingKey(),
					kr.Keys[0].ID,
				)
			}
		}
		late.file.put(nil, errors.New("exit status 1"))
		time.Sleep(each + takes + lookEach)
		synctest.Wait()
		if !late.isUnread() || late.Ready() != nil ||
			!strings.Contains(late.log.String(), "cannot be read again") {
			t.Errorf("contract 59: after the program failed: unread %t, ready %v: %s", late.isUnread(),
				late.Ready(), late.log)
		}
		late.file.save(t, kr)
		time.Sleep(each + takes + lookEach)
		synctest.Wait()
		if late.isUnread() {
			t.Error("contract 59: the metric does not see the end of the fault")
		}
		stop()
		time.Sleep(takes) // a read that has begun ends
	})
}

// Contract 16: an instance notices the key of other instances even while it waits for its own file.
func TestLive_FileHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kr, store := generate(t), memory.New(memory.Config{Now: time.Now})
		l, err := start(t, store, kr)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		l.file.takes = time.Hour
		go l.Run(ctx)
		settle()
		if err := kr.Rotate(rand.Reader, time.Now(), 0); err != nil {
			t.Fatal(err)
		}
		if _, err := start(t, store, kr); err != nil {
			t.Fatal(err)
		}
		settle()
		if _, err := l.Seal("flow", []byte("{}")); err != nil || l.Lags() == nil {
			t.Errorf("before the new key's time: %v, %v", err, l.Lags())
		}
		time.Sleep(time.Minute)
		if l.Ready() == nil {
			t.Error("the instance is ready without the active key")
		}
		stop()
		time.Sleep(time.Hour) // the look that waits ends
	})
}

// unreachable is a store that fails on request.
type unreachable struct {
	kv.KV
	now atomic.Bool
}

func (u *unreachable) Get(ctx context.Context, k kv.Key) (kv.Item, error) {
	if u.now.Load() {
		return kv.Item{}, kv.ErrUnavailable
	}
	return u.KV.Get(ctx, k)
}

// Contract 16: an instance that cannot see the set of keys for a minute seals nothing. It is ready again with
// the next comparison. Readiness regardless of the store does not change.
func TestLive_Stale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &unreachable{KV: memory.New(memory.Config{Now: time.Now})}
		l, err := Open(t.Context(), Config{Name: "verify.example", Keyring: generate(t),
			Host: host.Host{KV: store, Now: time.Now, Random: rand.Reader,
				Log: slog.New(slog.DiscardHandler)}})
		if err != nil {
			t.Fatal(err)
		}
		check := func(after time.Duration, seals bool) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			_, sealErr := l.Seal("flow", []byte("{}"))
			_, macErr := l.MAC("session-id", []byte("{}"))
			commitErr := l.KV().Commit(t.Context(), kv.Tx{ID: rand.Text(), Partition: "p0"})
			for _, err := range []error{sealErr, macErr, commitErr} {
				if (err == nil) != seals || err != nil && !kv.Failed(err) {
					t.Errorf("%v", err)
				}
			}
			if err := l.Ready(); err != nil {
				t.Error(err)
			}
		}
		check(time.Hour, true) // the program compares the ring itself
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go l.Run(ctx)
		check(time.Hour, true)
		store.now.Store(true)
		check(staleAfter-lookEach-time.Second, true)
		check(lookEach+2*time.Second, false)
		store.now.Store(false)
		check(rereadMost, true) // the seals before have requested a comparison
	})
}
