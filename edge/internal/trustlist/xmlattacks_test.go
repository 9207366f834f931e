package trustlist

import (
	"strings"
	"testing"
)

// evilProvider is a provider that an attacker adds.
const evilProvider = `<TrustServiceProvider><TSPInformation><TSPName><Name xml:lang="en">Evil</Name>` +
	`</TSPName></TSPInformation><TSPServices><TSPService><ServiceInformation>` +
	`<ServiceTypeIdentifier>` + typePAA +
	`</ServiceTypeIdentifier><ServiceStatus>` + statusGranted + `</ServiceStatus><StatusStartingTime>` +
	`2025-01-01T00:00:00Z</StatusStartingTime><ServiceDigitalIdentity/></ServiceInformation></TSPService>` +
	`</TSPServices></TrustServiceProvider>`

const evilList = `<TrustServiceProviderList>` + evilProvider + `</TrustServiceProviderList>`

// between returns the part of a text from a start to an end.
func between(text, start, end string) string {
	i := strings.Index(text, start)
	j := strings.LastIndex(text, end)
	return text[i : j+len(end)]
}

func signatureIn(document string) string {
	return between(document, "<ds:Signature ", "</ds:Signature>")
}

// Attackers have a list that its operator has signed, and change it. They have no key.
// attacks are changes of a signed list that an attacker can make, who has no key.
var attacks = []struct {
	name   string
	change func(document string) string
	want   Reason
}{
	{"a provider is added", replace("</TrustServiceProviderList>",
		evilProvider+"</TrustServiceProviderList>"),
		WrongSignature},
	{"a list of providers is added", replace("<ds:Signature ", evilList+"<ds:Signature "),
		WrongSignature},
	{"the status is changed", replace("Svcstatus/granted", "Svcstatus/withdrawn"), WrongSignature},
	{"the number is changed", replace("<TSLSequenceNumber>7", "<TSLSequenceNumber>8"), WrongSignature},
	{"the next update is changed", replace("<dateTime>2027", "<dateTime>2029"), WrongSignature},
	{"the signature is removed", func(d string) string { return replace(signatureIn(d), "")(d) },
		Malformed},
	{"the signature is doubled", func(d string) string {
		return strings.Replace(d, signatureIn(d), strings.Repeat(signatureIn(d), 2), 1)
	}, Unsupported},
	{"an empty signature is added", replace("</SchemeInformation>",
		`<s:Signature xmlns:s="http://www.w3.org/2000/09/xmldsig#"/></SchemeInformation>`), Unsupported},
	{"the time of the signature is changed", replace("<xades:SigningTime>2026-10-01",
		"<xades:SigningTime>2026-10-02"), WrongSignature},

	// Signature wrapping.
	{"wrapping: the list in a list of the attacker", func(d string) string {
		signed := between(d, rootStart, rootEnd)
		return rootStart + evilList + strings.Replace(signed, signatureIn(d), "", 1) + signatureIn(d) +
			rootEnd
	}, WrongSignature},
	{"wrapping: the signed list inside of the signature", func(d string) string {
		signed := strings.Replace(between(d, rootStart, rootEnd), signatureIn(d), "", 1)
		signature := replace("</ds:Object>",
			"</ds:Object><ds:Object>"+signed+"</ds:Object>")(signatureIn(d))
		return rootStart + evilList + signature + rootEnd
	}, Unsupported},
	{"wrapping: the signed list with its signature in an object", func(d string) string {
		signed := between(d, rootStart, rootEnd)
		signature := replace("<ds:Object>", "<ds:Object>"+signed)(signatureIn(d))
		return rootStart + evilList + signature + rootEnd
	}, Unsupported},
	{"wrapping: a list of providers in the signature", replace("</ds:SignedInfo>",
		"</ds:SignedInfo>"+evilList),
		Unsupported},
	{"wrapping: a list of providers in an object", replace("</xades:QualifyingProperties>",
		"</xades:QualifyingProperties>"+evilList), Unsupported},
	{"wrapping: a list of providers before the properties", replace("<xades:SignedProperties ",
		evilList+"<xades:SignedProperties "), Unsupported},
	{"wrapping: a second object", replace("<ds:Object>",
		"<ds:Object>"+evilList+"</ds:Object><ds:Object>"),
		Unsupported},
	{"wrapping: properties with the same id", replace("</xades:QualifyingProperties>",
		`<xades:UnsignedProperties><xades:SignedProperties Id="props"/></xades:UnsignedProperties>`+
			"</xades:QualifyingProperties>"), Unsupported},
	{"wrapping: another element with the id of the properties", replace("<SchemeInformation>",
		`<SchemeInformation ID="props">`), Unsupported},
	{"wrapping: properties moved, others in their place", func(d string) string {
		properties := between(d, "<xades:SignedProperties ", "</xades:SignedProperties>")
		evil := replace(`Id="props"`, `Id="other"`)(properties)
		return strings.Replace(d, properties, evil+"<xades:UnsignedProperties>"+properties+
			"</xades:UnsignedProperties>", 1)
	}, Unsupported},
	{"wrapping: the properties of another signature", replace(`Target="#sig"`, `Target="#other"`),
		Unsupported},
	{"the signature is not the last element", func(d string) string {
		s := signatureIn(d)
		return replace("<SchemeInformation>", s+"<SchemeInformation>")(strings.Replace(d, s, "", 1))
	}, Unsupported},
	{"the signature is not below the root", func(d string) string {
		s := signatureIn(d)
		return replace("</SchemeInformation>", s+"</SchemeInformation>")(strings.Replace(d, s, "", 1))
	}, Unsupported},

	// The signed references.
	{"the reference has another target", replace(`URI=""`, `URI="#sig"`), Unsupported},
	{"the reference has no target", replace(` URI=""`, ``), Unsupported},
	{"an external reference", replace(`URI=""`, `URI="https://example.com/list.xml"`), Unsupported},
	{"an XPointer", replace(`URI=""`, `URI="#xpointer(/)"`), Unsupported},
	{"the digest is another one", replace("<ds:DigestValue>", "<ds:DigestValue>AAAA"), WrongSignature},
	{"the signature is another one", replace(`Id="value">`, `Id="value">AAAA`), WrongSignature},
	{"a manifest", replace("http://uri.etsi.org/01903#SignedProperties",
		"http://www.w3.org/2000/09/xmldsig#Manifest"), Unsupported},

	// Algorithms.
	{"HMAC", replace("http://www.w3.org/2001/04/xmldsig-more#ecdsa-sha256",
		"http://www.w3.org/2000/09/xmldsig#hmac-sha1"), Unsupported},
	{"HMAC with SHA-256", replace("xmldsig-more#ecdsa-sha256", "xmldsig-more#hmac-sha256"), Unsupported},
	{"RSA of an ECDSA key", replace("#ecdsa-sha256", "#rsa-sha256"), Unsupported},
	{"another hash", replace("#ecdsa-sha256", "#ecdsa-sha512"), WrongSignature},
	{"no algorithm", replace("http://www.w3.org/2001/04/xmldsig-more#ecdsa-sha256", ""), Unsupported},
	{"a signature with SHA-1", replace("http://www.w3.org/2001/04/xmldsig-more#ecdsa-sha256",
		"http://www.w3.org/2001/04/xmldsig-more#ecdsa-sha1"), Unsupported},
	{"a shortened HMAC", replace("</ds:SignatureMethod>",
		"<ds:HMACOutputLength>1</ds:HMACOutputLength></ds:SignatureMethod>"), Unsupported},

	// XML.
	{"a document type", replace(rootStart, "<!DOCTYPE TrustServiceStatusList>"+rootStart), Unsupported},
	{"an entity", func(d string) string {
		d = replace(rootStart, `<!DOCTYPE a [<!ENTITY e "granted">]>`+rootStart)(d)
		return replace("Svcstatus/granted", "Svcstatus/&e;")(d)
	}, Unsupported},
	{"an external entity", replace(rootStart,
		`<!DOCTYPE a [<!ENTITY % e SYSTEM "file:///etc/passwd"> %e;]>`+rootStart), Unsupported},
	{"an entity without a declaration", replace("Svcstatus/granted", "Svcstatus/&e;"), Malformed},
	{"a processing instruction", replace("<SchemeInformation>", "<?php evil ?><SchemeInformation>"),
		Unsupported},
	{"a style sheet", replace(rootStart, `<?xml-stylesheet href="a.xsl"?>`+rootStart), Unsupported},
	{"a second root", func(d string) string { return d + rootStart + rootEnd }, Malformed},
	{"text after the root", func(d string) string { return d + "text" }, Malformed},
	{"truncated", func(d string) string { return d[:len(d)/2] }, Malformed},
	{"empty", func(string) string { return "" }, Malformed},
	{"another root", func(d string) string {
		return strings.ReplaceAll(d, "TrustServiceStatusList", "Other")
	},
		Malformed},
	{"another encoding", replace("UTF-8", "ISO-8859-1"), Malformed},
	{"UTF-16", func(d string) string { return "\xff\xfe" + d }, Malformed},
	{"invalid UTF-8", replace("Betreiber", "Betr\xffeiber"), Malformed},
	{"a null byte in a comment", replace("<SchemeInformation>", "<!-- \x00 --><SchemeInformation>"),
		Malformed},
	{"the same attribute twice", replace(`TSLTag=`, `TSLTag="a" TSLTag=`), Malformed},
	{"the same attribute by two prefixes", replace("<SchemeInformation>", `<SchemeInformation `+
		`xmlns:a="urn:a" xmlns:b="urn:a" a:c="1" b:c="2">`), Malformed},
	{"a prefix without a namespace", replace("<SchemeInformation>", `<SchemeInformation a:b="c">`),
		Malformed},
	{"a name of three parts", replace("<SchemeInformation>", `<SchemeInformation a:b:c="d">`), Malformed},
	{"a prefix that is no name", replace(`TSLTag=`, `xmlns:-a="urn:a" TSLTag=`), Unsupported},
	{"a name that begins with a digit", replace("<SchemeInformation>",
		`<SchemeInformation xmlns:a="urn:a" a:1="b">`), Malformed},
	{"attributes without white space", replace(` TSLTag=`, `TSLTag=`), Malformed},
	{"another end", replace("</SchemeInformation>", "</schemeInformation>"), Malformed},

	// Namespaces.
	{"the namespace of the list is bound to another", replace(`xmlns="http://uri.etsi.org/02231/v2#"`,
		`xmlns="http://example.com/list#"`), Malformed},
	{"the namespace of an element is bound to another", replace("<TrustServiceProviderList>",
		`<TrustServiceProviderList xmlns="http://example.com/list#">`), WrongSignature},
	{"the prefix of the signature is bound to another",
		replace(`xmlns:ds="http://www.w3.org/2000/09/xmldsig#"`,
			`xmlns:ds="http://example.com/signature#"`), Malformed},
	{"the prefix xml is bound to another", replace(`TSLTag=`, `xmlns:xml="http://example.com/" TSLTag=`),
		Unsupported},
	{"the prefix xmlns is bound", replace(`TSLTag=`, `xmlns:xmlns="http://example.com/" TSLTag=`),
		Unsupported},
	{"a prefix is unbound", replace(`TSLTag=`, `xmlns:a="" TSLTag=`), Unsupported},
	{"a relative namespace", replace(`TSLTag=`, `xmlns:a="relative" TSLTag=`), Unsupported},
	{"a namespace in another form", replace(`TSLTag=`, `xmlns:a="http://example.com:a b/" TSLTag=`),
		Unsupported},
	{"an attribute in the signature", replace(` Id="sig"`, ` Id="sig" Other=""`), Unsupported},
	{"an attribute of XML", replace(` Id="value"`, ` Id="value" xml:lang="en"`), Unsupported},
}

func TestTS119612_Attacks(t *testing.T) {
	for _, c := range attacks {
		t.Run(c.name, func(t *testing.T) {
			l := newXMLList(t)
			document := []byte(c.change(string(l.build(t))))
			list, err := Read(TS119612, document, l.expected(), at)
			if got := reasonOf(t, err); got != c.want {
				t.Errorf("rejected as %q (%v), want %q", got, err, c.want)
			}
			if list.Entries != nil || list.Signer != nil {
				t.Errorf("a rejected list has content: %+v", list)
			}
		})
	}
}

// Transforms and references of a signature.
const (
	exclusive = `<ds:Transform Algorithm="http://www.w3.org/2001/10/xml-exc-c14n#"></ds:Transform>`
	enveloped = `<ds:Transform Algorithm="http://www.w3.org/2000/09/xmldsig#enveloped-signature">` +
		`</ds:Transform>`
	ofDocument, ofProperties = `<ds:Reference Id="doc"`, `<ds:Reference Type=`
)

func signInfo(change func(string) string) func(*xmlList) {
	return func(l *xmlList) { l.info = change }
}

func signContent(change func(string) string) func(*xmlList) {
	return func(l *xmlList) { l.content = change }
}

func signProperties(change func(string) string) func(*xmlList) {
	return func(l *xmlList) { l.properties = change }
}

func signFilter(old, with string) func(*xmlList) {
	return func(l *xmlList) { l.filter, l.info = true, replace(old, with) }
}

// reference returns the reference in SignedInfo that has a start.
func reference(info, start string) string {
	i := strings.Index(info, start)
	j := strings.Index(info[i:], "</ds:Reference>")
	return info[i : i+j+len("</ds:Reference>")]
}

// signedOtherwise are lists outside of the accepted profile, signed with the operator's key.
var signedOtherwise = []struct {
	name   string
	change func(*xmlList)
	want   Reason
}{
	{"nothing", signInfo(func(s string) string {
		return s[:strings.Index(s, "<ds:Reference ")] + "</ds:SignedInfo>"
	}), Unsupported},
	{"the properties alone", signInfo(func(s string) string {
		return replace(reference(s, ofDocument), "")(s)
	}), Unsupported},
	{"the document alone", signInfo(func(s string) string {
		return replace(reference(s, ofProperties), "")(s)
	}), Unsupported},
	{"the document twice", signInfo(func(s string) string {
		return replace(reference(s, ofProperties), reference(s, ofDocument))(s)
	}), Unsupported},
	{"the properties twice", signInfo(func(s string) string {
		return replace(reference(s, ofDocument), reference(s, ofProperties))(s)
	}), Unsupported},
	{"a third reference", signInfo(replace("</ds:SignedInfo>", `<ds:Reference URI="#value"><ds:Transforms>`+
		exclusive+`</ds:Transforms><ds:DigestMethod Algorithm="http://www.w3.org/2001/04/xmlenc#sha256">`+
		`</ds:DigestMethod><ds:DigestValue>AAAA</ds:DigestValue></ds:Reference></ds:SignedInfo>`)),
		Unsupported},
	{"other properties", signInfo(replace(`URI="#props"`, `URI="#sig"`)), Unsupported},
	{"a part by its id", signInfo(replace(`URI=""`, `URI="#part"`)), Unsupported},
	{"the order of the references", signInfo(func(s string) string {
		document, properties := reference(s, ofDocument), reference(s, ofProperties)
		return replace(document+properties, properties+document)(s)
	}), ""},
	{"inclusive canonicalization of the signature", signInfo(replace("2001/10/xml-exc-c14n#",
		"2006/12/xml-c14n11")), Unsupported},
	{"canonicalization with comments", signInfo(replace("xml-exc-c14n#", "xml-exc-c14n#WithComments")),
		Unsupported},
	{"inclusive canonicalization of the document", signInfo(replace(enveloped+exclusive,
		enveloped+strings.Replace(exclusive, "2001/10/xml-exc-c14n#", "2006/12/xml-c14n11", 1))),
		Unsupported},
	{"no transform", signInfo(replace(enveloped+exclusive, "")), Unsupported},
	{"the signature is not removed", signInfo(replace(enveloped+exclusive, exclusive)), Unsupported},
	{"no canonicalization", signInfo(replace(enveloped+exclusive, enveloped)), Unsupported},
	{"the transforms in another order", signInfo(replace(enveloped+exclusive, exclusive+enveloped)),
		Unsupported},
	{"XPath", signInfo(replace(enveloped,
		`<ds:Transform Algorithm="http://www.w3.org/TR/1999/REC-xpath-19991116">`+
			`<ds:XPath>not(ancestor-or-self::ds:Signature)</ds:XPath></ds:Transform>`)), Unsupported},
	{"XSLT", signInfo(replace(enveloped,
		`<ds:Transform Algorithm="http://www.w3.org/TR/1999/REC-xslt-19991116">`+
			`</ds:Transform>`)), Unsupported},
	{"base64", signInfo(replace(enveloped,
		`<ds:Transform Algorithm="http://www.w3.org/2000/09/xmldsig#base64">`+
			`</ds:Transform>`)), Unsupported},
	{"a prefix list", signInfo(replace(enveloped+exclusive, enveloped+
		`<ds:Transform Algorithm="http://www.w3.org/2001/10/xml-exc-c14n#"><e:InclusiveNamespaces `+
		`xmlns:e="http://www.w3.org/2001/10/xml-exc-c14n#" PrefixList="a"></e:InclusiveNamespaces>`+
		`</ds:Transform>`)), Unsupported},
	{"a filter that intersects", signFilter(`Filter="subtract"`, `Filter="intersect"`), Unsupported},
	{"a filter of everything", signFilter("/descendant::ds:Signature", "/descendant::node()"), Unsupported},
	{"a filter of another element", signFilter("/descendant::ds:Signature",
		"/descendant::ds:Signature | //*"),
		Unsupported},
	{"a filter of a prefix that is not declared", signFilter("/descendant::ds:Signature",
		"/descendant::x:Signature"),
		Unsupported},
	{"a filter of another namespace", signFilter("/descendant::ds:Signature", "/descendant::f:Signature"),
		Unsupported},
	{"two filters", signFilter("</f:XPath>",
		`</f:XPath><f:XPath xmlns:f="http://www.w3.org/2002/06/xmldsig-filter2" `+
			`Filter="subtract">/descendant::ds:Signature</f:XPath>`), Unsupported},
	{"a digest with SHA-1", signInfo(replace("http://www.w3.org/2001/04/xmlenc#sha256",
		"http://www.w3.org/2000/09/xmldsig#sha1")), Unsupported},
	{"a digest with MD5", signInfo(replace("http://www.w3.org/2001/04/xmlenc#sha256",
		"http://www.w3.org/2001/04/xmldsig-more#md5")), Unsupported},
	{"no signing certificate", signProperties(func(s string) string {
		return replace(between(s, "<xades:SigningCertificateV2>", "</xades:SigningCertificateV2>"), "")(s)
	}), Unsupported},
	{"a signing certificate by SHA-1", signProperties(replace("http://www.w3.org/2001/04/xmlenc#sha256",
		"http://www.w3.org/2000/09/xmldsig#sha1")), Unsupported},
	{"the digest of another certificate", signProperties(replace("<ds:DigestValue "+
		`xmlns:ds="http://www.w3.org/2000/09/xmldsig#">`, `<ds:DigestValue `+
		`xmlns:ds="http://www.w3.org/2000/09/xmldsig#">AAAA`)), WrongSignature},
	{"a signature of the future", signProperties(replace("2026-10-01", "2026-11-02")), IssuedInFuture},
	{"a list of the future", func(l *xmlList) { l.issued = "2026-11-01T12:06:00Z" }, IssuedInFuture},
	{"a list that is slightly in the future", func(l *xmlList) { l.issued = "2026-11-01T12:04:00Z" }, ""},
	{"a next update before the issue", func(l *xmlList) { l.next = "2026-09-01T00:00:00Z" }, Malformed},
	{"a list that was closed", signContent(func(s string) string {
		return strings.Replace(s, between(s, "<dateTime>", "</dateTime>"), "", 1)
	}), Malformed},
	{"no sequence number", func(l *xmlList) { l.sequence = "" }, Malformed},
	{"a negative sequence number", func(l *xmlList) { l.sequence = "-1" }, Malformed},
	{"sequence number 0", func(l *xmlList) { l.sequence = "0" }, Malformed},
	{"a large sequence number", func(l *xmlList) { l.sequence = "18446744073709551615" }, Malformed},
	{"another version", signContent(replace("<TSLVersionIdentifier>6", "<TSLVersionIdentifier>4")),
		Malformed},
	{"two statuses", signContent(replace("</ServiceStatus>",
		"</ServiceStatus><ServiceStatus>"+statusWithdrawn+
			"</ServiceStatus>")), Malformed},
	{"no status", signContent(replace("<ServiceStatus>"+statusGranted+"</ServiceStatus>", "")), Malformed},
	{"an element in a status", signContent(replace("Svcstatus/granted", "Svcstatus/granted<b></b>")),
		Malformed},
	{"two lists of providers", signContent(func(s string) string {
		return s + "<TrustServiceProviderList></TrustServiceProviderList>"
	}), Malformed},
	{"two schemes", signContent(func(s string) string {
		return s + "<SchemeInformation></SchemeInformation>"
	}),
		Malformed},
	{"nested too deep", signContent(func(s string) string {
		return s + strings.Repeat("<a>", maxDepth) + strings.Repeat("</a>", maxDepth)
	}), TooLarge},
	{"too many attributes", signContent(func(s string) string {
		var b strings.Builder
		for i := range maxAttributes + 1 {
			b.WriteString(" a" + strings.Repeat("a", i) + `=""`)
		}
		return s + "<a" + b.String() + "></a>"
	}), TooLarge},
	{"too many certificates", func(l *xmlList) {
		s := &l.services[0]
		s.kind = typeOther // they count even if they are of no wanted type
		for len(s.certificates) <= maxCertificates {
			s.certificates = append(s.certificates, s.certificates[0])
		}
	}, TooLarge},
	{"as many certificates as allowed", func(l *xmlList) {
		s := &l.services[0]
		for len(s.certificates) < maxCertificates {
			s.certificates = append(s.certificates, s.certificates[0])
		}
	}, ""},
}

func TestTS119612_SignedOtherwise(t *testing.T) {
	for _, c := range signedOtherwise {
		t.Run(c.name, func(t *testing.T) {
			l := newXMLList(t)
			c.change(&l)
			_, err := Read(TS119612, l.build(t), l.expected(), at)
			if got := reasonOf(t, err); got != c.want {
				t.Errorf("rejected as %q (%v), want %q", got, err, c.want)
			}
		})
	}
}

func TestRead_Limits(t *testing.T) {
	l := newXMLList(t)
	large := make([]byte, MaxSize+1)
	for _, c := range []struct {
		name     string
		format   Format
		document []byte
		expected Expected
		want     Reason
	}{
		{"larger than 16 MiB", TS119612, large, l.expected(), TooLarge},
		{"16 MiB", TS119612, large[:MaxSize], l.expected(), Malformed},
		{"another format", "xml", l.build(t), l.expected(), UnknownFormat},
		{"no format", "", l.build(t), l.expected(), UnknownFormat},
		{"no signer", TS119612, l.build(t), Expected{DocType: docTypeAge}, NothingExpected},
		{"no document type", TS119612, l.build(t), Expected{Signers: l.expected().Signers}, NothingExpected},
		{"no document type of a VICAL", VICAL, l.build(t), Expected{Signers: l.expected().Signers},
			NothingExpected},
		{"too many elements", TS119612, []byte("<a>" + strings.Repeat("<b/>", maxElements) + "</a>"),
			l.expected(),
			TooLarge},
		{"XML as JSON", TS119602, l.build(t), l.expected(), Malformed},
		{"XML as CBOR", VICAL, l.build(t), l.expected(), Malformed},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Read(c.format, c.document, c.expected, at)
			if got := reasonOf(t, err); got != c.want {
				t.Errorf("rejected as %q (%v), want %q", got, err, c.want)
			}
		})
	}
}
