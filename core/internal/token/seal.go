package token

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/chacha20poly1305"

	"github.com/verge-id/verge/core/host"
)

// Purposes. Each has its own keys and is bound into the sealed data.
const (
	Flow      = "flow"           // redirect_url
	Step      = "provider"       // svc_pt_: a step of a method
	Result    = "result"         // svc_rt_
	SessionID = "session-id"     // MAC of svc_sess_
	TestID    = "test-id"        // MAC of the svc_sess_ of a webhook test, which has no session
	Secret    = "webhook-secret" // webhook secrets at rest
	Replay    = "replay"         // responses kept for an Idempotency-Key
	Event     = "event"          // events at rest
	Ceremony  = "ceremony"       // the data in a form of the console during a passkey ceremony
	Code      = "openid-code"    // authorization codes
	Access    = "openid-access"  // access tokens
	response  = "box"            // KV items of pending responses that are posted
	handOff   = "hand"           // KV items of hand-offs to a phone
	recordMAC = "record"         // MAC of records in the store

	methodSecret = host.MethodSecret // secrets of methods in a guest's configuration
)

var purposes = []string{Flow, Step, Result, SessionID, Secret, Replay, Event, TestID, recordMAC,
	methodSecret, Ceremony, response, handOff, Code, Access}

// HKDF labels. A new format version needs new ones.
const (
	labelAEAD        = "verge/v1/aead/"
	labelJWS         = "verge/v1/jws/"
	labelMAC         = "verge/v1/mac/"
	labelFingerprint = "verge/v1/fingerprint"
)

// superseded is not the purpose of a key. With it, CheckMAC reports whether a newer key has replaced the
// MAC's key for all long-lived records (RingKey.Alone). It is a purpose so that a host that does not
// support it rejects the call.
const superseded = "superseded"

// keySet is the purpose of Identity.Vouch. A Sealer does not have it.
const keySet = "key-set"

// A sealed token, version 1:
//
//	offset 0   1 byte    version, 0x01
//	       1   4 bytes   key id
//	       5  24 bytes   nonce, random
//	      29  n bytes    XChaCha20-Poly1305 of the packed JWS
//
// Associated data: "verge" 0x00 version key-id purpose 0x00 host.
//
// The packed JWS has the three parts of an HS256 compact JWS, decoded, so that base64 is applied only
// once: uint16 length and header, uint16 length and payload, signature.
const (
	sealVersion = 0x01
	sealHead    = 1 + keyIDSize + chacha20poly1305.NonceSizeX
)

// Seal implements host.Sealer.
func (r *Ring) Seal(purpose string, claims []byte) ([]byte, error) {
	nonce := make([]byte, chacha20poly1305.NonceSizeX)
	if _, err := io.ReadFull(r.random, nonce); err != nil {
		return nil, fmt.Errorf("token: reading randomness: %w", err)
	}
	return r.seal(purpose, claims, nonce)
}

// seal is Seal with a given nonce, for test vectors.
func (r *Ring) seal(purpose string, claims, nonce []byte) ([]byte, error) {
	d := r.sealing()
	pk, ok := d.keysOf(purpose)
	if !ok {
		return nil, fmt.Errorf("token: unknown purpose %q", purpose)
	}
	if len(claims) > 0xffff {
		return nil, fmt.Errorf("token: claims of %d bytes do not fit", len(claims))
	}
	packed := 4 + len(pk.header) + len(claims) + sha256.Size
	out := make([]byte, 0, sealHead+packed+chacha20poly1305.Overhead)
	out = append(append(append(out, sealVersion), d.id[:]...), nonce...)
	out = pk.appendHS256(pack(out, pk.header, claims), claims)
	return pk.aead.Seal(out[:sealHead], nonce, out[sealHead:], pk.associated), nil
}

// Open implements host.Sealer. It checks, in this order: the version; that the key id is known; the AEAD
// tag under the purpose's key, with purpose and host as associated data; the packing; the JWS header; the
// JWS signature. The header must be exactly the one that Seal writes for this key and purpose, so that no
// header can choose an algorithm or a key. Open does not check times: an expired token is authentic, and
// the caller checks its claims.
func (r *Ring) Open(purpose string, sealed []byte) (claims []byte, until time.Time, err error) {
	if len(sealed) < sealHead+chacha20poly1305.Overhead || sealed[0] != sealVersion {
		return nil, until, host.ErrNotAuthentic
	}
	d, ok := r.byID[[keyIDSize]byte(sealed[1:])]
	if !ok {
		return nil, until, host.ErrNotAuthentic
	}
	pk, ok := d.keysOf(purpose)
	if !ok {
		return nil, until, host.ErrNotAuthentic
	}
	packed, err := pk.aead.Open(nil, sealed[1+keyIDSize:sealHead], sealed[sealHead:],
		pk.associated)
	if err != nil {
		return nil, until, host.ErrNotAuthentic
	}
	header, claims, signature, ok := unpack(packed)
	if !ok || !bytes.Equal(header, pk.header) ||
		!hmac.Equal(signature, pk.appendHS256(nil, claims)) {
		return nil, until, host.ErrNotAuthentic
	}
	return claims, d.until, nil
}

// jwsHeader returns the protected header of every JWS of one key and purpose.
func jwsHeader(keyID, purpose string) []byte {
	return []byte(`{"alg":"HS256","kid":"` + keyID + `","typ":"verge-` + purpose + `+jwt"}`)
}

// appendHS256 appends the signature of a JWS of this key and purpose by HS256 (RFC 7518, 3.2).
func (pk *purposeKeys) appendHS256(b, claims []byte) []byte {
	h := pk.jws.hashes.Get().(*keyedHash)
	defer pk.jws.hashes.Put(h)
	h.message = base64.RawURLEncoding.AppendEncode(h.message[:0], claims)
	return h.appendMAC(b, pk.input, h.message)
}

func associated(id [keyIDSize]byte, purpose, host string) []byte {
	return slices.Concat([]byte("verge\x00"), []byte{sealVersion}, id[:], []byte(purpose+"\x00"+host))
}

// pack appends the header and the claims of a packed JWS. The signature follows.
func pack(b, header, claims []byte) []byte {
	b = append(binary.BigEndian.AppendUint16(b, uint16(len(header))), header...)
	return append(binary.BigEndian.AppendUint16(b, uint16(len(claims))), claims...)
}

func unpack(b []byte) (header, claims, signature []byte, ok bool) {
	part := func() (p []byte) {
		if len(b) < 2 {
			return nil
		}
		n := int(binary.BigEndian.Uint16(b))
		if len(b) < 2+n {
			return nil
		}
		p, b = b[2:2+n], b[2+n:]
		return p
	}
	if header = part(); header == nil {
		return nil, nil, nil, false
	}
	claims = part()
	return header, claims, b, claims != nil
}

// maxText is the maximum length of a sealed token in text.
const maxText = 8 * 1024

// text is a strict encoding: unpadded base64url with zero trailing bits.
var text = base64.RawURLEncoding.Strict()

// EncodeText writes sealed bytes as prefix and base64url.
func EncodeText(prefix string, sealed []byte) string {
	var most [1024]byte // on the stack: a longer token allocates memory
	return string(text.AppendEncode(append(most[:0], prefix...), sealed))
}

// DecodeText reverses EncodeText. Each token has exactly one text: other texts that decode to the same
// bytes are rejected.
func DecodeText(prefix, s string) ([]byte, bool) {
	body, ok := strings.CutPrefix(s, prefix)
	if !ok || len(s) > maxText {
		return nil, false
	}
	b, err := text.DecodeString(body)
	// The decoder skips line breaks, so a text with line breaks is longer than the encoding of its bytes.
	if err != nil || text.EncodedLen(len(b)) != len(body) {
		return nil, false
	}
	return b, true
}

// Time is the time of a claim in whole milliseconds since 1970, UTC.
type Time int64

// At returns t as a claim.
func At(t time.Time) Time { return Time(t.UnixMilli()) }

// Time returns the claim as a time.
func (t Time) Time() time.Time { return time.UnixMilli(int64(t)).UTC() }
