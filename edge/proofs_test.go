package edge_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"testing"
	"testing/fstest"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/edge"
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
