package token

import (
	"bytes"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"golang.org/x/crypto/chacha20poly1305"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/internal/coretest"
)

var update = flag.Bool("update", false, "rewrite testdata/tokens.json")

// vectorFile is testdata/tokens.json.
type vectorFile struct {
	Description []string        `json:"description"`
	Host        string          `json:"host"`
	Keys        []vectorKey     `json:"keys"`
	Valid       []validVector   `json:"valid"`
	Invalid     []invalidVector `json:"invalid"`
	MACs        []macVector     `json:"macs"`
}

type vectorKey struct {
	ID     string `json:"id"`
	Secret string `json:"secret"` // base64url
}

type validVector struct {
	Name    string `json:"name"`
	Purpose string `json:"purpose"`
	Prefix  string `json:"prefix"`
	Key     string `json:"key"`
	Nonce   string `json:"nonce"` // hexadecimal
	Claims  string `json:"claims"`
	Token   string `json:"token"`
}

type invalidVector struct {
	Name    string `json:"name"`
	Reason  string `json:"reason"`
	Purpose string `json:"purpose"`
	Prefix  string `json:"prefix"`
	Token   string `json:"token"`
}

type macVector struct {
	Purpose string `json:"purpose"`
	Key     string `json:"key"`
	Message string `json:"message"` // hexadecimal
	MAC     string `json:"mac"`     // hexadecimal
}

var vectorDescription = []string{
	"Sealed tokens of format version 1, for anyone who writes the format anew, in any language.",
	"keys is the ring, the sealing key first; secret is base64url without padding (RFC 4648, " +
		"5). host is the name that the ring is for.",
	"valid: opening token (text: prefix, then base64url) for purpose gives exactly claims, " +
		"a JSON text. Sealing claims with key and nonce (hexadecimal) gives exactly token.",
	"invalid: opening token for purpose must fail; all failures look the same to the caller. reason says " +
		"what is wrong and is for the reader alone.",
	"Keys of a purpose: HKDF-SHA256 of the secret, no salt, 32 bytes, info \"verge/v1/aead/\", " +
		"\"verge/v1/jws/\" or \"verge/v1/mac/\" followed by the purpose.",
	"Token bytes: 0x01, key id (4 bytes), nonce (24 bytes), " +
		"XChaCha20-Poly1305 ciphertext of the packed JWS. Associated data: " +
		"\"verge\" 0x00 0x01 key-id purpose 0x00 host.",
	"Packed JWS: 2 bytes big-endian length and header, 2 bytes length and payload, " +
		"signature (HMAC-SHA256 of base64url(header) \".\" base64url(payload), RFC 7515).",
	"Header: alg HS256, kid the key id in hexadecimal, typ \"verge-\" purpose \"+jwt\", " +
		"members in that order and no white space.",
	"Text: unpadded base64url whose unused bits are zero; no line break, no other character; " +
		"at most 8192 bytes with its prefix.",
	"macs: mac is the key id (4 bytes) and the first 16 bytes of HMAC-SHA256 of message with the " +
		"purpose's mac key. It does not depend on host.",
}

const vectorHost = "verify.verge.example"

var vectorRing = []Key{
	{ID: "9f02ab31", Secret: counting(32, 0x00)},
	{ID: "07c1d2e4", Secret: counting(32, 0x80)},
}

func counting(n int, from byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = from + byte(i)
	}
	return b
}

func mustRing(t testing.TB, host string, keys ...Key) *Ring {
	t.Helper()
	// If the reader is exhausted, a later call panics. A weak nonce cannot result.
	r, err := NewRing(host, &coretest.Random{}, keys...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func vectorKeys(k Key, purpose string) (aead, jws, mac []byte) {
	derived := func(label string) []byte {
		b, err := hkdf.Key(sha256.New, k.Secret, nil, label+purpose, 32)
		if err != nil {
			panic(err)
		}
		return b
	}
	return derived("verge/v1/aead/"), derived("verge/v1/jws/"), derived("verge/v1/mac/")
}

// craft builds a token from its description, so that one part can be wrong while all others are right.
type craft struct {
	key       Key
	purpose   string // purpose of the keys and the associated data
	host      string
	version   byte
	header    string
	payload   string
	jwsKey    []byte              // nil: the correct one
	signature func([]byte) []byte // of the signing input; nil: HS256
	packed    func([]byte) []byte // transforms the packed JWS; nil: unchanged
}

func good(purpose string) craft {
	return craft{key: vectorRing[0], purpose: purpose, host: vectorHost, version: 1,
		header:  `{"alg":"HS256","kid":"9f02ab31","typ":"verge-` + purpose + `+jwt"}`,
		payload: `{"sid":"svc_sess_x","iat":1795212600000}`}
}

func (c craft) bytes() []byte {
	aeadKey, jwsKey, _ := vectorKeys(c.key, c.purpose)
	if c.jwsKey != nil {
		jwsKey = c.jwsKey
	}
	b64 := base64.RawURLEncoding.EncodeToString
	input := []byte(b64([]byte(c.header)) + "." + b64([]byte(c.payload)))
	var signature []byte
	if c.signature != nil {
		signature = c.signature(input)
	} else {
		h := hmac.New(sha256.New, jwsKey)
		h.Write(input)
		signature = h.Sum(nil)
	}
	var packed []byte
	for _, part := range []string{c.header, c.payload} {
		packed = binary.BigEndian.AppendUint16(packed, uint16(len(part)))
		packed = append(packed, part...)
	}
	packed = append(packed, signature...)
	if c.packed != nil {
		packed = c.packed(packed)
	}
	id, err := hex.DecodeString(c.key.ID)
	if err != nil {
		panic(err)
	}
	nonce := counting(24, 0x40)
	aead, err := chacha20poly1305.NewX(aeadKey)
	if err != nil {
		panic(err)
	}
	ad := slices.Concat([]byte("verge\x00"), []byte{c.version}, id, []byte(c.purpose), []byte{0},
		[]byte(c.host))
	return aead.Seal(slices.Concat([]byte{c.version}, id, nonce), nonce, packed, ad)
}

func (c craft) text() string {
	return ResultPrefix + base64.RawURLEncoding.EncodeToString(c.bytes())
}

func makeVectors(t *testing.T) vectorFile {
	f := &vectorFile{Description: vectorDescription, Host: vectorHost}
	for _, k := range vectorRing {
		f.Keys = append(f.Keys, vectorKey{k.ID, base64.RawURLEncoding.EncodeToString(k.Secret)})
	}
	f.addValid(t)
	f.addMisplaced(t)
	f.addMiswritten(t)
	f.addBadJWS(t)
	f.addBadPacking()
	f.addMACs(t)
	return *f
}

func (f *vectorFile) addValid(t *testing.T) {
	const session = "svc_sess_AWlAtGxNTkdfkGsvEcXsp70BGQGhx1PzwAAAAAECAwQFBgcICQoLnwKrMQABAgMEBQYHCAkKCwwNDg8"
	completed := time.Date(2026, 11, 20, 22, 10, 0, 123e6, time.UTC)
	state, user, empty := "xyz & <ü>", "user-42", ""
	flow := FlowClaims{
		Session:  session,
		Callback: []byte("https://www.publisher.example/return?a=1"),
		Language: "de",
		Expires:  At(completed),
	}
	bare := flow
	bare.Language = ""
	full, blank := flow, flow
	full.SetState(&state)
	full.SetUser(&user)
	blank.SetState(&empty)
	blank.SetUser(&empty)
	for i, v := range []struct {
		name, purpose, prefix string
		claims                any
		key                   int
	}{
		{"flow token with state, user and language", Flow, FlowPrefix, full, 0},
		{"flow token with nothing optional", Flow, FlowPrefix, bare, 0},
		{"flow token whose state and user are given and empty", Flow, FlowPrefix, blank, 0},
		{
			"provider token",
			Step,
			StepPrefix,
			StepClaims{Session: session, State: []byte{0, 1, 0xff}, Issued: At(completed)},
			0,
		},
		{"result token", Result, ResultPrefix, ResultClaims{Session: session, Completed: At(completed)}, 0},
		{
			"result token of an older key of the ring",
			Result,
			ResultPrefix,
			ResultClaims{Session: session, Completed: At(completed)},
			1,
		},
		{
			"webhook secret at rest",
			Secret,
			"",
			map[string]string{"int": "694069ac-4d4e-475f-906b-2f11c5eca7bd", "sec": "whsec_only_for_tests"},
			0,
		},
		{"kept answer", Replay, "", map[string]string{"name": "r/x"}, 0},
		{"empty claims", Result, ResultPrefix, struct{}{}, 0},
		{
			"a method's secret for a guest",
			methodSecret,
			"",
			map[string]string{"method": "bankid", "name": "client_secret", "secret": "only for tests"},
			0,
		},
	} {
		key := vectorRing[v.key]
		claims, err := json.Marshal(v.claims)
		if err != nil {
			t.Fatal(err)
		}
		nonce := counting(24, byte(0x10*i))
		sealed, err := mustRing(t, vectorHost, key).seal(v.purpose, claims, nonce)
		if err != nil {
			t.Fatal(err)
		}
		f.Valid = append(f.Valid, validVector{
			v.name,
			v.purpose,
			v.prefix,
			key.ID,
			hex.EncodeToString(nonce),
			string(claims),
			EncodeText(v.prefix, sealed),
		})
	}
}

// bad adds an invalid vector.
func (f *vectorFile) bad(name, reason, token string) {
	f.Invalid = append(f.Invalid, invalidVector{name, reason, Result, ResultPrefix, token})
}

// addMisplaced adds tokens that were sealed for another purpose, or with a flipped bit.
func (f *vectorFile) addMisplaced(t *testing.T) {
	right := good(Result)
	if base64.RawURLEncoding.EncodedLen(len(right.bytes()))%4 == 0 {
		t.Fatal("the crafted token leaves no unused bits; change its claims so that one can be set")
	}
	for _, purpose := range purposes {
		if purpose != Result {
			f.bad("other purpose: "+purpose,
				"sealed for "+purpose+" in the right way, then given the prefix of a result token",
				good(purpose).text())
		}
	}
	c := right
	c.host = "staging.verge.example"
	f.bad("other host", "sealed with the same keys for staging.verge.example", c.text())
	c = right
	c.key.ID, c.header = "00000000", strings.Replace(c.header, "9f02ab31", "00000000", 1)
	f.bad("unknown key id", "the ring has no key 00000000", c.text())
	c = right
	c.key.ID, c.header = "07c1d2e4", strings.Replace(c.header, "9f02ab31", "07c1d2e4", 1)
	f.bad("another key's id", "sealed by 9f02ab31 under the name of 07c1d2e4", c.text())
	c = right
	c.version = 2
	f.bad("wrong version", "format version 2", c.text())

	flipped := func(at int, mask byte) string {
		b := right.bytes()
		if at < 0 {
			at += len(b)
		}
		b[at] ^= mask
		return EncodeText(ResultPrefix, b)
	}
	f.bad("flipped bit in the version", "bit 7 of byte 0", flipped(0, 0x80))
	f.bad("flipped bit in the key id", "bit 0 of byte 1", flipped(1, 1))
	f.bad("flipped bit in the nonce", "bit 0 of byte 5", flipped(5, 1))
	f.bad("flipped bit in the ciphertext", "bit 3 of byte 29", flipped(29, 8))
	f.bad("flipped bit in the tag", "bit 0 of the last byte", flipped(-1, 1))
}

// addMiswritten adds valid tokens with another text than this format's.
func (f *vectorFile) addMiswritten(t *testing.T) {
	right := good(Result)
	text := right.text()
	body := strings.TrimPrefix(text, ResultPrefix)
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	last := alphabet[strings.IndexByte(alphabet, body[len(body)-1])|1]
	f.bad("trailing bits in base64",
		"the unused bits of the last character are not zero; the bytes are those of a good token",
		text[:len(text)-1]+string(last))
	f.bad("newline inside", "a line feed in the middle of a good token", text[:40]+"\n"+text[40:])
	f.bad("carriage return at the end", "a carriage return behind a good token", text+"\r")
	f.bad("space in front", "a space in front of a good token", " "+text)
	f.bad("padding", "a good token padded with =", text+strings.Repeat("=", 4-len(body)%4))
	std := strings.NewReplacer("-", "+", "_", "/").Replace(body)
	if std == body {
		t.Fatal("the crafted token has neither - nor _; change its claims")
	}
	f.bad("standard alphabet", "a good token in base64 with + and /", ResultPrefix+std)
	f.bad("wrong prefix", "a good token with the prefix of a flow token", FlowPrefix+body)
	f.bad("no prefix", "a good token without its prefix", body)
	f.bad("prefix in upper case", "a good token whose prefix is in upper case", "SVC_RT_"+body)
	f.bad("prefix twice", "the prefix of a good token, repeated", ResultPrefix+text)
	f.bad("prefix alone", "nothing behind the prefix", ResultPrefix)
	f.bad("empty", "no token at all", "")
	f.bad("cut off", "the last 4 characters of a good token are missing", text[:len(text)-4])
	f.bad("too long", "more than 8192 bytes", ResultPrefix+strings.Repeat("A", 8200))
	f.bad("a JWS without its envelope", "the compact JWS that a good token holds, in clear text",
		func() string {
			_, key, _ := vectorKeys(vectorRing[0], Result)
			jws := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"sid": "svc_sess_x"})
			s, err := jws.SignedString(key)
			if err != nil {
				t.Fatal(err)
			}
			return ResultPrefix + s
		}())
}

// inside adds a token with a valid envelope.
func (f *vectorFile) inside(name, reason string, change func(*craft)) {
	c := good(Result)
	change(&c)
	f.bad(name, "the envelope is good; inside it "+reason, c.text())
}

func (f *vectorFile) addBadJWS(t *testing.T) {
	f.inside("JWS alg none", "alg is none and there is no signature", func(c *craft) {
		c.header = strings.Replace(c.header, "HS256", "none", 1)
		c.signature = func([]byte) []byte { return nil }
	})
	f.inside("JWS alg none, signed", "alg is none, with a signature of HS256", func(c *craft) {
		c.header = strings.Replace(c.header, "HS256", "none", 1)
	})
	f.inside("JWS alg HS512", "alg is HS512, signed with that and the right key", func(c *craft) {
		c.header = strings.Replace(c.header, "HS256", "HS512", 1)
		_, key, _ := vectorKeys(c.key, c.purpose)
		c.signature = func(input []byte) []byte {
			s, err := jwt.SigningMethodHS512.Sign(string(input), key)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
	})
	f.inside("JWS without alg", "the header names no alg", func(c *craft) {
		c.header = strings.Replace(c.header, `"alg":"HS256",`, "", 1)
	})
	f.inside("wrong kid", "kid is that of the ring's other key", func(c *craft) {
		c.header = strings.Replace(c.header, "9f02ab31", "07c1d2e4", 1)
	})
	f.inside("no kid", "the header names no kid", func(c *craft) {
		c.header = strings.Replace(c.header, `"kid":"9f02ab31",`, "", 1)
	})
	f.inside("wrong typ", "typ is that of a flow token", func(c *craft) {
		c.header = strings.Replace(c.header, "verge-result", "verge-flow", 1)
	})
	f.inside("typ JWT", "typ is plain JWT", func(c *craft) {
		c.header = strings.Replace(c.header, "verge-result+jwt", "JWT", 1)
	})
	f.inside("signed with another purpose's key", "the signature is by the key of flow tokens",
		func(c *craft) {
			_, c.jwsKey, _ = vectorKeys(c.key, Flow)
		})
	f.inside("signature of other claims", "a bit of the signature is flipped", func(c *craft) {
		c.packed = func(b []byte) []byte { b[len(b)-1] ^= 1; return b }
	})
	f.inside("header is no JSON", "the header is not JSON", func(c *craft) { c.header = "HS256" })
	f.inside("payload is no JSON", "the payload is not JSON", func(c *craft) { c.payload = "sid" })
}

func (f *vectorFile) addBadPacking() {
	f.inside("truncated packing: nothing", "there is nothing at all", func(c *craft) {
		c.packed = func([]byte) []byte { return nil }
	})
	f.inside("truncated packing: half a length", "there is one byte", func(c *craft) {
		c.packed = func(b []byte) []byte { return b[:1] }
	})
	f.inside("truncated packing: half a header", "the header ends before its length", func(c *craft) {
		c.packed = func(b []byte) []byte { return b[:20] }
	})
	f.inside("truncated packing: no payload", "there is a header alone", func(c *craft) {
		c.packed = func(b []byte) []byte { return b[:2+len(c.header)] }
	})
	f.inside("truncated packing: no signature", "the signature is missing", func(c *craft) {
		c.packed = func(b []byte) []byte { return b[:len(b)-32] }
	})
	f.inside("truncated packing: half a signature", "the signature is cut to 128 bits", func(c *craft) {
		c.packed = func(b []byte) []byte { return b[:len(b)-16] }
	})
	f.inside("more than a signature", "a byte follows the signature", func(c *craft) {
		c.packed = func(b []byte) []byte { return append(b, 0) }
	})
}

func (f *vectorFile) addMACs(t *testing.T) {
	for _, m := range []struct {
		purpose, message string
		key              int
	}{{SessionID, "a message", 0}, {SessionID, "a message", 1}, {SessionID, "", 0},
		{Result, "a message", 0}} {
		mac, err := mustRing(t, vectorHost, vectorRing[m.key]).MAC(m.purpose, []byte(m.message))
		if err != nil {
			t.Fatal(err)
		}
		f.MACs = append(f.MACs, macVector{
			m.purpose,
			vectorRing[m.key].ID,
			hex.EncodeToString([]byte(m.message)),
			hex.EncodeToString(mac),
		})
	}
}

const vectorPath = "testdata/tokens.json"

func encodeVectors(t *testing.T, f vectorFile) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	if err := enc.Encode(f); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func readVectors(t testing.TB) (f vectorFile) {
	t.Helper()
	raw, err := os.ReadFile(vectorPath)
	if err != nil {
		t.Fatal(err)
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&f); err != nil {
		t.Fatal(err)
	}
	return f
}

// The published file is a promise: every later release opens its tokens. So the test compares it and
// rewrites it only with -update, for a new version of the format.
func TestVectors_Unchanged(t *testing.T) {
	want := encodeVectors(t, makeVectors(t))
	if *update {
		if err := os.WriteFile(vectorPath, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(vectorPath)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs from this code's output: that breaks all existing tokens; "+
			"a new format needs a new version", vectorPath)
	}
}

func TestValidVectors(t *testing.T) {
	f := readVectors(t)
	ring := mustRing(t, f.Host, fileKeys(t, f)...)
	for _, v := range f.Valid {
		t.Run("contract 15: "+v.Name, func(t *testing.T) {
			sealed, ok := DecodeText(v.Prefix, v.Token)
			if !ok {
				t.Fatal("the text does not decode")
			}
			claims, _, err := ring.Open(v.Purpose, sealed)
			if err != nil || string(claims) != v.Claims {
				t.Errorf("opens as %s, %v, want %s", claims, err, v.Claims)
			}
			if by := independent(f, v); by != v.Claims {
				t.Errorf("read by the description only it holds %s, want %s", by, v.Claims)
			}
		})
	}
}

// independent opens a valid vector by the file's description only, without this package. This shows that
// the description is sufficient.
func independent(f vectorFile, v validVector) string {
	sealed, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(v.Token, v.Prefix))
	if err != nil {
		return err.Error()
	}
	id := sealed[1:5]
	var secret []byte
	for _, k := range f.Keys {
		if k.ID == hex.EncodeToString(id) {
			secret, _ = base64.RawURLEncoding.DecodeString(k.Secret)
		}
	}
	aeadKey, jwsKey, _ := vectorKeys(Key{Secret: secret}, v.Purpose)
	aead, err := chacha20poly1305.NewX(aeadKey)
	if err != nil {
		return err.Error()
	}
	packed, err := aead.Open(nil, sealed[5:29], sealed[29:],
		[]byte("verge\x00\x01"+string(id)+v.Purpose+"\x00"+f.Host))
	if err != nil {
		return err.Error()
	}
	n := binary.BigEndian.Uint16(packed)
	header, rest := packed[2:2+n], packed[2+n:]
	n = binary.BigEndian.Uint16(rest)
	payload, signature := rest[2:2+n], rest[2+n:]
	want := `{"alg":"HS256","kid":"` + v.Key + `","typ":"verge-` + v.Purpose + `+jwt"}`
	if string(header) != want {
		return "header " + string(header)
	}
	h := hmac.New(sha256.New, jwsKey)
	encode := base64.RawURLEncoding.EncodeToString
	h.Write([]byte(encode(header) + "." + encode(payload)))
	if !hmac.Equal(h.Sum(nil), signature) {
		return "signature"
	}
	return string(payload)
}

func TestInvalidVectors(t *testing.T) {
	f := readVectors(t)
	ring := mustRing(t, f.Host, fileKeys(t, f)...)
	// A craft without a fault must create a valid token. Otherwise the invalid vectors would fail for
	// another reason.
	if _, err := OpenResult(ring, good(Result).text()); err != nil {
		t.Fatalf("the base of the invalid tokens does not open: %v", err)
	}
	for _, v := range f.Invalid {
		t.Run("contract 15: "+v.Name, func(t *testing.T) {
			claims, err := OpenResult(ring, v.Token)
			if err != host.ErrNotAuthentic {
				t.Errorf("%s: error is %v, want ErrNotAuthentic and nothing more", v.Reason, err)
			}
			if claims != (ResultClaims{}) {
				t.Errorf("%s: claims came out: %+v", v.Reason, claims)
			}
		})
	}
}

func TestMACVectors(t *testing.T) {
	f := readVectors(t)
	for _, k := range fileKeys(t, f) {
		ring := mustRing(t, f.Host, k)
		for _, v := range f.MACs {
			message, err1 := hex.DecodeString(v.Message)
			mac, err2 := hex.DecodeString(v.MAC)
			if err := errors.Join(err1, err2); err != nil {
				t.Fatal(err)
			}
			if _, err := ring.CheckMAC(v.Purpose, message, mac); (err == nil) != (k.ID == v.Key) {
				t.Errorf("a ring of key %s returns %v for a MAC by key %s", k.ID, err, v.Key)
			}
		}
	}
}

func fileKeys(t testing.TB, f vectorFile) (keys []Key) {
	t.Helper()
	for _, k := range f.Keys {
		secret, err := base64.RawURLEncoding.DecodeString(k.Secret)
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, Key{ID: k.ID, Secret: secret})
	}
	return keys
}
