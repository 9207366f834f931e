package token

import (
	"bytes"
	"crypto/cipher"
	"crypto/fips140"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"sync"
	"time"

	"golang.org/x/crypto/chacha20poly1305"

	"github.com/verge-id/verge/core/host"
)

const keyIDSize = 4

// SecretSize is the size of a key's secret, in bytes.
const SecretSize = 32

// Key is one root secret of a ring. It is not used directly: a key is derived from it for each purpose.
type Key struct {
	ID      string // 8 hexadecimal digits
	Secret  []byte // 32 bytes
	Created time.Time
}

// RingKey is a key and the time span in which it is active.
type RingKey struct {
	Key
	SealsFrom time.Time // zero: from its creation
	Replaced  time.Time // when its successor becomes active; zero for the newest

	// Bound is set for keys of releases that bind session ids to the host name and store nothing without a
	// MAC. In a file, a key is bound if it has seals_from.
	Bound bool

	// Alone is set after all long-lived records were signed again with this key. After that, an older key
	// of the ring no longer authenticates them (CheckLongLived). The file does not contain it.
	Alone bool
}

// String returns the key's name. It never contains the secret.
func (k Key) String() string { return "key " + k.ID }

// GoString returns the result of String, for %#v.
func (k Key) GoString() string { return k.String() }

// GenerateKey returns a new key.
func GenerateKey(random io.Reader, now time.Time) (Key, error) {
	b := make([]byte, keyIDSize+SecretSize)
	if _, err := io.ReadFull(random, b); err != nil {
		return Key{}, fmt.Errorf("token: reading randomness: %w", err)
	}
	return Key{
		ID:      hex.EncodeToString(b[:keyIDSize]),
		Secret:  b[keyIDSize:],
		Created: now.UTC().Truncate(time.Second),
	}, nil
}

// Identity identifies a key among its holders, without its secret.
type Identity struct {
	// Fingerprint identifies a key without revealing it: 16 hexadecimal digits that are derived from the
	// secret. Two keys can have the same id, by chance or by copying. They never have the same fingerprint.
	Fingerprint string

	vouch *macer
}

// Identity derives the key's identity.
func (k Key) Identity() Identity {
	root := extract(k.Secret)
	return Identity{hex.EncodeToString(expand(root, labelFingerprint, 8)),
		newMACer(expand(root, labelMAC+keySet, SecretSize))}
}

// Fingerprint returns the fingerprint of the key's identity.
func (k Key) Fingerprint() string { return k.Identity().Fingerprint }

// Vouch returns a MAC over a message about the ring itself. Holders of this key can verify the message with
// it.
func (i Identity) Vouch(message []byte) []byte { return i.vouch.appendMAC(nil, nil, message)[:tagSize] }

// extract and expand are the two steps of HKDF. The first is half of the work, and is done once for a secret.
func extract(secret []byte) []byte {
	root, err := hkdf.Extract(sha256.New, secret, nil)
	if err != nil {
		panic(err) // only for a hash or a secret that is not approved
	}
	return root
}

func expand(root []byte, label string, size int) []byte {
	key, err := hkdf.Expand(sha256.New, root, label, size)
	if err != nil {
		panic(err) // only for a length that no hash allows
	}
	return key
}

// SameMAC compares MACs in constant time.
func SameMAC(a, b []byte) bool { return hmac.Equal(a, b) }

// Ring is the key ring of one host name. The newest key whose time has come is active; all keys open. It
// implements host.Sealer and may be used concurrently.
type Ring struct {
	host   string
	random io.Reader
	now    func() time.Time // nil: all keys' times have come
	keys   []*derived       // newest first

	// absent is the time until which items without a MAC were stored: when the first bound key became
	// active. missing is set if the ring has no key from before, so that no item without a MAC was ever
	// stored with it.
	absent  time.Time
	missing bool

	byID map[[keyIDSize]byte]*derived
}

var _ host.Sealer = (*Ring)(nil)

// derived has the keys of all purposes for one root key. Each is derived at its first use.
type derived struct {
	root  RingKey
	id    [keyIDSize]byte
	from  time.Time // when the key becomes active; zero: already
	until time.Time // when its successor becomes active; zero: it has no successor
	alone bool      // RingKey.Alone
	past  bool      // a newer key is alone
	use   map[string]func() *purposeKeys
}

type purposeKeys struct {
	aead       cipher.AEAD
	associated []byte // data of the AEAD
	header     []byte // of every JWS
	input      []byte // the header, encoded, and a dot: the begin of the signed text of every JWS
	jws        *macer
	mac        *macer
	prefix     []byte // of every message with a MAC
}

// NewRing returns the ring of keys. The first one is active. Tokens are bound to the host name: a
// staging deployment that shares its keys with production still cannot open production's tokens.
func NewRing(host string, random io.Reader, keys ...Key) (*Ring, error) {
	timeless := make([]RingKey, len(keys))
	for i, k := range keys {
		timeless[i].Key = k
	}
	return NewTimedRing(host, random, nil, timeless)
}

// NewTimedRing returns the ring of keys with their times. now is the clock. If it is nil, the first key is
// active.
func NewTimedRing(host string, random io.Reader, now func() time.Time, keys []RingKey) (*Ring, error) {
	return (&Ring{host: host, random: random, now: now}).With(keys)
}

// With returns the ring of other keys, with their times. Keys that r has are not derived again.
func (r *Ring) With(keys []RingKey) (*Ring, error) {
	if len(keys) == 0 {
		return nil, errors.New("token: the key ring is empty; it needs at least one key")
	}
	before := r
	r = &Ring{host: r.host, random: r.random, now: r.now,
		byID: make(map[[keyIDSize]byte]*derived, len(keys))}
	past := false
	for _, k := range keys {
		d, err := before.derive(k)
		if err != nil {
			return nil, err
		}
		if _, dup := r.byID[d.id]; dup {
			return nil, fmt.Errorf("token: key id %s is in the ring twice", k.ID)
		}
		d.from, d.until, d.alone, d.past = k.SealsFrom, k.Replaced, k.Alone, past
		past = past || k.Alone
		if k.Bound {
			r.absent, r.missing = k.SealsFrom, true // unless the ring has an older key
		} else {
			r.missing = false
		}
		r.keys = append(r.keys, d)
		r.byID[d.id] = d
	}
	return r, nil
}

// sealing returns the active key: the newest whose time has come, or the oldest if none has. If a key is
// alone, its time has come, regardless of this clock.
func (r *Ring) sealing() *derived {
	last := len(r.keys) - 1
	if r.now == nil || r.keys[0].from.IsZero() {
		return r.keys[0]
	}
	now := r.now()
	for _, d := range r.keys[:last] {
		if d.alone || !now.Before(d.from) {
			return d
		}
	}
	return r.keys[last]
}

// SealingKey returns the id of the active key.
func (r *Ring) SealingKey() string {
	id := r.sealing().id
	return hex.EncodeToString(id[:])
}

// derive returns a key without its times. It reuses the keys that the ring has already derived from it.
func (r *Ring) derive(k RingKey) (*derived, error) {
	for _, d := range r.keys {
		if d.root.ID == k.ID && bytes.Equal(d.root.Secret, k.Secret) && d.root.Bound == k.Bound {
			return &derived{root: k, id: d.id, use: d.use}, nil
		}
	}
	d := &derived{root: k, use: make(map[string]func() *purposeKeys, len(purposes))}
	var err error
	if d.id, err = ParseKeyID(k.ID); err != nil {
		return nil, fmt.Errorf("token: %w", err)
	}
	if len(k.Secret) != SecretSize {
		// The error must not contain the secret, not even an invalid one.
		return nil, fmt.Errorf("token: key %s: the secret has %d bytes, not %d", k.ID, len(k.Secret),
			SecretSize)
	}
	root, host := extract(k.Secret), r.host
	for _, purpose := range purposes {
		d.use[purpose] = sync.OnceValue(func() *purposeKeys { return d.purposeKeys(root, purpose, host) })
	}
	return d, nil
}

// purposeKeys derives the keys of one purpose.
func (d *derived) purposeKeys(root []byte, purpose, host string) *purposeKeys {
	pk := &purposeKeys{header: jwsHeader(d.root.ID, purpose), associated: associated(d.id, purpose, host)}
	pk.input = append(base64.RawURLEncoding.AppendEncode(nil, pk.header), '.')
	aeadKey := expand(root, labelAEAD+purpose, SecretSize)
	var err error
	// A process under GODEBUG=fips140=only must read the tokens of the others.
	fips140.WithoutEnforcement(func() { pk.aead, err = chacha20poly1305.NewX(aeadKey) })
	if err != nil {
		panic(err) // only for a key of another size
	}
	pk.jws = newMACer(expand(root, labelJWS+purpose, SecretSize))
	pk.mac = newMACer(expand(root, labelMAC+purpose, SecretSize))
	if purpose == SessionID && d.root.Bound {
		pk.prefix = append([]byte(host), 0)
	}
	return pk
}

// keysOf returns the keys of a purpose. ok is false if no key has that purpose.
func (d *derived) keysOf(purpose string) (pk *purposeKeys, ok bool) {
	derive, ok := d.use[purpose]
	if !ok {
		return nil, false
	}
	return derive(), true
}

// ParseKeyID parses a key's id. The error does not contain it.
func ParseKeyID(s string) (id [keyIDSize]byte, err error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != keyIDSize || hex.EncodeToString(b) != s {
		return id, errors.New("the id is not 8 lower-case hexadecimal digits")
	}
	return [keyIDSize]byte(b), nil
}

// MAC implements host.Sealer: the key's id, followed by HMAC-SHA256 truncated to 128 bits.
func (r *Ring) MAC(purpose string, message []byte) ([]byte, error) {
	d := r.sealing()
	pk, ok := d.keysOf(purpose)
	if !ok {
		return nil, fmt.Errorf("token: unknown purpose %q", purpose)
	}
	mac := append(make([]byte, 0, keyIDSize+sha256.Size), d.id[:]...)
	return pk.mac.appendMAC(mac, pk.prefix, message)[:host.MACSize], nil
}

// CheckMAC implements host.Sealer.
func (r *Ring) CheckMAC(purpose string, message, mac []byte) (until time.Time, err error) {
	if mac == nil && purpose == recordMAC && !r.missing {
		return r.absent, nil
	}
	if len(mac) != host.MACSize {
		return until, host.ErrNotAuthentic
	}
	d, ok := r.byID[[keyIDSize]byte(mac)]
	if !ok {
		return until, host.ErrNotAuthentic
	}
	if purpose == superseded && d.past {
		return d.until, nil
	}
	pk, ok := d.keysOf(purpose)
	if !ok || !pk.mac.matches(mac[keyIDSize:], pk.prefix, message) {
		return until, host.ErrNotAuthentic
	}
	return d.until, nil
}

// SealedWith returns the id of the key that sealed a token, or "" if the bytes are not a token. It does not
// check whether the token is authentic.
func SealedWith(sealed []byte) string {
	if len(sealed) < sealHead || sealed[0] != sealVersion {
		return ""
	}
	return hex.EncodeToString(sealed[1 : 1+keyIDSize])
}

// MACedWith returns the id of the key that made a MAC, or "" if the bytes are not a MAC.
func MACedWith(mac []byte) string {
	if len(mac) != host.MACSize {
		return ""
	}
	return hex.EncodeToString(mac[:keyIDSize])
}

const tagSize = host.MACSize - keyIDSize

// macer makes MACs with one key. It keeps hashes that are already initialized with the key: for a short
// message, this initialization takes longer than the rest.
type macer struct{ hashes sync.Pool } // of *keyedHash

// keyedHash is HMAC-SHA256 with a key, and memory for one message and one MAC.
type keyedHash struct {
	hash.Hash
	message, mac []byte
}

func newMACer(key []byte) *macer {
	return &macer{sync.Pool{New: func() any { return &keyedHash{Hash: hmac.New(sha256.New, key)} }}}
}

// appendMAC appends the MAC of a message to b.
func (m *macer) appendMAC(b, prefix, message []byte) []byte {
	h := m.hashes.Get().(*keyedHash)
	defer m.hashes.Put(h)
	return h.appendMAC(b, prefix, message)
}

// matches reports whether mac is the beginning of the MAC of a message.
func (m *macer) matches(mac, prefix, message []byte) bool {
	h := m.hashes.Get().(*keyedHash)
	defer m.hashes.Put(h)
	h.mac = h.appendMAC(h.mac[:0], prefix, message)
	return hmac.Equal(mac, h.mac[:len(mac)])
}

func (h *keyedHash) appendMAC(b, prefix, message []byte) []byte {
	h.Reset()
	h.Write(prefix)
	h.Write(message)
	return h.Sum(b)
}
