package mdoc_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"testing"

	"github.com/verge-id/verge/core/cbor"
	"github.com/verge-id/verge/core/internal/mdoc"
	"github.com/verge-id/verge/edge/signing"
	"github.com/verge-id/verge/testharness/wallettest"
)

// counting is a host that counts verifications, and cannot carry out the one with the number fails.
type counting struct{ asked, fails int }

var errAway = errors.New("the host is away")

func (c *counting) verify(
	ctx context.Context, algorithm string, publicKey, message, signature []byte,
) (bool, error) {
	if c.asked++; c.asked == c.fails {
		return false, errAway
	}
	return signing.Verify(ctx, algorithm, publicKey, message, signature)
}

// ask asks the host about an answer.
func (c *counting) ask(t *testing.T, p *wallettest.Presentation, ask mdoc.Ask) (mdoc.Proof, error) {
	t.Helper()
	response, err := p.Response()
	if err != nil {
		t.Fatal(err)
	}
	ask.Verify, c.asked = c.verify, 0
	return mdoc.Verify(t.Context(), response, ask)
}

// If the host cannot check a signature, Verify returns the host's error and no proof (contract 41).
func TestVerify_HostError(t *testing.T) {
	const signatures = 4 // of the authority's certificate, the signer's, the document and the device
	for n := range signatures {
		t.Run(fmt.Sprint("verification ", n+1), func(t *testing.T) {
			p, ask := present(t, newIssuer(between(1)))
			h := &counting{fails: n + 1}
			proof, err := h.ask(t, p, ask)
			var rejection *mdoc.Rejection
			if !errors.Is(err, errAway) || errors.As(err, &rejection) || len(proof.Elements) > 0 ||
				h.asked != n+1 {
				t.Errorf("%+v, %v after %d verifications", proof, err, h.asked)
			}
			h.fails = 0
			if _, err := h.ask(t, p, ask); err != nil {
				t.Errorf("later: %v", err)
			}
		})
	}
}

// The same holds for the signature that decides whether the document is at fault.
func TestVerify_HostErrorAfterFault(t *testing.T) {
	p, ask := present(t, newIssuer(nil))
	ask.Anchors = []mdoc.Anchor{{Certificate: newIssuer(between(1)).Root}}
	h := &counting{fails: 1}
	var rejection *mdoc.Rejection
	if _, err := h.ask(t, p, ask); !errors.Is(err, errAway) || errors.As(err, &rejection) {
		t.Errorf("%v after %d verifications", err, h.asked)
	}
	h.fails = 0
	if _, err := h.ask(t, p, ask); !errors.As(err, &rejection) || rejection.Document != mdoc.Untrusted {
		t.Errorf("later: %v", err)
	}
}

// Certificates that were good are not verified again for the next answer.
func TestVerify_Count(t *testing.T) {
	p, ask := present(t, newIssuer(between(1)))
	h := &counting{}
	for n, want := range []int{4, 2, 2} {
		if _, err := h.ask(t, p, ask); err != nil || h.asked != want {
			t.Errorf("answer %d: %d verifications, want %d, %v", n+1, h.asked, want, err)
		}
	}
	ask.Issued = new(mdoc.Issued)
	if _, err := h.ask(t, p, ask); err != nil || h.asked != 4 {
		t.Errorf("with another memory: %d verifications, %v", h.asked, err)
	}
}

// An answer whose certificate names no key of its issuer is tried with few anchors of that name.
func TestVerify_ManyAnchorsOfOneName(t *testing.T) {
	issuer := newIssuer(nil)
	p, ask := present(t, issuer)
	foreign, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := *parse(t, issuer.Chain[0])
	template.AuthorityKeyId = nil
	parent := &x509.Certificate{RawSubject: issuer.Root.RawSubject}
	forged, err := x509.CreateCertificate(rand.Reader, &template, parent, template.PublicKey, foreign)
	if err != nil {
		t.Fatal(err)
	}
	attack := *issuer
	attack.Chain = [][]byte{forged}
	p.Issuer = &attack
	for range 40 {
		ask.Anchors = append(ask.Anchors, mdoc.Anchor{Certificate: newIssuer(nil).Root})
	}
	h := &counting{}
	want := mdoc.MaxTried + 1 // the device's, to find out whether the document is at fault
	if _, err := h.ask(t, p, ask); reasonOf(t, err) != "untrusted" || h.asked != want {
		t.Errorf("%v after %d verifications, want %d", err, h.asked, want)
	}
	if mdoc.MaxVerified > 20 {
		t.Errorf("%d verifications for one answer", mdoc.MaxVerified)
	}
}

// A signature of another length than the key's is not verified.
func TestVerify_SignatureSize(t *testing.T) {
	for name, c := range map[string]struct {
		part   wallettest.Part
		reason string
		asks   int
	}{
		"the issuer's": {wallettest.PartIssuerAuth, "issuer_signature", 1},
		"the device's": {wallettest.PartDeviceAuth, "device_signature", 2},
	} {
		p, ask := present(t, newIssuer(nil))
		p.Edit = func(part wallettest.Part, i cbor.Item) cbor.Item {
			if part != c.part {
				return i
			}
			if part == wallettest.PartDeviceAuth {
				return wallettest.With(i, "deviceSignature", short(t, i.Member("deviceSignature")))
			}
			return short(t, i)
		}
		h := &counting{}
		if _, err := h.ask(t, p, ask); reasonOf(t, err) != c.reason || h.asked != c.asks {
			t.Errorf("%s: %v after %d verifications, want %d", name, err, h.asked, c.asks)
		}
	}
}

// short takes the last byte from the signature of a COSE_Sign1.
func short(t *testing.T, i cbor.Item) cbor.Item {
	t.Helper()
	parts, _ := i.List()
	if len(parts) != 4 {
		t.Fatalf("%d parts of a COSE_Sign1", len(parts))
	}
	signature, _ := parts[3].Bytes()
	return cbor.Array(parts[0], parts[1], parts[2], cbor.Bytes(signature[:len(signature)-1]))
}
