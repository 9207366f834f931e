package modules

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

	"github.com/verge-id/verge/core/pemfile"
)

// Signature is the statement of a key's owner that a module is released, with its version. The version
// distinguishes a module from those that it replaced.
type Signature struct {
	Version int64 // 0: none, as in signatures of earlier releases
	bytes   []byte
}

// Sign signs the module with that SHA-256. A version of 0 makes a signature without a version.
func Sign(key ed25519.PrivateKey, digest string, version int64) *Signature {
	return &Signature{version, ed25519.Sign(key, signedText(digest, version))}
}

// signedText returns the text that the signature of a module signs, so that openssl can also create and check
// signatures. Its first line names a module, so that signatures for other purposes are invalid for a module.
func signedText(digest string, version int64) []byte {
	if version == 0 {
		return []byte("verge module, version 1\nsha256 " + digest + "\n")
	}
	return fmt.Appendf(nil, "verge module, format 2\nsha256 %s\nversion %d\n", digest, version)
}

// MaxVersion is the largest version of a module. It has room for a date and a time, and every JSON
// parser keeps it exact.
const MaxVersion = 1e15

// VersionText puts a version into words.
func VersionText(version int64) string {
	if version == 0 {
		return "no version"
	}
	return fmt.Sprintf("version %d", version)
}

// ParseDigest reads a SHA-256 as sha256sum prints it.
func ParseDigest(s string) (string, error) {
	if b, err := hex.DecodeString(s); err != nil || len(b) != sha256.Size {
		return "", fmt.Errorf("%q is no SHA-256: want its 64 hex digits, "+
			"as sha256sum and `verge module digest` print them", s)
	}
	return strings.ToLower(s), nil
}

// FormatPublicKey writes a key as `verge module keygen` prints it.
func FormatPublicKey(key ed25519.PublicKey) string { return base64.StdEncoding.EncodeToString(key) }

// ParsePublicKey reads a key as FormatPublicKey writes it.
func ParsePublicKey(s string) (ed25519.PublicKey, error) {
	b, err := base64.StdEncoding.Strict().DecodeString(s)
	if err != nil || len(b) != ed25519.PublicKeySize {
		return nil, fmt.Errorf("%q is no public key: want the 44 characters of base64 "+
			"that `verge module keygen` prints", s)
	}
	return b, nil
}

// signatureFormat is the beginning of a signature with a version. A signature without one is only the 64
// bytes in base64.
const signatureFormat = "verge-module-2"

// String returns the signature as one line, for a file or a header.
func (s *Signature) String() string {
	text := base64.StdEncoding.EncodeToString(s.bytes)
	if s.Version == 0 {
		return text
	}
	return fmt.Sprintf("%s %d %s", signatureFormat, s.Version, text)
}

var errNoSignature = errors.New("no signature: want what `verge module sign` writes, \"" + signatureFormat +
	"\", the version and 88 characters of base64, with a space between")

// parseSignature reads a signature as String writes it.
func parseSignature(text string) (*Signature, error) {
	s, encoded := &Signature{}, strings.TrimSpace(text)
	if rest, ok := strings.CutPrefix(encoded, signatureFormat+" "); ok {
		number, after, _ := strings.Cut(rest, " ")
		version, err := strconv.ParseInt(number, 10, 64)
		if err != nil || version < 1 || version > MaxVersion || strconv.FormatInt(version, 10) != number {
			return nil, errNoSignature
		}
		s.Version, encoded = version, after
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

// MarshalPrivateKey writes a key for a file.
func MarshalPrivateKey(key ed25519.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: privateKeyBlock, Bytes: der}), nil
}

// ParsePrivateKey reads a key as MarshalPrivateKey or openssl writes it.
func ParsePrivateKey(b []byte) (ed25519.PrivateKey, error) {
	block, err := pemfile.PrivateKey(b)
	if err == nil && block.Type != privateKeyBlock {
		err = fmt.Errorf("it holds a %s", block.Type)
	}
	if err != nil {
		return nil, fmt.Errorf("no private key in PEM: %w; `verge module keygen` makes one", err)
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
