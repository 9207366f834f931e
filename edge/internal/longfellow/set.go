package longfellow

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"time"

	"github.com/verge-id/verge/core/host"
)

// Set opens each circuit at its first use and keeps it. It limits the processors that verifications use, so
// that proofs leave memory and processors for other requests. Its methods may be called concurrently.
type Set struct {
	read  Source
	slots chan struct{} // processors of verifications, and of circuits that are opened
	queue chan struct{} // verifications in progress or waiting

	mu      sync.Mutex
	circuit map[string]*circuitEntry // by name
}

// Source returns the file of a circuit. The error is ErrNoCircuit if it has none.
type Source func(ctx context.Context, name string) ([]byte, error)

// circuitEntry is a circuit, or the reason why it could not be opened.
type circuitEntry struct {
	turn    chan struct{} // held while the fields are read or written
	opened  *Circuit
	err     error
	retryAt time.Time
}

// retryAfter is how long the error of a circuit is returned before its source is read again.
const retryAfter = time.Minute

// waitingPerSlot is the maximum number of verifications that wait for one processor.
const waitingPerSlot = 4

var (
	// ErrNoCircuit is the error for a circuit that is not known, or has no source.
	ErrNoCircuit = errors.New("longfellow: there is no file for this circuit")

	// ErrBusy is the error of a verification if too many others are waiting.
	ErrBusy = errors.New("longfellow: too many proofs are waiting for their verification")
)

// NewSet returns a Set that uses at most so many processors, and one at least. A verification uses one, and a
// second one while it is free. Four verifications for each processor may wait.
func NewSet(read Source, processors int) *Set {
	processors = max(processors, 1)
	return &Set{read: read, slots: make(chan struct{}, processors),
		queue: make(chan struct{}, processors*(1+waitingPerSlot)), circuit: map[string]*circuitEntry{}}
}

// Folder is a Source. A file has the circuit's name, with or without the ending .circuit.zst.
func Folder(folder fs.FS) Source {
	return func(_ context.Context, name string) ([]byte, error) {
		for _, file := range []string{name, name + ".circuit.zst"} {
			f, err := folder.Open(file)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("longfellow: %w", err)
			}
			defer f.Close()
			b, err := io.ReadAll(io.LimitReader(f, MaxCircuitFile+1))
			if err != nil {
				return nil, fmt.Errorf("longfellow: %w", err)
			}
			return b, nil
		}
		return nil, ErrNoCircuit
	}
}

// Verify is Circuit.Verify for the circuit of a name. It waits for its turn. The error is a [Reason] only if
// the proof is rejected.
func (s *Set) Verify(ctx context.Context, name string, statement *Statement, proof []byte) error {
	select {
	case s.queue <- struct{}{}:
		defer func() { <-s.queue }()
	default:
		return ErrBusy
	}
	c, err := s.Open(ctx, name)
	if err != nil {
		return err
	}
	end, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	return c.Verify(statement, proof)
}

// begin waits for a slot.
func (s *Set) begin(ctx context.Context) (end func(), err error) {
	select {
	case s.slots <- struct{}{}:
		return func() { <-s.slots }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Open returns the circuit of a name. It reads and opens it if it has not done so, or if that has failed more
// than a minute ago.
func (s *Set) Open(ctx context.Context, name string) (*Circuit, error) {
	if _, ok := host.CircuitOf(name); !ok { // a response chooses the name
		return nil, ErrNoCircuit
	}
	s.mu.Lock()
	e, ok := s.circuit[name]
	if !ok {
		e = &circuitEntry{turn: make(chan struct{}, 1)}
		s.circuit[name] = e
	}
	s.mu.Unlock()

	select {
	case e.turn <- struct{}{}:
		defer func() { <-e.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if e.opened != nil || time.Now().Before(e.retryAt) {
		return e.opened, e.err
	}
	e.opened, e.err = s.open(ctx, name)
	if e.err != nil && ctx.Err() == nil {
		e.retryAt = time.Now().Add(retryAfter)
	}
	return e.opened, e.err
}

func (s *Set) open(ctx context.Context, name string) (*Circuit, error) {
	file, err := s.read(ctx, name)
	if err != nil {
		return nil, err
	}
	// Opening takes longer than a verification, so it takes a slot, too.
	end, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	c, err := Open(name, file)
	if err != nil {
		return nil, err
	}
	c.hash.circuit.slots, c.signature.circuit.slots = s.slots, s.slots
	return c, nil
}
