package trustlist

import (
	"crypto"
	"fmt"
	"strings"
	"testing"
	"time"
)

// Service types and statuses of the lists of these tests.
const (
	typePAA   = "http://trust.tech.ec.europa.eu/lists/age-verification/service-type/paa"
	typeOther = "http://uri.etsi.org/TrstSvc/Svctype/CA/QC"

	statusGranted   = "http://uri.etsi.org/TrstSvc/TrustedList/Svcstatus/granted"
	statusWithdrawn = "http://uri.etsi.org/TrstSvc/TrustedList/Svcstatus/withdrawn"

	docTypeAge = "eu.europa.ec.av.1"
)

// xmlService is a service of an xmlList.
type xmlService struct {
	kind, status, since string
	certificates        []identity
	history             string
}

// xmlList is a TS 119 612 list. Its texts are written in their canonical form, so the generator needs no
// canonicalizer; xmlsec1 checks this.
type xmlList struct {
	signer    identity
	keyInfo   []identity // nil: the signer
	noKeyInfo bool
	method    string // of the signature
	digest    string
	filter    bool // xmldsig-filter2 instead of enveloped-signature
	sequence  string
	issued    string
	next      string
	services  []xmlService

	// These change a part before it is digested or signed.
	content, properties, info func(string) string
	// These change a part after that.
	signature, document func(string) string
}

// newXMLList returns a list with one service, and its signer.
func newXMLList(t testing.TB) xmlList {
	return xmlList{
		signer: issue(t, "List signer", nil, nil),
		method: "ecdsa-sha256", digest: "sha256", sequence: "7",
		issued: at.AddDate(0, -1, 0).Format(time.RFC3339), next: at.AddDate(0, 5, 0).Format(time.RFC3339),
		services: []xmlService{{kind: typePAA, status: statusGranted,
			certificates: []identity{issue(t, "Issuer", nil, nil, authority)}}},
	}
}

// expected returns the expectation of a reader who has configured the signer.
func (l xmlList) expected() Expected {
	return Expected{DocType: docTypeAge, Signers: certificates(l.signer)}
}

func changed(change func(string) string, text string) string {
	if change == nil {
		return text
	}
	return change(text)
}

const rootStart = `<TrustServiceStatusList xmlns="http://uri.etsi.org/02231/v2#" ` +
	`TSLTag="http://uri.etsi.org/19612/TSLTag">`
const rootEnd = `</TrustServiceStatusList>`

// build returns the document.
func (l xmlList) build(t testing.TB) []byte {
	t.Helper()
	content := changed(l.content, l.schemeAndProviders())
	properties := changed(l.properties, l.signedProperties())
	info := changed(l.info, l.signedInfo(rootStart+content+rootEnd, properties))
	value := l.signer.sign(t, hashOf(l.method), false, []byte(info))
	keyInfo := ""
	if !l.noKeyInfo {
		chain := l.keyInfo
		if chain == nil {
			chain = []identity{l.signer}
		}
		keyInfo = `<ds:KeyInfo><ds:X509Data>`
		for _, c := range chain {
			keyInfo += `<ds:X509Certificate>` + base64Of(c.Raw) + `</ds:X509Certificate>`
		}
		keyInfo += `</ds:X509Data></ds:KeyInfo>`
	}
	signature := `<ds:Signature xmlns:ds="http://www.w3.org/2000/09/xmldsig#" Id="sig">` + info +
		`<ds:SignatureValue Id="value">` + base64Of(value) + `</ds:SignatureValue>` + keyInfo +
		`<ds:Object>` +
		`<xades:QualifyingProperties xmlns:xades="http://uri.etsi.org/01903/v1.3.2#" Target="#sig">` +
		properties + `</xades:QualifyingProperties></ds:Object></ds:Signature>`
	return []byte(changed(l.document, `<?xml version="1.0" encoding="UTF-8"?>`+"\n"+
		rootStart+content+changed(l.signature, signature)+rootEnd+"\n"))
}

func (l xmlList) schemeAndProviders() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n<SchemeInformation>\n"+
		"<TSLVersionIdentifier>6</TSLVersionIdentifier><TSLSequenceNumber>%s</TSLSequenceNumber>"+
		"<SchemeOperatorName><Name xml:lang=\"de\">Betreiber</Name>"+
		"<Name xml:lang=\"en\">Operator &amp; Co</Name>"+
		"</SchemeOperatorName><ListIssueDateTime>%s</ListIssueDateTime><NextUpdate><dateTime>%s</dateTime>"+
		"</NextUpdate></SchemeInformation>\n<TrustServiceProviderList><TrustServiceProvider><TSPInformation>"+
		"<TSPName><Name xml:lang=\"en\">Provider</Name></TSPName></TSPInformation><TSPServices>",
		l.sequence, l.issued, l.next)
	for _, s := range l.services {
		if s.since == "" {
			s.since = "2025-01-01T00:00:00Z"
		}
		fmt.Fprintf(&b, "<TSPService><ServiceInformation><ServiceTypeIdentifier>%s</ServiceTypeIdentifier>"+
			"<ServiceName><Name xml:lang=\"en\">Service</Name></ServiceName><ServiceDigitalIdentity>", s.kind)
		for _, c := range s.certificates {
			b.WriteString("<DigitalId><X509Certificate>" + base64Of(c.Raw) + "</X509Certificate></DigitalId>")
		}
		fmt.Fprintf(&b, "</ServiceDigitalIdentity><ServiceStatus>%s</ServiceStatus>"+
			"<StatusStartingTime>%s</StatusStartingTime></ServiceInformation>%s</TSPService>",
			s.status, s.since, s.history)
	}
	b.WriteString("</TSPServices></TrustServiceProvider></TrustServiceProviderList>\n")
	return b.String()
}

func (l xmlList) signedProperties() string {
	const ds = ` xmlns:ds="http://www.w3.org/2000/09/xmldsig#"`
	return `<xades:SignedProperties xmlns:xades="http://uri.etsi.org/01903/v1.3.2#" Id="props">` +
		`<xades:SignedSignatureProperties><xades:SigningTime>2026-10-01T00:00:00Z</xades:SigningTime>` +
		`<xades:SigningCertificateV2><xades:Cert><xades:CertDigest>` +
		`<ds:DigestMethod` + ds + ` Algorithm="` + digestURI(l.digest) + `"></ds:DigestMethod>` +
		`<ds:DigestValue` + ds + `>` + l.hashed(string(l.signer.Raw)) + `</ds:DigestValue>` +
		`</xades:CertDigest></xades:Cert></xades:SigningCertificateV2></xades:SignedSignatureProperties>` +
		`</xades:SignedProperties>`
}

func (l xmlList) signedInfo(document, properties string) string {
	transform := `<ds:Transform Algorithm="http://www.w3.org/2000/09/xmldsig#enveloped-signature">` +
		`</ds:Transform>`
	if l.filter {
		transform = `<ds:Transform Algorithm="http://www.w3.org/2002/06/xmldsig-filter2">` +
			`<f:XPath xmlns:f="http://www.w3.org/2002/06/xmldsig-filter2" Filter="subtract">` +
			`/descendant::ds:Signature</f:XPath></ds:Transform>`
	}
	const exclusive = `<ds:Transform Algorithm="http://www.w3.org/2001/10/xml-exc-c14n#"></ds:Transform>`
	return `<ds:SignedInfo xmlns:ds="http://www.w3.org/2000/09/xmldsig#">` +
		`<ds:CanonicalizationMethod Algorithm="http://www.w3.org/2001/10/xml-exc-c14n#">` +
		`</ds:CanonicalizationMethod><ds:SignatureMethod Algorithm="http://www.w3.org/2001/04/xmldsig-more#` +
		l.method + `"></ds:SignatureMethod>` +
		`<ds:Reference Id="doc" URI=""><ds:Transforms>` + transform + exclusive + `</ds:Transforms>` +
		l.digestOf(document) + `</ds:Reference>` +
		`<ds:Reference Type="http://uri.etsi.org/01903#SignedProperties" URI="#props"><ds:Transforms>` +
		exclusive + `</ds:Transforms>` + l.digestOf(properties) + `</ds:Reference></ds:SignedInfo>`
}

func (l xmlList) digestOf(text string) string {
	return `<ds:DigestMethod Algorithm="` + digestURI(l.digest) + `"></ds:DigestMethod><ds:DigestValue>` +
		l.hashed(text) + `</ds:DigestValue>`
}

func (l xmlList) hashed(text string) string {
	h := hashOf(l.digest).New()
	h.Write([]byte(text))
	return base64Of(h.Sum(nil))
}

func hashOf(name string) crypto.Hash {
	switch {
	case strings.HasSuffix(name, "sha384"):
		return crypto.SHA384
	case strings.HasSuffix(name, "sha512"):
		return crypto.SHA512
	}
	return crypto.SHA256
}

func digestURI(name string) string {
	if name == "sha384" {
		return "http://www.w3.org/2001/04/xmldsig-more#sha384"
	}
	return "http://www.w3.org/2001/04/xmlenc#" + name
}

// replace returns a change that replaces the first occurrence of a text, which must be there.
func replace(old, with string) func(string) string {
	return func(text string) string {
		if !strings.Contains(text, old) {
			panic("the text to replace is missing: " + old)
		}
		return strings.Replace(text, old, with, 1)
	}
}
