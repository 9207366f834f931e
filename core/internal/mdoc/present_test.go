package mdoc_test

import (
	"testing"

	"github.com/verge-id/verge/core/internal/mdoc"
	"github.com/verge-id/verge/edge/signing"
	"github.com/verge-id/verge/testharness/wallettest"
)

// session is the one that vectorTranscript is of.
var session = wallettest.Session{
	Handover: wallettest.OpenID4VP, ClientID: "redirect_uri:https://verify.example/vp/h",
	Nonce: "nonce-0123456789abcdef", ResponseURI: "https://verify.example/vp/h",
}

func newIssuer(change func(*wallettest.IssuerConfig)) *wallettest.Issuer {
	c := wallettest.IssuerConfig{Now: testNow}
	if change != nil {
		change(&c)
	}
	return wallettest.NewIssuer(c)
}

// present returns a presentation of age_over_18 to session, and its request.
func present(t testing.TB, issuer *wallettest.Issuer) (*wallettest.Presentation, mdoc.Ask) {
	t.Helper()
	wallet := wallettest.New(issuer)
	wallet.Now = fixedClock
	p, err := wallet.Presentation(session, docType, docType, []string{element})
	if err != nil {
		t.Fatal(err)
	}
	return p, mdoc.Ask{
		DocType: docType, Namespace: docType, Elements: []string{element},
		EKU:     []string{wallettest.AgeSigner},
		Anchors: []mdoc.Anchor{{Certificate: issuer.Root}}, Transcript: vectorTranscript, Now: testNow,
		Verify: signing.Verify, Issued: new(mdoc.Issued),
	}
}

// try returns the outcome of a presentation.
func try(t testing.TB, p *wallettest.Presentation, ask mdoc.Ask) string {
	t.Helper()
	response, err := p.Response()
	if err != nil {
		t.Fatal(err)
	}
	proof, err := mdoc.Verify(t.Context(), response, ask)
	return outcome(t, proof, err)
}
