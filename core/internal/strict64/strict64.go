// Package strict64 reads base64url without padding, as JOSE and WebAuthn write it. One sequence of bytes has
// one text: one with line breaks, or with bits that mean nothing, is refused.
package strict64

import "encoding/base64"

var encoding = base64.RawURLEncoding.Strict()

// Decode returns the bytes of a text. ok is false if the text is not the one that these bytes have.
func Decode(s string) (b []byte, ok bool) {
	b, err := encoding.DecodeString(s)
	return b, err == nil && len(s) == encoding.EncodedLen(len(b)) // the decoder skips line breaks
}
