package revocation_test

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"math/big"
	"testing"
	"time"

	"github.com/verge-id/verge/core/internal/revocation"
	"github.com/verge-id/verge/testharness/wallettest"
)

// revoked returns a list with the document signer's certificate in it.
func revoked() *x509.RevocationList {
	return &x509.RevocationList{ThisUpdate: now.Add(-time.Hour), NextUpdate: now.AddDate(0, 0, 30),
		RevokedCertificateEntries: []x509.RevocationListEntry{
			{SerialNumber: big.NewInt(7), RevocationTime: now.Add(-2 * time.Hour)},
			{SerialNumber: big.NewInt(100), RevocationTime: now.Add(-time.Hour), ReasonCode: 1},
		}}
}

// point is an issuingDistributionPoint as its members are in DER.
type point struct {
	Name       asn1.RawValue  `asn1:"optional"`
	Users      bool           `asn1:"optional,tag:1"`
	Authority  bool           `asn1:"optional,tag:2"`
	Reasons    asn1.BitString `asn1:"optional,tag:3"`
	Indirect   bool           `asn1:"optional,tag:4"`
	Attributes bool           `asn1:"optional,tag:5"`
}

// named returns the member distributionPoint with an address.
func named(t testing.TB, address string) asn1.RawValue {
	t.Helper()
	return wrapped(t, 0, wrapped(t, 0, asn1.RawValue{Class: 2, Tag: 6, Bytes: []byte(address)}))
}

func wrapped(t testing.TB, tag int, v asn1.RawValue) asn1.RawValue {
	t.Helper()
	return asn1.RawValue{Class: 2, Tag: tag, IsCompound: true, Bytes: marshal(t, v)}
}

func marshal(t testing.TB, v any) []byte {
	t.Helper()
	b, err := asn1.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestReadCRL(t *testing.T) {
	w := newFixture(t)
	lists := w.lists()
	signer := lists.Path()[0]
	list, err := revocation.ReadCRL(t.Context(), w.issuer.CRL(revoked()), lists, 0, now)
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := list.Revoked(signer); !got || !ok {
		t.Errorf("contract 54: a certificate in the list: %v, %v", got, ok)
	}
	other := *signer
	other.SerialNumber = big.NewInt(101)
	if got, ok := list.Revoked(&other); got || !ok {
		t.Errorf("contract 54: another certificate: %v, %v", got, ok)
	}
	if !list.Fresh.Equal(now.Add(time.Hour)) || !list.Until.Equal(now.AddDate(0, 0, 30)) ||
		!list.Issued.Equal(now.Add(-time.Hour)) || list.Size() == 0 {
		t.Errorf("contract 54: %+v", list.Dates)
	}
	empty := revoked()
	empty.RevokedCertificateEntries = nil
	if list, err = revocation.ReadCRL(t.Context(), w.issuer.CRL(empty), lists, 0, now); err != nil {
		t.Fatal(err)
	}
	if got, ok := list.Revoked(signer); got || !ok {
		t.Errorf("contract 54: an empty list: %v, %v", got, ok)
	}
}

// TestReadCRL_Attacks is the list of attacks on certificate revocation lists.
func TestReadCRL_Attacks(t *testing.T) {
	w := newFixture(t)
	lists := w.lists()
	other := wallettest.NewIssuer(wallettest.IssuerConfig{Now: now})
	named2 := wallettest.NewIssuer(
		wallettest.IssuerConfig{Now: now, Change: func(_ int, c *x509.Certificate) {
			c.Subject.CommonName += " of another country"
		}},
	)
	extension := func(id asn1.ObjectIdentifier, critical bool, value []byte) func(*x509.RevocationList) {
		return func(l *x509.RevocationList) {
			l.ExtraExtensions = append(
				l.ExtraExtensions,
				pkix.Extension{Id: id, Critical: critical, Value: value},
			)
		}
	}
	scope := func(p point) func(*x509.RevocationList) {
		return extension(asn1.ObjectIdentifier{2, 5, 29, 28}, true, marshal(t, p))
	}
	none := func(*x509.RevocationList) {}
	entry := func(id asn1.ObjectIdentifier) func(*x509.RevocationList) {
		return func(l *x509.RevocationList) {
			l.RevokedCertificateEntries[0].ExtraExtensions = []pkix.Extension{{Id: id, Critical: true,
				Value: marshal(t, asn1.RawValue{Tag: 16, IsCompound: true})}}
		}
	}
	const notOfThis = "the certificate revocation list is not of this certificate"
	const notSigned = "the issuer of the certificate has not signed the revocation list"
	const critical = "the certificate revocation list has a critical extension that is not known"
	for _, c := range []struct {
		name   string
		issuer *wallettest.Issuer
		change func(*x509.RevocationList)
		want   string
	}{
		{"nothing", w.issuer, none, ""},
		{"another issuer of the same name", other, none, notSigned},
		{"another issuer", named2, none, notSigned},
		{"expired", w.issuer, func(l *x509.RevocationList) { l.NextUpdate = now }, "the list has expired"},
		{"of the future", w.issuer, func(l *x509.RevocationList) { l.ThisUpdate = now.Add(31 * time.Second) },
			"the list is dated in the future"},
		{"a delta", w.issuer, extension(asn1.ObjectIdentifier{2, 5, 29, 27}, true, marshal(t, 1)),
			"the certificate revocation list is a delta, which is useless without its base"},
		{"a delta that is not critical", w.issuer,
			extension(asn1.ObjectIdentifier{2, 5, 29, 27}, false, marshal(t, 1)),
			"the certificate revocation list is a delta, which is useless without its base"},
		{"an unknown critical extension", w.issuer,
			extension(asn1.ObjectIdentifier{1, 2, 3}, true, marshal(t, 1)), critical},
		{"an unknown extension", w.issuer, extension(asn1.ObjectIdentifier{1, 2, 3}, false, marshal(t, 1)),
			""},
		{"the scope of this address", w.issuer, scope(point{Name: named(t, crl)}), ""},
		{"users' certificates", w.issuer, scope(point{Users: true}), ""},
		{"some reasons", w.issuer, scope(point{Reasons: asn1.BitString{Bytes: []byte{0x40}, BitLength: 2}}),
			notOfThis},
		{"an indirect list", w.issuer, scope(point{Indirect: true}), notOfThis},
		{"attribute certificates", w.issuer, scope(point{Attributes: true}), notOfThis},
		{"a scope that is none", w.issuer,
			extension(asn1.ObjectIdentifier{2, 5, 29, 28}, true, []byte{5, 0}), notOfThis},
		{"two scopes", w.issuer, func(l *x509.RevocationList) {
			scope(point{Users: true})(l)
			scope(point{Users: true})(l)
		}, notOfThis},
		{"an entry of another issuer", w.issuer, entry(asn1.ObjectIdentifier{2, 5, 29, 29}), critical},
		{"an entry with an unknown critical extension", w.issuer, entry(asn1.ObjectIdentifier{1, 2, 3}),
			critical},
	} {
		template := revoked()
		c.change(template)
		_, err := revocation.ReadCRL(t.Context(), c.issuer.CRL(template), lists, 0, now)
		if why := w.why(err); why != c.want {
			t.Errorf("contract 54: %s: %q, want %q", c.name, why, c.want)
		}
	}
}

func TestReadCRL_Scope(t *testing.T) {
	w := newFixture(t)
	lists := w.lists()
	read := func(p point) *revocation.CRL {
		t.Helper()
		template := revoked()
		template.ExtraExtensions = []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 28}, Critical: true,
			Value: marshal(t, p)}}
		list, err := revocation.ReadCRL(t.Context(), w.issuer.CRL(template), lists, 0, now)
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	signer := *lists.Path()[0]
	relative := wrapped(t, 0, wrapped(t, 1, asn1.RawValue{Tag: 12, Bytes: []byte("x")}))
	for _, c := range []struct {
		name   string
		scope  asn1.RawValue
		points []string
		ok     bool
	}{
		{"its address", named(t, crl), []string{crl}, true},
		{"another address of the certificate", named(t, crl), []string{"http://issuer.example/ca.crl", crl},
			true},
		{"an address that the certificate does not name", named(t, crl+"0"), []string{crl}, false},
		{"a certificate without addresses", named(t, crl), nil, false},
		{"a name relative to the issuer", relative, []string{crl}, false},
	} {
		signer.CRLDistributionPoints = c.points
		if _, ok := read(point{Name: c.scope}).Revoked(&signer); ok != c.ok {
			t.Errorf("contract 54: a list of %s: %v", c.name, ok)
		}
	}
	list := read(point{Authority: true})
	if _, ok := list.Revoked(lists.Path()[0]); ok {
		t.Error("contract 54: a list of authorities counts for a document signer")
	}
	if _, ok := list.Revoked(w.issuer.Root); !ok {
		t.Error("contract 54: a list of authorities does not count for one")
	}
}

func TestReadCRL_Form(t *testing.T) {
	w := newFixture(t)
	lists := w.lists()
	der := w.issuer.CRL(revoked())
	flipped := append([]byte(nil), der...)
	flipped[len(flipped)-1] ^= 1
	for _, c := range []struct {
		name string
		der  []byte
		want string
	}{
		{"nothing", nil, "the certificate revocation list cannot be read"},
		{"data behind it", append(append([]byte(nil), der...), 0),
			"the certificate revocation list cannot be read"},
		{"PEM", pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: der}),
			"the certificate revocation list cannot be read"},
		{"another signature", flipped, "the issuer of the certificate has not signed the revocation list"},
		{"too large", make([]byte, revocation.MaxSize), "the list is too large"},
	} {
		_, err := revocation.ReadCRL(t.Context(), c.der, lists, 0, now)
		if why := w.why(err); why != c.want {
			t.Errorf("contract 54: %s: %q, want %q", c.name, why, c.want)
		}
	}
}

// TestReadCRL_Path: each certificate below the anchor has its own issuer and list.
func TestReadCRL_Path(t *testing.T) {
	w := newFixture(t)
	w.issuer = wallettest.NewIssuer(wallettest.IssuerConfig{Now: now, Between: 1})
	w.trust = w.issuer.PEM()
	lists := w.lists()
	if len(lists.Path()) != 2 {
		t.Fatalf("the path has %d certificates", len(lists.Path()))
	}
	der := w.issuer.CRL(revoked()) // of the authority between
	if _, err := revocation.ReadCRL(t.Context(), der, lists, 0, now); err != nil {
		t.Errorf("contract 54: the signer's list: %v", err)
	}
	if _, err := revocation.ReadCRL(t.Context(), der, lists, 1, now); err == nil {
		t.Error("contract 54: the list counts for its own issuer")
	}
}

// TestReadCRL_NoRight: an issuer whose certificate is not for signing lists has signed one.
func TestReadCRL_NoRight(t *testing.T) {
	w := newFixture(t)
	w.issuer = wallettest.NewIssuer(
		wallettest.IssuerConfig{Now: now, Change: func(n int, c *x509.Certificate) {
			if n == 1 {
				c.KeyUsage = x509.KeyUsageCertSign
			}
		}},
	)
	w.trust = w.issuer.PEM()
	template := *revoked()
	der := w.issuer.CRL(&template)
	_, err := revocation.ReadCRL(t.Context(), der, w.lists(), 0, now)
	if why := w.why(err); why != "the issuer of the certificate has not signed the revocation list" {
		t.Errorf("contract 54: %q", why)
	}
}

func FuzzReadCRL(f *testing.F) {
	w := newFixture(f)
	lists := w.lists()
	f.Add(w.issuer.CRL(revoked()))
	f.Add([]byte{0x30, 0})
	f.Fuzz(func(t *testing.T, der []byte) {
		list, err := revocation.ReadCRL(t.Context(), der, lists, 0, now)
		if (list == nil) == (err == nil) {
			t.Fatalf("%v, %v", list, err)
		}
	})
}
