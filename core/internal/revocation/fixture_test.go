package revocation_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"testing"
	"time"

	"github.com/verge-id/verge/core/cbor"
	"github.com/verge-id/verge/core/internal/mdoc"
	"github.com/verge-id/verge/core/internal/revocation"
	"github.com/verge-id/verge/edge/signing"
	"github.com/verge-id/verge/testharness/wallettest"
)

const (
	av  = "eu.europa.ec.av.1"
	uri = "https://issuer.example/lists/1"
	crl = "https://issuer.example/ca.crl"
)

var now = time.Date(2026, 11, 21, 22, 0, 0, 0, time.UTC)

// fixture is an issuer with the lists that it publishes.
type fixture struct {
	testing.TB
	issuer *wallettest.Issuer
	signer *ecdsa.PrivateKey // of status lists
	trust  []byte            // PEM of the trust anchors
	status cbor.Item         // of documents
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	issuer := wallettest.NewIssuer(wallettest.IssuerConfig{Now: now})
	return &fixture{TB: t, issuer: issuer, signer: key, trust: issuer.PEM(),
		status: wallettest.StatusReference(uri, 0)}
}

// lists returns who may sign lists about a document of the issuer.
func (w *fixture) lists() mdoc.Lists {
	w.Helper()
	wallet := wallettest.New(w.issuer)
	wallet.Now = func() time.Time { return now }
	session := wallettest.Session{Handover: wallettest.OpenID4VP, ClientID: "c", Nonce: "n", ResponseURI: "u"}
	p, err := wallet.Presentation(session, av, av, []string{"age_over_18"})
	if err != nil {
		w.Fatal(err)
	}
	p.Status = w.status
	response, err := p.Response()
	if err != nil {
		w.Fatal(err)
	}
	anchors, err := mdoc.ParseAnchors(w.trust)
	if err != nil {
		w.Fatal(err)
	}
	ask := mdoc.Ask{DocType: av, Namespace: av, Elements: []string{"age_over_18"},
		EKU: []string{wallettest.AgeSigner}, Anchors: anchors, Transcript: session.Transcript(), Now: now,
		Verify: signing.Verify, Issued: new(mdoc.Issued)}
	proof, err := mdoc.Verify(w.Context(), response, ask)
	if err != nil {
		w.Fatal(err)
	}
	return ask.ListsOf(proof)
}

// list returns a status list: the first document is valid, the second revoked, the third suspended, and the
// fourth has a status of the application.
func (w *fixture) list() wallettest.StatusList {
	return wallettest.StatusList{URI: uri, Bits: 2, List: []byte{0b11_10_01_00}, Issued: now.Add(-time.Hour),
		Expires: now.Add(time.Hour), TTL: 10 * time.Minute, Key: w.signer,
		Chain: [][]byte{w.issuer.Certify(&w.signer.PublicKey, wallettest.StatusSigner, nil)}}
}

// read reads a token and returns why it was rejected: the text of an Error, or the reason of a signer's
// Rejection.
func (w *fixture) read(token []byte, mediaType string) (list *revocation.StatusList, why string) {
	w.Helper()
	list, err := revocation.ReadStatusList(w.Context(), token, mediaType, uri, w.lists(), now)
	return list, w.why(err)
}

func (w *fixture) why(err error) string {
	w.Helper()
	var rejection *mdoc.Rejection
	var plain revocation.Error
	switch {
	case err == nil:
		return ""
	case errors.As(err, &rejection):
		return rejection.Reason
	case !errors.As(err, &plain):
		w.Errorf("an error of another type: %v", err)
	}
	return string(plain)
}
