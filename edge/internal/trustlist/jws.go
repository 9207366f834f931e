package trustlist

import (
	"bytes"
	"crypto"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/base64"
	"slices"
	"strings"
	"time"
)

// jwsAlgorithms are the algorithms of RFC 7518 that are accepted.
var jwsAlgorithms = map[string]algorithm{
	"ES256": {hash: crypto.SHA256, family: familyECDSA, curve: elliptic.P256()},
	"ES384": {hash: crypto.SHA384, family: familyECDSA, curve: elliptic.P384()},
	"ES512": {hash: crypto.SHA512, family: familyECDSA, curve: elliptic.P521()},
	"RS256": {hash: crypto.SHA256, family: familyRSA},
	"PS256": {hash: crypto.SHA256, family: familyPSS},
}

// jwsDigests are the digest algorithms of x5t#o.
var jwsDigests = map[string]crypto.Hash{"S256": crypto.SHA256, "S384": crypto.SHA384, "S512": crypto.SHA512}

// jwsUnderstood are the header parameters that crit may list.
var jwsUnderstood = []string{"sigT", "iat", "x5t#S256", "x5t#o"}

// maxHeader is the maximum number of bytes of a header in base64: five certificates and some more.
const maxHeader = 256 << 10

var (
	errJWS    = rejected(Malformed, "it is not a JWS with one signature")
	errHeader = rejected(Malformed, "a header parameter of its signature has the wrong type")
)

// jws is a JSON Web Signature.
type jws struct {
	header    object
	signed    []byte // the input of the signature
	payload   []byte
	signature []byte
}

// readJWS reads a JWS: compact, or in JSON with one signature.
func readJWS(document []byte) (jws, *Error) {
	document = bytes.Trim(document, " \t\r\n")
	if bytes.HasPrefix(document, []byte("{")) {
		return readJWSInJSON(document)
	}
	parts := strings.Split(string(document), ".")
	if len(parts) != 3 {
		return jws{}, errJWS
	}
	return decodeJWS(parts[0], parts[1], parts[2])
}

// readJWSInJSON reads the general or the flattened form. It ignores the unprotected header.
func readJWSInJSON(document []byte) (jws, *Error) {
	o, err := readJSON(document)
	if err != nil {
		return jws{}, err
	}
	payload, ok := o.text("payload")
	if !ok {
		return jws{}, errJWS
	}
	if _, general := o["signatures"]; general {
		signatures, ok := o.objects("signatures")
		_, flattened := o["signature"]
		if !ok || len(signatures) != 1 || flattened {
			return jws{}, errJWS
		}
		o = signatures[0]
	}
	protected, hasProtected := o.text("protected")
	signature, hasSignature := o.text("signature")
	if !hasProtected || !hasSignature {
		return jws{}, errJWS
	}
	return decodeJWS(protected, payload, signature)
}

func decodeJWS(protected, payload, signature string) (j jws, err *Error) {
	if len(protected) > maxHeader {
		return j, rejected(TooLarge, "the header of its signature has more than 256 KiB")
	}
	header, okHeader := decodeBase64URL(protected)
	var okPayload, okSignature bool
	j.payload, okPayload = decodeBase64URL(payload)
	j.signature, okSignature = decodeBase64URL(signature)
	if !okHeader || !okPayload || !okSignature {
		return j, errJWS
	}
	j.signed = []byte(protected + "." + payload)
	j.header, err = readJSON(header)
	return j, err
}

// verify returns the certificate that has signed, if it may.
func (j jws) verify(signers []*x509.Certificate, now time.Time) (*x509.Certificate, *Error) {
	name, _ := j.header.text("alg")
	a, ok := jwsAlgorithms[name]
	if !ok {
		return nil, rejected(Unsupported, "its signature algorithm is not accepted")
	}
	if err := j.checkHeader(now); err != nil {
		return nil, err
	}
	chain, err := j.chain(signers)
	if err != nil {
		return nil, err
	}
	if err := checkSigner(chain, signers, usageETSI, now); err != nil {
		return nil, err
	}
	return chain[0], a.verify(chain[0].PublicKey, j.signed, j.signature)
}

// checkHeader checks the parameters that change how a signature is read.
func (j jws) checkHeader(now time.Time) *Error {
	if _, detached := j.header["sigD"]; detached {
		return rejected(Unsupported, "its signature is detached")
	}
	if encoded, present := j.header["b64"]; present && encoded != true {
		return rejected(Unsupported, "its signature is of a payload that is not encoded")
	}
	if _, present := j.header["crit"]; present {
		critical, ok := j.header.texts("crit")
		if !ok || len(critical) == 0 {
			return errHeader
		}
		for _, name := range critical {
			if _, present := j.header[name]; !present || !slices.Contains(jwsUnderstood, name) {
				return rejected(Unsupported,
					"its signature has a critical header parameter that is not known")
			}
		}
	}
	return j.checkTime(now)
}

// checkTime checks the time of the signature, which is optional.
func (j jws) checkTime(now time.Time) *Error {
	var times []time.Time
	if _, present := j.header["sigT"]; present {
		at, ok := j.header.time("sigT")
		if !ok {
			return errHeader
		}
		times = append(times, at)
	}
	if value, present := j.header["iat"]; present {
		at, ok := seconds(value)
		if !ok {
			return errHeader
		}
		times = append(times, at)
	}
	for _, at := range times {
		if at.After(now.Add(clockSkew)) {
			return rejected(IssuedInFuture, "its signature is dated in the future")
		}
	}
	return nil
}

// chain returns the certificates that the header names. The first is the signer.
func (j jws) chain(signers []*x509.Certificate) ([]*x509.Certificate, *Error) {
	named, err := j.thumbprints()
	if err != nil {
		return nil, err
	}
	if _, present := j.header["x5c"]; !present {
		for _, c := range signers {
			if len(named) > 0 && matchesAll(named, c) {
				return []*x509.Certificate{c}, nil
			}
		}
		return nil, rejected(SignerUnknown, "the certificate that signed it is not configured, and not in it")
	}
	texts, ok := j.header.texts("x5c")
	if !ok {
		return nil, errHeader
	}
	var ders [][]byte
	for _, text := range texts {
		der, ok := decodeBase64(text)
		if !ok {
			return nil, errHeader
		}
		ders = append(ders, der)
	}
	chain, err := readChain(ders)
	if err != nil {
		return nil, err
	}
	if !matchesAll(named, chain[0]) {
		return nil, rejected(WrongSignature, "its signature names another certificate than it has")
	}
	return chain, nil
}

// thumbprints returns the digests of the signer's certificate that the header names.
func (j jws) thumbprints() (named []digest, err *Error) {
	if _, present := j.header["x5t#S256"]; present {
		text, _ := j.header.text("x5t#S256")
		value, ok := decodeBase64URL(text)
		if !ok || len(value) != crypto.SHA256.Size() {
			return nil, errHeader
		}
		named = append(named, digest{crypto.SHA256, value})
	}
	if _, present := j.header["x5t#o"]; present {
		o, _ := j.header.object("x5t#o")
		name, _ := o.text("digAlg")
		text, _ := o.text("digVal")
		value, ok := decodeBase64URL(text)
		hash := jwsDigests[name]
		if !ok || hash == 0 {
			return nil, errHeader
		}
		named = append(named, digest{hash, value})
	}
	return named, nil
}

func matchesAll(named []digest, c *x509.Certificate) bool {
	return !slices.ContainsFunc(named, func(d digest) bool { return !d.matches(c.Raw) })
}

var base64URL = base64.RawURLEncoding.Strict()

// decodeBase64URL decodes base64url without padding. No two texts have the same bytes.
func decodeBase64URL(text string) (b []byte, ok bool) {
	b, err := base64URL.DecodeString(text)
	return b, err == nil && len(text) == base64URL.EncodedLen(len(b)) // the decoder skips line breaks
}
