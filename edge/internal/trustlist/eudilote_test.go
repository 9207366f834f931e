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
	theirs := npmwallet.TrustedEntities{
		Key: signer.key.(*ecdsa.PrivateKey), Chain: [][]byte{signer.Raw}, Operator: "Opérateur", Sequence: 12,
		Issued: at.AddDate(0, -1, 0), NextUpdate: at.AddDate(0, 5, 0),
	}
	theirs.Add("A", "Issuance", typePID, "", one.Raw, two.Raw)
	theirs.Add("A", "Revocation", "http://uri.etsi.org/19602/SvcType/PID/Revocation", "", three.Raw)
	theirs.Add("B", "Withdrawn", typePID, statusWithdrawn, three.Raw)
	document := theirs.List(t)
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
