package token

import (
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/crypto/chacha20poly1305"

	"github.com/verge-id/verge/core/host"
)

const (
	keyIDSize  = 4
	secretSize = 32
)

// Key is one root secret of a ring. Everything it seals is sealed with a key
// derived from it for one purpose.
type Key struct {
	ID      string    // 8 hexadecimal digits
	Secret  []byte    // 32 bytes
	Created time.Time // when it began to seal
}

// String names the key and never shows its secret, whatever prints it.
func (k Key) String() string { return "key " + k.ID }

// GoString does as String, for %#v.
func (k Key) GoString() string { return k.String() }

// GenerateKey makes a fresh key.
func GenerateKey(random io.Reader, now time.Time) (Key, error) {
	b := make([]byte, keyIDSize+secretSize)
	if _, err := io.ReadFull(random, b); err != nil {
		return Key{}, fmt.Errorf("token: reading randomness: %w", err)
	}
	return Key{ID: hex.EncodeToString(b[:keyIDSize]), Secret: b[keyIDSize:], Created: now.UTC().Truncate(time.Second)}, nil
}

// Ring is the key ring of one host name: the first key seals, all open. It
// implements host.Sealer and may be used concurrently.
type Ring struct {
	host   string
	random io.Reader
	first  *derived
	byID   map[[keyIDSize]byte]*derived
}

var _ host.Sealer = (*Ring)(nil)

// derived holds what a purpose may use of one root key. Nothing is derived
// on the request path.
type derived struct {
	id  [keyIDSize]byte
	use map[string]purposeKeys
}

type purposeKeys struct {
	aead   cipher.AEAD
	header []byte // of every JWS
	jws    []byte
	mac    []byte
}

// NewRing returns the ring of keys, the sealing one first. Tokens are bound
// to the host name: a staging deployment that shares keys with production
// still opens none of its tokens.
func NewRing(host string, random io.Reader, keys ...Key) (*Ring, error) {
	if len(keys) == 0 {
		return nil, errors.New("token: the key ring is empty; it needs at least one key")
	}
	r := &Ring{host: host, random: random, byID: make(map[[keyIDSize]byte]*derived, len(keys))}
	for _, k := range keys {
		d, err := derive(k)
		if err != nil {
			return nil, err
		}
		if _, dup := r.byID[d.id]; dup {
			return nil, fmt.Errorf("token: key id %s is in the ring twice", k.ID)
		}
		if r.first == nil {
			r.first = d
		}
		r.byID[d.id] = d
	}
	return r, nil
}

func derive(k Key) (*derived, error) {
	d := &derived{use: make(map[string]purposeKeys, len(purposes))}
	var err error
	if d.id, err = parseKeyID(k.ID); err != nil {
		return nil, fmt.Errorf("token: %w", err)
	}
	if len(k.Secret) != secretSize {
		// The secret itself is never printed, not even a wrong one.
		return nil, fmt.Errorf("token: key %s: the secret has %d bytes, not %d", k.ID, len(k.Secret), secretSize)
	}
	for _, purpose := range purposes {
		pk := purposeKeys{header: jwsHeader(k.ID, purpose)}
		var aeadKey []byte
		for label, dst := range map[string]*[]byte{labelAEAD: &aeadKey, labelJWS: &pk.jws, labelMAC: &pk.mac} {
			key, err := hkdf.Key(sha256.New, k.Secret, nil, label+purpose, secretSize)
			if err != nil {
				return nil, fmt.Errorf("token: deriving a key: %w", err)
			}
			*dst = key
		}
		if pk.aead, err = chacha20poly1305.NewX(aeadKey); err != nil {
			return nil, fmt.Errorf("token: %w", err)
		}
		d.use[purpose] = pk
	}
	return d, nil
}

// parseKeyID reads a key's id. The error does not repeat it.
func parseKeyID(s string) (id [keyIDSize]byte, err error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != keyIDSize || hex.EncodeToString(b) != s {
		return id, errors.New("the id is not 8 lower-case hexadecimal digits")
	}
	return [keyIDSize]byte(b), nil
}

// MAC implements host.Sealer: the key's id, then HMAC-SHA256 cut to 128 bits.
func (r *Ring) MAC(purpose string, message []byte) ([]byte, error) {
	pk, ok := r.first.use[purpose]
	if !ok {
		return nil, fmt.Errorf("token: unknown purpose %q", purpose)
	}
	return append(r.first.id[:], tag(pk.mac, message)...), nil
}

// CheckMAC implements host.Sealer.
func (r *Ring) CheckMAC(purpose string, message, mac []byte) bool {
	if len(mac) != MACSize {
		return false
	}
	d, ok := r.byID[[keyIDSize]byte(mac)]
	if !ok {
		return false
	}
	pk, ok := d.use[purpose]
	return ok && hmac.Equal(mac[keyIDSize:], tag(pk.mac, message))
}

// MACSize is the length of what MAC returns.
const MACSize = keyIDSize + tagSize

const tagSize = 16

func tag(key, message []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write(message)
	return h.Sum(nil)[:tagSize]
}
