package edge_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/edge"
	"github.com/verge-id/verge/testharness/wait"
	"github.com/verge-id/verge/testharness/wallettest"
)

// TestProofVerifier_Errors checks that a proof that cannot be checked is an error, and that one of a key that
// no circuit has is rejected. testharness/long covers accepted proofs.
func TestProofVerifier_Errors(t *testing.T) {
	p256, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	public, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der := func(key any) []byte {
		b, err := x509.MarshalPKIXPublicKey(key)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	const circuit = "8d079211715200ff06c5109639245502bfe94aa869908d31176aae4016182121"
	verify := edge.ProofVerifier(fstest.MapFS{circuit: {Data: []byte("damaged")}}, 1)
	for _, tt := range []struct {
		name     string
		circuit  string
		issuer   []byte
		rejected bool
	}{
		{"key damaged", circuit, []byte("key"), true},
		{"key of another algorithm", circuit, der(public), true},
		{"circuit damaged", circuit, der(&p256.PublicKey), false},
		{"circuit unknown", "circuit", der(&p256.PublicKey), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			shown, reason, err := verify(t.Context(), host.ProofStatement{Circuit: tt.circuit,
				Issuer: tt.issuer, DocType: "a", Time: time.Unix(0, 0)}, []byte("proof"))
			if shown || (reason != "") != tt.rejected || (err == nil) != tt.rejected {
				t.Errorf("%v, %q, %v", shown, reason, err)
			}
		})
	}
}

// circuitOne is the circuit for one element of version 7.
const circuitOne = "8d079211715200ff06c5109639245502bfe94aa869908d31176aae4016182121"

type fetcher func(host.FetchRequest) (host.FetchResponse, error)

func (f fetcher) Fetch(_ context.Context, q host.FetchRequest) (host.FetchResponse, error) {
	return f(q)
}

func TestCircuitSource_Read(t *testing.T) {
	failed := errors.New("away")
	answers := func(status int, body []byte, err error) fetcher {
		return func(q host.FetchRequest) (host.FetchResponse, error) {
			if q.Method != "GET" || q.URL != "https://circuits.example/1" || q.For != "wallet" ||
				q.MaxBody < 1<<20 {
				t.Errorf("the request is %+v", q)
			}
			return host.FetchResponse{Status: status, Body: body}, err
		}
	}
	for name, c := range map[string]struct {
		fetch fetcher
		want  string
	}{
		"no response":    {answers(0, nil, failed), "away"},
		"another status": {answers(404, nil, nil), "status 404"},
		"damaged":        {answers(200, []byte("no circuit"), nil), "longfellow"},
		"too large":      {answers(200, make([]byte, 1<<20+1), nil), "too large"},
	} {
		_, err := edge.CircuitSource{Fetch: c.fetch}.Read(t.Context(), "wallet",
			method.Circuit{Hash: circuitOne, URL: "https://circuits.example/1"})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	file, err := os.ReadFile("../../shared/vectors/longfellow/" + circuitOne + ".circuit.zst")
	if errors.Is(err, os.ErrNotExist) {
		t.Skip("SKIP: ../shared/vectors/longfellow is missing")
	}
	if err != nil {
		t.Fatal(err)
	}
	source := edge.CircuitSource{Fetch: answers(200, file, nil),
		ReadFile: func(string, int) ([]byte, error) { return file, nil }}
	for _, c := range []method.Circuit{{Hash: circuitOne, URL: "https://circuits.example/1"},
		{Hash: circuitOne, File: "/1"}} {
		if got, err := source.Read(t.Context(), "wallet", c); err != nil || !bytes.Equal(got, file) {
			t.Errorf("%+v: %d bytes, %v", c, len(got), err)
		}
	}
	other := method.Circuit{Hash: host.Circuits()[1].Name, File: "/1"}
	if _, err := source.Read(t.Context(), "wallet", other); err == nil {
		t.Error("a file with another circuit is accepted")
	}
}

// Only a service that accepts proofs verifies them, and takes the large responses with them (contract 56).
func TestOpen_Proofs(t *testing.T) {
	issuer := string(wallettest.NewIssuer(wallettest.IssuerConfig{}).PEM())
	for mode, want := range map[string]int{"off": http.StatusRequestEntityTooLarge,
		"accept": http.StatusBadRequest, "require": http.StatusBadRequest} {
		c := config(t)
		settings, err := json.Marshal(map[string]any{"profile": "eu-av", "zero_knowledge": mode,
			"trust_anchors": []string{issuer},
			"circuits":      []map[string]string{{"hash": circuitOne, "file": "/is-not-here"}}})
		if err != nil {
			t.Fatal(err)
		}
		c.Core.Methods = []method.Config{{Name: "wallet", Kind: "openid4vp", Settings: settings}}
		s := open(t, c)
		if verifies := s.Host().VerifyProof != nil; verifies != (mode != "off") {
			t.Errorf("%s: the host verifies proofs: %v", mode, verifies)
		}
		ctx, stop := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- s.Serve(ctx) }()
		for path, limit := range map[string]int{"/verify/wallet": 80 << 10, "/verify/box/AAAA": 64 << 10} {
			for size, status := range map[int]int{limit: 0, limit + 1: want, 1 << 20: want,
				1<<20 + 17<<10: http.StatusRequestEntityTooLarge} {
				resp, err := http.Post(
					"http://"+c.Public.Addr().String()+path,
					"application/x-www-form-urlencoded",
					strings.NewReader(strings.Repeat("a", size)),
				)
				if err != nil {
					t.Fatal(err)
				}
				resp.Body.Close()
				tooLarge := resp.StatusCode == http.StatusRequestEntityTooLarge
				if tooLarge != (status == http.StatusRequestEntityTooLarge) {
					t.Errorf("%s: %d bytes to %s are %d", mode, size, path, resp.StatusCode)
				}
			}
		}
		stop()
		if err := wait.For(served); err != nil {
			t.Error(err)
		}
	}
}
