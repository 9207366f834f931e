package integration

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"io"
	"math/big"
	"strings"
	"time"
)

// Prefixes of the two kinds of API key (spec, Authentication).
const (
	SecretPrefix = "svc_sk_"
	PublicPrefix = "svc_pk_"
)

// An API key consists of its prefix, 32 random bytes in base62 (43 digits, most significant first), and
// the CRC-32 (IEEE) of all that in base62 (6 digits). The checksum is no secret. With it a mistyped key
// fails without a look-up, and scanners can recognise a leaked key (contract 12).
const (
	keyBytes       = 32
	keyDigits      = 43
	checksumDigits = 6
	keyTail        = keyDigits + checksumDigits
	base62         = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)

// Key is the stored record of an API key.
type Key struct {
	ID            string     `json:"id"` // key_…, from the hash
	PublisherID   string     `json:"publisher_id"`
	IntegrationID string     `json:"integration_id,omitempty"` // public keys only
	Last4         string     `json:"last4"`
	Created       time.Time  `json:"created"`
	Expires       *time.Time `json:"expires,omitempty"`
	Revoked       *time.Time `json:"revoked,omitempty"`
}

// Public reports whether the key may only start sessions of its integration, from a browser.
func (k Key) Public() bool { return k.IntegrationID != "" }

// Active reports whether the key authenticates at now.
func (k Key) Active(now time.Time) bool {
	return k.Revoked == nil && (k.Expires == nil || now.Before(*k.Expires))
}

// GenerateKey makes the text of a new key with the prefix. Other secrets that Verge gives out, such as
// operators' tokens, have this form with prefixes of their own.
func GenerateKey(prefix string, random io.Reader) (string, error) {
	b := make([]byte, keyBytes)
	if _, err := io.ReadFull(random, b); err != nil {
		return "", fmt.Errorf("integration: reading randomness: %w", err)
	}
	s := prefix + encode62(new(big.Int).SetBytes(b), keyDigits)
	sum := checksum(s)
	return s + string(sum[:]), nil
}

// WellFormed reports whether s has the form and the checksum of a key with the prefix.
func WellFormed(prefix, s string) bool {
	if len(s) != len(prefix)+keyTail || !strings.HasPrefix(s, prefix) {
		return false
	}
	for i := len(prefix); i < len(s); i++ {
		if !isBase62[s[i]] {
			return false
		}
	}
	body, digits := s[:len(s)-checksumDigits], s[len(s)-checksumDigits:]
	sum := checksum(body)
	return string(sum[:]) == digits
}

var isBase62 = func() (is [256]bool) {
	for _, c := range []byte(base62) {
		is[c] = true
	}
	return is
}()

// Presented is the text of a key after one check and one hash. The zero value is a text that is not
// well formed.
type Presented struct {
	name   string // of its item
	public bool
}

// Present reads a text that a caller presents as a key with the prefix.
func Present(prefix, text string) Presented {
	if !WellFormed(prefix, text) {
		return Presented{}
	}
	return Presented{itemName(text), prefix == PublicPrefix}
}

// ID returns the ID that the key's record has, if there is a record. It is "" for a text that is not
// well formed.
func (p Presented) ID() string {
	if p.name == "" {
		return ""
	}
	return keyIDOf(p.name)
}

// itemName returns the name under which a key is stored. A plain hash is enough, because the 256 random
// bits of a key cannot be guessed.
func itemName(text string) string {
	h := sha256.Sum256([]byte(text))
	var name [len(keyItems) + 2*len(h)]byte
	hex.Encode(name[copy(name[:], keyItems):], h[:])
	return string(name[:])
}

func checksum(s string) (digits [checksumDigits]byte) {
	n := crc32.ChecksumIEEE([]byte(s))
	for i := checksumDigits - 1; i >= 0; i-- {
		digits[i] = base62[n%62]
		n /= 62
	}
	return digits
}

func encode62(n *big.Int, digits int) string {
	out := make([]byte, digits)
	base, digit := big.NewInt(62), new(big.Int)
	for i := digits - 1; i >= 0; i-- {
		n.DivMod(n, base, digit)
		out[i] = base62[digit.Int64()]
	}
	return string(out)
}
