package mdoc

import (
	"context"
	"crypto/x509"
	"errors"
	"slices"
	"time"

	"github.com/verge-id/verge/core/cbor"
	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/internal/jws"
)

// Tags of CBOR that documents have.
const (
	tagDateTime = 0
	tagCBOR     = 24 // a byte string that is CBOR
	tagFullDate = 1004
)

// options are how everything here is read. Issuers and wallets may add elements, headers and members of any
// type, which are ignored here.
var options = cbor.Options{Any: true}

// Versions of a DeviceResponse: of the first edition of ISO/IEC 18013-5, and of the second one, which adds
// members. A wallet may write either. A mobile security object has the first one.
const (
	version       = "1.0"
	secondVersion = "1.1"
)

// hasVersion reports whether a DeviceResponse has a version that this package reads.
func hasVersion(response cbor.Item) bool {
	v, _ := response.Member("version").Text()
	return v == version || v == secondVersion
}

// Ask is a request. Verify compares the response with it. Each field is required: if one is empty, every
// response is rejected.
type Ask struct {
	DocType   string   // of the document, such as eu.europa.ec.av.1
	Namespace string   // of the elements
	Elements  []string // the exact names. No other element counts

	EKU     []string    // extended key usages; a document signer must have one of them: 1.0.18013.5.1.2
	Anchors []Anchor    // who may have issued document signers
	Keys    []IssuerKey // of issuers of tokens that have a DID. They need no anchor

	Transcript []byte // CBOR of the SessionTranscript
	Now        time.Time

	Verify host.VerifyFunc // verifies each signature
	Issued *Issued         // caches certificates between responses

	anyPurpose bool // the signer may have no extended key usage
}

// Proof is the content of a verified response.
type Proof struct {
	// Elements contains the requested elements in the response: all, some or none.
	Elements map[string]Value

	// Anchor is the trust anchor that the document led to.
	Anchor Anchor

	// Path has the certificates below the anchor: the document signer's, and those of authorities between.
	Path []*x509.Certificate

	// Key is the key of the issuer's DID that has signed the token. Then there is no Anchor and no Path.
	Key IssuerKey

	Status Status
}

// Trust returns the fingerprint of the trust anchor, or of the issuer's key, that the document led to.
func (p Proof) Trust() string {
	if p.Key.ID != "" {
		return p.Key.Fingerprint()
	}
	return p.Anchor.Fingerprint()
}

// Value is the value of an element. It may be of any type.
type Value struct{ item cbor.Item }

// Bool returns a value that is true or false. Neither 1 nor "true" is.
func (v Value) Bool() (value, ok bool) { return v.item.Bool() }

// Date returns a value that is a full-date (RFC 8943): a date of the calendar as a text, with its tag.
func (v Value) Date() (date time.Time, ok bool) {
	number, content, ok := v.item.Tag()
	text, okText := content.Text()
	if !ok || !okText || number != tagFullDate {
		return time.Time{}, false
	}
	date, err := time.Parse(time.DateOnly, text)
	return date, err == nil
}

// Verify verifies a DeviceResponse. An error is a *Rejection, or the error of Ask.Verify, which could not
// check a signature. Ask.Verify is called at most maxVerified times.
//
// It checks, in this order:
//
//   - The response has one document of the requested type, and reports no error.
//   - The certificate of the document signer: its dates, its use, its extended key usage, and a path of
//     certificates to a trust anchor. No critical extension may be unknown, and there may be no name
//     constraints.
//   - The issuer's signature of the mobile security object, by an algorithm for the key's curve.
//   - The object: its version, its document type, and its dates. It was signed while the signer's certificate
//     was valid.
//   - Each element in the response, requested or not: a digest of exactly these bytes is in the object, and
//     at least 16 random bytes protect it. No element occurs twice.
//   - The wallet's signature of the session transcript, by the key in the object. A MAC is rejected: it would
//     need a shared key.
//
// An element that is false is proven as well, and so is a document without the elements: the caller checks
// the values. Parts that this list does not contain may have any content.
//
// If the document itself is invalid, the wallet's signature is verified as well (Rejection.Document).
func Verify(ctx context.Context, deviceResponse []byte, a Ask) (Proof, error) {
	d, err := readDocument(deviceResponse)
	if err != nil {
		return Proof{}, err
	}
	proof, err := a.verify(ctx, d)
	var rejection *Rejection
	if !errors.As(err, &rejection) || FaultOf(rejection.Reason) == "" {
		return proof, err
	}
	signed, failed := a.deviceSigned(ctx, d)
	if failed != nil {
		return Proof{}, failed
	}
	if signed {
		rejection.Document = FaultOf(rejection.Reason)
	}
	return Proof{}, err
}

// VerifyJWS verifies a token that an issuer of documents has signed. The certificates in x5c lead to a trust
// anchor, as for documents; the signer's extended key usage is one of EKU or absent, because no standard has
// one for tokens. A token without x5c is signed by the one of Keys that its kid names. The Proof has either
// Anchor and Path, or Key. The error is a *Rejection, or the host's.
func (a Ask) VerifyJWS(ctx context.Context, t jws.Token) (p Proof, err error) {
	chain, ok := t.Chain()
	if !ok {
		p.Key, err = a.verifyByKey(ctx, t, issuerSignature)
		return p, err
	}
	a.anyPurpose = true
	path, anchor, err := a.signer(ctx, chain)
	if err != nil {
		return p, err
	}
	public, ok := publicKey(path[0])
	if !ok {
		return p, rejected(badCertKey)
	}
	return Proof{Anchor: anchor, Path: path}, checkJWS(ctx, a.Verify, t, public, issuerSignature)
}

// deviceSigned reports whether the wallet has signed this session's transcript with the key that the document
// names. The document may be of any issuer, so this is no proof about a person: anyone who has seen the
// request can create such a response, and no one else. The error is the host's.
func (a Ask) deviceSigned(ctx context.Context, d document) (bool, error) {
	payload, ok := d.issuerAuth.payload.Bytes()
	if !ok {
		return false, nil
	}
	o, err := readSecurityObject(payload)
	if err == nil {
		err = a.verifyDevice(ctx, d, o)
	}
	if rejection := (*Rejection)(nil); errors.As(err, &rejection) {
		return false, nil
	}
	return err == nil, err
}

// verify is Verify for a document that was read.
func (a Ask) verify(ctx context.Context, d document) (Proof, error) {
	if d.docType != a.DocType {
		return Proof{}, rejected(otherDocType)
	}
	o, p, err := a.verifyIssuer(ctx, d)
	if err != nil {
		return Proof{}, err
	}
	if p.Elements, err = a.verifyElements(d, o); err != nil {
		return Proof{}, err
	}
	if err := a.verifyDevice(ctx, d, o); err != nil {
		return Proof{}, err
	}
	return p, nil
}

// document is the one document of a DeviceResponse, before anything in it was verified.
type document struct {
	docType    string
	namespaces []cbor.Pair // by name, arrays of IssuerSignedItemBytes
	issuerAuth sign1

	deviceNamespaces cbor.Item // DeviceNameSpacesBytes
	deviceAuth       cbor.Item
}

// readDocument reads a DeviceResponse (ISO/IEC 18013-5, 8.3.2.1.2.2).
func readDocument(response []byte) (d document, err error) {
	if len(response) > cbor.MaxSize {
		return d, rejected(tooLarge)
	}
	top, err := cbor.Read(response, options)
	if err != nil {
		return d, rejected(badCBOR)
	}
	if !hasVersion(top) {
		return d, rejected(badVersion)
	}
	if status, ok := top.Member("status").Integer(); !ok || status != 0 {
		return d, rejected(badStatus)
	}
	documents, _ := top.Member("documents").List()
	if len(documents) != 1 || top.Member("documentErrors").Present() {
		return d, rejected(badDocuments)
	}
	var ok bool
	if d.docType, ok = documents[0].Member("docType").Text(); !ok {
		return d, rejected(badMember)
	}
	issuer := documents[0].Member("issuerSigned")
	namespaces := issuer.Member("nameSpaces") // absent if the wallet sends no element
	if d.namespaces, ok = namespaces.Pairs(); !ok && namespaces.Present() {
		return d, rejected(badMember)
	}
	device := documents[0].Member("deviceSigned")
	d.deviceNamespaces, d.deviceAuth = device.Member("nameSpaces"), device.Member("deviceAuth")
	if inner, ok := embedded(d.deviceNamespaces); !ok || !isMap(inner) {
		return d, rejected(badMember)
	}
	d.issuerAuth, err = readSign1(issuer.Member("issuerAuth"))
	return d, err
}

// embedded reads CBOR that is inside of a byte string with tag 24.
func embedded(i cbor.Item) (inner cbor.Item, ok bool) {
	number, content, ok := i.Tag()
	b, okBytes := content.Bytes()
	if !ok || !okBytes || number != tagCBOR {
		return cbor.Item{}, false
	}
	inner, err := cbor.Read(b, options)
	return inner, err == nil
}

func isMap(i cbor.Item) bool {
	_, ok := i.Pairs()
	return ok
}

// verifyIssuer returns the mobile security object, which a trusted issuer has signed, and the Proof of that.
func (a Ask) verifyIssuer(ctx context.Context, d document) (o securityObject, p Proof, err error) {
	chain, ok := readChain(d.issuerAuth.certificates)
	if !ok {
		return o, p, rejected(badChain)
	}
	if p.Path, p.Anchor, err = a.signer(ctx, chain); err != nil {
		return o, p, err
	}
	payload, ok := d.issuerAuth.payload.Bytes()
	if !ok {
		return o, p, rejected(badSign1)
	}
	public, ok := publicKey(p.Path[0])
	if !ok {
		return o, p, rejected(badCertKey)
	}
	if err := d.issuerAuth.verify(ctx, a.Verify, public, payload, issuerSignature); err != nil {
		return o, p, err
	}
	if o, err = readSecurityObject(payload); err != nil {
		return o, p, err
	}
	p.Status = o.status
	return o, p, a.checkObject(o, p.Path[0])
}

// checkObject compares the object with the request, with the time, and with its signer's certificate.
func (a Ask) checkObject(o securityObject, signer *x509.Certificate) error {
	switch {
	case o.docType != a.DocType:
		return rejected(msoDocType)
	case o.signed.Before(signer.NotBefore) || o.signed.After(signer.NotAfter):
		return rejected(signedOutside)
	case a.Now.Add(margin).Before(o.signed) || a.Now.Add(margin).Before(o.validFrom):
		return rejected(notYetValid)
	case a.Now.Add(-margin).After(o.validUntil):
		return rejected(expired)
	}
	return nil
}

// Limits of items. An element has at least 16 random bytes, so that it cannot be guessed from its digest.
const (
	minRandom   = 16
	maxElements = 64
)

// verifyElements verifies every element in the response, and returns the requested ones.
func (a Ask) verifyElements(d document, o securityObject) (map[string]Value, error) {
	type name struct{ namespace, element string }
	seen := map[name]bool{}
	proven := map[string]Value{}
	for _, n := range d.namespaces {
		namespace, okName := n.Key.Text()
		items, okItems := n.Value.List()
		if !okName || !okItems {
			return nil, rejected(badMember)
		}
		for _, i := range items {
			element, value, err := o.readItem(namespace, i)
			if err != nil {
				return nil, err
			}
			if seen[name{namespace, element}] {
				return nil, rejected(elementTwice)
			}
			if seen[name{namespace, element}] = true; len(seen) > maxElements {
				return nil, rejected(tooMany)
			}
			if namespace == a.Namespace && slices.Contains(a.Elements, element) {
				proven[element] = Value{value}
			}
		}
	}
	return proven, nil
}

// verifyDevice verifies that the wallet has the key of the object, and signed this session's transcript with
// it (ISO/IEC 18013-5, 9.1.3).
func (a Ask) verifyDevice(ctx context.Context, d document, o securityObject) error {
	if d.deviceAuth.Member("deviceMac").Present() {
		return rejected(deviceMAC)
	}
	signature := d.deviceAuth.Member("deviceSignature")
	if !signature.Present() {
		return rejected(badDeviceAuth)
	}
	s, err := readSign1(signature)
	if err != nil {
		return err
	}
	if !s.payload.Null() {
		// it must be detached: the signature is over the transcript that we know, not over sent bytes
		return rejected(badDeviceAuth)
	}
	if o.deviceAlgorithm != 0 && o.deviceAlgorithm != s.number {
		return rejected(badAlgorithm)
	}
	transcript, err := cbor.Read(a.Transcript, options)
	if err != nil {
		return rejected(badTranscript)
	}
	authentication := cbor.Array(
		cbor.Text("DeviceAuthentication"), transcript, cbor.Text(d.docType), d.deviceNamespaces)
	payload := cbor.Tagged(tagCBOR, cbor.Bytes(authentication.Raw()))
	return s.verify(ctx, a.Verify, o.deviceKey, payload.Raw(), deviceSignature)
}
