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
	good := ed25519.Sign(private, signedText(digest))
	for _, c := range []struct {
		name      string
		trust     trust
		signature []byte
		says      string // "": it may run
	}{
		{"nothing pinned", trust{}, nil, ""},
		{"nothing pinned where something must be", trust{pinned: true}, good, "nothing says that it may run"},
		{"its digest", trust{sha256: digest, pinned: true}, nil, ""},
		{"another digest", trust{sha256: other}, nil, "module_sha256 pins " + other},
		{"signed", trust{key: public, pinned: true}, good, ""},
		{"both pins, both good", trust{sha256: digest, key: public}, good, ""},
		{"both pins, one good", trust{sha256: other, key: public}, good, "module_sha256 pins"},
		{"both pins, the other one good", trust{sha256: digest, key: public}, nil, "it is not signed"},
		{"not signed", trust{key: public}, nil, "it is not signed"},
		{"an empty signature", trust{key: public}, []byte{}, "its signature is not one"},
		{"signed by another key", trust{key: public}, ed25519.Sign(stranger, signedText(digest)), "its signature is not one"},
		{"another module's signature", trust{key: public}, ed25519.Sign(private, signedText(other)), "its signature is not one"},
		{"a signature of the digest and nothing else", trust{key: public}, ed25519.Sign(private, []byte(digest)), "its signature is not one"},
		{"a signature of the module itself", trust{key: public}, ed25519.Sign(private, wasm), "its signature is not one"},
		{"a signature for a later version", trust{key: public}, ed25519.Sign(private, []byte(strings.Replace(string(signedText(digest)), "version 1", "version 2", 1))), "its signature is not one"},
	} {
		err := c.trust.check(digest, c.signature)
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", c.name, err, c.says)
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
	f.Add(signatureText(ed25519.Sign(private, signedText(digestOf(nil)))))
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
