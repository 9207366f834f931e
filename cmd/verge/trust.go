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
	"strings"
)

// trust says which modules may run. Its zero value trusts all of them: then it
// is the file's permissions and the operator token that keep others out.
type trust struct {
	sha256 string            // of the only one, in hex; "": any
	key    ed25519.PublicKey // whose signature it needs; nil: nobody's
	pinned bool              // one of the two must be given
}

// check refuses a module that is not trusted. signature is nil where there is none.
func (t trust) check(digest string, signature []byte) error {
	switch {
	case t.sha256 != "" && t.sha256 != digest:
		return fmt.Errorf("its SHA-256 is %s, but module_sha256 pins %s", digest, t.sha256)
	case t.key != nil && signature == nil:
		return fmt.Errorf("it is not signed, but module_key pins the key %s: `verge module sign` makes the signature", publicKeyText(t.key))
	case t.key != nil && !ed25519.Verify(t.key, signedText(digest), signature):
		return fmt.Errorf("its signature is not one that the key of module_key, %s, has made of these bytes (SHA-256 %s)", publicKeyText(t.key), digest)
	case t.pinned && t.sha256 == "" && t.key == nil:
		return errors.New("nothing says that it may run: pin its SHA-256 with module_sha256, or with module_key the key that signs it")
	}
	return nil
}

// signedText is what the signature of a module signs. It is a text so that
// openssl makes and checks it too, and says what it is about so that no
// signature which the key made for anything else counts as one of a module.
func signedText(digest string) []byte {
	return []byte("verge module, version 1\nsha256 " + digest + "\n")
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

func signatureText(signature []byte) string { return base64.StdEncoding.EncodeToString(signature) }

// parseSignature reads a signature as signatureText writes it.
func parseSignature(s string) ([]byte, error) {
	b, err := base64.StdEncoding.Strict().DecodeString(strings.TrimSpace(s))
	if err != nil || len(b) != ed25519.SignatureSize {
		return nil, errors.New("no signature: want the 88 characters of base64 that `verge module sign` writes")
	}
	return b, nil
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
