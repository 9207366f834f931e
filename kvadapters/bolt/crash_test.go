package bolt

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/testharness/wait"
)

// The test copies the files before each write to the disk, as a crash would leave them. Each copy has all
// commits that had returned.
func TestCrash_BeforeEveryWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "verge.db")
	var mu sync.Mutex
	acknowledged, copies := []string{}, 0
	d := &fakeDisk{}
	d.before = func(operation string) {
		mu.Lock()
		known := append([]string(nil), acknowledged...)
		mu.Unlock()
		s, err := Open(crashedCopy(t, path), Config{})
		if err != nil {
			t.Errorf("after a crash before the %s with %v: %v", operation, known, err)
			return
		}
		for _, name := range known {
			if err := get(t, s, name); err != nil {
				t.Errorf("after a crash before the %s, %s: %v", operation, name, err)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		copies++
	}
	for round := range 2 {
		s, err := Open(path, Config{Disk: d.disk()})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 4 {
			small := fmt.Sprintf("small-%d-%d", round, i)
			for _, tx := range []kv.Tx{putTx(small, small), bigTx(fmt.Sprintf("big-%d-%d", round, i))} {
				if err := s.Commit(t.Context(), tx); err != nil {
					t.Fatal(err)
				}
				mu.Lock()
				acknowledged = append(acknowledged, tx.ID)
				mu.Unlock()
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if copies < 2*(1+8+3+2) {
		t.Errorf("only %d copies were taken", copies)
	}
}

// Commits wait for the checkpoint in progress if the log has no room. If it fails, all commits that returned
// are kept.
func TestCommit_FullLog(t *testing.T) {
	for name, failure := range map[string]error{
		"the checkpoint succeeds": nil,
		"it fails":                errors.New("full"),
	} {
		t.Run(name, func(t *testing.T) {
			d := &fakeDisk{}
			s, path := onDisk(t, d)
			entered, release := make(chan struct{}), make(chan struct{})
			d.commitOnce(stalled(entered, release, failure))
			proceed := sync.OnceFunc(func() { close(release) })
			defer proceed()
			committed := make(chan error, 4)
			go func() {
				for i := range 4 {
					committed <- s.Commit(t.Context(), bigTx(fmt.Sprint("big", i)))
				}
			}()
			wait.For(entered)
			if err := errors.Join(wait.For(committed), wait.For(committed)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(200 * time.Millisecond) // the third one waits for the checkpoint
			if n := len(committed); n != 0 {
				t.Fatalf("%d commits more than the log has room for", n)
			}
			waiting := openAt(t, crashedCopy(t, path))
			for _, name := range []string{"before", "big0", "big1"} {
				if err := get(t, waiting, name); err != nil {
					t.Fatalf("after a crash during the checkpoint, %s: %v", name, err)
				}
			}
			proceed()
			third, fourth := wait.For(committed), wait.For(committed)
			if failure == nil && errors.Join(third, fourth) != nil ||
				failure != nil && (!errors.Is(third, kv.ErrUnavailable) || errors.Is(third, kv.ErrUnknown)) {
				t.Errorf("the commits that waited: %v, %v", third, fourth)
			}
			recovers(t, s)
			checkpointed(t, s)
			crashed := openAt(t, crashedCopy(t, path))
			for i, err := range []error{nil, nil, third, fourth} {
				name := fmt.Sprint("big", i)
				if got := get(t, crashed, name); (got == nil) != (err == nil) {
					t.Errorf("%s returned %v, and after a crash reading it returns %v", name, err, got)
				}
			}
		})
	}
}
