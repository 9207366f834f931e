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

// Where the fixed part of authenticator data has what.
const (
	atFlags   = sha256.Size
	atCounter = atFlags + 1
	fixed     = atCounter + 4
	aaguid    = 16 // bytes of the attested part before the id's length
)

// canonical is the form in which authenticators write.
var canonical = cbor.Options{Canonical: true}

// authenticatorData is what the authenticator says of itself and of its user.
type authenticatorData struct {
	flags   byte
	counter uint32
	id      []byte // of a new credential
	key     []byte // of a new credential, in COSE
}

func (d authenticatorData) has(flag byte) bool { return d.flags&flag != 0 }

// readAuthenticatorData reads and checks all but the signature. A new credential is there if and only if it
// is wanted. Extensions were not asked for. Authenticators may send some, and they are ignored. The two
// flags that the specification reserves are ignored, too.
func readAuthenticatorData(rp RelyingParty, b []byte, attested bool) (d authenticatorData, err error) {
	if len(b) < fixed {
		return d, refused(badData)
	}
	if subtle.ConstantTimeCompare(b[:atFlags], rp.hash[:]) == 0 {
		return d, refused(wrongParty)
	}
	d.flags, d.counter = b[atFlags], binary.BigEndian.Uint32(b[atCounter:])
	switch {
	case !d.has(flagPresent):
		return d, refused(notPresent)
	case !d.has(flagVerified):
		return d, refused(notVerified)
	case d.has(flagBackedUp) && !d.has(flagBackupEligible):
		return d, refused(badBackup)
	case d.has(flagAttested) != attested:
		return d, refused(badData)
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
			return d, refused(badData)
		}
		rest = behind
	}
	if len(rest) > 0 {
		return d, refused(badData)
	}
	return d, nil
}

// readCredential reads the attested part and returns what stands behind it.
func (d *authenticatorData) readCredential(b []byte) (rest []byte, err error) {
	if len(b) < aaguid+2 {
		return nil, refused(badData)
	}
	n := int(binary.BigEndian.Uint16(b[aaguid:]))
	if b = b[aaguid+2:]; n < 1 || n > maxID {
		return nil, refused(badID)
	}
	if len(b) < n {
		return nil, refused(badData)
	}
	d.id = b[:n]
	key, rest, err := cbor.ReadFirst(b[n:], canonical)
	if err != nil {
		return nil, refused(badKey)
	}
	d.key = key.Raw()
	return rest, nil
}
