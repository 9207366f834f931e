package token

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"golang.org/x/crypto/chacha20poly1305"

	"github.com/verge-id/verge/core/host"
)

// Purposes. A key is derived for each, and each is bound into what it seals.
const (
	Flow      = "flow"           // redirect_url
	Provider  = "provider"       // what a provider carries through the browser
	Result    = "result"         // svc_rt_
	SessionID = "session-id"     // MAC of svc_sess_
	Secret    = "webhook-secret" // webhook secrets at rest
	Replay    = "replay"         // answers kept for an Idempotency-Key
)

var purposes = []string{Flow, Provider, Result, SessionID, Secret, Replay}

// HKDF labels; a new format version gets new ones.
const (
	labelAEAD = "verge/v1/aead/"
	labelJWS  = "verge/v1/jws/"
	labelMAC  = "verge/v1/mac/"
)

// A sealed token, version 1:
//
//	offset 0   1 byte    version, 0x01
//	       1   4 bytes   key id
//	       5  24 bytes   nonce, random
//	      29  n bytes    XChaCha20-Poly1305 of the packed JWS
//
// Associated data: "verge" 0x00 version key-id purpose 0x00 host.
// Packed JWS: the three parts of an HS256 compact JWS, decoded, so that base64
// is paid for once: uint16 length and header, uint16 length and payload, signature.
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

// seal takes the nonce, for test vectors.
func (r *Ring) seal(purpose string, claims, nonce []byte) ([]byte, error) {
	pk, ok := r.first.use[purpose]
	if !ok {
		return nil, fmt.Errorf("token: unknown purpose %q", purpose)
	}
	jws := jwt.NewWithClaims(jwt.SigningMethodHS256, (*rawClaims)(&claims))
	jws.Header["kid"] = r.first.hex
	jws.Header["typ"] = jwsType(purpose)
	compact, err := jws.SignedString(pk.jws)
	if err != nil {
		return nil, fmt.Errorf("token: signing: %w", err)
	}
	packed, err := pack(compact)
	if err != nil {
		return nil, err
	}
	out := make([]byte, sealHead, sealHead+len(packed)+chacha20poly1305.Overhead)
	out[0] = sealVersion
	copy(out[1:], r.first.id[:])
	copy(out[1+keyIDSize:], nonce)
	return pk.aead.Seal(out, nonce, packed, r.associated(r.first, purpose)), nil
}

// Open implements host.Sealer. Checked, in this order: version, key id known,
// AEAD tag under the purpose's key with purpose and host as associated data,
// packing, JWS signature with HS256 alone, JWS kid and typ. Times are claims
// like others and the caller's to judge: an expired token is authentic.
func (r *Ring) Open(purpose string, sealed []byte) ([]byte, error) {
	if len(sealed) < sealHead+chacha20poly1305.Overhead || sealed[0] != sealVersion {
		return nil, host.ErrNotAuthentic
	}
	d, ok := r.byID[[keyIDSize]byte(sealed[1:])]
	if !ok {
		return nil, host.ErrNotAuthentic
	}
	pk, ok := d.use[purpose]
	if !ok {
		return nil, host.ErrNotAuthentic
	}
	packed, err := pk.aead.Open(nil, sealed[1+keyIDSize:sealHead], sealed[sealHead:], r.associated(d, purpose))
	if err != nil {
		return nil, host.ErrNotAuthentic
	}
	compact, ok := unpack(packed)
	if !ok {
		return nil, host.ErrNotAuthentic
	}
	var claims rawClaims
	jws, err := jwsParser.ParseWithClaims(compact, &claims, func(*jwt.Token) (any, error) { return pk.jws, nil })
	if err != nil || jws.Header["kid"] != d.hex || jws.Header["typ"] != jwsType(purpose) {
		return nil, host.ErrNotAuthentic
	}
	return claims, nil
}

var jwsParser = jwt.NewParser(
	jwt.WithValidMethods([]string{"HS256"}),
	jwt.WithStrictDecoding(),
	jwt.WithoutClaimsValidation(),
)

func jwsType(purpose string) string { return "verge-" + purpose + "+jwt" }

func (r *Ring) associated(d *derived, purpose string) []byte {
	ad := make([]byte, 0, 12+len(purpose)+len(r.host))
	ad = append(ad, "verge\x00"...)
	ad = append(ad, sealVersion)
	ad = append(ad, d.id[:]...)
	ad = append(ad, purpose...)
	ad = append(ad, 0)
	return append(ad, r.host...)
}

func pack(compact string) ([]byte, error) {
	header, rest, _ := strings.Cut(compact, ".")
	payload, signature, _ := strings.Cut(rest, ".")
	out := make([]byte, 0, len(compact))
	for _, part := range []string{header, payload} {
		n := base64.RawURLEncoding.DecodedLen(len(part))
		if n > 0xffff {
			return nil, fmt.Errorf("token: claims of %d bytes do not fit", n)
		}
		out = binary.BigEndian.AppendUint16(out, uint16(n))
		out, _ = base64.RawURLEncoding.AppendDecode(out, []byte(part))
	}
	return base64.RawURLEncoding.AppendDecode(out, []byte(signature))
}

func unpack(b []byte) (compact string, ok bool) {
	out := make([]byte, 0, base64.RawURLEncoding.EncodedLen(len(b))+4)
	for range 2 {
		if len(b) < 2 {
			return "", false
		}
		n := int(binary.BigEndian.Uint16(b))
		if len(b) < 2+n {
			return "", false
		}
		out = base64.RawURLEncoding.AppendEncode(out, b[2:2+n])
		out = append(out, '.')
		b = b[2+n:]
	}
	return string(base64.RawURLEncoding.AppendEncode(out, b)), true
}

// rawClaims carries claims through golang-jwt as the bytes they are. Its
// times are the caller's to judge, so it shows none.
type rawClaims []byte

var (
	_ jwt.Claims       = (*rawClaims)(nil)
	_ json.Marshaler   = (*rawClaims)(nil)
	_ json.Unmarshaler = (*rawClaims)(nil)
)

func (c *rawClaims) MarshalJSON() ([]byte, error) { return *c, nil }
func (c *rawClaims) UnmarshalJSON(b []byte) error { *c = append((*c)[:0], b...); return nil }
func (*rawClaims) GetIssuer() (string, error)     { return "", nil }
func (*rawClaims) GetSubject() (string, error)    { return "", nil }
func (*rawClaims) GetAudience() (jwt.ClaimStrings, error) {
	return nil, nil
}
func (*rawClaims) GetExpirationTime() (*jwt.NumericDate, error) { return nil, nil }
func (*rawClaims) GetNotBefore() (*jwt.NumericDate, error)      { return nil, nil }
func (*rawClaims) GetIssuedAt() (*jwt.NumericDate, error)       { return nil, nil }

// MaxText is the longest sealed token in text that is looked at.
const MaxText = 8 * 1024

// text is strict: unpadded base64url with zero trailing bits.
var text = base64.RawURLEncoding.Strict()

// EncodeText writes sealed bytes as prefix and base64url.
func EncodeText(prefix string, sealed []byte) string { return prefix + text.EncodeToString(sealed) }

// DecodeText reverses EncodeText. One token has one text: anything that
// merely decodes to the same bytes is refused.
func DecodeText(prefix, s string) ([]byte, bool) {
	body, ok := strings.CutPrefix(s, prefix)
	// The decoder skips line breaks, which would be a second spelling.
	if !ok || len(s) > MaxText || strings.ContainsAny(body, "\r\n") {
		return nil, false
	}
	b, err := text.DecodeString(body)
	return b, err == nil
}

// Time is a claim's time: whole milliseconds since 1970, UTC.
type Time int64

// At returns t as a claim.
func At(t time.Time) Time { return Time(t.UnixMilli()) }

// Time returns the claim as a time.
func (t Time) Time() time.Time { return time.UnixMilli(int64(t)).UTC() }
