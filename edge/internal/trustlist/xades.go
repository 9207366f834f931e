package trustlist

import (
	"bytes"
	"crypto"
	"crypto/subtle"
	"crypto/x509"
	"encoding/base64"
	"slices"
	"strings"
	"time"
)

// Namespaces and identifiers of signatures.
const (
	namespaceSignature = "http://www.w3.org/2000/09/xmldsig#"
	namespaceXAdES     = "http://uri.etsi.org/01903/v1.3.2#"
	namespaceFilter    = "http://www.w3.org/2002/06/xmldsig-filter2"

	methodCanonical = "http://www.w3.org/2001/10/xml-exc-c14n#"
	methodEnveloped = "http://www.w3.org/2000/09/xmldsig#enveloped-signature"
	methodFilter    = namespaceFilter

	typeProperties = "http://uri.etsi.org/01903#SignedProperties"
)

// xmlSignatures are the signature algorithms of XML signatures.
var xmlSignatures = map[string]algorithm{
	"http://www.w3.org/2001/04/xmldsig-more#rsa-sha256":   {hash: crypto.SHA256, family: familyRSA},
	"http://www.w3.org/2001/04/xmldsig-more#rsa-sha384":   {hash: crypto.SHA384, family: familyRSA},
	"http://www.w3.org/2001/04/xmldsig-more#rsa-sha512":   {hash: crypto.SHA512, family: familyRSA},
	"http://www.w3.org/2001/04/xmldsig-more#ecdsa-sha256": {hash: crypto.SHA256, family: familyECDSA},
	"http://www.w3.org/2001/04/xmldsig-more#ecdsa-sha384": {hash: crypto.SHA384, family: familyECDSA},
	"http://www.w3.org/2001/04/xmldsig-more#ecdsa-sha512": {hash: crypto.SHA512, family: familyECDSA},
}

// xmlDigests are the digest algorithms of XML signatures.
var xmlDigests = map[string]crypto.Hash{
	"http://www.w3.org/2001/04/xmlenc#sha256":       crypto.SHA256,
	"http://www.w3.org/2001/04/xmldsig-more#sha384": crypto.SHA384,
	"http://www.w3.org/2001/04/xmlenc#sha512":       crypto.SHA512,
}

var (
	errSignatureShape = rejected(Unsupported,
		"its signature has elements or attributes that are not accepted")
	errDigest = rejected(WrongSignature, "its content does not match the signed digest")
)

// digest is an algorithm and a value.
type digest struct {
	hash  crypto.Hash
	value []byte
}

func (d digest) matches(b []byte) bool {
	h := d.hash.New()
	h.Write(b)
	return subtle.ConstantTimeCompare(h.Sum(nil), d.value) == 1
}

// signature is the one signature of a document.
type signature struct {
	root, element *element
	id            string
	info          *element // SignedInfo
	value         []byte
	keyInfo       *element // nil: KeyInfo is missing
	properties    *element // SignedProperties
}

// verifyXML verifies the signature of a document. It returns the root of the canonical form that was
// verified, and the signer. Only this root may be read.
func verifyXML(root *element, expected Expected, now time.Time) (*element, *x509.Certificate, *Error) {
	s, err := findSignature(root)
	if err != nil {
		return nil, nil, err
	}
	infoBytes, properties, err := s.signedParts()
	if err != nil {
		return nil, nil, err
	}
	info, err := readSignedInfo(infoBytes)
	if err != nil {
		return nil, nil, err
	}
	named, err := readProperties(properties, now)
	if err != nil {
		return nil, nil, err
	}
	chain, err := s.chain(named, expected.Signers)
	if err != nil {
		return nil, nil, err
	}
	if err := checkSigner(chain, expected.Signers, usageETSI, now); err != nil {
		return nil, nil, err
	}
	if err := info.algorithm.verify(chain[0].PublicKey, infoBytes, s.value); err != nil {
		return nil, nil, err
	}
	if id, _ := s.properties.value("Id"); info.propertiesID != id {
		return nil, nil, rejected(Unsupported, "its signature refers to another element than its properties")
	}
	if !info.properties.matches(properties) {
		return nil, nil, errDigest
	}
	signed, err := canonical(root, s.element)
	if err != nil {
		return nil, nil, err
	}
	if !info.document.matches(signed) {
		return nil, nil, errDigest
	}
	verified, err := readXML(signed)
	return verified, chain[0], err
}

// signedParts returns the canonical forms of SignedInfo and SignedProperties.
func (s signature) signedParts() (info, properties []byte, err *Error) {
	if info, err = canonical(s.info, nil); err != nil {
		return nil, nil, err
	}
	properties, err = canonical(s.properties, nil)
	return info, properties, err
}

// findSignature returns the one signature of a document, the last element of its root.
func findSignature(root *element) (s signature, err *Error) {
	signatures, ids, twice := 0, map[string]bool{}, false
	root.all(func(e *element) {
		if e.is(namespaceSignature, "Signature") {
			signatures++
		}
		for _, a := range e.attributes {
			if strings.EqualFold(a.name, "id") {
				twice = twice || ids[a.value]
				ids[a.value] = true
			}
		}
	})
	elements, ok := root.elements()
	switch {
	case signatures == 0:
		return s, rejected(Malformed, "it is not signed")
	case signatures > 1:
		return s, rejected(Unsupported, "it has more than one signature")
	case twice:
		return s, rejected(Unsupported, "two of its elements have the same id")
	case !ok || !elements[len(elements)-1].is(namespaceSignature, "Signature"):
		return s, rejected(Unsupported, "its signature is not the last element of the root")
	}
	s.root, s.element = root, elements[len(elements)-1]
	return s, s.read()
}

// read reads the parts of the signature's element, each of which occurs once and in order.
func (s *signature) read() *Error {
	parts, ok := s.element.elements()
	if !ok || !only(s.element, "Id") || len(parts) < 3 {
		return errSignatureShape
	}
	s.id, _ = s.element.value("Id")
	s.info = parts[0]
	value := parts[1]
	object := parts[len(parts)-1]
	switch {
	case len(parts) == 4 && parts[2].is(namespaceSignature, "KeyInfo"):
		s.keyInfo = parts[2]
	case len(parts) != 3:
		return errSignatureShape
	}
	if !s.info.is(namespaceSignature, "SignedInfo") || !value.is(namespaceSignature, "SignatureValue") ||
		!only(value, "Id") || !object.is(namespaceSignature, "Object") || !only(object) {
		return errSignatureShape
	}
	if s.value, ok = decoded(value); !ok {
		return errSignatureShape
	}
	return s.readObject(object)
}

// readObject finds the signed properties. Unsigned properties, such as time stamps, are ignored.
func (s *signature) readObject(object *element) *Error {
	qualifying, ok := object.elements()
	if !ok || len(qualifying) != 1 || !qualifying[0].is(namespaceXAdES, "QualifyingProperties") ||
		!only(qualifying[0], "Target", "Id") {
		return errSignatureShape
	}
	if target, _ := qualifying[0].value("Target"); s.id == "" || target != "#"+s.id {
		return errSignatureShape
	}
	properties, ok := qualifying[0].elements()
	if !ok || len(properties) == 0 || len(properties) > 2 ||
		!properties[0].is(namespaceXAdES, "SignedProperties") || !only(properties[0], "Id") {
		return errSignatureShape
	}
	if len(properties) == 2 && !properties[1].is(namespaceXAdES, "UnsignedProperties") {
		return errSignatureShape
	}
	s.properties = properties[0]
	return nil
}

// chain returns the certificates of the signature. The signed properties name the first of them.
func (s signature) chain(named digest, signers []*x509.Certificate) ([]*x509.Certificate, *Error) {
	if s.keyInfo == nil {
		for _, c := range signers {
			if named.matches(c.Raw) {
				return []*x509.Certificate{c}, nil
			}
		}
		return nil, rejected(SignerUnknown, "the certificate that signed it is not configured, and not in it")
	}
	ders, ok := keyInfoCertificates(s.keyInfo)
	if !ok {
		return nil, errSignatureShape
	}
	chain, err := readChain(ders)
	if err != nil {
		return nil, err
	}
	signer := slices.IndexFunc(chain, func(c *x509.Certificate) bool { return named.matches(c.Raw) })
	if signer < 0 {
		return nil, rejected(WrongSignature, "its signature names another certificate than it has")
	}
	chain[0], chain[signer] = chain[signer], chain[0]
	return chain, nil
}

// keyInfoCertificates returns the certificates of KeyInfo, which has nothing else.
func keyInfoCertificates(keyInfo *element) (ders [][]byte, ok bool) {
	data, ok := keyInfo.elements()
	if !ok || !only(keyInfo, "Id") {
		return nil, false
	}
	for _, d := range data {
		certificates, ok := d.elements()
		if !ok || !d.is(namespaceSignature, "X509Data") || !only(d) {
			return nil, false
		}
		for _, c := range certificates {
			der, ok := decoded(c)
			if !ok || !c.is(namespaceSignature, "X509Certificate") || !only(c) {
				return nil, false
			}
			ders = append(ders, der)
		}
	}
	return ders, true
}

// signedInfo is the content of SignedInfo.
type signedInfo struct {
	algorithm            algorithm
	document, properties digest
	propertiesID         string
}

// readSignedInfo reads SignedInfo from its canonical form, the bytes that the key has signed.
func readSignedInfo(form []byte) (info signedInfo, err *Error) {
	e, err := readXML(form)
	if err != nil {
		return info, err
	}
	parts, ok := e.elements()
	if !ok || !only(e, "Id") || len(parts) != 4 {
		return info, rejected(Unsupported, "its signature does not have exactly two references")
	}
	canonicalization, ok := method(parts[0], "CanonicalizationMethod")
	if !ok || canonicalization != methodCanonical {
		return info, rejected(Unsupported, "its canonicalization is not the exclusive one without comments")
	}
	name, _ := method(parts[1], "SignatureMethod")
	if info.algorithm, ok = xmlSignatures[name]; !ok {
		return info, rejected(Unsupported, "its signature algorithm is not accepted")
	}
	for _, reference := range parts[2:] {
		if err := info.reference(reference); err != nil {
			return info, err
		}
	}
	return info, nil
}

// reference reads the reference of the document or of the properties. Each of them may occur once, so neither
// of the two is missing.
func (info *signedInfo) reference(e *element) *Error {
	parts, ok := e.elements()
	if !ok || !e.is(namespaceSignature, "Reference") || !only(e, "Id", "URI", "Type") || len(parts) != 3 {
		return errSignatureShape
	}
	d, err := readDigest(parts[1], parts[2])
	if err != nil {
		return err
	}
	uri, hasURI := e.value("URI")
	kind, _ := e.value("Type")
	id, isID := strings.CutPrefix(uri, "#")
	var wrong bool
	switch {
	case hasURI && uri == "" && info.document.hash == 0:
		info.document = d
		wrong = kind != "" || !transformsOfDocument(parts[0])
	case isID && id != "" && kind == typeProperties && info.properties.hash == 0:
		info.properties, info.propertiesID = d, id
		wrong = !transforms(parts[0], methodCanonical)
	default:
		return rejected(Unsupported,
			"its signature refers to something else than the document and its properties")
	}
	if wrong {
		return rejected(Unsupported, "its signature has a transform that is not accepted")
	}
	return nil
}

// transformsOfDocument reports whether the transforms remove the signature, and nothing else.
func transformsOfDocument(e *element) bool {
	if transforms(e, methodEnveloped, methodCanonical) {
		return true
	}
	list, ok := e.elements()
	if !ok || len(list) != 2 || !transform(list[0], methodFilter) {
		return false
	}
	filters, ok := list[0].elements()
	return ok && len(filters) == 1 && subtractsSignature(filters[0]) && bare(list[1]) &&
		transform(list[1], methodCanonical) && e.is(namespaceSignature, "Transforms") && only(e)
}

// subtractsSignature reports whether a filter subtracts signatures. A document has one signature.
func subtractsSignature(e *element) bool {
	filter, _ := e.value("Filter")
	if !e.is(namespaceFilter, "XPath") || !only(e, "Filter") || filter != "subtract" {
		return false
	}
	path, _ := e.content()
	prefix, found := strings.CutPrefix(path, "/descendant::")
	prefix, isSignature := strings.CutSuffix(prefix, ":Signature")
	if !found || !isSignature {
		return false
	}
	// The canonical form contains the declaration, so it is signed.
	space, _ := e.lookup(prefix)
	return space == namespaceSignature
}

// transforms reports whether the transforms are the methods, in order and without parameters.
func transforms(e *element, methods ...string) bool {
	list, ok := e.elements()
	if !ok || !e.is(namespaceSignature, "Transforms") || !only(e) || len(list) != len(methods) {
		return false
	}
	for i, t := range list {
		if !transform(t, methods[i]) || !bare(t) {
			return false
		}
	}
	return true
}

func transform(e *element, method string) bool {
	name, _ := e.value("Algorithm")
	return e.is(namespaceSignature, "Transform") && only(e, "Algorithm") && name == method
}

// method returns the algorithm of an element that has nothing else.
func method(e *element, name string) (algorithm string, ok bool) {
	if !e.is(namespaceSignature, name) || !only(e, "Algorithm") || !bare(e) {
		return "", false
	}
	return e.value("Algorithm")
}

// readDigest reads a DigestMethod and a DigestValue.
func readDigest(methodElement, valueElement *element) (d digest, err *Error) {
	name, _ := method(methodElement, "DigestMethod")
	var ok bool
	if d.hash, ok = xmlDigests[name]; !ok {
		return d, rejected(Unsupported, "its signature has a digest algorithm that is not accepted")
	}
	d.value, ok = decoded(valueElement)
	if !ok || !valueElement.is(namespaceSignature, "DigestValue") || !only(valueElement) {
		return d, errSignatureShape
	}
	return d, nil
}

// readProperties reads SignedProperties from its canonical form, and returns the digest of the signer's
// certificate.
func readProperties(form []byte, now time.Time) (named digest, err *Error) {
	e, err := readXML(form)
	if err != nil {
		return named, err
	}
	properties, ok := e.one(namespaceXAdES, "SignedSignatureProperties")
	if !ok {
		return named, errSignatureShape
	}
	if signing, ok := properties.one(namespaceXAdES, "SigningTime"); ok {
		text, _ := signing.content()
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return named, errSignatureShape
		}
		if at.After(now.Add(clockSkew)) {
			return named, rejected(IssuedInFuture, "its signature is dated in the future")
		}
	}
	certificates, ok := properties.one(namespaceXAdES, "SigningCertificateV2")
	if !ok {
		certificates, ok = properties.one(namespaceXAdES, "SigningCertificate")
	}
	if !ok {
		return named, rejected(Unsupported, "its signature does not name the certificate that signed it")
	}
	certificate, ok := certificates.first(namespaceXAdES, "Cert")
	if !ok {
		return named, errSignatureShape
	}
	d, ok := certificate.one(namespaceXAdES, "CertDigest")
	if !ok {
		return named, errSignatureShape
	}
	parts, ok := d.elements()
	if !ok || len(parts) != 2 {
		return named, errSignatureShape
	}
	return readDigest(parts[0], parts[1])
}

// only reports whether an element has no attributes but those without a namespace and with one of the names.
func only(e *element, names ...string) bool {
	return !slices.ContainsFunc(e.attributes, func(a attribute) bool {
		return a.space != "" || !slices.Contains(names, a.name)
	})
}

// bare reports whether an element is empty.
func bare(e *element) bool { return len(e.children) == 0 }

// decoded returns the content of an element in base64, which may have white space in it.
func decoded(e *element) (b []byte, ok bool) {
	text, ok := e.content()
	if !ok {
		return nil, false
	}
	return decodeBase64(text)
}

// decodeBase64 decodes base64 with padding, which may have white space in it. No two texts without white
// space have the same bytes.
func decodeBase64(text string) (b []byte, ok bool) {
	compact := bytes.Map(func(r rune) rune {
		if strings.ContainsRune(" \t\r\n", r) {
			return -1
		}
		return r
	}, []byte(text))
	b, err := base64.StdEncoding.Strict().AppendDecode(nil, compact)
	return b, err == nil
}
