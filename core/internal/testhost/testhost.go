// Package testhost is a host for the tests of the core: a store with injected faults, a clock that the test
// sets, reproducible randomness, a key ring, and a log that tests can read.
package testhost

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"testing"

	"github.com/verge-id/verge/core/internal/report"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/internal/token"
	"github.com/verge-id/verge/edge/signing"
	"github.com/verge-id/verge/kvadapters/kvtest"
	"github.com/verge-id/verge/kvadapters/memory"
)

// hostName is the host that the ring is bound to.
const hostName = "verify.verge.example"

// UUID and Other are ids of integrations.
const (
	UUID  = "694069ac-4d4e-475f-906b-2f11c5eca7bd"
	Other = "11111111-4d4e-475f-906b-2f11c5eca7bd"
)

// Host is a host.Host with access to its parts. It has no Fetch until the test sets it.
type Host struct {
	host.Host
	Store  *kvtest.Faulty // the KV
	Memory *memory.Store  // the store behind Store
	Clock  *kvtest.Clock
	Ring   *token.Ring  // the ring behind Sealer
	Logged bytes.Buffer // in the text form of slog, without Debug
}

// New makes a Host with an empty store.
func New(t testing.TB) *Host {
	t.Helper()
	h := &Host{Clock: kvtest.NewClock()}
	h.Memory = memory.New(memory.Config{Now: h.Clock.Now})
	h.Store = &kvtest.Faulty{KV: h.Memory}
	random := &coretest.Random{}
	var err error
	key := token.Key{ID: "9f02ab31", Secret: bytes.Repeat([]byte{7}, 32)}
	h.Ring, err = token.NewRing(hostName, random, key)
	coretest.Must(t, err)
	h.Host = host.WithDefaults(
		host.Host{KV: h.Store, Sealer: h.Ring, Verify: signing.Verify, Sign: signer.Sign,
			Now: h.Clock.Now, Random: random, Log: slog.New(slog.NewTextHandler(&h.Logged, nil))},
	)
	return h
}

// signer has the key of reports, and ReportKey is its public key.
var signer, ReportKey = func() (*signing.Signer, []byte) {
	private, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), bytes.Repeat([]byte{7}, 32))
	if err != nil {
		panic(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		panic(err)
	}
	var none *signing.Signer
	s, err := none.With(report.KeyName, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	if err != nil {
		panic(err)
	}
	public, err := s.Public(report.KeyName)
	if err != nil {
		panic(err)
	}
	return s, public
}()
