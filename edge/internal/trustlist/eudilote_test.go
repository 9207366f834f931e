package trustlist

import (
	"crypto/ecdsa"
	"crypto/x509"
	"testing"

	"github.com/verge-id/verge/testharness/npmwallet"
)

// A list that @owf/eudi-lote has made and signed. Its header has x5c and kid, and neither x5t#S256 nor sigT,
// which JAdES baseline B has.
func TestEUDILoTE(t *testing.T) {
	root := issue(t, "Root", nil, nil, authority)
	signer := issue(t, "Signer", &root, nil, signsLists(usageETSI))
	one, two, three := issue(t, "One", nil, nil), issue(t, "Two", nil, nil), issue(t, "Three", nil, nil)
	document := npmwallet.List(t, npmwallet.TrustedEntities{
		Key: signer.key.(*ecdsa.PrivateKey), Chain: [][]byte{signer.Raw}, Operator: "Opérateur", Sequence: 12,
		Issued: at.AddDate(0, -1, 0), NextUpdate: at.AddDate(0, 5, 0),
		Services: []npmwallet.TrustedService{
			{Entity: "A", Name: "Issuance", Type: typePID, Certificates: [][]byte{one.Raw, two.Raw}},
			{Entity: "A", Name: "Revocation", Type: "http://uri.etsi.org/19602/SvcType/PID/Revocation",
				Certificates: [][]byte{three.Raw}},
			{Entity: "B", Name: "Withdrawn", Type: typePID, Status: statusWithdrawn,
				Certificates: [][]byte{three.Raw}},
		},
	})
	for _, trusted := range []*x509.Certificate{root.Certificate, signer.Certificate} {
		expected := Expected{DocType: docTypePID, Signers: []*x509.Certificate{trusted}}
		list, err := Read(TS119602, document, expected, at)
		if err != nil {
			t.Fatalf("%s: %v", trusted.Subject, err)
		}
		if list.Sequence != 12 || list.Issuer != "Opérateur" || !list.NextUpdate.Equal(at.AddDate(0, 5, 0)) ||
			len(list.Entries) != 2 || !list.Entries[1].Equal(two.Certificate) ||
			list.Skipped[SkipType] != 1 || list.Skipped[SkipStatus] != 1 {
			t.Errorf("list: %+v", list)
		}
	}
	expected := Expected{DocType: docTypePID, Signers: certificates(one)}
	if _, err := Read(TS119602, document, expected, at); reasonOf(t, err) != SignerUnknown {
		t.Errorf("another signer: %v", err)
	}
}
