// Package verifytest tests implementations of host.VerifyFunc. Use [Run] in the test of an engine, so that
// all engines verify the same signatures.
package verifytest

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/asn1"
	"math/big"
	"slices"
	"testing"

	"github.com/verge-id/verge/core/host"
)

var message = []byte("head.claims")

// Run tests that verify verifies the algorithms of host.VerifyFunc, and returns an error for any other.
func Run(t *testing.T, verify host.VerifyFunc) {
	t.Helper()
	keys := newKeys(t)
	for _, c := range keys.algorithms() {
		t.Run(c.algorithm+" with "+c.key, func(t *testing.T) {
			k := keys[c.key]
			if k.private == nil || !c.fits {
				k.expectError(t, verify, c.algorithm)
				return
			}
			k.expectVerified(t, verify, c.algorithm)
		})
	}
	t.Run("keys and algorithms that do not exist", func(t *testing.T) { unusable(t, keys, verify) })
}

// key is a public key in DER. private is nil if no algorithm may accept the key.
type key struct {
	public  []byte
	private crypto.Signer
}

type keys map[string]key

func newKeys(t *testing.T) keys {
	t.Helper()
	all := keys{}
	add := func(name string, private crypto.Signer, public any) {
		der, err := x509.MarshalPKIXPublicKey(public)
		if err != nil {
			t.Fatal(err)
		}
		all[name] = key{der, private}
	}
	for name, curve := range map[string]elliptic.Curve{
		"P-224": elliptic.P224(), "P-256": elliptic.P256(), "P-384": elliptic.P384(),
		"P-521": elliptic.P521(),
	} {
		k, err := ecdsa.GenerateKey(curve, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		add(name, k, k.Public())
	}
	public, private, err1 := ed25519.GenerateKey(rand.Reader)
	wide, err2 := rsa.GenerateKey(rand.Reader, 2048)
	exchange, err3 := ecdh.X25519().GenerateKey(rand.Reader)
	for _, err := range []error{err1, err2, err3} {
		if err != nil {
			t.Fatal(err)
		}
	}
	add("Ed25519", private, public)
	add("RSA", wide, wide.Public())
	// WebCrypto returns the size of a key in bytes.
	add("RSA of 2,040 bits", nil, &rsa.PublicKey{N: modulus(2040), E: 65537})
	add("RSA of 8,200 bits", nil, &rsa.PublicKey{N: modulus(8200), E: 65537})
	add("X25519", nil, exchange.PublicKey())
	return all
}

// modulus returns an odd number of that many bits. No signature can verify by it.
func modulus(bits uint) *big.Int {
	n := new(big.Int).Lsh(big.NewInt(1), bits-1)
	return n.Add(n, big.NewInt(1))
}

var hashes = map[string]crypto.Hash{
	"ES256": crypto.SHA256, "ES384": crypto.SHA384, "ES512": crypto.SHA512,
	"RS256": crypto.SHA256, "RS384": crypto.SHA384, "RS512": crypto.SHA512,
	"PS256": crypto.SHA256, "PS384": crypto.SHA384, "PS512": crypto.SHA512,
	"ecdsa-with-SHA256": crypto.SHA256, "ecdsa-with-SHA384": crypto.SHA384,
	"ecdsa-with-SHA512": crypto.SHA512,
	"EdDSA":             0,
}

type pair struct {
	algorithm, key string
	fits           bool
}

// algorithms returns each algorithm with each key.
func (all keys) algorithms() (pairs []pair) {
	only := map[string]string{"ES256": "P-256", "ES384": "P-384", "ES512": "P-521", "EdDSA": "Ed25519"}
	for algorithm := range hashes {
		for name := range all {
			p := pair{algorithm: algorithm, key: name}
			switch {
			case only[algorithm] != "":
				p.fits = name == only[algorithm]
			case algorithm[0] == 'e':
				p.fits = slices.Contains([]string{"P-256", "P-384", "P-521"}, name)
			default:
				p.fits = name == "RSA"
			}
			pairs = append(pairs, p)
		}
	}
	slices.SortFunc(pairs, func(a, b pair) int {
		return bytes.Compare([]byte(a.algorithm+a.key), []byte(b.algorithm+b.key))
	})
	return pairs
}

// sign signs the message in the form of JWS.
func (k key) sign(t *testing.T, algorithm string, salt int) []byte {
	t.Helper()
	hash, digest := hashes[algorithm], message
	if hash != 0 {
		h := hash.New()
		h.Write(message)
		digest = h.Sum(nil)
	}
	var options crypto.SignerOpts = hash
	if algorithm[0] == 'P' {
		options = &rsa.PSSOptions{SaltLength: salt, Hash: hash}
	}
	signature, err := k.private.Sign(rand.Reader, digest, options)
	if err != nil {
		t.Fatal(err)
	}
	public, ok := k.private.Public().(*ecdsa.PublicKey)
	if !ok {
		return signature
	}
	var numbers struct{ R, S *big.Int }
	if _, err := asn1.Unmarshal(signature, &numbers); err != nil {
		t.Fatal(err)
	}
	return rs(public.Curve, numbers.R, numbers.S)
}

// rs returns r and s at the full length of the curve's order.
func rs(curve elliptic.Curve, r, s *big.Int) []byte {
	size := (curve.Params().BitSize + 7) / 8
	return slices.Concat(r.FillBytes(make([]byte, size)), s.FillBytes(make([]byte, size)))
}

func (k key) expectError(t *testing.T, verify host.VerifyFunc, algorithm string) {
	t.Helper()
	for _, signature := range [][]byte{nil, make([]byte, 64), make([]byte, 256)} {
		ok, err := verify(t.Context(), algorithm, k.public, message, signature)
		if ok || err == nil {
			t.Errorf("a signature of %d bytes: %v, %v; want an error", len(signature), ok, err)
		}
	}
}

func (k key) expectVerified(t *testing.T, verify host.VerifyFunc, algorithm string) {
	t.Helper()
	good := k.sign(t, algorithm, rsa.PSSSaltLengthEqualsHash)
	if ok, err := verify(t.Context(), algorithm, k.public, message, good); !ok || err != nil {
		t.Fatalf("a good signature: %v, %v", ok, err)
	}
	for name, signature := range k.forgeries(t, algorithm, good) {
		if ok, err := verify(t.Context(), algorithm, k.public, message, signature); ok || err != nil {
			t.Errorf("%s: %v, %v", name, ok, err)
		}
	}
	for name, other := range map[string][]byte{"no message": nil, "another message": []byte("head.claimt")} {
		if ok, err := verify(t.Context(), algorithm, k.public, other, good); ok || err != nil {
			t.Errorf("%s: %v, %v", name, ok, err)
		}
	}
}

// forgeries returns signatures that are not the key's.
func (k key) forgeries(t *testing.T, algorithm string, good []byte) map[string][]byte {
	t.Helper()
	flipped := func(at int) []byte {
		b := bytes.Clone(good)
		b[at] ^= 1
		return b
	}
	all := map[string][]byte{
		"none": nil, "zeros": make([]byte, len(good)), "a byte less": good[:len(good)-1],
		"a byte more": append(bytes.Clone(good), 0), "a zero before it": append([]byte{0}, good...),
		"the first bit flipped": flipped(0), "the last bit flipped": flipped(len(good) - 1),
		"ones": bytes.Repeat([]byte{0xff}, len(good)),
	}
	switch public := k.private.Public().(type) {
	case *ecdsa.PublicKey:
		size, order := len(good)/2, public.Params().N
		r, s := new(big.Int).SetBytes(good[:size]), new(big.Int).SetBytes(good[size:])
		all["r is zero"] = rs(public.Curve, new(big.Int), s)
		all["s is zero"] = rs(public.Curve, r, new(big.Int))
		all["r is the order"] = rs(public.Curve, order, s)
		all["s is the order"] = rs(public.Curve, r, order)
		all["r and s swapped"] = rs(public.Curve, s, r)
		der, err := asn1.Marshal(struct{ R, S *big.Int }{r, s})
		if err != nil {
			t.Fatal(err)
		}
		all["the form of X.509"] = der
	case *rsa.PublicKey:
		n := new(big.Int).SetBytes(good)
		all["a signature above the modulus"] = n.Add(n, public.N).Bytes()
		if algorithm[0] == 'P' {
			all["a salt of another length"] = k.sign(t, algorithm, 20)
		}
	case ed25519.PublicKey:
		all["s above the order"] = aboveOrder(good)
	}
	return all
}

// aboveOrder adds the order of Ed25519's group to s, which is little endian (RFC 8032, 5.1.7).
func aboveOrder(good []byte) []byte {
	order, _ := new(big.Int).SetString("1000000000000000000000000000000014def9dea2f79cd65812631a5cf5d3ed", 16)
	b := bytes.Clone(good)
	slices.Reverse(b[32:])
	s := new(big.Int).SetBytes(b[32:])
	s.Add(s, order).FillBytes(b[32:])
	slices.Reverse(b[32:])
	return b
}

// unusable tests keys that are malformed and algorithms that no engine has.
func unusable(t *testing.T, all keys, verify host.VerifyFunc) {
	t.Helper()
	k := all["P-256"]
	good := k.sign(t, "ES256", 0)
	offCurve := bytes.Clone(k.public)
	offCurve[len(offCurve)-1] ^= 1
	compressed := func() []byte {
		b := slices.Concat(k.public[:24], k.public[24:59])
		b[1], b[24], b[26] = b[1]-32, b[24]-32, 2
		return b
	}()
	for name, public := range map[string][]byte{
		"no key": nil, "no DER": []byte("key"), "cut short": k.public[:len(k.public)-1],
		"a byte behind it": append(bytes.Clone(k.public), 0), "a point off the curve": offCurve,
		"a compressed point": compressed, "a point alone": k.public[26:],
	} {
		for _, algorithm := range []string{"ES256", "ecdsa-with-SHA256", "RS256", "PS256", "EdDSA"} {
			if ok, err := verify(t.Context(), algorithm, public, message, good); ok || err == nil {
				t.Errorf("%s, %s: %v, %v; want an error", name, algorithm, ok, err)
			}
		}
	}
	for _, algorithm := range []string{"", "none", "HS256", "es256", "ES256K", "Ed25519", "constructor",
		"toString", "__proto__"} {
		if ok, err := verify(t.Context(), algorithm, k.public, message, good); ok || err == nil {
			t.Errorf("the algorithm %q: %v, %v; want an error", algorithm, ok, err)
		}
	}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	if ok, _ := verify(done, "ES256", k.public, message, bytes.Repeat([]byte{1}, 64)); ok {
		t.Error("a forged signature verifies after the request has ended")
	}
}
