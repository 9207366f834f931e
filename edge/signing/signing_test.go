package signing

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
	"crypto/sha1"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/golang-jwt/jwt/v5"
	"github.com/spf13/afero"

	"github.com/verge-id/verge/core/host"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

var (
	p256     = must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	p384     = must(ecdsa.GenerateKey(elliptic.P384(), rand.Reader))
	rsa2048  = must(rsa.GenerateKey(rand.Reader, 2048))
	_, ed, _ = ed25519.GenerateKey(rand.Reader)
)

func block(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func pkcs8(k any) []byte { return block("PRIVATE KEY", must(x509.MarshalPKCS8PrivateKey(k))) }

// open returns a Signer with one key, named k.
func open(file []byte) (*Signer, error) {
	return Open(map[string]string{"k": "/keys/k.pem"}, func(string) ([]byte, error) { return file, nil }, "")
}

// With every format of the file, the key signs by its own algorithms only, and golang-jwt accepts the
// signature.
func TestSign_Algorithms(t *testing.T) {
	sec1 := block("EC PRIVATE KEY", must(x509.MarshalECPrivateKey(p256)))
	message := []byte("head.claims")
	for _, c := range []struct {
		name       string
		file       []byte
		public     crypto.PublicKey
		algorithms string
		bytes      int
	}{
		{"P-256 in PKCS#8", pkcs8(p256), &p256.PublicKey, "ES256", 64},
		{"P-256 in SEC 1", sec1, &p256.PublicKey, "ES256", 64},
		{"P-256 as openssl writes it", append(block("EC PARAMETERS", []byte{6, 0}), sec1...), &p256.PublicKey,
			"ES256", 64},
		{"RSA in PKCS#8", pkcs8(rsa2048), &rsa2048.PublicKey, "RS256 PS256", 256},
		{"RSA in PKCS#1", block("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(rsa2048)), &rsa2048.PublicKey,
			"RS256 PS256", 256},
		{"Ed25519", pkcs8(ed), ed.Public(), "EdDSA", 64},
	} {
		s, err := open(c.file)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		for _, algorithm := range []string{"ES256", "RS256", "PS256", "EdDSA", "ES384", "HS256", "none", ""} {
			signature, err := s.Sign(t.Context(), "k", algorithm, message)
			if !strings.Contains(" "+c.algorithms+" ", " "+algorithm+" ") {
				if err == nil || errors.Is(err, host.ErrNoSuchKey) || signature != nil ||
					!strings.Contains(err.Error(), "signs by ") {
					t.Errorf("%s signs by %q: %x, %v", c.name, algorithm, signature, err)
				}
				continue
			}
			if err != nil || len(signature) != c.bytes {
				t.Errorf("%s, %s: %d bytes, %v", c.name, algorithm, len(signature), err)
				continue
			}
			method := jwt.GetSigningMethod(algorithm)
			if err := method.Verify(string(message), signature, c.public); err != nil {
				t.Errorf("%s, %s: %v", c.name, algorithm, err)
			}
			if method.Verify("head.other", signature, c.public) == nil {
				t.Errorf("%s, %s: the signature is valid for another message", c.name, algorithm)
			}
		}
	}
}

// A key decrypts by the algorithm of its kind only. A message for another key has an empty secret.
func TestDecrypt_Algorithms(t *testing.T) {
	other := must(ecdh.P256().GenerateKey(rand.Reader))
	own := must(p256.ECDH())
	point := other.PublicKey().Bytes()
	off := slices.Clone(point)
	off[64] ^= 1
	key := []byte("content-encryption key")
	oaep := must(rsa.EncryptOAEP(sha256.New(), rand.Reader, &rsa2048.PublicKey, key, nil))
	sha1OAEP := must(rsa.EncryptOAEP(sha1.New(), rand.Reader, &rsa2048.PublicKey, key, nil))
	for _, c := range []struct {
		name, algorithm string
		file            []byte
		message, want   []byte
		fails           bool
	}{
		{"a point", "ECDH-ES", pkcs8(p256), point, must(other.ECDH(own.PublicKey())), false},
		{"a point off the curve", "ECDH-ES", pkcs8(p256), off, nil, false},
		{"a compressed point", "ECDH-ES", pkcs8(p256), append([]byte{2}, point[1:33]...), nil, false},
		{"no point", "ECDH-ES", pkcs8(p256), nil, nil, false},
		{"a key", "RSA-OAEP-256", pkcs8(rsa2048), oaep, key, false},
		{"a key with SHA-1", "RSA-OAEP-256", pkcs8(rsa2048), sha1OAEP, nil, false},
		{"a short key", "RSA-OAEP-256", pkcs8(rsa2048), []byte{1}, nil, false},
		{"no key", "RSA-OAEP-256", pkcs8(rsa2048), nil, nil, false},
		{"RSA with a key on P-256", "RSA-OAEP-256", pkcs8(p256), nil, nil, true},
		{"ECDH with an RSA key", "ECDH-ES", pkcs8(rsa2048), point, nil, true},
		{"Ed25519", "ECDH-ES", pkcs8(ed), point, nil, true},
		{"RSA PKCS #1 1.5", "RSA1_5", pkcs8(rsa2048), oaep, nil, true},
	} {
		s := must(open(c.file))
		got, err := s.Decrypt(t.Context(), "k", c.algorithm, c.message)
		if !bytes.Equal(got, c.want) || (err != nil) != c.fails {
			t.Errorf("%s: %x, %v", c.name, got, err)
		}
		if _, err := s.Decrypt(t.Context(), "other", c.algorithm, c.message); err != host.ErrNoSuchKey {
			t.Errorf("%s with an unknown key: %v", c.name, err)
		}
	}
	if _, err := (*Signer)(nil).Decrypt(t.Context(), "k", "ECDH-ES", point); err != host.ErrNoSuchKey {
		t.Errorf("without keys: %v", err)
	}
}

// Signatures by Ed25519 and by RS256 are deterministic, so they can be compared with published ones.
func TestVectors(t *testing.T) {
	// RFC 8032, 7.1, test 2.
	seed := must(hex.DecodeString("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb"))
	const want = "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da" +
		"085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
	s := must(open(pkcs8(ed25519.NewKeyFromSeed(seed))))
	got, err := s.Sign(t.Context(), "k", "EdDSA", []byte{0x72})
	if err != nil || hex.EncodeToString(got) != want {
		t.Errorf("RFC 8032, 7.1, test 2: %x, %v", got, err)
	}
	s = must(open(pkcs8(rsa2048)))
	one, err1 := s.Sign(t.Context(), "k", "RS256", []byte("m"))
	two, err2 := s.Sign(t.Context(), "k", "RS256", []byte("m"))
	if err1 != nil || err2 != nil || !bytes.Equal(one, two) {
		t.Errorf("RS256 differs from itself: %v, %v", err1, err2)
	}
}

func TestOpen_RejectedFiles(t *testing.T) {
	t.Setenv("GODEBUG", "rsa1024min=0") // or no such key could be created
	small := must(rsa.GenerateKey(rand.Reader, 1024))
	good := pkcs8(p256)
	for _, c := range []struct {
		name string
		file []byte
		says string
	}{
		{"an empty file", nil, "there is no PEM in it"},
		{"DER", must(x509.MarshalPKCS8PrivateKey(p256)), "there is no PEM in it"},
		{"two keys", append(bytes.Clone(good), good...), "there are 2 things in it"},
		{"a key and a certificate", append(bytes.Clone(good), block("CERTIFICATE", []byte("x"))...),
			"there are 2 things in it"},
		{"a public key", block("PUBLIC KEY", must(x509.MarshalPKIXPublicKey(&p256.PublicKey))),
			"it holds a PUBLIC KEY"},
		{"an encrypted key", block("ENCRYPTED PRIVATE KEY", []byte("x")), "the key is encrypted"},
		{"a key in the old encrypted form", pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY",
			Headers: map[string]string{"Proc-Type": "4,ENCRYPTED", "DEK-Info": "AES-128-CBC,00"},
			Bytes:   []byte("x")}), "the key is encrypted"},
		{"a truncated key", block("PRIVATE KEY", []byte("hush")), "cannot be read"},
		{"another curve", pkcs8(p384), "the curve P-384"},
		{"RSA of 1,024 bits", pkcs8(small), "1024 bits"},
		{"a key that agrees on keys", pkcs8(must(ecdh.X25519().GenerateKey(rand.Reader))),
			"neither of P-256"},
	} {
		s, err := open(c.file)
		if s != nil || err == nil || !strings.Contains(err.Error(), c.says) ||
			!strings.Contains(
				err.Error(),
				`private key "k", /keys/k.pem: `,
			) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v, want %q", c.name, err, c.says)
		}
	}
}

func TestOpen_Names(t *testing.T) {
	file := pkcs8(p256)
	s := must(
		Open(map[string]string{"client-1_a": "a"}, func(string) ([]byte, error) { return file, nil }, ""),
	)
	for _, name := range []string{"", "client", "CLIENT-1_a", "self-test", "a"} {
		if _, err := s.Sign(t.Context(), name, "ES256", nil); !errors.Is(err, host.ErrNoSuchKey) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if _, err := (*Signer)(nil).Sign(t.Context(), "k", "ES256", nil); !errors.Is(err, host.ErrNoSuchKey) {
		t.Errorf("without keys: %v", err)
	}
	for _, name := range []string{"", "self-test", "Client", "a b", "ä", strings.Repeat("k", 65)} {
		_, err := Open(map[string]string{name: "a"}, func(string) ([]byte, error) { return file, nil }, "")
		if err == nil {
			t.Errorf("a key may be named %q", name)
		}
	}
}

// The error contains all faults, and no keys are opened in part.
func TestOpen_ReadErrors(t *testing.T) {
	disk := afero.NewMemMapFs()
	for path, mode := range map[string]fs.FileMode{"/keys/good.pem": 0o600, "/keys/open.pem": 0o644} {
		if err := afero.WriteFile(disk, path, pkcs8(p256), mode); err != nil {
			t.Fatal(err)
		}
	}
	read := func(path string) ([]byte, error) {
		info, err := disk.Stat(path)
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			return nil, errors.New("can be read by others")
		}
		if err != nil {
			return nil, err
		}
		return afero.ReadFile(disk, path)
	}
	if s, err := Open(map[string]string{"a": "/keys/good.pem"}, read, ""); err != nil || s == nil {
		t.Errorf("%v", err)
	}
	s, err := Open(map[string]string{"a": "/keys/good.pem", "b": "/keys/open.pem", "c": "/keys/none.pem"},
		read, "")
	if s != nil || err == nil || !errors.Is(err, fs.ErrNotExist) ||
		!strings.Contains(err.Error(), `private key "b", /keys/open.pem: can be read by others`) {
		t.Errorf("%v", err)
	}
}

func TestSign_Concurrent(t *testing.T) {
	s := must(Open(map[string]string{"a": "a", "b": "b"}, func(path string) ([]byte, error) {
		return map[string][]byte{"a": pkcs8(p256), "b": pkcs8(rsa2048)}[path], nil
	}, ""))
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for name, algorithm := range map[string]string{"a": "ES256", "b": "PS256"} {
				if _, err := s.Sign(t.Context(), name, algorithm, []byte("m")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Sign(ctx, "a", "ES256", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("for a caller that has disconnected: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(pkcs8(p256))
	f.Add(block("EC PRIVATE KEY", must(x509.MarshalECPrivateKey(p256))))
	f.Add([]byte("-----BEGIN PRIVATE KEY-----\n-----END PRIVATE KEY-----\n"))
	f.Fuzz(func(t *testing.T, file []byte) {
		s, err := open(file)
		if (s == nil) == (err == nil) {
			t.Errorf("%v, %v", s, err)
		}
	})
}
