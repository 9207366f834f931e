package jwe

import (
	"bytes"
	"crypto/ecdh"
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strings"
	"testing"

	"github.com/verge-id/verge/core/internal/strict64"
)

var every = Rules{Size: 4096, Algorithms: []string{ECDH, RSA},
	Encryptions: []string{"A128GCM", "A256GCM", "A128CBC-HS256", "A256CBC-HS512"}}

var encode = base64.RawURLEncoding.EncodeToString

// epk is the ephemeral key of RFC 7518, appendix C.
const epk = `"epk":{"kty":"EC","crv":"P-256","x":"gI0GAILBdu7T53akrFmMyGcsF3n5dO7MmwNBHKW5SV0",` +
	`"y":"SLW_xSffzlPWrHEVI30DHM_4egVwt3NQqeUD7nMFpps"}`

// plain is the plaintext of RFC 7518, appendix B.
const plain = "A cipher system must not be required to be secret, and it must be able to fall into the " +
	"hands of the enemy without inconvenience"

// cbc returns the message of RFC 7518, appendix B.1 or B.3, and its key.
func cbc(t *testing.T, enc, text, tag string) (Message, []byte) {
	t.Helper()
	bytesOf := func(text string) []byte {
		b, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	key := make([]byte, encryptions[enc].key)
	for i := range key {
		key[i] = byte(i)
	}
	return Message{by: encryptions[enc], protected: []byte("The second principle of Auguste Kerckhoffs"),
		iv: bytesOf("1af38c2dc2b96ffdd86694092341bc04"), text: bytesOf(text), tag: bytesOf(tag)}, key
}

// The vectors of RFC 7518, appendix B. A message with any altered part is rejected.
func TestOpen_CBC(t *testing.T) {
	for _, c := range []struct{ enc, text, tag string }{
		{"A128CBC-HS256", "c80edfa32ddf39d5ef00c0b468834279a2e46a1b8049f792f76bfe54b903a9c9" +
			"a94ac9b47ad2655c5f10f9aef71427e2fc6f9b3f399a221489f16362c7032336" +
			"09d45ac69864e3321cf82935ac4096c86e133314c54019e8ca7980dfa4b9cf1b" +
			"384c486f3a54c51078158ee5d79de59fbd34d848b3d69550a67646344427ade5" +
			"4b8851ffb598f7f80074b9473c82e2db", "652c3fa36b0a7c5b3219fab3a30bc1c4"},
		{"A256CBC-HS512", "4affaaadb78c31c5da4b1b590d10ffbd3dd8d5d302423526912da037ecbcc7bd" +
			"822c301dd67c373bccb584ad3e9279c2e6d12a1374b77f077553df829410446b" +
			"36ebd97066296ae6427ea75c2e0846a11a09ccf5370dc80bfecbad28c73f09b3" +
			"a3b75e662a2594410ae496b2e2e6609e31e6e02cc837f053d21f37ff4f51950b" +
			"be2638d09dd7a4930930806d0703b1f6",
			"4dd3b4c088a7f45c216839645b2012bf2e6269a8c56a816dbc1b267761955bc5"},
	} {
		m, key := cbc(t, c.enc, c.text, c.tag)
		if got, ok := m.Open(key); !ok || string(got) != plain {
			t.Errorf("%s: %q, %v", c.enc, got, ok)
		}
		for name, part := range map[string]*[]byte{
			"header": &m.protected, "IV": &m.iv, "text": &m.text, "tag": &m.tag, "key": &key,
		} {
			before := *part
			*part = slices.Clone(before)
			(*part)[0] ^= 1
			if _, ok := m.Open(key); ok {
				t.Errorf("%s: opened with another %s", c.enc, name)
			}
			*part = before
		}
		if _, ok := m.Open(key[1:]); ok {
			t.Errorf("%s: opened with a short key", c.enc)
		}
	}
}

// The vector of RFC 7518, appendix C.
func TestDerive(t *testing.T) {
	header := `{"alg":"ECDH-ES","enc":"A128GCM","apu":"QWxpY2U","apv":"Qm9i",` + epk + `}`
	m, err := Read(encode([]byte(header))+".."+encode(make([]byte, 12))+".."+encode(make([]byte, 16)), every)
	if err != nil {
		t.Fatal(err)
	}
	d, _ := strict64.Decode("VEmDZpDXXK8p8N0Cndsxs924q6nS1RXFASRl6BfUqdw")
	private, err := ecdh.P256().NewPrivateKey(d)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := private.ECDH(m.Ephemeral)
	if err != nil {
		t.Fatal(err)
	}
	if got := encode(m.Derive(secret)); got != "VqqN6vgjbSBcIijNcacQGg" {
		t.Errorf("the key is %s", got)
	}
	m.by = encryptions["A256CBC-HS512"] // two rounds
	if key := m.Derive(secret); len(key) != 64 || bytes.Equal(key[:32], key[32:]) {
		t.Errorf("a key of 64 bytes: %x", key)
	}
}

// The vectors of RFC 3394, sections 4.1 and 4.6.
func TestUnwrap(t *testing.T) {
	const key, plain = "000102030405060708090A0B0C0D0E0F", "00112233445566778899AABBCCDDEEFF"
	for _, c := range []struct{ name, key, wrapped, want string }{
		{"128 bits", key, "1FA68B0A8112B447AEF34BD8FB5A7B829D3E862371D2CFE5", plain},
		{"256 bits", key + "101112131415161718191A1B1C1D1E1F",
			"28C9F404C4B810F4CBCCB35CFB87F8263F5786E2D80ED326CBC7F0E71A99F43BFB988B9B7A02DD21",
			plain + "000102030405060708090A0B0C0D0E0F"},
		{"another key", plain, "1FA68B0A8112B447AEF34BD8FB5A7B829D3E862371D2CFE5", ""},
		{"altered", key, "1FA68B0A8112B447AEF34BD8FB5A7B829D3E862371D2CFE6", ""},
		{"cut", key, "1FA68B0A8112B447AEF34BD8FB5A7B82", ""},
		{"a part of a block", key, "1FA68B0A8112B447AEF34BD8FB5A7B829D3E862371D2CF", ""},
		{"nothing", key, "", ""},
	} {
		key, err1 := hex.DecodeString(c.key)
		wrapped, err2 := hex.DecodeString(c.wrapped)
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		if got := hex.EncodeToString(unwrap(key, wrapped)); !strings.EqualFold(got, c.want) {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestRead(t *testing.T) {
	const rsa = `{"alg":"RSA-OAEP-256","enc":"A128GCM"}`
	agreed := `{"alg":"ECDH-ES","enc":"A128GCM",` + epk + `}`
	for _, c := range []struct {
		name, header string
		key, iv, tag int // bytes
		rules        func(*Rules)
		want         error
	}{
		{"RSA", rsa, 256, 12, 16, nil, nil},
		{"ECDH", agreed, 0, 12, 16, nil, nil},
		{"CBC", `{"alg":"RSA-OAEP-256","enc":"A256CBC-HS512"}`, 256, 16, 32, nil, nil},
		{"a short tag of CBC", `{"alg":"RSA-OAEP-256","enc":"A256CBC-HS512"}`, 256, 16, 16, nil, ErrForm},
		{"an IV of another size", rsa, 256, 16, 16, nil, ErrForm},
		{"no tag", rsa, 256, 12, 0, nil, ErrForm},
		{"RSA without a key", rsa, 0, 12, 16, nil, ErrForm},
		{"ECDH with a key", agreed, 1, 12, 16, nil, ErrForm},
		{"ECDH without an ephemeral key", `{"alg":"ECDH-ES","enc":"A128GCM"}`, 0, 12, 16, nil, ErrEphemeral},
		{"too large", rsa, 4096, 12, 16, nil, ErrSize},
		{"RSA PKCS #1 1.5", `{"alg":"RSA1_5","enc":"A128GCM"}`, 256, 12, 16, nil, ErrAlgorithm},
		{"RSA with SHA-1", `{"alg":"RSA-OAEP","enc":"A128GCM"}`, 256, 12, 16, nil, ErrAlgorithm},
		{"an unknown enc", `{"alg":"RSA-OAEP-256","enc":"A192GCM"}`, 256, 12, 16, nil, ErrAlgorithm},
		{"no enc", `{"alg":"RSA-OAEP-256"}`, 256, 12, 16, nil, ErrAlgorithm},
		{"an alg that is not allowed", rsa, 256, 12, 16, func(r *Rules) { r.Algorithms = r.Algorithms[:1] },
			ErrAlgorithm},
		{"an enc that is not allowed", rsa, 256, 12, 16, func(r *Rules) { r.Encryptions = r.Encryptions[1:] },
			ErrAlgorithm},
		{"no rules", rsa, 256, 12, 16, func(r *Rules) { *r = Rules{Size: 4096} }, ErrAlgorithm},
		{"compressed", rsa[:len(rsa)-1] + `,"zip":"DEF"}`, 256, 12, 16, nil, ErrHeader},
		{"critical", rsa[:len(rsa)-1] + `,"crit":["exp"]}`, 256, 12, 16, nil, ErrHeader},
		{"contract 22: kid twice", rsa[:len(rsa)-1] + `,"kid":"1","kid":"1"}`, 256, 12, 16, nil, ErrHeader},
		{"kid that is a number", rsa[:len(rsa)-1] + `,"kid":1}`, 256, 12, 16, nil, ErrHeader},
		{"kid null", rsa[:len(rsa)-1] + `,"kid":null}`, 256, 12, 16, nil, nil},
		{"contract 22: cty twice", rsa[:len(rsa)-1] + `,"cty":"A","cty":"A"}`, 256, 12, 16, nil, ErrHeader},
		{"cty that is a list", rsa[:len(rsa)-1] + `,"cty":["JWT"]}`, 256, 12, 16, nil, ErrHeader},
		{"alg twice", `{"alg":"ECDH-ES",` + rsa[1:], 256, 12, 16, nil, ErrAlgorithm},
		{"no JSON", `{`, 256, 12, 16, nil, ErrHeader},
	} {
		r := every
		if c.rules != nil {
			c.rules(&r)
		}
		_, err := Read(strings.Join([]string{encode([]byte(c.header)), encode(make([]byte, c.key)),
			encode(make([]byte, c.iv)), "AAAA", encode(make([]byte, c.tag))}, "."), r)
		if err != c.want {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

// FuzzRead: no message panics, and none opens with a key that it was not encrypted with.
func FuzzRead(f *testing.F) {
	for _, enc := range every.Encryptions {
		by := encryptions[enc]
		for _, header := range []string{`{"alg":"RSA-OAEP-256","enc":"` + enc + `","kid":"1","cty":"JWT"}`,
			`{"alg":"ECDH-ES","enc":"` + enc + `",` + epk + `}`} {
			f.Add(encode([]byte(header))+".."+encode(make([]byte, by.iv))+"."+encode(make([]byte, 32))+"."+
				encode(make([]byte, by.tag)), true)
		}
	}
	f.Fuzz(func(t *testing.T, compact string, deflate bool) {
		r := every
		r.Deflate = deflate
		m, err := Read(compact, r)
		if err != nil {
			return
		}
		if _, ok := m.Open(m.Derive([]byte("secret"))); ok {
			t.Fatalf("%q opens", compact)
		}
	})
}
