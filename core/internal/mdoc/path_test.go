package mdoc_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/internal/mdoc"
	"github.com/verge-id/verge/testharness/wallettest"
)

// on changes one certificate of an issuer: 0 is the signer.
func on(n int, change func(*x509.Certificate)) func(*wallettest.IssuerConfig) {
	return func(c *wallettest.IssuerConfig) {
		c.Change = func(at int, template *x509.Certificate) {
			if at == n {
				change(template)
			}
		}
	}
}

// between puts authorities between the signer and the root, and then does what else is said.
func between(authorities int, changes ...func(*wallettest.IssuerConfig)) func(*wallettest.IssuerConfig) {
	return func(c *wallettest.IssuerConfig) {
		c.Between = authorities
		for _, change := range changes {
			change(c)
		}
	}
}

func eku(id string) func(*wallettest.IssuerConfig) {
	return func(c *wallettest.IssuerConfig) { c.EKU = id }
}

func extension(critical bool, oid ...int) func(*x509.Certificate) {
	return func(c *x509.Certificate) {
		e := pkix.Extension{Id: oid, Critical: critical, Value: []byte{5, 0}}
		c.ExtraExtensions = append(c.ExtraExtensions, e)
	}
}

func constrained(critical bool) func(*x509.Certificate) {
	return func(c *x509.Certificate) {
		c.PermittedDNSDomainsCritical, c.PermittedDNSDomains = critical, []string{"example.com"}
	}
}

func usage(u x509.KeyUsage) func(*x509.Certificate) {
	return func(c *x509.Certificate) { c.KeyUsage = u }
}

func dates(from, until time.Time) func(*x509.Certificate) {
	return func(c *x509.Certificate) { c.NotBefore, c.NotAfter = from, until }
}

func noAuthority(c *x509.Certificate) { c.IsCA, c.MaxPathLen, c.MaxPathLenZero = false, 0, false }

func pathLen(n int) func(*x509.Certificate) {
	return func(c *x509.Certificate) { c.MaxPathLen, c.MaxPathLenZero = n, n == 0 }
}

func purpose(u ...x509.ExtKeyUsage) func(*x509.Certificate) {
	return func(c *x509.Certificate) { c.ExtKeyUsage = u }
}

func authorityKeyID(der ...byte) func(*x509.Certificate) {
	return func(c *x509.Certificate) {
		id := asn1.ObjectIdentifier{2, 5, 29, 35}
		c.ExtraExtensions = append(c.ExtraExtensions, pkix.Extension{Id: id, Value: der})
	}
}

func TestCertificates(t *testing.T) {
	day := func(n int) time.Time { return testNow.AddDate(0, 0, n) }
	second := func(n int) time.Time { return testNow.Add(time.Duration(n) * time.Second) }
	for _, c := range []struct {
		name   string
		change func(*wallettest.IssuerConfig)
		want   string
	}{
		{"as it must be", nil, ""},
		{"an authority between", between(1), ""},
		{"two authorities between", between(2), ""},
		{"three authorities between", between(3), "chain"},
		{"keys on P-384", func(c *wallettest.IssuerConfig) { c.Curve = elliptic.P384() }, ""},
		{"keys on P-521", func(c *wallettest.IssuerConfig) { c.Curve = elliptic.P521() }, ""},

		// Key usages of signers.
		{"a signer of driving licences", eku(wallettest.MDLSigner), "certificate_eku"},
		{"a signer for any use", eku("2.5.29.37.0"), "certificate_eku"},
		{"a certificate for TLS", eku("1.3.6.1.5.5.7.3.1"), "certificate_eku"},
		{"no extended key usage", eku("none"), "certificate_eku"},
		{"an authority as the signer", on(0, func(c *x509.Certificate) {
			c.IsCA, c.BasicConstraintsValid = true, true
		}), "certificate_usage"},
		{"a signer that says that it is no authority", on(0, func(c *x509.Certificate) {
			c.BasicConstraintsValid = true
		}), ""},
		{"a signer that may sign certificates, too",
			on(0, usage(x509.KeyUsageDigitalSignature|x509.KeyUsageCertSign)), "certificate_usage"},
		{"a signer that may only encrypt", on(0, usage(x509.KeyUsageKeyEncipherment)), "certificate_usage"},
		{"a signer without a key usage", on(0, usage(0)), "certificate_usage"},

		// Dates, with 30 seconds for clocks that differ.
		{"a signer of tomorrow", on(0, dates(day(1), day(9))), "certificate_validity"},
		{"a signer of yesterday", on(0, dates(day(-9), day(-1))), "certificate_validity"},
		{"a signer that has ended 30 seconds ago", on(0, dates(day(-9), second(-30))), ""},
		{"a signer that has ended 31 seconds ago", on(0, dates(day(-9), second(-31))),
			"certificate_validity"},
		{"an authority of yesterday", between(1, on(1, dates(day(-9), day(-1)))), "certificate_validity"},
		{"an authority of tomorrow", between(1, on(1, dates(day(1), day(9)))), "certificate_validity"},
		{"an anchor of yesterday", on(1, dates(day(-9), day(-1))), "certificate_validity"},
		{"an anchor of tomorrow", on(1, dates(day(1), day(9))), "certificate_validity"},

		// Extensions.
		{"an unknown critical extension of the signer", on(0, extension(true, 1, 2, 3)),
			"certificate_extension"},
		{"an unknown critical extension of an authority", between(1, on(1, extension(true, 1, 2, 3))),
			"certificate_extension"},
		{"an unknown critical extension of the anchor", on(1, extension(true, 1, 2, 3)),
			"certificate_extension"},
		{"an unknown extension", on(0, extension(false, 1, 2, 3)), ""},
		{"name constraints of the signer", on(0, constrained(true)), "certificate_extension"},
		{"name constraints of an authority", between(1, on(1, constrained(true))), "certificate_extension"},
		{"name constraints that are not critical", between(1, on(1, constrained(false))),
			"certificate_extension"},
		{"name constraints of the anchor", on(1, constrained(true)), "certificate_extension"},
		{"critical policies", on(0, func(c *x509.Certificate) {
			c.ExtraExtensions = append(c.ExtraExtensions,
				pkix.Extension{Id: asn1.ObjectIdentifier{2, 5, 29, 32},
					Critical: true, Value: []byte{0x30, 6, 0x30, 4, 6, 2, 0x2a, 3}})
		}), "certificate_extension"},

		// Authorities.
		{"an authority that is none", between(1, on(1, noAuthority)), "certificate_authority"},
		{"an authority without basic constraints", between(1, on(1, func(c *x509.Certificate) {
			noAuthority(c)
			c.BasicConstraintsValid = false
		})), "certificate_authority"},
		{"an authority that may not sign certificates",
			between(1, on(1, usage(x509.KeyUsageDigitalSignature))), "certificate_authority"},
		{"an authority that may sign lists alone", between(1, on(1, usage(x509.KeyUsageCRLSign))),
			"certificate_authority"},
		{"an anchor that is none", on(1, noAuthority), "certificate_authority"},
		{"an anchor that allows no authority below it", between(1, on(2, pathLen(0))), "certificate_path"},
		{"an anchor that allows one of two", between(2, on(3, pathLen(1))), "certificate_path"},
		{"an anchor without a limit", between(2, on(3, pathLen(-1))), ""},
		{"an authority that allows no other below it", between(2, on(2, pathLen(0))), "certificate_path"},
		{"an authority for TLS", between(1, on(1, purpose(x509.ExtKeyUsageServerAuth))), "certificate_eku"},
		{"an authority for any use", between(1, on(1, purpose(x509.ExtKeyUsageAny))), ""},
		{"an anchor for TLS", on(1, purpose(x509.ExtKeyUsageServerAuth)), "certificate_eku"},
		{"an anchor for signers of this kind", on(1, func(c *x509.Certificate) {
			c.UnknownExtKeyUsage = []asn1.ObjectIdentifier{{1, 3, 130, 2, 0, 0, 1, 2}}
		}), ""},

		{"contract 39: a signer of another country than its authority's", on(0, func(c *x509.Certificate) {
			c.Subject.Country = []string{"AA"}
		}), ""},

		// Keys' ids, where both sides name one.
		{"a key's id that differs", on(0, authorityKeyID(0x30, 3, 0x80, 1, 1)), "untrusted"},
		{"no key's id", on(0, authorityKeyID(0x30, 0)), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, ask := present(t, newIssuer(c.change))
			if got := try(t, p, ask); got != c.want {
				t.Errorf("refused as %q, want %q", got, c.want)
			}
		})
	}
}

func TestPath_SignersByProfile(t *testing.T) {
	p, ask := present(t, newIssuer(eku(wallettest.MDLSigner)))
	for _, c := range []struct {
		eku  []string
		want string
	}{
		{[]string{wallettest.MDLSigner}, ""},
		{[]string{wallettest.AgeSigner, wallettest.MDLSigner}, ""},
		{[]string{wallettest.AgeSigner}, "certificate_eku"},
		{[]string{"1.0.18013.5.1"}, "certificate_eku"},
		{nil, "certificate_eku"},
	} {
		ask.EKU = c.eku
		if got := try(t, p, ask); got != c.want {
			t.Errorf("%v: refused as %q, want %q", c.eku, got, c.want)
		}
	}
}

// pretender returns a certificate with the name and the key of a root, for a document signer.
func pretender(t *testing.T, i *wallettest.Issuer) *x509.Certificate {
	t.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(7), RawSubject: i.Root.RawSubject,
		NotBefore: i.Root.NotBefore, NotAfter: i.Root.NotAfter, KeyUsage: x509.KeyUsageDigitalSignature}
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	parent := &x509.Certificate{Subject: i.Root.Subject}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, i.Root.PublicKey, other)
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, der)
}

// ListedAnchor takes authorities and document signers.
func TestListedAnchor(t *testing.T) {
	issuer, odd := newIssuer(nil), newIssuer(on(0, usage(x509.KeyUsageKeyEncipherment)))
	unusable := newIssuer(on(1, extension(true, 1, 2, 3)))
	for _, c := range []struct {
		name string
		der  []byte
		want bool
	}{
		{"an authority", issuer.Root.Raw, true},
		{"a document signer", issuer.Chain[0], true},
		{"a certificate for encryption", odd.Chain[0], false},
		{"an authority with an unknown critical extension", unusable.Root.Raw, false},
		{"no certificate", []byte{0x30, 0}, false},
		{"nothing", nil, false},
	} {
		if a, ok := mdoc.ListedAnchor(c.der); ok != c.want || ok && !bytes.Equal(a.Certificate.Raw, c.der) {
			t.Errorf("contract 53: %s: %v", c.name, ok)
		}
	}
}

func TestChains(t *testing.T) {
	issuer, deep, forger := newIssuer(nil), newIssuer(between(1)), newIssuer(nil)
	deeper, deepest := newIssuer(between(2)), newIssuer(between(3))
	root := issuer.Root.Raw
	anchors := func(issuers ...*wallettest.Issuer) (all []mdoc.Anchor) {
		for _, i := range issuers {
			all = append(all, mdoc.Anchor{Certificate: i.Root})
		}
		return all
	}
	signerOf := func(i *wallettest.Issuer) []mdoc.Anchor {
		return []mdoc.Anchor{{Certificate: parse(t, i.Chain[0])}}
	}
	for _, c := range []struct {
		name    string
		issuer  *wallettest.Issuer
		chain   [][]byte
		anchors []mdoc.Anchor
		want    string
	}{
		{"the anchor along with it", issuer, [][]byte{issuer.Chain[0], root}, anchors(issuer), ""},
		{"something behind the anchor", issuer, [][]byte{issuer.Chain[0], root, {1}}, anchors(issuer), ""},
		{"the anchor's authority is an anchor, too", deep, append(slices.Clone(deep.Chain), deep.Root.Raw),
			[]mdoc.Anchor{{Certificate: parse(t, deep.Chain[1])}}, ""},
		{"two authorities and the anchor", deeper, append(slices.Clone(deeper.Chain), deeper.Root.Raw),
			anchors(deeper), ""},
		{"two authorities and another root", deeper, append(slices.Clone(deeper.Chain), forger.Root.Raw),
			anchors(deeper), ""},
		{"three authorities and the anchor", deepest, append(slices.Clone(deepest.Chain), deepest.Root.Raw),
			anchors(deepest), "chain"},
		{"the authority between is missing", deep, deep.Chain[:1], anchors(deep), "untrusted"},
		{"in another order", deep, [][]byte{deep.Chain[1], deep.Chain[0]}, anchors(deep),
			"certificate_usage"},
		{"an authority that has nothing to do with it", issuer, [][]byte{issuer.Chain[0], deep.Chain[1]},
			anchors(issuer), "chain"},
		{"a certificate that is no certificate", issuer, [][]byte{{0x30, 0}}, anchors(issuer), "certificate"},
		{"an authority that is no certificate", issuer, [][]byte{issuer.Chain[0], {1}}, anchors(issuer),
			"certificate"},
		{"a byte behind the certificate", issuer, [][]byte{append(slices.Clone(issuer.Chain[0]), 0)},
			anchors(issuer), "certificate"},
		{"an altered signature", issuer, [][]byte{altered(issuer.Chain[0])}, anchors(issuer), "untrusted"},
		{"an altered signature of the authority", deep, [][]byte{deep.Chain[0], altered(deep.Chain[1])},
			anchors(deep), "untrusted"},
		{"an altered signature below an authority", deep, [][]byte{altered(deep.Chain[0]), deep.Chain[1]},
			anchors(deep), "chain"},

		// The forger's root has the same name as the anchor.
		{"another root of the same name", forger, nil, anchors(issuer), "untrusted"},
		{"a self-made root along with it", forger, [][]byte{forger.Chain[0], forger.Root.Raw},
			anchors(issuer), "untrusted"},
		{"a self-made root before the anchor", forger, [][]byte{forger.Chain[0], forger.Root.Raw, root},
			anchors(issuer), "untrusted"},
		{"the anchor behind another's signer", forger, [][]byte{forger.Chain[0], root}, anchors(issuer),
			"untrusted"},
		{"the signer of another issuer", issuer, forger.Chain, anchors(forger),
			"issuer_signature"},

		// A trusted list may name the document signer itself.
		{"a listed signer", issuer, nil, signerOf(issuer), ""},
		{"a listed signer with something behind it", issuer, [][]byte{issuer.Chain[0], {1}},
			signerOf(issuer), ""},
		{"a listed signer, altered", issuer, [][]byte{altered(issuer.Chain[0])}, signerOf(issuer),
			"untrusted"},
		{"another listed signer of the same names", issuer, nil, signerOf(forger), "untrusted"},
		{"a listed authority as the signer", deep, [][]byte{deep.Chain[1]},
			[]mdoc.Anchor{{Certificate: parse(t, deep.Chain[1])}}, "certificate_usage"},
		{"a listed signer issues nothing", deep, deep.Chain,
			[]mdoc.Anchor{{Certificate: pretender(t, deep)}}, "certificate_authority"},

		{"no anchor", issuer, nil, nil, "untrusted"},
		{"two anchors of one name", issuer, nil, anchors(forger, issuer), ""},
		{"two anchors of one name, in reverse order", issuer, nil, anchors(issuer, forger), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			presented := *c.issuer
			p, ask := present(t, &presented)
			if c.chain != nil {
				presented.Chain = c.chain
			}
			ask.Anchors = c.anchors
			if got := try(t, p, ask); got != c.want {
				t.Errorf("refused as %q, want %q", got, c.want)
			}
		})
	}
}

// A root that is no anchor is ignored, because the path exists without it. A path may lead through an
// authority's certificate for its own next key (contract 39).
func TestChains_OtherRoot(t *testing.T) {
	issuer, deep, forger := newIssuer(nil), newIssuer(between(1)), newIssuer(nil)
	unlimited := newIssuer(on(1, pathLen(-1)))
	renewed := issuer.Renewed(nil)
	ended := issuer.Renewed(dates(testNow.AddDate(0, 0, -9), testNow.AddDate(0, 0, -1)))
	// linked returns a certificate of the forger's key by an authority: the next key of the authority.
	linked := func(i *wallettest.Issuer) []byte {
		return i.Renewed(func(c *x509.Certificate) {
			c.PublicKey, c.SubjectKeyId = forger.Root.PublicKey, forger.Root.SubjectKeyId
			c.AuthorityKeyId = i.Root.SubjectKeyId
		})
	}
	for _, c := range []struct {
		name   string
		issuer *wallettest.Issuer
		behind [][]byte // the chain
		anchor []byte
		want   string
	}{
		{"a renewed root", issuer, [][]byte{renewed}, issuer.Root.Raw, ""},
		{"an older root", issuer, [][]byte{issuer.Root.Raw}, renewed, ""},
		{"a root that has ended", issuer, [][]byte{ended}, issuer.Root.Raw, ""},
		{"a renewed root before the anchor", issuer, [][]byte{renewed, issuer.Root.Raw}, issuer.Root.Raw, ""},
		{"a root of the same name", issuer, [][]byte{forger.Root.Raw}, issuer.Root.Raw, ""},
		{"an authority and a root", deep, [][]byte{deep.Chain[1], forger.Root.Raw}, deep.Root.Raw, ""},
		{"two roots", issuer, [][]byte{renewed, ended}, issuer.Root.Raw, ""},
		{"a root of another key", forger, [][]byte{forger.Renewed(nil)}, issuer.Root.Raw, "untrusted"},
		{"a root that is an anchor and has ended", issuer, [][]byte{renewed}, ended, "certificate_validity"},

		{"the next key of an anchor", forger, [][]byte{linked(issuer)}, issuer.Root.Raw, ""},
		{"the next key of an anchor without a limit", forger, [][]byte{linked(unlimited)},
			unlimited.Root.Raw, ""},
		{"the next key of another authority", forger, [][]byte{linked(unlimited)}, issuer.Root.Raw,
			"untrusted"},
	} {
		t.Run(c.name, func(t *testing.T) {
			presented := *c.issuer
			p, ask := present(t, &presented)
			presented.Chain = append([][]byte{c.issuer.Chain[0]}, c.behind...)
			ask.Anchors = []mdoc.Anchor{{Certificate: parse(t, c.anchor)}}
			if got := try(t, p, ask); got != c.want {
				t.Errorf("rejected as %q, want %q", got, c.want)
			}
		})
	}
}

// An authority renews its certificate and keeps its key. Both are anchors, and the older one has ended.
func TestAnchor_Renewed(t *testing.T) {
	issuer := newIssuer(on(1, func(c *x509.Certificate) { c.SubjectKeyId = nil }))
	renewed := *issuer.Root
	renewed.NotAfter = testNow.AddDate(0, 0, -1)
	for _, ended := range []int{0, 1} {
		p, ask := present(t, issuer)
		ask.Anchors = []mdoc.Anchor{{Certificate: issuer.Root}, {Certificate: issuer.Root}}
		ask.Anchors[ended].Certificate = &renewed
		if got := try(t, p, ask); got != "" {
			t.Errorf("refused as %q", got)
		}
	}
}

// A key under another name is another authority.
func TestAnchor_OtherName(t *testing.T) {
	issuer, other := newIssuer(nil), newIssuer(between(1))
	renamed := *issuer.Root
	renamed.RawSubject = parse(t, other.Chain[1]).RawSubject
	p, ask := present(t, issuer)
	ask.Anchors = []mdoc.Anchor{{Certificate: &renamed}}
	if got := try(t, p, ask); got != "untrusted" {
		t.Errorf("refused as %q", got)
	}
}

func parse(t testing.TB, der []byte) *x509.Certificate {
	t.Helper()
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// altered changes the last bit, which is the signature's.
func altered(der []byte) []byte {
	der = slices.Clone(der)
	der[len(der)-1] ^= 1
	return der
}

func TestParseAnchors(t *testing.T) {
	issuer, other := newIssuer(nil), newIssuer(nil)
	der, both := issuer.Root.Raw, slices.Concat(issuer.PEM(), other.PEM())
	for _, c := range []struct {
		name  string
		file  []byte
		want  int
		error string // a part of it
	}{
		{"PEM", issuer.PEM(), 1, ""},
		{"two in PEM with text between",
			slices.Concat([]byte("# ours\n"), issuer.PEM(), []byte("\n# theirs\n"), other.PEM()), 2, ""},
		{"DER", der, 1, ""},
		{"two in DER", slices.Concat(der, other.Root.Raw), 2, ""},
		{"PEM with line ends of Windows", []byte(strings.ReplaceAll(string(both), "\n", "\r\n")), 2, ""},

		{"nothing", nil, 0, "no certificate"},
		{"text", []byte("anchors"), 0, "neither PEM nor"},
		{"a private key", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte{1}}), 0,
			"is a PRIVATE KEY"},
		{"a damaged block before a good one",
			slices.Concat([]byte("-----BEGIN CERTIFICATE-----\n!\n"), issuer.PEM()), 0, "damaged"},
		{"a block that is cut", both[:len(both)-60], 0, "damaged; 1 can be read"},
		{"DER that is cut", der[:len(der)-1], 0, "neither PEM nor"},
		{"PEM of something else", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte{1}}), 0,
			"certificate 1 cannot be read"},
		{"a document signer", slices.Concat(issuer.PEM(), inPEM(issuer.Chain[0])), 0,
			"certificate 2 (Test document signer) cannot be a trust anchor: it is not a certificate"},
		{"a key on a Brainpool curve", slices.Concat(issuer.PEM(), inPEM(brainpool(t))), 0,
			"certificate 2 has a key on an unsupported curve, such as Brainpool; remove it, or ask its"},
		{"a key of RSA", inPEM(selfSigned(t, nil)), 0, "its key must be ECDSA"},
		{"a key on P-224", inPEM(selfSigned(t, elliptic.P224())), 0, "its key must be ECDSA"},
		{"name constraints", newIssuer(on(1, constrained(false))).PEM(), 0, "name constraints"},
		{"a critical extension", newIssuer(on(1, extension(true, 1, 2, 3))).PEM(), 0, "critical extension"},
	} {
		t.Run(c.name, func(t *testing.T) {
			anchors, err := mdoc.ParseAnchors(c.file)
			if len(anchors) != c.want || (err == nil) != (c.error == "") {
				t.Fatalf("%d anchors, %v", len(anchors), err)
			}
			if err != nil && !strings.Contains(err.Error(), c.error) {
				t.Errorf("the error is %q, want one about %q", err, c.error)
			}
		})
	}
}

func inPEM(der []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}) }

// brainpool returns an authority whose key has the parameters of brainpoolP256r1.
func brainpool(t testing.TB) []byte {
	p256, curve := []byte("\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07"),
		[]byte("\x06\x08\x2b\x24\x03\x03\x02\x08\x01\x07")
	der := selfSigned(t, elliptic.P256())
	if !bytes.Contains(der, p256) {
		t.Fatal("the certificate has another curve")
	}
	return bytes.Replace(der, p256, curve, 1)
}

// selfSigned makes an authority with a key on a curve, or of RSA for nil.
func selfSigned(t testing.TB, curve elliptic.Curve) []byte {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "An authority"},
		NotBefore: testNow, NotAfter: testNow,
		BasicConstraintsValid: true, IsCA: true, KeyUsage: x509.KeyUsageCertSign,
	}
	var public, private any
	if curve == nil {
		key, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			t.Fatal(err)
		}
		public, private = &key.PublicKey, key
	} else {
		key, err := ecdsa.GenerateKey(curve, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		public, private = &key.PublicKey, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		t.Fatal(err)
	}
	return der
}
