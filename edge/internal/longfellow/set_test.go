package longfellow

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/verge-id/verge/testharness/wait"
)

const someCircuit = "8d079211715200ff06c5109639245502bfe94aa869908d31176aae4016182121"

// counting counts the files that are opened, and blocks until release is closed.
type counting struct {
	fs.FS
	opened  atomic.Int32
	release chan struct{}
}

func (c *counting) Open(name string) (fs.File, error) {
	c.opened.Add(1)
	wait.For(c.release)
	return c.FS.Open(name)
}

func TestSet_Errors(t *testing.T) {
	done := make(chan struct{})
	close(done)
	files := &counting{FS: fstest.MapFS{someCircuit: {Data: []byte("not a circuit")}}, release: done}
	s := NewSet(Folder(files), 0)
	for range 2 {
		err := s.Verify(t.Context(), someCircuit, &Statement{}, nil)
		var rejected Reason
		if err == nil || errors.As(err, &rejected) || errors.Is(err, ErrNoCircuit) {
			t.Errorf("broken file: %v", err)
		}
	}
	if n := files.opened.Load(); n != 1 {
		t.Errorf("opened %d times", n)
	}
	for _, name := range []string{"", "../" + someCircuit, strings.ToUpper(someCircuit),
		"5aebdaaafe17296a3ef3ca6c80c6e7505e09291897c39700410a365fb278e460"} {
		if err := s.Verify(t.Context(), name, &Statement{}, nil); err != ErrNoCircuit {
			t.Errorf("%q: %v", name, err)
		}
	}
	files.FS = fstest.MapFS{someCircuit + ".circuit.zst": {Data: make([]byte, MaxCircuitFile+1)}}
	if err := NewSet(Folder(files), 1).Verify(t.Context(), someCircuit, &Statement{}, nil); err == nil ||
		!strings.Contains(err.Error(), "too large") {
		t.Errorf("large file: %v", err)
	}
}

// TestSet_Waits checks that a verification waits for its turn, until its context is done.
func TestSet_Waits(t *testing.T) {
	files := &counting{FS: fstest.MapFS{}, release: make(chan struct{})}
	s := NewSet(Folder(files), 1)
	first := make(chan error, 1)
	go func() { first <- s.Verify(t.Context(), someCircuit, &Statement{}, nil) }()
	wait.Until(t, "the circuit's file is opened", func() bool { return files.opened.Load() > 0 })
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer stop()
	if err := s.Verify(ctx, someCircuit, &Statement{}, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("second: %v", err)
	}
	for range waitingPerSlot {
		go func() { _ = s.Verify(t.Context(), someCircuit, &Statement{}, nil) }()
	}
	wait.Until(t, "the queue is full", func() bool { return len(s.queue) == cap(s.queue) })
	if err := s.Verify(t.Context(), someCircuit, &Statement{}, nil); err != ErrBusy {
		t.Errorf("one more than may wait: %v", err)
	}
	close(files.release)
	if err := wait.For(first); err != ErrNoCircuit {
		t.Errorf("first: %v", err)
	}
}

// TestSet_Retry checks that the source is asked again some time after an error, and never after a success.
func TestSet_Retry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reads, failure := 0, errors.New("away")
		s := NewSet(func(context.Context, string) ([]byte, error) { reads++; return nil, failure }, 1)
		for n, wanted := range []int{1, 1, 2} {
			if n == 2 {
				time.Sleep(retryAfter)
			}
			if _, err := s.Open(t.Context(), someCircuit); err != failure || reads != wanted {
				t.Errorf("%v after %d reads, want %d", err, reads, wanted)
			}
		}
	})
}

// TestSet_Published verifies the published response with the circuit of the folder.
func TestSet_Published(t *testing.T) {
	p := newPublished(t)
	file := vector(t, p.circuit+".circuit.zst")
	s := NewSet(Folder(fstest.MapFS{p.circuit: {Data: file}}), 1)
	if err := s.Verify(t.Context(), p.circuit, &p.statement, p.proof[:1000]); err != Malformed {
		t.Error(err)
	}
	c, err := s.Open(t.Context(), p.circuit)
	if err != nil || c.hash.circuit.slots != s.slots || c.signature.circuit.slots != s.slots {
		t.Errorf("contract 56: the circuit has not the slots of the set: %v", err)
	}
}

// TestBoth_Slots checks that the second function takes a processor only if one is free (contract 56).
func TestBoth_Slots(t *testing.T) {
	for _, c := range []struct {
		name         string
		taken, slots int
		large        bool
		together     bool
	}{
		{"one free", 1, 2, true, true},
		{"none free", 2, 2, true, false},
		{"one processor", 1, 1, true, false},
		{"small", 1, 2, false, false},
	} {
		slots := make(chan struct{}, c.slots)
		for range c.taken {
			slots <- struct{}{}
		}
		met, finished := make(chan struct{}), false
		first := func() {
			if c.together {
				wait.For(met)
				return
			}
			time.Sleep(10 * time.Millisecond)
			finished = true
		}
		both(slots, c.large, first, func() {
			if !c.together && !finished {
				t.Errorf("%s: both at the same time", c.name)
			}
			close(met)
		})
		if len(slots) != c.taken {
			t.Errorf("%s: %d slots are taken, want %d", c.name, len(slots), c.taken)
		}
	}
}
