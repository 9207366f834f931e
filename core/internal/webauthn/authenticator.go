package webauthn

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"

	"github.com/verge-id/verge/core/cbor"
)

// Flags of authenticator data (section 6.1).
const (
	flagPresent        = 1 << 0
	flagVerified       = 1 << 2
	flagBackupEligible = 1 << 3
	flagBackedUp       = 1 << 4
	flagAttested       = 1 << 6
	flagExtensions     = 1 << 7
)

// Offsets and lengths in the fixed part of authenticator data.
const (
	atFlags   = sha256.Size
	atCounter = atFlags + 1
	fixed     = atCounter + 4
	aaguid    = 16 // bytes of the attested part before the id's length
)

// canonical is the CBOR form that authenticators write.
var canonical = cbor.Options{Canonical: true}

// authenticatorData is an authenticator's data about itself, its user and a new credential.
type authenticatorData struct {
	flags   byte
	counter uint32
	id      []byte // of a new credential
	key     []byte // of a new credential, in COSE
}

func (d authenticatorData) has(flag byte) bool { return d.flags&flag != 0 }

// readAuthenticatorData reads the data and checks all of it except the signature. It must contain a new
// credential if attested is true, and must not otherwise. Extensions were not requested, but some
// authenticators send them; they are ignored. The two reserved flags are ignored as well.
func readAuthenticatorData(rp RelyingParty, b []byte, attested bool) (d authenticatorData, err error) {
	if len(b) < fixed {
		return d, rejected(badData)
	}
	if subtle.ConstantTimeCompare(b[:atFlags], rp.hash[:]) == 0 {
		return d, rejected(wrongParty)
	}
	d.flags, d.counter = b[atFlags], binary.BigEndian.Uint32(b[atCounter:])
	switch {
	case !d.has(flagPresent):
		return d, rejected(notPresent)
	case !d.has(flagVerified):
		return d, rejected(notVerified)
	case d.has(flagBackedUp) && !d.has(flagBackupEligible):
		return d, rejected(badBackup)
	case d.has(flagAttested) != attested:
		return d, rejected(badData)
	}
	rest := b[fixed:]
	if attested {
		if rest, err = d.readCredential(rest); err != nil {
			return d, err
		}
	}
	if d.has(flagExtensions) {
		extensions, behind, err := cbor.ReadFirst(rest, canonical)
		if _, ok := extensions.Pairs(); err != nil || !ok {
			return d, rejected(badData)
		}
		rest = behind
	}
	if len(rest) > 0 {
		return d, rejected(badData)
	}
	return d, nil
}

// readCredential reads the attested part and returns the remaining bytes.
func (d *authenticatorData) readCredential(b []byte) (rest []byte, err error) {
	if len(b) < aaguid+2 {
		return nil, rejected(badData)
	}
	n := int(binary.BigEndian.Uint16(b[aaguid:]))
	if b = b[aaguid+2:]; n < 1 || n > maxID {
		return nil, rejected(badID)
	}
	if len(b) < n {
		return nil, rejected(badData)
	}
	d.id = b[:n]
	key, rest, err := cbor.ReadFirst(b[n:], canonical)
	if err != nil {
		return nil, rejected(badKey)
	}
	d.key = key.Raw()
	return rest, nil
}
