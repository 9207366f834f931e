package mdoc

import (
	"bytes"
	"context"
	"crypto/x509"
	"slices"
	"time"

	"github.com/verge-id/verge/core/cbor"
	"github.com/verge-id/verge/core/internal/jws"
	"github.com/verge-id/verge/core/internal/signature"
)

// Status is the reference of a document to its status: the member status of the mobile security object
// (ISO/IEC 18013-5, second edition, 12.3.6; Token Status List, 6.3).
type Status struct {
	Kind StatusKind

	// Of StatusList: the address of the list, and the document's place in it.
	URI   string
	Index int64

	// authority is the certificate that the list's signer must lead to, in DER. Nil: the document's.
	authority []byte
}

// StatusKind is a kind of Status.
type StatusKind int

// Kinds of Status. Another mechanism, such as an identifier list, cannot be checked here.
const (
	NoStatus StatusKind = iota
	StatusList
	OtherStatus
	MalformedStatus
)

// maxURI is the maximum number of bytes of a list's address.
const maxURI = 2048

// readStatus reads the member status, which may be absent. Where it has several mechanisms, the status list
// is used.
func readStatus(i cbor.Item) Status {
	if !i.Present() {
		return Status{}
	}
	pairs, ok := i.Pairs()
	if !ok || len(pairs) == 0 {
		return Status{Kind: MalformedStatus}
	}
	list := i.Member("status_list")
	if !list.Present() {
		return Status{Kind: OtherStatus}
	}
	uri, okURI := list.Member("uri").Text()
	index, okIndex := list.Member("idx").Integer()
	authority := list.Member("certificate")
	certificate, ok := authority.Bytes()
	if !okURI || !okIndex || authority.Present() && !ok {
		return Status{Kind: MalformedStatus}
	}
	s := StatusIn(uri, index)
	s.authority = certificate
	return s
}

// StatusIn returns the status of a document with a place in a status list.
func StatusIn(uri string, index int64) Status {
	if uri == "" || len(uri) > maxURI || index < 0 {
		return Status{Kind: MalformedStatus}
	}
	return Status{Kind: StatusList, URI: uri, Index: index}
}

// statusSigner is the extended key usage of certificates that sign status lists: id-kp-oauthStatusSigning.
// The draft has no number for it yet. This is the one that issuers use in the meantime.
const statusSigner = "1.3.6.1.5.5.7.3.30"

// Lists verifies the signatures of lists of revoked documents and certificates.
type Lists struct {
	ask     Ask // for signers of status lists
	path    []*x509.Certificate
	issuers []Anchor // of the last certificate of path
}

// ListsOf returns the Lists of a document that a has verified.
//
// A status list is signed by a certificate that an authority of the document's issuer has issued: its path
// leads to the document's trust anchor, or to one of the same name, since authorities change their keys. If
// the document names a certificate for its list, the path leads to that one instead. The certificate may
// sign, and its extended key usage is for status lists, for documents, or absent, as ISO/IEC
// 18013-5 (second edition, table B.9) allows.
//
// The status list of a document by a DID is signed by any key of the same DID.
func (a Ask) ListsOf(p Proof) Lists {
	l := Lists{ask: Ask{EKU: append(slices.Clone(a.EKU), statusSigner), Now: a.Now, Verify: a.Verify,
		Issued: a.Issued, anyPurpose: true}, path: p.Path}
	if p.Key.ID != "" {
		for _, k := range a.Keys {
			if k.DID() == p.Key.DID() {
				l.ask.Keys = append(l.ask.Keys, k)
			}
		}
		return l
	}
	for _, t := range a.Anchors {
		if bytes.Equal(t.Certificate.RawSubject, p.Anchor.Certificate.RawSubject) {
			l.issuers = append(l.issuers, t)
		}
	}
	if l.ask.Anchors = l.issuers; p.Status.authority != nil {
		l.ask.Anchors = nil
		c, err := x509.ParseCertificate(p.Status.authority)
		if err == nil && checkAuthority(c) == "" {
			l.ask.Anchors = []Anchor{{c}}
		}
	}
	return l
}

// VerifyJWS verifies that the first certificate in x5c has signed a token, or for a document by a DID, that
// a key of the DID has. until is the end of the certificate; zero: it has none. The error is a *Rejection, or
// the host's.
func (l Lists) VerifyJWS(ctx context.Context, t jws.Token) (until time.Time, err error) {
	if len(l.ask.Keys) > 0 {
		_, err := l.ask.verifyByKey(ctx, t, listSignature)
		return until, err
	}
	chain, ok := t.Chain()
	if !ok {
		return until, rejected(badChain)
	}
	public, until, err := l.signer(ctx, chain)
	if err != nil {
		return until, err
	}
	return until, checkJWS(ctx, l.ask.Verify, t, public, listSignature)
}

// signer returns the key of the first certificate of a chain, which may sign status lists, and its end.
func (l Lists) signer(ctx context.Context, chain [][]byte) (k signature.Key, until time.Time, err error) {
	path, _, err := l.ask.signer(ctx, chain)
	if err != nil {
		return k, until, err
	}
	k, ok := publicKey(path[0])
	if !ok {
		return k, until, rejected(badCertKey)
	}
	return k, path[0].NotAfter, nil
}

// CWT is a CBOR Web Token (RFC 8392) whose signature was verified.
type CWT struct {
	Header cbor.Item // the protected one
	Claims cbor.Item
	Until  time.Time // the end of the signer's certificate
}

// Tags of a CWT: its own, and inside of it that of a COSE_Sign1 (RFC 8392, section 6). Both may be missing.
const (
	tagCWT   = 61
	tagSign1 = 18
)

// OpenCWT verifies a token of at most limit bytes. The error is a *Rejection, or the host's.
func (l Lists) OpenCWT(ctx context.Context, token []byte, limit int) (t CWT, err error) {
	large := options
	large.Size = limit
	top, err := cbor.Read(token, large)
	if err != nil {
		return t, rejected(badCBOR)
	}
	for _, tag := range []uint64{tagCWT, tagSign1} {
		if number, content, ok := top.Tag(); ok && number == tag {
			top = content
		}
	}
	s, err := readSign1(top) // which has no other tag
	if err != nil {
		return t, err
	}
	payload, ok := s.payload.Bytes()
	if !ok {
		return t, rejected(badSign1)
	}
	if t.Header, err = cbor.Read(s.protected, options); err != nil {
		return t, rejected(badSign1)
	}
	chain, ok := readChain(s.certificates)
	if !ok {
		return t, rejected(badChain)
	}
	public, until, err := l.signer(ctx, chain)
	if err != nil {
		return t, err
	}
	if err := s.verify(ctx, l.ask.Verify, public, payload, listSignature); err != nil {
		return t, err
	}
	if t.Claims, err = cbor.Read(payload, large); err != nil {
		return t, rejected(badCBOR)
	}
	t.Until = until
	return t, nil
}

// StatusIssuers names the authorities whose signers may sign a status list, and the keys that may, for a
// cache of lists.
func (l Lists) StatusIssuers() string {
	names := namesOf(l.ask.Anchors)
	for _, k := range l.ask.Keys {
		names += k.Fingerprint() + " "
	}
	return names
}

// CRLIssuers names the certificates that may sign a revocation list for the certificate number n of the path.
func (l Lists) CRLIssuers(n int) string { return namesOf(l.issuersOf(n)) }

func namesOf(anchors []Anchor) (names string) {
	for _, a := range anchors {
		names += a.Fingerprint() + " "
	}
	return names
}

// issuersOf returns the next certificate of the path, or for the last one the trust anchors of its issuer.
func (l Lists) issuersOf(n int) []Anchor {
	if n+1 < len(l.path) {
		return []Anchor{{l.path[n+1]}}
	}
	return l.issuers
}

// Path returns the certificates that may be revoked: the document signer's, and those of authorities between
// it and the anchor.
func (l Lists) Path() []*x509.Certificate { return l.path }

// VerifyCRL reports whether the issuer of a certificate of the path, which it names by its place, has signed
// a revocation list: the next certificate of the path, or for the last one a trust anchor of the issuer's
// name. The error is the host's.
func (l Lists) VerifyCRL(ctx context.Context, n int, r *x509.RevocationList) (bool, error) {
	tried := 0
	for _, t := range l.issuersOf(n) {
		c := t.Certificate
		sameKey := len(c.SubjectKeyId) == 0 || len(r.AuthorityKeyId) == 0 ||
			bytes.Equal(c.SubjectKeyId, r.AuthorityKeyId)
		if !bytes.Equal(c.RawSubject, r.RawIssuer) || !bytes.Equal(l.path[n].RawIssuer, r.RawIssuer) ||
			!sameKey || c.KeyUsage&x509.KeyUsageCRLSign == 0 || !within(l.ask.Now, c.NotBefore, c.NotAfter) {
			continue
		}
		if tried++; tried > maxTried {
			break
		}
		ok, err := l.ask.signedBy(ctx, c, r.SignatureAlgorithm, r.RawTBSRevocationList, r.Signature)
		if ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}
