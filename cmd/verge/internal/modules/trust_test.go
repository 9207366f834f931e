package modules

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
	good, old := Sign(private, digest, 7), Sign(private, digest, 0)
	later := strings.Replace(string(signedText(digest, 0)), "version 1", "version 2", 1)
	of := func(text []byte, key ed25519.PrivateKey) *Signature {
		return &Signature{0, ed25519.Sign(key, text)}
	}
	for _, c := range []struct {
		name      string
		trust     Trust
		signature *Signature
		says      string // "": it may run
		version   int64  // what Check returns if it may run
	}{
		{"nothing pinned", Trust{}, nil, "", 0},
		{"nothing pinned, and an unchecked signature", Trust{}, good, "", 0},
		{"nothing pinned where something must be", Trust{Pinned: true}, good, "nothing says that it may run",
			0},
		{"its digest", Trust{SHA256: digest, Pinned: true}, nil, "", 0},
		{"another digest", Trust{SHA256: other}, nil, "module_sha256 pins " + other, 0},
		{"signed", Trust{Key: public, Pinned: true}, good, "", 7},
		{"signed without a version", Trust{Key: public, Pinned: true}, old, "", 0},
		{"both pins, both good", Trust{SHA256: digest, Key: public}, good, "", 7},
		{"both pins, one good", Trust{SHA256: other, Key: public}, good, "module_sha256 pins", 0},
		{"both pins, one matches", Trust{SHA256: digest, Key: public}, nil, "it is not signed", 0},
		{"not signed", Trust{Key: public}, nil, "it is not signed", 0},
		{"an empty signature", Trust{Key: public}, &Signature{}, "did not sign", 0},
		{"signed by another key", Trust{Key: public}, Sign(stranger, digest, 7), "did not sign",
			0},
		{"another module's signature", Trust{Key: public}, Sign(private, other, 7),
			"did not sign", 0},
		{"a signature of the digest and nothing else", Trust{Key: public}, of([]byte(digest), private),
			"did not sign", 0},
		{"a signature of the module itself", Trust{Key: public}, of(wasm, private),
			"did not sign", 0},
		{"a signature for a later version", Trust{Key: public}, of([]byte(later), private),
			"did not sign", 0},

		{"the least version", Trust{Key: public, MinVersion: 7}, good, "", 7},
		{"a version below the least", Trust{Key: public, MinVersion: 8}, good,
			"its signature says version 7, but module_min_version is 8", 0},
		{"no version where there is a least", Trust{Key: public, MinVersion: 1}, old,
			"its signature says no version, but module_min_version is 1", 0},
		{"a version that an attacker has raised", Trust{Key: public}, &Signature{8, good.bytes},
			"did not sign", 0},
		{"a version that an attacker has put in", Trust{Key: public}, &Signature{7, old.bytes},
			"did not sign", 0},
		{"a version that an attacker has taken out", Trust{Key: public}, &Signature{0, good.bytes},
			"did not sign", 0},
	} {
		version, err := c.trust.Check(Module{Digest: digest, Signature: c.signature})
		if (err == nil) != (c.says == "") || version != c.version ||
			err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %d, %v, want %d, %q", c.name, version, err, c.version, c.says)
		}
	}
}

// parseSignature accepts a signature in one form only.
func TestSignatures(t *testing.T) {
	zeros := strings.Repeat("A", 86) + "=="
	for _, c := range []struct {
		text    string
		version int64 // below 0: the text is rejected
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
		if (err == nil) != (c.version >= 0) ||
			err == nil && (s.Version != c.version || s.String() != strings.TrimSpace(c.text)) {
			t.Errorf("%q: %+v, %v", c.text, s, err)
		}
	}
}

// FuzzPins shows that every text that is read as a pin or a signature is written as the same text again.
func FuzzPins(f *testing.F) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		f.Fatal(err)
	}
	pem, err := MarshalPrivateKey(private)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(FormatPublicKey(public))
	f.Add(Sign(private, digestOf(nil), 0).String())
	f.Add(Sign(private, digestOf(nil), 7).String())
	f.Add(digestOf(nil))
	f.Add(strings.ToUpper(digestOf(nil)))
	f.Add(string(pem))
	f.Add("-----BEGIN PRIVATE KEY-----\nMAA=\n-----END PRIVATE KEY-----\n")
	f.Fuzz(func(t *testing.T, s string) {
		if key, err := ParsePublicKey(s); err == nil && FormatPublicKey(key) != stripLines(s) {
			t.Errorf("key %q is written %q", s, FormatPublicKey(key))
		}
		if sig, err := parseSignature(s); err == nil && sig.String() != stripLines(strings.TrimSpace(s)) {
			t.Errorf("signature %q is written %q", s, sig.String())
		}
		if digest, err := ParseDigest(s); err == nil && digest != strings.ToLower(s) {
			t.Errorf("digest %q is written %q", s, digest)
		}
		if key, err := ParsePrivateKey([]byte(s)); err == nil {
			if again, err := MarshalPrivateKey(key); err != nil || len(again) == 0 {
				t.Errorf("private key: %v", err)
			}
		}
	})
}

// stripLines takes out the line breaks that base64 may have.
func stripLines(s string) string { return strings.NewReplacer("\r", "", "\n", "").Replace(s) }
