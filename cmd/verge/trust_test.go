package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"strings"
	"testing"
)

func TestTrust(t *testing.T) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	_, stranger, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	wasm := []byte("\x00asm\x01\x00\x00\x00")
	digest, other := digestOf(wasm), digestOf([]byte("another"))
	good, old := sign(private, digest, 7), sign(private, digest, 0)
	of := func(text []byte, key ed25519.PrivateKey) *signature { return &signature{0, ed25519.Sign(key, text)} }
	for _, c := range []struct {
		name      string
		trust     trust
		signature *signature
		says      string // "": it may run
		version   int64  // then
	}{
		{"nothing pinned", trust{}, nil, "", 0},
		{"nothing pinned, and a signature that nobody checks", trust{}, good, "", 0},
		{"nothing pinned where something must be", trust{pinned: true}, good, "nothing says that it may run", 0},
		{"its digest", trust{sha256: digest, pinned: true}, nil, "", 0},
		{"another digest", trust{sha256: other}, nil, "module_sha256 pins " + other, 0},
		{"signed", trust{key: public, pinned: true}, good, "", 7},
		{"signed without a version", trust{key: public, pinned: true}, old, "", 0},
		{"both pins, both good", trust{sha256: digest, key: public}, good, "", 7},
		{"both pins, one good", trust{sha256: other, key: public}, good, "module_sha256 pins", 0},
		{"both pins, the other one good", trust{sha256: digest, key: public}, nil, "it is not signed", 0},
		{"not signed", trust{key: public}, nil, "it is not signed", 0},
		{"an empty signature", trust{key: public}, &signature{}, "its signature is not one", 0},
		{"signed by another key", trust{key: public}, sign(stranger, digest, 7), "its signature is not one", 0},
		{"another module's signature", trust{key: public}, sign(private, other, 7), "its signature is not one", 0},
		{"a signature of the digest and nothing else", trust{key: public}, of([]byte(digest), private), "its signature is not one", 0},
		{"a signature of the module itself", trust{key: public}, of(wasm, private), "its signature is not one", 0},
		{"a signature for a later version", trust{key: public}, of([]byte(strings.Replace(string(signedText(digest, 0)), "version 1", "version 2", 1)), private), "its signature is not one", 0},

		{"the least version", trust{key: public, minVersion: 7}, good, "", 7},
		{"a version below the least", trust{key: public, minVersion: 8}, good, "its signature says version 7, but module_min_version is 8", 0},
		{"no version where there is a least", trust{key: public, minVersion: 1}, old, "its signature says no version, but module_min_version is 1", 0},
		{"a version that somebody has raised", trust{key: public}, &signature{8, good.bytes}, "its signature is not one", 0},
		{"a version that somebody has put in", trust{key: public}, &signature{7, old.bytes}, "its signature is not one", 0},
		{"a version that somebody has taken out", trust{key: public}, &signature{0, good.bytes}, "its signature is not one", 0},
	} {
		version, err := c.trust.check(digest, c.signature)
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) || version != c.version {
			t.Errorf("%s: %d, %v, want %d, %q", c.name, version, err, c.version, c.says)
		}
	}
}

// A signature has one form.
func TestSignatures(t *testing.T) {
	zeros := strings.Repeat("A", 86) + "=="
	for _, c := range []struct {
		text    string
		version int64 // below 0: it is none
	}{
		{zeros, 0},
		{"verge-module-2 1 " + zeros, 1},
		{"verge-module-2 20261120 " + zeros + "\n", 20261120},
		{"verge-module-2 1000000000000000 " + zeros, 1e15},
		{"verge-module-2 1000000000000001 " + zeros, -1},
		{"verge-module-2 0 " + zeros, -1},
		{"verge-module-2 -1 " + zeros, -1},
		{"verge-module-2 +1 " + zeros, -1},
		{"verge-module-2 01 " + zeros, -1},
		{"verge-module-2 1  " + zeros, -1},
		{"verge-module-2 1.5 " + zeros, -1},
		{"verge-module-2 1" + zeros, -1},
		{"verge-module-2 1", -1},
		{"verge-module-2 " + zeros, -1},
		{"verge-module-3 1 " + zeros, -1},
		{"1 " + zeros, -1},
		{zeros + zeros, -1},
		{"", -1},
	} {
		s, err := parseSignature(c.text)
		if (err == nil) != (c.version >= 0) || err == nil && (s.version != c.version || signatureText(s) != strings.TrimSpace(c.text)) {
			t.Errorf("%q: %+v, %v", c.text, s, err)
		}
	}
}

// FuzzPins: what is read as a pin or a signature is written as the same text again.
func FuzzPins(f *testing.F) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		f.Fatal(err)
	}
	pem, err := marshalPrivateKey(private)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(publicKeyText(public))
	f.Add(signatureText(sign(private, digestOf(nil), 0)))
	f.Add(signatureText(sign(private, digestOf(nil), 7)))
	f.Add(digestOf(nil))
	f.Add(strings.ToUpper(digestOf(nil)))
	f.Add(string(pem))
	f.Add("-----BEGIN PRIVATE KEY-----\nMAA=\n-----END PRIVATE KEY-----\n")
	f.Fuzz(func(t *testing.T, s string) {
		if key, err := parsePublicKey(s); err == nil && publicKeyText(key) != stripLines(s) {
			t.Errorf("key %q is written %q", s, publicKeyText(key))
		}
		if sig, err := parseSignature(s); err == nil && signatureText(sig) != stripLines(strings.TrimSpace(s)) {
			t.Errorf("signature %q is written %q", s, signatureText(sig))
		}
		if digest, err := parseDigest(s); err == nil && digest != strings.ToLower(s) {
			t.Errorf("digest %q is written %q", s, digest)
		}
		if key, err := parsePrivateKey([]byte(s)); err == nil {
			if again, err := marshalPrivateKey(key); err != nil || len(again) == 0 {
				t.Errorf("private key: %v", err)
			}
		}
	})
}

// stripLines takes out the line breaks that base64 may have.
func stripLines(s string) string { return strings.NewReplacer("\r", "", "\n", "").Replace(s) }
