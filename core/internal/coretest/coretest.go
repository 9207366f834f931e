// Package coretest has the shared parts of the tests of the core's packages.
package coretest

import (
	"crypto/sha256"
	"encoding/binary"
	"sync/atomic"
	"testing"
)

// Random is randomness that never repeats, never ends and is the same in
// every run. The zero value is ready.
type Random struct{ n atomic.Uint64 }

// Read implements io.Reader.
func (r *Random) Read(p []byte) (int, error) {
	for i := 0; i < len(p); {
		sum := sha256.Sum256(binary.BigEndian.AppendUint64(nil, r.n.Add(1)))
		i += copy(p[i:], sum[:])
	}
	return len(p), nil
}

// Must fails the test immediately on an error.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
