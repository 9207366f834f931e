package longfellow

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
)

// Set has the circuits of a folder. It opens each at its first use and keeps it, or the error of that, and
// limits the number of verifications at a time, so that proofs leave memory and processors for other
// requests.
type Set struct {
	folder fs.FS
	slots  chan struct{}

	mu      sync.Mutex
	circuit map[string]func() (*Circuit, error) // by name; opens once
}

// ErrNoCircuit is the error for a circuit that is not deployed, or has no file in the folder.
var ErrNoCircuit = errors.New("longfellow: there is no file for this circuit")

// NewSet returns the circuits of a folder, with at most so many verifications at a time. A file has the
// circuit's name, with or without the ending .circuit.zst.
func NewSet(folder fs.FS, concurrent int) *Set {
	return &Set{folder: folder, slots: make(chan struct{}, max(concurrent, 1)),
		circuit: map[string]func() (*Circuit, error){}}
}

// Verify is Circuit.Verify for the circuit of a name. It waits for its turn. The error is a [Reason] only if
// the proof is rejected.
func (s *Set) Verify(ctx context.Context, name string, statement *Statement, proof []byte) error {
	open, err := s.open(name)
	if err != nil {
		return err
	}
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-ctx.Done():
		return ctx.Err()
	}
	// Opening takes longer than a verification, so it has a turn, too.
	c, err := open()
	if err != nil {
		return err
	}
	return c.Verify(statement, proof)
}

// open returns the function that opens the circuit once. Only names of deployed circuits get one, because
// a response chooses the name.
func (s *Set) open(name string) (func() (*Circuit, error), error) {
	if _, ok := deployed[name]; !ok {
		return nil, ErrNoCircuit
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	open, ok := s.circuit[name]
	if !ok {
		open = sync.OnceValues(func() (*Circuit, error) { return s.read(name) })
		s.circuit[name] = open
	}
	return open, nil
}

func (s *Set) read(name string) (*Circuit, error) {
	for _, file := range []string{name, name + ".circuit.zst"} {
		f, err := s.folder.Open(file)
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
		return Open(name, b)
	}
	return nil, ErrNoCircuit
}
