package edge

import (
	"context"
	"crypto/ecdsa"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"runtime"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/edge/internal/longfellow"
)

// ProofVerifier returns a function that verifies zero-knowledge proofs of Longfellow with the circuits of a
// folder. It opens a circuit at its first use, and uses so many processors at most; other calls wait. A proof
// takes half a second of a processor, and up to 100 MB.
func ProofVerifier(circuits fs.FS, processors int) host.VerifyProofFunc {
	return verifierOf(longfellow.NewSet(longfellow.Folder(circuits), processors))
}

func verifierOf(set *longfellow.Set) host.VerifyProofFunc {
	return func(ctx context.Context, s host.ProofStatement, proof []byte) (bool, string, error) {
		key, err := x509.ParsePKIXPublicKey(s.Issuer)
		if err != nil {
			return false, "the issuer's key cannot be read", nil
		}
		public, ok := key.(*ecdsa.PublicKey)
		if !ok {
			return false, "the issuer's key is not one of ECDSA", nil
		}
		issuer, err := public.Bytes()
		if err != nil {
			return false, "the issuer's key cannot be read", nil
		}
		statement := &longfellow.Statement{Issuer: issuer, SessionTranscript: s.SessionTranscript,
			DocType: s.DocType, Time: s.Time}
		for _, e := range s.Elements {
			statement.Attributes = append(statement.Attributes,
				longfellow.Attribute{Identifier: e.Identifier, Value: e.Value})
		}
		err = set.Verify(ctx, s.Circuit, statement, proof)
		if rejected := longfellow.Reason(""); errors.As(err, &rejected) {
			return false, string(rejected), nil
		}
		return err == nil, "", err
	}
}

// CircuitSource reads the circuits of zero-knowledge proofs that methods name.
type CircuitSource struct {
	Fetch    host.Fetcher
	ReadFile func(path string, limit int) ([]byte, error) // reads at most limit bytes of a file
}

// Read returns the file of a circuit. It opens the circuit, which takes about a second of a processor, and
// returns an error if the file has another one. of is the name of the method.
func (s CircuitSource) Read(ctx context.Context, of string, c method.Circuit) ([]byte, error) {
	file, err := s.read(ctx, of, c)
	if err != nil {
		return nil, err
	}
	if _, err := longfellow.Open(c.Hash, file); err != nil {
		return nil, err
	}
	return file, nil
}

func (s CircuitSource) read(ctx context.Context, of string, c method.Circuit) ([]byte, error) {
	const limit = longfellow.MaxCircuitFile + 1 // a larger file is recognized
	if c.File != "" {
		return s.ReadFile(c.File, limit)
	}
	resp, err := s.Fetch.Fetch(ctx, host.FetchRequest{Method: "GET", URL: c.URL, For: of, MaxBody: limit})
	if err != nil {
		return nil, err
	}
	if resp.Status != http.StatusOK {
		return nil, fmt.Errorf("the response has the status %d", resp.Status)
	}
	return resp.Body, nil
}

// ofMethod is a circuit of a method.
type ofMethod struct {
	method  string
	circuit method.Circuit
}

// circuitsOf returns the circuits of all methods by name. Methods may share a circuit.
func circuitsOf(methods method.Catalog) map[string][]ofMethod {
	all := map[string][]ofMethod{}
	for _, e := range methods {
		for _, c := range e.Circuits() {
			all[c.Hash] = append(all[c.Hash], ofMethod{e.Name, c})
		}
	}
	return all
}

// openProofs sets the host's VerifyProof if a method asks for proofs. Proofs take half of the processors at
// most, and one at least.
func (s *Service) openProofs(methods method.Catalog) {
	circuits := circuitsOf(methods)
	if len(circuits) == 0 {
		return
	}
	// The request is not measured as one of the method: the circuit is at another server.
	source := CircuitSource{Fetch: s.trace.Fetcher(s.config.Fetch), ReadFile: s.config.ReadFile}
	read := func(ctx context.Context, name string) ([]byte, error) {
		err := longfellow.ErrNoCircuit
		for _, c := range circuits[name] {
			var file []byte
			if file, err = source.read(ctx, c.method, c.circuit); err == nil {
				return file, nil
			}
		}
		return nil, err
	}
	s.proofs = longfellow.NewSet(read, runtime.GOMAXPROCS(0)/2)
	s.host.VerifyProof = verifierOf(s.proofs)
	for name := range circuits {
		s.circuits = append(s.circuits, name)
	}
}

// circuitRetry is how long the service waits before it tries again to open circuits.
const circuitRetry = time.Minute + time.Second

// openCircuits opens the circuits of all methods, so that the first proof does not wait for that. It tries
// until it has opened all of them, or ctx is done.
func (s *Service) openCircuits(ctx context.Context) {
	for open := s.circuits; len(open) > 0; {
		var failed []string
		for _, name := range open {
			if _, err := s.proofs.Open(ctx, name); err != nil && ctx.Err() == nil {
				s.config.Log.Warn("circuit not opened", "circuit", name, "error", err.Error())
				failed = append(failed, name)
			}
		}
		open = failed
		select {
		case <-time.After(circuitRetry):
		case <-ctx.Done():
			return
		}
	}
}
