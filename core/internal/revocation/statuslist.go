package revocation

import (
	"bytes"
	"compress/zlib"
	"context"
	"io"
	"strings"
	"time"

	"github.com/verge-id/verge/core/cbor"
	"github.com/verge-id/verge/core/internal/jws"
	"github.com/verge-id/verge/core/internal/mdoc"
	"github.com/verge-id/verge/core/internal/strict64"
	"github.com/verge-id/verge/core/internal/strictjson"
)

// Media types of status list tokens.
const (
	JWT = "application/statuslist+jwt"
	CWT = "application/statuslist+cwt"
)

// Errors of status lists.
const (
	errSize      Error = "the list is too large"
	errMediaType Error = "the list has another media type than a status list token"
	errForm      Error = "the status list token is malformed"
	errType      Error = "the token is of another type than a status list token"
	errCritical  Error = "the token has a critical header, and none is known"
	errAlgorithm Error = "the token is signed by another algorithm than ES256, ES384 and ES512"
	errSigner    Error = "no trusted signer has signed the list"
	errSubject   Error = "the status list token is of another list (sub)"
	errDates     Error = "the status list token has no usable dates"
	errFuture    Error = "the list is dated in the future"
	errExpired   Error = "the list has expired"
	errBits      Error = "the status list has none of 1, 2, 4 and 8 bits for each document"
	errDeflate   Error = "the status list cannot be decompressed"
	errInflated  Error = "the status list is too large when it is decompressed"
)

// maxList is the maximum number of bytes of a decompressed list.
const maxList = 4 << 20

// Lives of lists.
const (
	minTTL     = time.Minute
	maxTTL     = 24 * time.Hour
	defaultTTL = 15 * time.Minute
	defaultExp = 7 * 24 * time.Hour // after iat
)

// StatusList is a status list.
type StatusList struct {
	Dates
	bits int64
	list []byte
}

// Valid is the status of a document that is not revoked. Every other one, such as 1 (revoked) and 2
// (suspended), means that the document does not count.
const Valid = 0

// Status returns the status of the document with an index. It is not ok if the list is shorter.
func (s *StatusList) Status(index int64) (status int, ok bool) {
	if index < 0 || index >= int64(len(s.list))*8/s.bits {
		return 0, false
	}
	at := index * s.bits
	return int(s.list[at/8]) >> (at % 8) & (1<<s.bits - 1), true
}

// Size is the number of bytes that the list takes in memory.
func (s *StatusList) Size() int { return len(s.list) }

// ReadStatusList reads a token that was fetched from the address uri. mediaType is the response's,
// without parameters. The error is an Error, or a *SignerError.
func ReadStatusList(
	ctx context.Context, token []byte, mediaType, uri string, by mdoc.Lists, now time.Time,
) (*StatusList, error) {
	if len(token) >= MaxSize {
		return nil, errSize
	}
	var c claims
	var err error
	switch mediaType {
	case JWT:
		// Files of static web servers often end in a line break.
		c, err = readJWT(ctx, strings.TrimSpace(string(token)), by)
	case CWT:
		c, err = readCWT(ctx, token, by)
	default:
		err = errMediaType
	}
	if err != nil {
		return nil, err
	}
	if c.subject != uri {
		return nil, errSubject
	}
	dates, err := c.dates(now)
	if err != nil {
		return nil, err
	}
	if c.bits != 1 && c.bits != 2 && c.bits != 4 && c.bits != 8 {
		return nil, errBits
	}
	list, err := inflate(c.list)
	if err != nil {
		return nil, err
	}
	return &StatusList{dates, c.bits, list}, nil
}

// SignerError means that no trusted signer has signed a list, or that the host could not check that.
type SignerError struct{ Err error }

func (e *SignerError) Error() string { return errSigner.Error() + ": " + e.Err.Error() }
func (e *SignerError) Unwrap() error { return e.Err }

// claims are the claims of a token whose signature was verified.
type claims struct {
	subject string

	issued, expires, notBefore, ttl number
	bits                            int64
	list                            []byte // compressed

	signerUntil time.Time // zero: the signer's key has no end
}

// number is a claim in seconds. It may be absent or, if it is present, not a number.
type number struct {
	seconds     int64
	present, ok bool
}

// lastSecond is the last second of the year 9999.
const lastSecond = 253402300799

// time returns the date that a number stands for.
func (n number) time() (at time.Time, ok bool) {
	return time.Unix(n.seconds, 0).UTC(), n.ok && n.seconds >= 0 && n.seconds <= lastSecond
}

// dates checks the dates of a token.
func (c claims) dates(now time.Time) (d Dates, err error) {
	var ok bool
	if d.Issued, ok = c.issued.time(); !ok {
		return d, errDates
	}
	begin, until := d.Issued, d.Issued.Add(defaultExp)
	if c.notBefore.present {
		notBefore, ok := c.notBefore.time()
		if !ok {
			return d, errDates
		}
		if notBefore.After(begin) {
			begin = notBefore
		}
	}
	if c.expires.present {
		if until, ok = c.expires.time(); !ok {
			return d, errDates
		}
	}
	ttl := defaultTTL
	if c.ttl.present {
		if !c.ttl.ok || c.ttl.seconds <= 0 {
			return d, errDates
		}
		ttl = time.Duration(min(c.ttl.seconds, int64(maxTTL/time.Second))) * time.Second
	}
	if d.Until = until; !c.signerUntil.IsZero() {
		d.Until = earliest(until, c.signerUntil)
	}
	d.Fresh = now.Add(max(ttl, minTTL))
	switch {
	case begin.After(now.Add(margin)):
		return d, errFuture
	case !d.Until.After(now):
		return d, errExpired
	}
	return d, nil
}

// inflate decompresses a list.
func inflate(packed []byte) ([]byte, error) {
	from := bytes.NewReader(packed)
	z, err := zlib.NewReader(from)
	if err != nil {
		return nil, errDeflate
	}
	list, err := io.ReadAll(io.LimitReader(z, maxList+1))
	switch {
	case err != nil:
		return nil, errDeflate
	case len(list) > maxList:
		return nil, errInflated
	case from.Len() > 0: // data behind the list
		return nil, errDeflate
	}
	return bytes.Clone(list), nil // without the room that ReadAll left
}

// readJWT reads a token in the compact form of JWS. Members that are not used may be repeated.
func readJWT(ctx context.Context, token string, by mdoc.Lists) (c claims, err error) {
	t, err := jws.Read(token, jws.Rules{Size: MaxSize, Algorithms: mdoc.JWSAlgorithms(),
		Types: []string{"statuslist+jwt"}})
	switch err {
	case nil:
	case jws.ErrType:
		return c, errType
	case jws.ErrCritical:
		return c, errCritical
	case jws.ErrAlgorithm:
		return c, errAlgorithm
	default:
		return c, errForm
	}
	if c.signerUntil, err = by.VerifyJWS(ctx, t); err != nil {
		return c, &SignerError{err}
	}
	payload, err := strictjson.ReadForeign(t.Payload)
	if err != nil {
		return c, errForm
	}
	list, ok := payload.Value("status_list").Object()
	if !ok {
		return c, errForm
	}
	c.subject, _ = payload.Value("sub").Text()
	c.issued, c.expires = numberIn(payload.Value("iat")), numberIn(payload.Value("exp"))
	c.notBefore, c.ttl = numberIn(payload.Value("nbf")), numberIn(payload.Value("ttl"))
	c.bits, _ = list.Value("bits").Integer()
	text, _ := list.Value("lst").Text()
	if c.list, ok = strict64.DecodePadded(text); !ok {
		return c, errForm
	}
	return c, nil
}

// numberIn returns a number of JSON, without its fraction.
func numberIn(v strictjson.Value) number {
	n := number{present: v.Present()}
	if n.seconds, n.ok = v.Integer(); !n.ok {
		n.truncate(v.Number())
	}
	return n
}

// numberOf returns a number of CBOR, without its fraction.
func numberOf(i cbor.Item) number {
	n := number{present: i.Present()}
	if n.seconds, n.ok = i.Integer(); !n.ok {
		n.truncate(i.Float())
	}
	return n
}

// truncate sets a number to a float without its fraction.
func (n *number) truncate(f float64, ok bool) {
	if n.ok = ok && f >= 0 && f <= lastSecond; n.ok {
		n.seconds = int64(f)
	}
}

// Labels of CWT (RFC 8392) and of status list tokens.
const (
	headerType = 16

	claimSubject   = 2
	claimExpires   = 4
	claimNotBefore = 5
	claimIssued    = 6
	claimList      = 65533
	claimTTL       = 65534
)

// readCWT reads a token in CBOR.
func readCWT(ctx context.Context, token []byte, by mdoc.Lists) (c claims, err error) {
	t, err := by.OpenCWT(ctx, token, MaxSize)
	if err != nil {
		return c, &SignerError{err}
	}
	// Earlier drafts, and the issuer of the EU's reference implementation, leave out "application/".
	if typ, _ := t.Header.Label(headerType).Text(); typ != CWT && typ != "statuslist+cwt" {
		return c, errType
	}
	label := func(label int64) number { return numberOf(t.Claims.Label(label)) }
	c.signerUntil = t.Until
	c.subject, _ = t.Claims.Label(claimSubject).Text()
	c.issued, c.expires = label(claimIssued), label(claimExpires)
	c.notBefore, c.ttl = label(claimNotBefore), label(claimTTL)
	list := t.Claims.Label(claimList)
	c.bits, _ = list.Member("bits").Integer()
	packed, ok := list.Member("lst").Bytes()
	if !ok {
		return c, errForm
	}
	c.list = packed
	return c, nil
}
