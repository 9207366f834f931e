package trustlist

import (
	"crypto/elliptic"
	"crypto/x509"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

func certificates(of ...identity) (all []*x509.Certificate) {
	for _, i := range of {
		all = append(all, i.Certificate)
	}
	return all
}

// readXMLOf reads a list that must be accepted.
func readXMLOf(t *testing.T, l xmlList, expected Expected) List {
	t.Helper()
	list, err := Read(TS119612, l.build(t), expected, at)
	if err != nil {
		t.Fatalf("rejected: %v", err)
	}
	return list
}

func TestTS119612(t *testing.T) {
	l := newXMLList(t)
	list := readXMLOf(t, l, l.expected())
	if list.Sequence != 7 || list.Issuer != "Operator & Co" ||
		!list.Issued.Equal(at.AddDate(0, -1, 0)) || !list.NextUpdate.Equal(at.AddDate(0, 5, 0)) {
		t.Errorf("list: %+v", list)
	}
	if !list.Signer.Equal(l.signer.Certificate) {
		t.Errorf("signer: %s", list.Signer.Subject)
	}
	if len(list.Entries) != 1 || !list.Entries[0].Equal(l.services[0].certificates[0].Certificate) {
		t.Errorf("entries: %+v", list.Entries)
	}
}

func TestTS119612_Algorithms(t *testing.T) {
	for _, c := range []struct {
		method, digest string
		curve          elliptic.Curve // nil: RSA
		filter         bool
	}{
		{"rsa-sha256", "sha256", nil, true},
		{"rsa-sha384", "sha384", nil, false},
		{"rsa-sha512", "sha512", nil, false},
		{"ecdsa-sha256", "sha256", elliptic.P256(), true},
		{"ecdsa-sha256", "sha256", elliptic.P384(), false},
		{"ecdsa-sha384", "sha384", elliptic.P384(), false},
		{"ecdsa-sha512", "sha512", elliptic.P521(), false},
	} {
		t.Run(c.method, func(t *testing.T) {
			l := newXMLList(t)
			key := rsaKey(t, 2048)
			if c.curve != nil {
				key = ecKey(t, c.curve)
			}
			l.signer = issue(t, "List signer", nil, key)
			l.method, l.digest, l.filter = c.method, c.digest, c.filter
			list := readXMLOf(t, l, l.expected())
			if len(list.Entries) != 1 {
				t.Errorf("entries: %+v", list.Entries)
			}
			checkXMLSec(t, l.build(t), l.signer.Certificate, true)
		})
	}
}

func TestTS119612_Entries(t *testing.T) {
	one, two := issue(t, "One", nil, nil), issue(t, "Two", nil, nil, authority)
	old := issue(t, "Old", nil, nil, expired)
	granted := func(i ...identity) xmlService {
		return xmlService{kind: typePAA, status: statusGranted, certificates: i}
	}
	with := func(s xmlService, change func(*xmlService)) xmlService { change(&s); return s }
	for _, c := range []struct {
		name     string
		services []xmlService
		entries  int
		skipped  map[Skip]int
	}{
		{"granted", []xmlService{granted(one, two)}, 2, map[Skip]int{}},
		{"status of age verification", []xmlService{with(granted(one), func(s *xmlService) {
			s.status = "http://trust.tech.ec.europa.eu/lists/age-verification/service-status/recognized"
		})}, 1, map[Skip]int{}},
		{"status with white space", []xmlService{with(granted(one), func(s *xmlService) {
			s.status = "\n  " + statusGranted + "\n"
		})}, 1, map[Skip]int{}},
		{"withdrawn", []xmlService{with(granted(one), func(s *xmlService) { s.status = statusWithdrawn })}, 0,
			map[Skip]int{SkipStatus: 1}},
		{"unknown status", []xmlService{with(granted(one), func(s *xmlService) { s.status = "urn:new" })}, 0,
			map[Skip]int{SkipStatus: 1}},
		{"granted in the future", []xmlService{with(granted(one), func(s *xmlService) {
			s.since = at.Add(time.Second).Format(time.RFC3339)
		})}, 0, map[Skip]int{SkipStatus: 1}},
		{"other type", []xmlService{with(granted(one), func(s *xmlService) { s.kind = typeOther }),
			granted(two)},
			1, map[Skip]int{SkipType: 1}},
		{"expired", []xmlService{granted(one, old)}, 1, map[Skip]int{SkipExpired: 1}},
		{"twice", []xmlService{granted(one), granted(one)}, 1, map[Skip]int{SkipDuplicate: 1}},
		{"withdrawn elsewhere", []xmlService{granted(one, two),
			with(granted(one), func(s *xmlService) { s.status = statusWithdrawn })}, 1,
			map[Skip]int{SkipStatus: 1, SkipConflict: 1}},
		{"no certificate", []xmlService{granted(identity{Certificate: &x509.Certificate{Raw: []byte("x")}})},
			0,
			map[Skip]int{SkipCertificate: 1}},
		{"granted in the past only", []xmlService{with(granted(one), func(s *xmlService) {
			s.status = statusWithdrawn
			s.history = "<ServiceHistory><ServiceHistoryInstance><ServiceStatus>" + statusGranted +
				"</ServiceStatus></ServiceHistoryInstance></ServiceHistory>"
		})}, 0, map[Skip]int{SkipStatus: 1}},
		{"no service", nil, 0, map[Skip]int{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newXMLList(t)
			l.services = c.services
			list := readXMLOf(t, l, l.expected())
			if len(list.Entries) != c.entries || !maps.Equal(list.Skipped, c.skipped) {
				t.Errorf("%d entries, skipped %v, want %d, %v", len(list.Entries), list.Skipped, c.entries,
					c.skipped)
			}
		})
	}
}

func TestTS119612_ServiceTypes(t *testing.T) {
	l := newXMLList(t)
	l.services[0].kind = typeOther
	expected := l.expected()
	expected.ServiceTypes = []string{typeOther}
	if list := readXMLOf(t, l, expected); len(list.Entries) != 1 {
		t.Errorf("a configured service type: %+v", list)
	}
	expected = Expected{Signers: expected.Signers, DocType: "org.example.unknown.1"}
	if _, err := Read(TS119612, l.build(t), expected, at); reasonOf(t, err) != NothingExpected {
		t.Errorf("a document type without a service type: %v", err)
	}
}

// A list is stale after its next update. Its reader decides whether it counts.
func TestTS119612_Stale(t *testing.T) {
	l := newXMLList(t)
	l.next = at.Add(-time.Hour).Format(time.RFC3339)
	if list := readXMLOf(t, l, l.expected()); !list.NextUpdate.Before(at) || len(list.Entries) != 1 {
		t.Errorf("list: %+v", list)
	}
}

func TestTS119612_Signers(t *testing.T) {
	root := issue(t, "Root", nil, nil, authority)
	middle := issue(t, "Middle", &root, nil, authority)
	signer := issue(t, "Signer", &middle, nil, signsLists(usageETSI))
	other := issue(t, "Root", nil, nil, authority)
	notAuthority := issue(t, "Root", nil, root.key)
	for _, c := range []struct {
		name    string
		signer  identity
		keyInfo []identity
		signers []identity
		want    Reason
	}{
		{"the certificate itself", signer, nil, []identity{signer}, ""},
		{"the certificate itself without a key usage", issue(t, "Any", nil, nil), nil, nil, ""},
		{"its issuer", signer, nil, []identity{middle}, ""},
		{"the root by the chain", signer, []identity{signer, middle}, []identity{other, root}, ""},
		{"the chain in another order", signer, []identity{middle, signer}, []identity{root}, ""},
		{"the root without the chain", signer, nil, []identity{root}, SignerUnknown},
		{"another root of the same name", signer, []identity{signer, middle}, []identity{other},
			SignerUnknown},
		{"a root that is no authority", signer, []identity{signer, middle}, []identity{notAuthority},
			SignerUnknown},
		{"the chain brings its own root", signer, []identity{signer, middle, root}, []identity{other},
			SignerUnknown},
		{"a signer without the key usage", issue(t, "Plain", &middle, nil), nil, []identity{middle},
			SignerInvalid},
		{"a signer with the key usage of a VICAL", issue(t, "VICAL", &middle, nil, signsLists(usageVICAL)),
			nil,
			[]identity{middle}, SignerInvalid},
		{"a signer for key agreement", issue(t, "Agrees", &middle, nil, signsLists(usageETSI),
			func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageKeyAgreement }), nil, []identity{middle},
			SignerInvalid},
		{"a signer that has expired", issue(t, "Old", nil, nil, expired), nil, nil, SignerExpired},
		{"a signer that is not valid yet", issue(t, "New", nil, nil,
			dates(at.Add(time.Second), at.AddDate(1, 0, 0))), nil, nil, SignerExpired},
		{"a small RSA key", issue(t, "Small", nil, rsaKey(t, 1024)), nil, nil, Unsupported},
		{"six certificates", signer, []identity{signer, middle, root, other, notAuthority, middle},
			[]identity{signer}, TooLarge},
		{"the chain without the signer", signer, []identity{middle}, []identity{signer}, WrongSignature},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newXMLList(t)
			l.signer, l.keyInfo = c.signer, c.keyInfo
			if _, isRSA := c.signer.key.Public().(interface{ Size() int }); isRSA {
				l.method = "rsa-sha256"
			}
			expected := l.expected()
			if c.signers != nil {
				expected.Signers = certificates(c.signers...)
			}
			_, err := Read(TS119612, l.build(t), expected, at)
			if got := reasonOf(t, err); got != c.want {
				t.Errorf("rejected as %q (%v), want %q", got, err, c.want)
			}
		})
	}
}

// A restricted intermediate authority cannot issue signers of lists.
func TestTS119612_RestrictedAuthority(t *testing.T) {
	root := issue(t, "Root", nil, nil, authority)
	web := issue(t, "Web", &root, nil, authority, func(c *x509.Certificate) {
		c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	})
	old := issue(t, "Old", &root, nil, authority, expired)
	for _, c := range []struct {
		middle identity
		want   Reason
	}{{web, SignerInvalid}, {old, SignerExpired}} {
		l := newXMLList(t)
		l.signer = issue(t, "Signer", &c.middle, nil, signsLists(usageETSI))
		l.keyInfo = []identity{l.signer, c.middle}
		expected := Expected{DocType: docTypeAge, Signers: certificates(root)}
		if _, err := Read(TS119612, l.build(t), expected, at); reasonOf(t, err) != c.want {
			t.Errorf("%s: %v, want %s", c.middle.Subject, err, c.want)
		}
	}
}

func TestTS119612_WithoutKeyInfo(t *testing.T) {
	l := newXMLList(t)
	l.noKeyInfo = true
	if list := readXMLOf(t, l, l.expected()); !list.Signer.Equal(l.signer.Certificate) {
		t.Errorf("signer: %s", list.Signer.Subject)
	}
	expected := Expected{DocType: docTypeAge, Signers: certificates(issue(t, "Other", nil, nil))}
	if _, err := Read(TS119612, l.build(t), expected, at); reasonOf(t, err) != SignerUnknown {
		t.Errorf("another signer: %v", err)
	}
}

// The same document in another notation has the same signature and the same content.
func TestTS119612_EquivalentDocuments(t *testing.T) {
	l := newXMLList(t)
	want := readXMLOf(t, l, l.expected())
	for _, c := range []struct {
		name   string
		change func(string) string
	}{
		{"comment in a text", replace("Svcstatus/granted", "Svcstatus/gra<!-- withdrawn -->nted")},
		{"comment in a certificate", replace("<X509Certificate>MII", "<X509Certificate>M<!---->II")},
		{"comment outside", replace(rootStart, "<!-- a -->"+rootStart)},
		{"CDATA", replace("Svcstatus/granted", "<![CDATA[Svcstatus]]>/granted")},
		{"character reference", replace("Svcstatus/granted", "Svcstatus/&#x67;ranted")},
		{"white space in tags", replace("<ServiceStatus>", "<ServiceStatus\n\t>")},
		{"empty element", replace(`#sha256"></ds:DigestMethod>`, `#sha256"/>`)},
		{"order of attributes",
			replace(`xmlns="http://uri.etsi.org/02231/v2#" TSLTag="http://uri.etsi.org/19612/TSLTag"`,
				`TSLTag='http://uri.etsi.org/19612/TSLTag' xmlns='http://uri.etsi.org/02231/v2#'`)},
		{"unused namespace", replace(`TSLTag=`, `xmlns:unused="urn:example:unused" TSLTag=`)},
		{"namespace from around", replace(`<ds:SignedInfo xmlns:ds="http://www.w3.org/2000/09/xmldsig#">`,
			`<ds:SignedInfo>`)},
		{"no XML declaration", replace(`<?xml version="1.0" encoding="UTF-8"?>`, "")},
		{"byte order mark", func(s string) string { return "\ufeff" + s }},
		{"CR LF", func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") }},
		{"unsigned properties", replace("</xades:QualifyingProperties>",
			"<xades:UnsignedProperties><TrustServiceProviderList></TrustServiceProviderList>"+
				"</xades:UnsignedProperties></xades:QualifyingProperties>")},
	} {
		t.Run(c.name, func(t *testing.T) {
			document := []byte(c.change(string(l.build(t))))
			list, err := Read(TS119612, document, l.expected(), at)
			if err != nil {
				t.Fatalf("rejected: %v", err)
			}
			if !sameList(list, want) {
				t.Errorf("list: %+v, want %+v", list, want)
			}
			checkXMLSec(t, document, l.signer.Certificate, true)
		})
	}
}

// sameList reports whether two lists have the same content.
func sameList(a, b List) bool {
	return a.Sequence == b.Sequence && a.Issued.Equal(b.Issued) && a.NextUpdate.Equal(b.NextUpdate) &&
		a.Issuer == b.Issuer && a.Signer.Equal(b.Signer) && maps.Equal(a.Skipped, b.Skipped) &&
		slices.EqualFunc(a.Entries, b.Entries, (*x509.Certificate).Equal)
}
