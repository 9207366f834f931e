// Package strict64 reads base64url without padding, as JOSE and WebAuthn write it. Each sequence of bytes has
// exactly one text: a text with line breaks or non-zero padding bits is rejected.
package strict64

import (
	"encoding/base64"
	"strings"
)

var encoding = base64.RawURLEncoding.Strict()

// Decode returns the bytes of a text. ok is false if the text is not the one that these bytes have.
func Decode(s string) (b []byte, ok bool) {
	b, err := encoding.DecodeString(s)
	return b, err == nil && len(s) == encoding.EncodedLen(len(b)) // the decoder skips line breaks
}

// DecodePadded is Decode for values that some programs pad, although their specification has no padding. The
// padding may be there in full, or absent.
func DecodePadded(s string) (b []byte, ok bool) {
	short := strings.TrimRight(s, "=")
	if short != s && (len(s)%4 != 0 || len(s)-len(short) > 2) {
		return nil, false
	}
	return Decode(short)
}
