package main

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// trust says which modules may run. Its zero value trusts all of them: then it
// is the file's permissions and the operator token that keep others out.
type trust struct {
	sha256     string            // of the only one, in hex; "": any
	key        ed25519.PublicKey // whose signature it needs; nil: nobody's
	pinned     bool              // one of the two must be given
	minVersion int64             // the least that its signature may say; 0: any, also one that says none
}

// check refuses a module that is not trusted. s is nil where there is no
// signature. The version is what a signature says that was checked, 0 if none was.
func (t trust) check(digest string, s *signature) (version int64, err error) {
	switch {
	case t.sha256 != "" && t.sha256 != digest:
		return 0, fmt.Errorf("its SHA-256 is %s, but module_sha256 pins %s", digest, t.sha256)
	case t.key != nil && s == nil:
		return 0, fmt.Errorf("it is not signed, but module_key pins the key %s: `verge module sign` makes the signature", publicKeyText(t.key))
	case t.key != nil && !ed25519.Verify(t.key, signedText(digest, s.version), s.bytes):
		return 0, fmt.Errorf("its signature is not one that the key of module_key, %s, has made of these bytes (SHA-256 %s)", publicKeyText(t.key), digest)
	case t.key != nil && s.version < t.minVersion:
		return 0, fmt.Errorf("its signature says %s, but module_min_version is %d", versionText(s.version), t.minVersion)
	case t.pinned && t.sha256 == "" && t.key == nil:
		return 0, errors.New("nothing says that it may run: pin its SHA-256 with module_sha256, or with module_key the key that signs it")
	case t.key != nil:
		return s.version, nil
	}
	return 0, nil
}

// signature is what a key says about a module: that it is the key's, and its
// version, so that one which was replaced is not taken for the one that replaced it.
type signature struct {
	version int64 // 0: it says none, as before there were any
	bytes   []byte
}

func sign(key ed25519.PrivateKey, digest string, version int64) *signature {
	return &signature{version, ed25519.Sign(key, signedText(digest, version))}
}

// signedText is what the signature of a module signs. It is a text so that
// openssl makes and checks it too, and says what it is about so that no
// signature which the key made for anything else counts as one of a module.
func signedText(digest string, version int64) []byte {
	if version == 0 {
		return []byte("verge module, version 1\nsha256 " + digest + "\n")
	}
	return fmt.Appendf(nil, "verge module, format 2\nsha256 %s\nversion %d\n", digest, version)
}

// maxVersion is the largest version of a module: room for a date and a time,
// and a number that JSON keeps everywhere.
const maxVersion = 1e15

func versionText(version int64) string {
	if version == 0 {
		return "no version"
	}
	return fmt.Sprintf("version %d", version)
}

// digestOf names a module.
func digestOf(wasm []byte) string {
	sum := sha256.Sum256(wasm)
	return hex.EncodeToString(sum[:])
}

// parseDigest reads a SHA-256 as sha256sum prints it.
func parseDigest(s string) (string, error) {
	if b, err := hex.DecodeString(s); err != nil || len(b) != sha256.Size {
		return "", fmt.Errorf("%q is no SHA-256: want its 64 hex digits, as sha256sum and `verge module digest` print them", s)
	}
	return strings.ToLower(s), nil
}

func publicKeyText(key ed25519.PublicKey) string { return base64.StdEncoding.EncodeToString(key) }

// parsePublicKey reads a key as `verge module keygen` prints it.
func parsePublicKey(s string) (ed25519.PublicKey, error) {
	b, err := base64.StdEncoding.Strict().DecodeString(s)
	if err != nil || len(b) != ed25519.PublicKeySize {
		return nil, fmt.Errorf("%q is no public key: want the 44 characters of base64 that `verge module keygen` prints", s)
	}
	return b, nil
}

// signatureFormat begins a signature that says a version. One that says none
// has the 64 bytes in base64 and nothing else.
const signatureFormat = "verge-module-2"

// signatureText is one line, for a file as for a header.
func signatureText(s *signature) string {
	text := base64.StdEncoding.EncodeToString(s.bytes)
	if s.version == 0 {
		return text
	}
	return fmt.Sprintf("%s %d %s", signatureFormat, s.version, text)
}

var errNoSignature = errors.New("no signature: want what `verge module sign` writes, \"" + signatureFormat + "\", the version and 88 characters of base64, with a space between")

// parseSignature reads a signature as signatureText writes it.
func parseSignature(text string) (*signature, error) {
	s, encoded := &signature{}, strings.TrimSpace(text)
	if rest, ok := strings.CutPrefix(encoded, signatureFormat+" "); ok {
		number, after, _ := strings.Cut(rest, " ")
		version, err := strconv.ParseInt(number, 10, 64)
		if err != nil || version < 1 || version > maxVersion || strconv.FormatInt(version, 10) != number {
			return nil, errNoSignature
		}
		s.version, encoded = version, after
	}
	b, err := base64.StdEncoding.Strict().DecodeString(encoded)
	if err != nil || len(b) != ed25519.SignatureSize {
		return nil, errNoSignature
	}
	s.bytes = b
	return s, nil
}

// A private key is kept as PKCS #8 in PEM, like a TLS key.
const privateKeyBlock = "PRIVATE KEY"

func marshalPrivateKey(key ed25519.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: privateKeyBlock, Bytes: der}), nil
}

func parsePrivateKey(b []byte) (ed25519.PrivateKey, error) {
	block, _ := pem.Decode(b)
	if block == nil || block.Type != privateKeyBlock {
		return nil, errors.New("no private key in PEM: `verge module keygen` makes one")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	own, ok := key.(ed25519.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("a private key of another kind (%T): want Ed25519", key)
	}
	return own, nil
}
