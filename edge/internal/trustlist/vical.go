package trustlist

import (
	"crypto"
	"crypto/elliptic"
	"crypto/x509"
	"slices"
	"strings"
	"time"

	"github.com/verge-id/verge/core/cbor"
)

// coseAlgorithms are the algorithms of RFC 9053 that are accepted, and the same fully specified (RFC 9864).
var coseAlgorithms = map[int64]algorithm{
	-7:  {hash: crypto.SHA256, family: familyECDSA, curve: elliptic.P256()},
	-9:  {hash: crypto.SHA256, family: familyECDSA, curve: elliptic.P256()},
	-35: {hash: crypto.SHA384, family: familyECDSA, curve: elliptic.P384()},
	-51: {hash: crypto.SHA384, family: familyECDSA, curve: elliptic.P384()},
	-36: {hash: crypto.SHA512, family: familyECDSA, curve: elliptic.P521()},
	-52: {hash: crypto.SHA512, family: familyECDSA, curve: elliptic.P521()},
}

// Labels of COSE headers (RFC 9052, section 3.1; RFC 9360), and the tag of COSE_Sign1.
const (
	headerAlgorithm = 1
	headerCritical  = 2
	headerChain     = 33 // x5chain

	tagSign1 = 18
	tagDate  = 0 // a date with a time, as text
)

// vicalOptions accept the items that a VICAL has besides those that are used here, such as big numbers.
var vicalOptions = cbor.Options{Any: true, Size: MaxSize, Items: maxElements}

var (
	errSign1 = rejected(Malformed, "it is not a COSE_Sign1")
	errVICAL = rejected(Malformed, "it does not have the members of a VICAL")
)

func readVICAL(document []byte, expected Expected, now time.Time) (List, *Error) {
	s, err := readSign1(document)
	if err != nil {
		return List{}, err
	}
	signer, err := s.verify(expected.Signers, now)
	if err != nil {
		return List{}, err
	}
	payload, problem := cbor.Read(s.payload, vicalOptions)
	if problem != nil {
		return List{}, errVICAL
	}
	list, err := readVICALPayload(payload, expected.DocType, now)
	list.Signer = signer
	return list, err
}

// sign1 is a COSE_Sign1.
type sign1 struct {
	protectedBytes         []byte // as they were signed
	protected, unprotected cbor.Item
	payload, signature     []byte
}

func readSign1(document []byte) (s sign1, err *Error) {
	item, problem := cbor.Read(document, vicalOptions)
	if problem != nil {
		return s, errSign1
	}
	if number, content, tagged := item.Tag(); tagged {
		if number != tagSign1 {
			return s, errSign1
		}
		item = content
	}
	parts, ok := item.List()
	if !ok || len(parts) != 4 {
		return s, errSign1
	}
	var okProtected, okPayload, okSignature bool
	s.protectedBytes, okProtected = parts[0].Bytes()
	s.payload, okPayload = parts[2].Bytes()
	s.signature, okSignature = parts[3].Bytes()
	s.unprotected = parts[1]
	_, okUnprotected := s.unprotected.Pairs()
	if !okProtected || !okUnprotected || !okPayload || !okSignature {
		return s, errSign1
	}
	if s.protected, problem = cbor.Read(s.protectedBytes, vicalOptions); problem != nil {
		return s, errSign1
	}
	return s, nil
}

// verify returns the certificate that has signed, if it may.
func (s sign1) verify(signers []*x509.Certificate, now time.Time) (*x509.Certificate, *Error) {
	number, ok := s.protected.Label(headerAlgorithm).Integer()
	a, known := coseAlgorithms[number]
	if !ok || !known || s.unprotected.Label(headerAlgorithm).Present() {
		return nil, rejected(Unsupported, "its signature algorithm is not accepted, or not protected")
	}
	if s.protected.Label(headerCritical).Present() || s.unprotected.Label(headerCritical).Present() {
		return nil, rejected(Unsupported, "its signature has a critical header parameter that is not known")
	}
	ders, err := s.chain()
	if err != nil {
		return nil, err
	}
	chain, err := readChain(ders)
	if err != nil {
		return nil, err
	}
	if err := checkSigner(chain, signers, usageVICAL, now); err != nil {
		return nil, err
	}
	signed := cbor.Array(cbor.Text("Signature1"), cbor.Bytes(s.protectedBytes), cbor.Bytes(nil),
		cbor.Bytes(s.payload))
	return chain[0], a.verify(chain[0].PublicKey, signed.Raw(), s.signature)
}

// chain returns the certificates of x5chain. A single certificate is a byte string, several are an array.
func (s sign1) chain() (ders [][]byte, err *Error) {
	header := s.protected.Label(headerChain)
	if unprotected := s.unprotected.Label(headerChain); !header.Present() {
		header = unprotected
	} else if unprotected.Present() {
		return nil, rejected(Unsupported, "its signature has two chains of certificates")
	}
	if der, ok := header.Bytes(); ok {
		return [][]byte{der}, nil
	}
	list, _ := header.List()
	for _, i := range list {
		der, ok := i.Bytes()
		if !ok {
			return nil, errSign1
		}
		ders = append(ders, der)
	}
	return ders, nil
}

// readVICALPayload reads a list from the payload that was verified.
func readVICALPayload(payload cbor.Item, docType string, now time.Time) (list List, err *Error) {
	version, _ := payload.Member("version").Text()
	issuer, okIssuer := payload.Member("vicalProvider").Text()
	issued, okIssued := date(payload.Member("date"))
	infos, okInfos := payload.Member("certificateInfos").List()
	if !strings.HasPrefix(version, "1.") || !okIssuer || !okIssued || !okInfos {
		return list, errVICAL
	}
	list = List{Issued: issued, Issuer: clip(issuer)}
	if number := payload.Member("vicalIssueID"); number.Present() {
		n, ok := number.Integer()
		if !ok || n < 0 {
			return list, errVICAL
		}
		list.Sequence = uint64(n)
	}
	if next := payload.Member("nextUpdate"); next.Present() {
		var ok bool
		if list.NextUpdate, ok = date(next); !ok {
			return list, errVICAL
		}
	}
	c := newCollector(now)
	for _, info := range infos {
		if err := c.certificateInfo(info, docType); err != nil {
			return list, err
		}
	}
	c.finish(&list)
	return list, nil
}

// certificateInfo adds the certificate of a CertificateInfo.
func (c *collector) certificateInfo(info cbor.Item, docType string) *Error {
	der, okCertificate := info.Member("certificate").Bytes()
	types, okTypes := info.Member("docType").List()
	if !okCertificate || !okTypes {
		return errVICAL
	}
	skip := SkipType
	if slices.ContainsFunc(types, func(i cbor.Item) bool { t, ok := i.Text(); return ok && t == docType }) {
		skip = ""
	}
	return c.add(der, skip)
}

// date returns a date with a time, which is a text with tag 0.
func date(i cbor.Item) (t time.Time, ok bool) {
	number, content, ok := i.Tag()
	text, isText := content.Text()
	if !ok || number != tagDate || !isText {
		return t, false
	}
	t, err := time.Parse(time.RFC3339, text)
	return t, err == nil
}
