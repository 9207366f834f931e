package trustlist

import (
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/verge-id/verge/core/cbor"
)

// sample returns a list of another publisher. They are not part of this repository.
func sample(t *testing.T, name string) []byte {
	t.Helper()
	path := filepath.Join("../../../../shared/vectors", name)
	b, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		t.Skipf("SKIP: ../shared/vectors/%s is not there", name)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func date2026(month time.Month, day int) time.Time {
	return time.Date(2026, month, day, 0, 0, 0, 0, time.UTC)
}

// xmlSigner returns the certificate in KeyInfo.
func xmlSigner(t *testing.T, document []byte) *x509.Certificate {
	t.Helper()
	root, problem := readXML(document)
	if problem != nil {
		t.Fatal(problem)
	}
	s, problem := findSignature(root)
	if problem != nil {
		t.Fatal(problem)
	}
	ders, ok := keyInfoCertificates(s.keyInfo)
	if !ok {
		t.Fatal("there is no certificate")
	}
	chain, problem := readChain(ders)
	if problem != nil {
		t.Fatal(problem)
	}
	return chain[0]
}

// The sample of the European Commission's verifier was edited after it was signed: its digest is wrong, and
// xmlsec1 rejects it, too. Its signature and its properties are right.
func TestSample_EditedList(t *testing.T) {
	document := sample(t, "lists/av-etsi-trusted-list.xml")
	signer := xmlSigner(t, document)
	expected := Expected{DocType: docTypeAge, Signers: []*x509.Certificate{signer}}
	_, err := Read(TS119612, document, expected, time.Date(2025, 11, 1, 0, 0, 0, 0, time.UTC))
	if reasonOf(t, err) != WrongSignature || err.Error() != errDigest.Error() {
		t.Errorf("%v, want %v", err, errDigest)
	}
	checkXMLSec(t, document, signer, false)
}

// AAMVA's list of January 2026, with the signer, its issuer and the root configured.
func TestSample_VICAL(t *testing.T) {
	document := sample(t, "longfellow/vical.cbor")
	s, problem := readSign1(document)
	if problem != nil {
		t.Fatal(problem)
	}
	ders, problem := s.chain()
	if problem != nil {
		t.Fatal(problem)
	}
	chain, problem := readChain(ders)
	if problem != nil {
		t.Fatal(problem)
	}
	for _, signer := range chain {
		expected := Expected{DocType: docTypeMDL, Signers: []*x509.Certificate{signer}}
		list, err := Read(VICAL, document, expected, date2026(1, 3))
		if err != nil {
			t.Fatalf("%s: %v", signer.Subject, err)
		}
		if list.Sequence != 532354 || list.Issuer != "AAMVA" || len(list.Entries) != 14 ||
			len(list.Skipped) != 0 ||
			!list.NextUpdate.Equal(time.Date(2026, 1, 3, 13, 47, 13, 0, time.UTC)) {
			t.Errorf("list: %+v", list)
		}
		if _, err := Read(VICAL, document, expected, date2026(5, 1)); reasonOf(t, err) != SignerExpired {
			t.Errorf("%s: after the signer has expired: %v", signer.Subject, err)
		}
	}
	tagged, err := cbor.Read(document, vicalOptions)
	if err != nil {
		t.Fatal(err)
	}
	expected := Expected{DocType: docTypeMDL, Signers: []*x509.Certificate{chain[0]}}
	if _, err := Read(VICAL, cbor.Tagged(tagSign1, tagged).Raw(), expected, date2026(1, 3)); err != nil {
		t.Errorf("with a tag: %v", err)
	}
}
