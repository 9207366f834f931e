package session

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
)

// The common UUID packages import net for a node id that we never use, which
// the core must not; the form itself is 36 characters (RFC 9562).

// ParseUUID reads the 36-character form, in lower or upper case, and nothing else.
func ParseUUID(s string) (u [16]byte, err error) {
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return u, errors.New("not a UUID")
	}
	digits := make([]byte, 0, 32)
	digits = append(append(append(append(append(digits, s[:8]...), s[9:13]...), s[14:18]...), s[19:23]...), s[24:]...)
	if _, err := hex.Decode(u[:], digits); err != nil {
		return u, errors.New("not a UUID")
	}
	return u, nil
}

// FormatUUID writes the 36-character form in lower case.
func FormatUUID(u [16]byte) string {
	var b [36]byte
	b[8], b[13], b[18], b[23] = '-', '-', '-', '-'
	hex.Encode(b[:], u[:4])
	hex.Encode(b[9:], u[4:6])
	hex.Encode(b[14:], u[6:8])
	hex.Encode(b[19:], u[8:10])
	hex.Encode(b[24:], u[10:])
	return string(b[:])
}

// NewUUID makes a random UUID (version 4).
func NewUUID(random io.Reader) (string, error) {
	var u [16]byte
	if _, err := io.ReadFull(random, u[:]); err != nil {
		return "", fmt.Errorf("reading randomness: %w", err)
	}
	u[6] = u[6]&0x0f | 0x40
	u[8] = u[8]&0x3f | 0x80
	return FormatUUID(u), nil
}
