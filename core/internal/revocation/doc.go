// Package revocation reads lists of revoked documents and certificates. It is pure: a caller fetches the
// lists, and passes them with the time and with mdoc.Lists, which checks their signers.
//
//   - ReadStatusList reads a status list token (draft-ietf-oauth-status-list), as a JWT or as a CWT.
//   - ReadCRL reads a certificate revocation list (RFC 5280).
//
// Both return a list only if everything in it was checked: its signature, its dates, its scope. An error
// means that the list must not be used. The error has no data of the list.
//
// # Dates
//
// A list counts until the end that it names: exp, or nextUpdate. A status list without exp counts for a week
// after iat. It counts no longer than the certificate of its signer. A newer list is asked for earlier than
// that: after ttl, which counts as at least a minute and at most a day, after 15 minutes if the list has no
// ttl, and after an hour for a certificate revocation list.
//
// # Limits
//
// A list has less than MaxSize bytes, and a status list at most 4 MiB when it is decompressed: 33 million
// documents of one bit.
//
// # Limits
//
// Delta lists, indirect lists and lists of some reasons only are rejected. Identifier lists (ISO/IEC 18013-5,
// second edition) are not read. Whether the certificate of a status list's signer was revoked is not checked.
package revocation

import "time"

// MaxSize is the number of bytes that a list must not reach.
const MaxSize = 1 << 20

// margin is the difference that the clocks of an issuer and of this service may have.
const margin = 30 * time.Second

// Error is the reason why a list must not be used: a constant text, for logs.
type Error string

func (e Error) Error() string { return "revocation: " + string(e) }

// Dates are the dates of a list.
type Dates struct {
	Issued time.Time // an older list must not replace it
	Fresh  time.Time // until then, no newer list is needed
	Until  time.Time // the list counts until then
}

// earliest returns the first of two times.
func earliest(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// Dating returns the dates of a list.
func (d Dates) Dating() Dates { return d }
