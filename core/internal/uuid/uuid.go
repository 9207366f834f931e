// Package uuid reads, writes and makes UUIDs (RFC 9562) in their form of 36
// characters. The common UUID packages import net for a node id, which the
// core must not import and never needs.
package uuid

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
)

// Parse reads the form of 36 characters, in lower or upper case, and nothing else.
func Parse(s string) (u [16]byte, err error) {
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return u, errors.New("not a UUID")
	}
	digits := make([]byte, 0, 32)
	digits = append(append(append(digits, s[:8]...), s[9:13]...), s[14:18]...)
	digits = append(append(digits, s[19:23]...), s[24:]...)
	if _, err := hex.Decode(u[:], digits); err != nil {
		return u, errors.New("not a UUID")
	}
	return u, nil
}

// Format writes the form of 36 characters in lower case.
func Format(u [16]byte) string {
	var b [36]byte
	b[8], b[13], b[18], b[23] = '-', '-', '-', '-'
	hex.Encode(b[:], u[:4])
	hex.Encode(b[9:], u[4:6])
	hex.Encode(b[14:], u[6:8])
	hex.Encode(b[19:], u[8:10])
	hex.Encode(b[24:], u[10:])
	return string(b[:])
}

// New makes a random UUID (version 4).
func New(random io.Reader) (string, error) {
	var u [16]byte
	if _, err := io.ReadFull(random, u[:]); err != nil {
		return "", fmt.Errorf("reading randomness: %w", err)
	}
	u[6] = u[6]&0x0f | 0x40
	u[8] = u[8]&0x3f | 0x80
	return Format(u), nil
}
