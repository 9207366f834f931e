// Package jwe reads and decrypts JWEs in their compact form (RFC 7516), such as responses of wallets and
// encrypted ID tokens.
//
// [Read] checks the form and the header. The caller gets the secret that its private key yields, and derives
// the content-encryption key from it with [Message.Derive] if the message has an ephemeral key.
// [Message.Open] decrypts the content. The plaintext may be from anyone: encryption proves no sender.
//
// # Errors
//
// An error of Read is an [Error], a constant without data of the message, so it may be logged.
//
// # Limits
//
// The JSON form and critical headers are rejected. An ephemeral key must be on P-256. Keys and addresses of
// keys in the header (jwk, jku, x5u) are ignored.
package jwe

import (
	"bytes"
	"compress/flate"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/binary"
	"hash"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/verge-id/verge/core/internal/strict64"
	"github.com/verge-id/verge/core/internal/strictjson"
)

// Error is the reason why a message is rejected.
type Error string

func (e Error) Error() string { return "jwe: " + string(e) }

// Errors of Read and Inflate.
const (
	ErrSize      Error = "the message is too large"
	ErrForm      Error = "the message has other parts than five of strict base64url, or parts of another size"
	ErrHeader    Error = "the header is not JSON, has critical members, or an unusable member"
	ErrAlgorithm Error = "the algorithm (alg or enc) is not allowed"
	ErrEphemeral Error = "the ephemeral key is missing, or is no point of P-256"
)

// Algorithms of key management (alg).
const (
	ECDH = "ECDH-ES"
	RSA  = "RSA-OAEP-256"

	ECDHA128 = "ECDH-ES+A128KW"
	ECDHA192 = "ECDH-ES+A192KW"
	ECDHA256 = "ECDH-ES+A256KW"
)

// wrapping has the bytes of the key that ECDH yields to unwrap the content-encryption key (RFC 7518, 4.6).
var wrapping = map[string]int{ECDHA128: 16, ECDHA192: 24, ECDHA256: 32}

// Rules are the messages that a reader accepts. With an empty field, every message is rejected.
type Rules struct {
	Size        int      // the maximum number of bytes
	Algorithms  []string // values of alg, which are the constants above
	Encryptions []string // values of enc, which are in the variable Encryptions

	// Deflate allows zip. The caller passes the plaintext of a message with Deflated to Inflate.
	Deflate bool
}

// encryption is an algorithm that encrypts the content (RFC 7518, section 5).
type encryption struct {
	key, iv, tag int
	mac          func() hash.Hash // of AES-CBC; nil: AES-GCM
}

var encryptions = map[string]encryption{
	"A128GCM":       {key: 16, iv: 12, tag: 16},
	"A256GCM":       {key: 32, iv: 12, tag: 16},
	"A128CBC-HS256": {key: 32, iv: 16, tag: 16, mac: sha256.New},
	"A256CBC-HS512": {key: 64, iv: 16, tag: 32, mac: sha512.New},
}

// Encryptions are the values of enc that this package knows.
var Encryptions = slices.Sorted(maps.Keys(encryptions))

// Message is a JWE that was not decrypted.
type Message struct {
	Algorithm  string
	Encryption string // the value of enc
	KeyID      string // "" if the header has none
	Type       string // of the content (cty); "" if the header has none
	Deflated   bool   // the plaintext is compressed
	Key        []byte // the encrypted key; empty with ECDH without wrapping

	// Ephemeral is the sender's key for ECDH. It is a point of P-256.
	Ephemeral *ecdh.PublicKey

	by             encryption
	partyU, partyV []byte
	protected      []byte
	iv, text, tag  []byte
}

// Read reads a message. With ErrAlgorithm, it returns a Message that has only Algorithm and Encryption as the
// sender wrote them.
func Read(compact string, r Rules) (m Message, err error) {
	if len(compact) > r.Size {
		return Message{}, ErrSize
	}
	parts := strings.Split(compact, ".")
	if len(parts) != 5 {
		return Message{}, ErrForm
	}
	var decoded [5][]byte
	for i, part := range parts {
		var ok bool
		if decoded[i], ok = strict64.Decode(part); !ok {
			return Message{}, ErrForm
		}
	}
	m.Key, m.iv, m.text, m.tag = decoded[1], decoded[2], decoded[3], decoded[4]
	m.protected = []byte(parts[0])
	switch err := m.readHeader(decoded[0], r); err {
	case nil:
	case ErrAlgorithm:
		return Message{Algorithm: m.Algorithm, Encryption: m.Encryption}, err
	default:
		return Message{}, err
	}
	if len(m.iv) != m.by.iv || len(m.tag) != m.by.tag || (len(m.Key) == 0) != (m.Algorithm == ECDH) ||
		wrapping[m.Algorithm] > 0 && len(m.Key) != m.by.key+chunk {
		return Message{}, ErrForm
	}
	return m, nil
}

// readHeader reads the header.
func (m *Message) readHeader(raw []byte, r Rules) error {
	o, err := strictjson.ReadForeign(raw)
	if err != nil {
		return ErrHeader
	}
	text := func(name string) string {
		s, _ := o.Value(name).Text()
		return s
	}
	isText := func(name string) bool {
		_, ok := o.Value(name).Text()
		return ok || !o.Value(name).Present()
	}
	m.Deflated = r.Deflate && text("zip") == "DEF"
	if o.Has("crit") || o.Has("zip") && !m.Deflated || !isText("kid") || !isText("cty") {
		return ErrHeader
	}
	m.Algorithm, m.KeyID, m.Type, m.Encryption = text("alg"), text("kid"), text("cty"), text("enc")
	if !slices.Contains(r.Algorithms, m.Algorithm) || !slices.Contains(r.Encryptions, m.Encryption) {
		return ErrAlgorithm
	}
	m.by = encryptions[m.Encryption]
	if m.Algorithm == RSA {
		return nil
	}
	var okU, okV, okKey bool
	m.partyU, okU = decodeOptional(o.Value("apu"))
	m.partyV, okV = decodeOptional(o.Value("apv"))
	m.Ephemeral, okKey = readJWK(o.Value("epk"))
	switch {
	case !okU || !okV:
		return ErrHeader
	case !okKey:
		return ErrEphemeral
	}
	return nil
}

// Derive returns the content-encryption key that follows from the shared secret of ECDH: the Concat KDF of
// NIST SP 800-56A (RFC 7518, section 4.6.2). With key wrapping, the derived key unwraps the message's, and
// the result is nil if it does not. The sender chooses apu and apv, which are no proof.
func (m Message) Derive(secret []byte) []byte {
	size, name := wrapping[m.Algorithm], m.Algorithm
	if size == 0 {
		size, name = m.by.key, m.Encryption
	}
	var key []byte
	for round := uint32(1); len(key) < size; round++ {
		sum := sha256.Sum256(slices.Concat(binary.BigEndian.AppendUint32(nil, round), secret,
			sized([]byte(name)), sized(m.partyU), sized(m.partyV),
			binary.BigEndian.AppendUint32(nil, uint32(8*size))))
		key = append(key, sum[:]...)
	}
	if key = key[:size]; wrapping[m.Algorithm] > 0 {
		return unwrap(key, m.Key)
	}
	return key
}

// chunk is the number of bytes that key wrapping processes at a time, and that a wrapped key is longer.
const chunk = 8

// unwrap returns the content of a wrapped key (RFC 3394, section 2.2.2), or nil if the key is another one.
func unwrap(key, wrapped []byte) []byte {
	block, err := aes.NewCipher(key)
	if err != nil || len(wrapped) < 3*chunk || len(wrapped)%chunk != 0 {
		return nil
	}
	a, r := slices.Clone(wrapped[:chunk]), slices.Clone(wrapped[chunk:])
	n := len(r) / chunk
	var b [2 * chunk]byte
	for t := 6 * n; t > 0; t-- {
		at := (t - 1) % n * chunk
		binary.BigEndian.PutUint64(b[:], binary.BigEndian.Uint64(a)^uint64(t))
		copy(b[chunk:], r[at:at+chunk])
		block.Decrypt(b[:], b[:])
		copy(a, b[:chunk])
		copy(r[at:], b[chunk:])
	}
	if subtle.ConstantTimeCompare(a, bytes.Repeat([]byte{0xa6}, chunk)) != 1 {
		return nil
	}
	return r
}

// Open returns the plaintext. It is not ok if the key is not the message's, or if the message was altered.
func (m Message) Open(key []byte) (plain []byte, ok bool) {
	if len(key) != m.by.key {
		return nil, false
	}
	if m.by.mac != nil {
		return m.openCBC(key)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, false
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		return nil, false
	}
	plain, err = gcm.Open(nil, m.iv, slices.Concat(m.text, m.tag), m.protected)
	return plain, err == nil
}

// Inflate returns the content of a plaintext that is compressed by DEFLATE (RFC 7516, section 4.1.3). It
// returns ErrSize if the content has more than most bytes, and ErrForm if the plaintext is malformed.
func Inflate(plain []byte, most int) ([]byte, error) {
	from := bytes.NewReader(plain)
	content, err := io.ReadAll(io.LimitReader(flate.NewReader(from), int64(most)+1))
	switch {
	case len(content) > most:
		return nil, ErrSize
	case err != nil || from.Len() > 0: // data behind the end
		return nil, ErrForm
	}
	return content, nil
}

// openCBC decrypts by AES-CBC with HMAC (RFC 7518, section 5.2.2.2). The padding is read only after the tag
// was verified, so it reveals nothing.
func (m Message) openCBC(key []byte) (plain []byte, ok bool) {
	half := len(key) / 2
	mac := hmac.New(m.by.mac, key[:half])
	for _, part := range [][]byte{m.protected, m.iv, m.text,
		binary.BigEndian.AppendUint64(nil, 8*uint64(len(m.protected)))} {
		mac.Write(part)
	}
	if !hmac.Equal(mac.Sum(nil)[:m.by.tag], m.tag) || len(m.text) == 0 || len(m.text)%aes.BlockSize != 0 {
		return nil, false
	}
	block, err := aes.NewCipher(key[half:])
	if err != nil {
		return nil, false
	}
	plain = make([]byte, len(m.text))
	cipher.NewCBCDecrypter(block, m.iv).CryptBlocks(plain, m.text)
	padding := int(plain[len(plain)-1])
	if padding == 0 || padding > aes.BlockSize {
		return nil, false
	}
	for _, b := range plain[len(plain)-padding:] {
		if int(b) != padding {
			return nil, false
		}
	}
	return plain[:len(plain)-padding], true
}

// sized puts the length of b before it.
func sized(b []byte) []byte { return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...) }

// readJWK reads a public key on P-256.
func readJWK(v strictjson.Value) (*ecdh.PublicKey, bool) {
	o, ok := v.Object()
	kind, _ := o.Value("kty").Text()
	curve, _ := o.Value("crv").Text()
	x, okX := decodeOptional(o.Value("x"))
	y, okY := decodeOptional(o.Value("y"))
	if !ok || kind != "EC" || curve != "P-256" || !okX || !okY || len(x) != 32 || len(y) != 32 {
		return nil, false
	}
	// It rejects points that are not on the curve.
	public, err := ecdh.P256().NewPublicKey(slices.Concat([]byte{4}, x, y))
	return public, err == nil
}

// decodeOptional reads the base64url of a member that may be missing.
func decodeOptional(v strictjson.Value) ([]byte, bool) {
	if !v.Present() {
		return nil, true
	}
	s, ok := v.Text()
	if !ok {
		return nil, false
	}
	return strict64.Decode(s)
}
