package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Headers that every webhook request carries.
const (
	HeaderSignature = "X-Service-Signature" // t=<unix seconds>,v1=<hex HMAC-SHA256>
	HeaderTimestamp = "X-Service-Timestamp" // unix seconds, equal to t
)

// defaultTolerance is how far t may be from the receiver's clock in either direction. A difference of
// exactly this much is accepted.
const defaultTolerance = 300 * time.Second

// maxSignature limits the header before it is parsed. Our header has 81 bytes. The rest is for later
// versions.
const maxSignature = 1024

// maxTimestampDigits keeps t below the year 33,659, so that a difference of two times cannot overflow.
const maxTimestampDigits = 12

// Sign returns the value of HeaderSignature for one attempt at t.
//
// The secret must not be empty. Verify rejects every signature with an empty secret, because anyone could
// have created it.
func Sign(secret string, t time.Time, body []byte) string {
	ts := strconv.FormatInt(t.Unix(), 10)
	return "t=" + ts + ",v1=" + hex.EncodeToString(mac(secret, ts, body))
}

// Headers returns all headers of one attempt at t to post the event with this id, including Content-Type.
// The headers of Standard Webhooks are among them if secret, or the secret of a staged change, has its form
// (contract 51). Only they have a signature of the staged secret.
func Headers(id string, t time.Time, body []byte, secret string, staged ...string) map[string]string {
	header := map[string]string{
		"Content-Type":  "application/json; charset=utf-8",
		HeaderSignature: Sign(secret, t, body),
		HeaderTimestamp: strconv.FormatInt(t.Unix(), 10),
	}
	addStandard(header, id, t, body, append([]string{secret}, staged...))
	return header
}

// mac binds the time to the body. ts contains no dot, so no two pairs of time and body have the same
// signing string.
func mac(secret, ts string, body []byte) []byte {
	h := hmac.New(sha256.New, []byte(secret))
	h.Write([]byte(ts))
	h.Write([]byte{'.'})
	h.Write(body)
	return h.Sum(nil)
}

// VerifyError is the step of the algorithm at which a request was rejected.
type VerifyError struct {
	Step   int    // 1 to 6, as numbered at Verify
	Reason string // the error and the next step; safe in logs and responses
}

func (e *VerifyError) Error() string {
	return fmt.Sprintf("webhook rejected at step %d: %s", e.Step, e.Reason)
}

// Verify returns nil if the request was signed with secret and is recent. Otherwise it returns a
// *VerifyError, and the receiver must return 401 (step 7). header is an http.Header; the case of its names is
// ignored, so the map of any framework works. body is the unchanged raw body. A tolerance of zero or less is
// 5 minutes.
//
// The steps, in order; the first to fail is reported:
//
//  1. X-Service-Signature is present once, has at most 1,024 bytes, and contains t
//     and v1 once each: t a decimal number of up to 12 digits without sign or
//     leading zero, v1 64 hexadecimal digits of either case. The elements may
//     be in any order and have spaces around them; other names are ignored,
//     so that a later release can add v2.
//  2. X-Service-Timestamp, if present, is t, character for character.
//  3. The signing string is t, a dot and the body.
//  4. Its HMAC-SHA256 is computed with the secret, which must not be empty.
//  5. v1 is that HMAC, compared as bytes in constant time.
//  6. t is no further from now than the tolerance, in whole seconds.
//
// A request that is both old and badly signed is reported at step 5, because the t of an unauthentic
// request means nothing.
//
// A request with headers of Standard Webhooks must have all three, once each, if secret is whsec_ and the
// base64 of 32 bytes (step 1). Its webhook-timestamp must be t (step 2), and one of the signatures in
// webhook-signature must be that of the secret (step 5). So its webhook-id is authentic, too.
func Verify(
	secret string, header map[string][]string, body []byte, now time.Time, tolerance time.Duration,
) error {
	signatures := values(header, HeaderSignature)
	switch len(signatures) {
	case 0:
		return reject(1, "%s is missing; check whether a proxy drops it, and whether the service "+
			"sent this request",
			HeaderSignature)
	case 1:
	default:
		return reject(1, "%s occurs %d times; check whether a proxy doubles it", HeaderSignature,
			len(signatures))
	}
	sig, err := parseSignature(signatures[0])
	if err != nil {
		return err
	}
	std, err := parseStandard(secret, header)
	if err != nil {
		return err
	}

	for _, other := range values(header, HeaderTimestamp) {
		if other != sig.ts {
			return reject(2, "%s differs from t in %s; check whether a proxy sets it",
				HeaderTimestamp, HeaderSignature)
		}
	}
	if std.key != nil && std.ts != sig.ts {
		return reject(2, "%s differs from t in %s; check whether a proxy sets it",
			headerStandardTimestamp, HeaderSignature)
	}

	if secret == "" {
		return reject(4, "no webhook secret given; check this receiver's configuration")
	}
	if !hmac.Equal(mac(secret, sig.ts, body), sig.v1) {
		// The error must not contain the secret or the expected HMAC. Errors appear in logs and responses,
		// and an attacker could use the HMAC.
		if secret != strings.TrimSpace(secret) {
			return reject(5, "v1 does not match; the secret has white space at its ends")
		}
		return reject(5, "v1 does not match; check that the secret is this integration's, "+
			"and that the body is the raw bytes received and not JSON that was parsed and written again")
	}
	if !std.matches(body) {
		return reject(5, "no signature in %s matches; check whether a proxy changes it or %s",
			headerStandardSignature, headerStandardID)
	}

	if tolerance <= 0 {
		tolerance = defaultTolerance
	}
	limit := int64(tolerance / time.Second)
	switch age := now.Unix() - sig.t; {
	case age > limit:
		return reject(6, "signed %d s ago, more than %d s; check this receiver's clock; "+
			"if it is right, this is a replay",
			age, limit)
	case -age > limit:
		return reject(6, "signed %d s in the future, more than %d s; check this receiver's clock", -age,
			limit)
	}
	return nil
}

// signature is a header that has passed step 1.
type signature struct {
	ts string // t as it is in the header, because that text was signed
	t  int64
	v1 []byte
}

// parseSignature does step 1 for the header's value.
func parseSignature(s string) (sig signature, err error) {
	if len(s) > maxSignature {
		return sig, reject(1, "%s has %d bytes, more than %d", HeaderSignature, len(s), maxSignature)
	}
	found := map[string]string{}
	for element := range strings.SplitSeq(s, ",") {
		name, value, ok := strings.Cut(strings.Trim(element, " \t"), "=")
		if !ok {
			return sig, reject(1, "%s has an element without '='; it must look like t=…,v1=…",
				HeaderSignature)
		}
		if name != "t" && name != "v1" {
			continue
		}
		// An element that occurs twice is rejected. Otherwise, receivers that use the first and receivers
		// that use the last would disagree about the signed text.
		if _, twice := found[name]; twice {
			return sig, reject(1, "%s has %s twice", HeaderSignature, name)
		}
		found[name] = value
	}
	for _, name := range []string{"t", "v1"} {
		if _, ok := found[name]; !ok {
			return sig, reject(1, "%s has no %s", HeaderSignature, name)
		}
	}

	var ok bool
	sig.ts = found["t"]
	if sig.t, ok = parseTimestamp(sig.ts); !ok {
		return sig, reject(1, "t in %s is not a decimal number of up to %d digits",
			HeaderSignature, maxTimestampDigits)
	}
	sig.v1, err = hex.DecodeString(found["v1"])
	if err != nil || len(sig.v1) != sha256.Size {
		return sig, reject(1, "v1 in %s is not %d hexadecimal digits", HeaderSignature, 2*sha256.Size)
	}
	return sig, nil
}

// parseTimestamp accepts only one encoding of t. So a receiver that signs the text and one that signs
// the number sign the same bytes.
func parseTimestamp(s string) (t int64, ok bool) {
	if len(s) > maxTimestampDigits {
		return 0, false
	}
	t, err := strconv.ParseInt(s, 10, 64)
	return t, err == nil && t >= 0 && strconv.FormatInt(t, 10) == s
}

// values collects a header under all spellings of its name. Only a map that does not come from net/http
// can have several. They count as duplicates.
func values(header map[string][]string, name string) []string {
	var all []string
	for k, v := range header {
		if strings.EqualFold(k, name) {
			all = append(all, v...)
		}
	}
	return all
}

func reject(step int, format string, args ...any) *VerifyError {
	return &VerifyError{Step: step, Reason: fmt.Sprintf(format, args...)}
}
