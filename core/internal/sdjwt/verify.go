package sdjwt

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/verge-id/verge/core/internal/jws"
	"github.com/verge-id/verge/core/internal/mdoc"
	"github.com/verge-id/verge/core/internal/signature"
	"github.com/verge-id/verge/core/internal/strictjson"
)

// Limits of presentations.
const (
	maxSize        = 64 << 10
	maxBinding     = 8 << 10 // bytes of the key binding token
	maxDisclosures = 64
	maxDepth       = 16
)

// margin is the accepted difference between the clocks of an issuer and of this service.
const margin = 30 * time.Second

// bindingAge is the maximum age of a key binding token, and the accepted difference between the clocks of a
// phone and of this service. The nonce already binds the token to one request.
const bindingAge = 5 * time.Minute

// Ask is a request, and the trust anchors. If any field but Claims is empty, every presentation is rejected.
type Ask struct {
	// Types are the accepted types (vct). A type that ends in a colon accepts all types that begin with it.
	Types  []string
	Claims [][]string // the paths of claims. No other claim counts

	// TextBools makes the texts "true" and "false" count as true and false, for issuers that write them so.
	TextBools bool

	Audience string // client_id of the request, or "origin:" and the page's origin
	Nonce    string

	// Issuers has the trust anchors, the issuers' keys, the extended key usages, the time, and the host. Its
	// other fields are not used.
	Issuers mdoc.Ask
}

// Proof is the result of a presentation.
type Proof struct {
	Claims []Value // in the order of Ask.Claims

	// Issuer has the anchor and the path of certificates, or the issuer's key, and the status of the
	// document.
	Issuer mdoc.Proof
}

// Value is the value of a claim. It may be of any type, or absent.
type Value struct {
	v     strictjson.Value
	texts bool // "true" and "false" count
}

// Bool returns a value that is true or false. Neither 1 nor "true" is, except for Ask.TextBools.
func (v Value) Bool() (value, ok bool) {
	if text, isText := v.v.Text(); isText && v.texts {
		return text == "true", text == "true" || text == "false"
	}
	return v.v.Bool()
}

// Text returns a value that is a text.
func (v Value) Text() (text string, ok bool) { return v.v.Text() }

// Verify returns the claims that a presentation proves. An error is a *mdoc.Rejection, or the host's, which
// could not check a signature.
//
// It checks, in this order:
//
//   - The form: an issuer's token of typ dc+sd-jwt, at most 64 disclosures, and a key binding token.
//   - The type (vct, or one of aka_vcts).
//   - The issuer's signature, by a certificate that leads to a trust anchor, or by a key of the issuer's DID.
//   - exp, nbf and iat. The token was issued while its signer's certificate was valid, if it has one.
//   - The disclosures, by SHA-256: each belongs to a digest in the token or in another disclosure, no digest
//     occurs twice, and no disclosure replaces a claim or has a reserved name.
//   - The key binding token, by the key that the issuer has put into cnf: aud, nonce, its dates, and the hash
//     of everything before it.
//
// A claim that is absent is proven, too: the caller checks the values. If the document itself is at fault,
// the key binding is verified, too (mdoc.Rejection.Document).
func Verify(ctx context.Context, presentation string, a Ask) (Proof, error) {
	d, err := readDocument(presentation)
	if err != nil {
		return Proof{}, err
	}
	proof, err := a.verify(ctx, d)
	var rejection *mdoc.Rejection
	if !errors.As(err, &rejection) || faultOf(rejection.Reason) == "" {
		return proof, err
	}
	// Anyone who has the request can make such a document, so this is no proof about a person.
	failed := a.verifyBinding(ctx, d)
	switch {
	case failed == nil:
		rejection.Document = faultOf(rejection.Reason)
	case !isRejection(failed):
		return Proof{}, failed
	}
	return Proof{}, err
}

func isRejection(err error) bool {
	var rejection *mdoc.Rejection
	return errors.As(err, &rejection)
}

// document is a presentation of which nothing was verified.
type document struct {
	token       jws.Token
	payload     strictjson.Object
	disclosures []string
	binding     string
	signed      string // everything before the key binding token
}

// readDocument reads a presentation (RFC 9901, 4).
func readDocument(presentation string) (d document, err error) {
	if len(presentation) > maxSize {
		return d, rejected(tooLarge)
	}
	parts := strings.Split(presentation, "~")
	last := len(parts) - 1
	if last < 1 || last-1 > maxDisclosures {
		return d, rejected(badForm)
	}
	d.disclosures, d.binding = parts[1:last], parts[last]
	d.signed = presentation[:len(presentation)-len(d.binding)]
	if d.token, err = jws.Read(parts[0], rules("dc+sd-jwt", maxSize)); err != nil {
		return d, rejected(badToken)
	}
	if d.payload, err = strictjson.ReadForeign(d.token.Payload); err != nil {
		return d, rejected(badPayload)
	}
	return d, nil
}

func rules(typ string, size int) jws.Rules {
	return jws.Rules{Size: size, Algorithms: mdoc.JWSAlgorithms(), Types: []string{typ}}
}

// verify is Verify for a presentation that was read.
func (a Ask) verify(ctx context.Context, d document) (p Proof, err error) {
	if !a.isAsked(d.payload) {
		return p, rejected(otherType)
	}
	if p.Issuer, err = a.Issuers.VerifyJWS(ctx, d.token); err != nil {
		return Proof{}, err
	}
	if err := a.checkDates(d.payload, p.Issuer); err != nil {
		return Proof{}, err
	}
	if p.Claims, err = disclosed(d, a); err != nil {
		return Proof{}, err
	}
	p.Issuer.Status = readStatus(d.payload.Value("status"))
	if err := a.verifyBinding(ctx, d); err != nil {
		return Proof{}, err
	}
	return p, nil
}

// isAsked reports whether a document is of a type that was asked for.
func (a Ask) isAsked(payload strictjson.Object) bool {
	types, _ := payload.Value("aka_vcts").List()
	return slices.ContainsFunc(append(types, payload.Value("vct")), func(v strictjson.Value) bool {
		text, _ := v.Text()
		return text != "" && slices.ContainsFunc(a.Types, func(t string) bool {
			if strings.HasSuffix(t, ":") {
				return len(text) > len(t) && strings.HasPrefix(text, t)
			}
			return text == t
		})
	})
}

// checkDates compares the dates of a token with the time, and with its signer's certificate. Each of them may
// be absent.
func (a Ask) checkDates(payload strictjson.Object, issuer mdoc.Proof) error {
	d, ok := datesIn(payload)
	if !ok {
		return rejected(badDates)
	}
	if len(issuer.Path) > 0 && d.iat != nil && (d.iat.Before(issuer.Path[0].NotBefore) ||
		d.iat.After(issuer.Path[0].NotAfter)) {
		return rejected(signedOutside)
	}
	switch now := a.Issuers.Now; {
	case !isPast(d.iat, now.Add(margin)), !isPast(d.nbf, now.Add(margin)):
		return rejected(notYetValid)
	case d.exp != nil && now.Add(-margin).After(*d.exp):
		return rejected(expired)
	}
	return nil
}

// dates are the dates of a token. Each of them is nil if it is absent.
type dates struct{ exp, nbf, iat *time.Time }

// datesIn reads the dates of a token. It is not ok if one of them is no NumericDate.
func datesIn(payload strictjson.Object) (d dates, ok bool) {
	for name, at := range map[string]**time.Time{"exp": &d.exp, "nbf": &d.nbf, "iat": &d.iat} {
		if *at, ok = dateIn(payload.Value(name)); !ok {
			return d, false
		}
	}
	return d, true
}

// isPast reports whether a date is absent, or not after now.
func isPast(date *time.Time, now time.Time) bool { return date == nil || !now.Before(*date) }

// lastSecond is the last second of the year 9999.
const lastSecond = 253402300799

// dateIn reads a NumericDate (RFC 7519, 2), nil if it is absent.
func dateIn(v strictjson.Value) (at *time.Time, ok bool) {
	if !v.Present() {
		return nil, true
	}
	seconds, ok := v.Number()
	if !ok || seconds < 0 || seconds > lastSecond {
		return nil, false
	}
	t := time.Unix(int64(seconds), 0)
	return &t, true
}

// readStatus reads the reference to a status list.
func readStatus(v strictjson.Value) mdoc.Status {
	if !v.Present() {
		return mdoc.Status{}
	}
	o, ok := v.Object()
	if !ok || len(o.Names()) == 0 || o.Has(digests) { // a wallet could hide the status
		return mdoc.Status{Kind: mdoc.MalformedStatus}
	}
	if !o.Value("status_list").Present() {
		return mdoc.Status{Kind: mdoc.OtherStatus}
	}
	list, _ := o.Value("status_list").Object()
	uri, _ := list.Value("uri").Text()
	index, ok := list.Value("idx").Integer()
	if !ok {
		return mdoc.Status{Kind: mdoc.MalformedStatus}
	}
	return mdoc.StatusIn(uri, index)
}

// verifyBinding verifies that the wallet has the key of the document, and signed this request with it
// (RFC 9901, 7.3).
func (a Ask) verifyBinding(ctx context.Context, d document) error {
	key, ok := bindingKey(d.payload)
	if !ok {
		return rejected(badKey)
	}
	t, err := jws.Read(d.binding, rules("kb+jwt", maxBinding))
	if err != nil || !key.Fits(t.Algorithm) {
		return rejected(badBinding)
	}
	claims, err := strictjson.ReadForeign(t.Payload)
	if err != nil {
		return rejected(badBinding)
	}
	text := func(name string) string {
		s, _ := claims.Value(name).Text()
		return s
	}
	dates, ok := datesIn(claims)
	now := a.Issuers.Now
	switch {
	case a.Audience == "" || text("aud") != a.Audience:
		return rejected(otherAudience)
	case a.Nonce == "" || subtle.ConstantTimeCompare([]byte(text("nonce")), []byte(a.Nonce)) != 1:
		return rejected(otherNonce)
	case text("sd_hash") != hashOf(d.signed):
		return rejected(otherHash)
	case !ok || dates.iat == nil || now.Sub(*dates.iat).Abs() > bindingAge,
		!isPast(dates.nbf, now.Add(bindingAge)), dates.exp != nil && now.Add(-bindingAge).After(*dates.exp):
		return rejected(bindingDate)
	}
	signed, err := t.Verify(ctx, a.Issuers.Verify, key)
	if err == nil && !signed {
		err = rejected(bindingSignature)
	}
	return err
}

// bindingKey returns the key that the issuer has bound the document to: cnf.jwk (RFC 7800).
func bindingKey(payload strictjson.Object) (k signature.Key, ok bool) {
	cnf, _ := payload.Value("cnf").Object()
	jwk, _ := cnf.Value("jwk").Object()
	return mdoc.ECKey(jwk)
}

// hashOf returns the SHA-256 of a text in base64url.
func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}
