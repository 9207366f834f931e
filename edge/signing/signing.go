// Package signing keeps the private keys of verification methods and signs with them: host.Host's Sign. So
// neither the core nor a guest ever has a private key. [Verify] is host.Host's Verify. Use [Open] with the
// keys' files.
//
// A key is a PEM file: PKCS#8, SEC 1 for elliptic curves, or PKCS#1 for RSA. The caller of Open checks who
// may read such a file. Each key signs only by the algorithms of its kind:
//
//	P-256              ES256
//	RSA, 2,048 bits    RS256, PS256
//	Ed25519            EdDSA
//
// A signature has the format of JWS: for ES256 the 32 bytes of r followed by the 32 of s.
//
// Not guaranteed: that a key is used for one purpose only. A module that runs as a guest can have any
// message signed with these keys, like it can use the store.
package signing

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/golang-jwt/jwt/v5"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/pemfile"
	"github.com/verge-id/verge/wasm/abi"
)

// Signer signs with its keys. It may be used concurrently. A nil Signer has no keys.
type Signer struct{ keys map[string]key }

// key is a private key with its algorithms.
type key struct {
	private    crypto.Signer
	algorithms []string
}

// Open reads the keys of files, which maps each key's name to a path. read returns the content of a file
// with a secret, or an error for a file that others may read; the caller has the rule for such files. The
// error contains all faults.
func Open(files map[string]string, read func(path string) ([]byte, error)) (*Signer, error) {
	s := &Signer{keys: map[string]key{}}
	var wrong []error
	for _, name := range slices.Sorted(maps.Keys(files)) {
		b, err := read(files[name])
		if err == nil {
			err = s.add(name, b)
		}
		if err != nil {
			wrong = append(wrong, fmt.Errorf("private key %q, %s: %w", name, files[name], err))
		}
	}
	if len(wrong) > 0 {
		return nil, errors.Join(wrong...)
	}
	return s, nil
}

// With returns a Signer with the keys of s, which may be nil, and the key of a file under that name.
func (s *Signer) With(name string, file []byte) (*Signer, error) {
	all := &Signer{keys: map[string]key{}}
	if s != nil {
		maps.Copy(all.keys, s.keys)
	}
	return all, all.add(name, file)
}

// Public returns the public key of that name as a SubjectPublicKeyInfo. The error is host.ErrNoSuchKey if
// there is no key of that name.
func (s *Signer) Public(name string) ([]byte, error) {
	if s == nil || s.keys[name].private == nil {
		return nil, host.ErrNoSuchKey
	}
	return x509.MarshalPKIXPublicKey(s.keys[name].private.Public())
}

// maxName is the maximum length of a key's name in a guest's request.
const maxName = 64

func (s *Signer) add(name string, file []byte) error {
	switch {
	case name == "" || len(name) > maxName || strings.Trim(name,
		"abcdefghijklmnopqrstuvwxyz0123456789-_") != "":
		return fmt.Errorf("its name must have 1 to %d of the characters a to z, 0 to 9, - and _", maxName)
	case name == abi.TestKey:
		return fmt.Errorf("choose another name: a module that is tested asks for %q and must not get it",
			name)
	}
	k, err := parse(file)
	if err != nil {
		return err
	}
	s.keys[name] = k
	return nil
}

// parse parses the only private key of a PEM file. Its errors quote only the names of blocks.
func parse(file []byte) (key, error) {
	block, err := pemfile.PrivateKey(file)
	if err != nil {
		return key{}, err
	}
	var private any
	switch block.Type {
	case "PRIVATE KEY":
		private, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	case "EC PRIVATE KEY":
		private, err = x509.ParseECPrivateKey(block.Bytes)
	case "RSA PRIVATE KEY":
		private, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	default:
		return key{}, fmt.Errorf("it holds a %s, and must hold a private key", block.Type)
	}
	if err != nil {
		return key{}, fmt.Errorf("the private key cannot be read: %w", err)
	}
	return fitting(private)
}

// Sizes of RSA keys. Signatures of smaller keys can be forged. A signature of a larger key takes longer
// than a request may wait.
const (
	minRSA = 2048
	maxRSA = 8192
)

// fitting returns a key with its algorithms.
func fitting(private any) (key, error) {
	switch k := private.(type) {
	case *ecdsa.PrivateKey:
		if k.Curve != elliptic.P256() {
			return key{}, fmt.Errorf("the key is of the curve %s, and only P-256 is supported",
				k.Params().Name)
		}
		return key{k, []string{"ES256"}}, nil
	case *rsa.PrivateKey:
		if n := k.N.BitLen(); n < minRSA || n > maxRSA {
			return key{}, fmt.Errorf("the RSA key has %d bits, and must have %d to %d", n, minRSA, maxRSA)
		}
		return key{k, []string{"RS256", "PS256"}}, nil
	case ed25519.PrivateKey:
		return key{k, []string{"EdDSA"}}, nil
	}
	return key{}, errors.New("the key is neither of P-256 nor RSA nor Ed25519")
}

// Sign is host.Host's Sign.
func (s *Signer) Sign(ctx context.Context, name, algorithm string, message []byte) ([]byte, error) {
	if s == nil {
		return nil, host.ErrNoSuchKey
	}
	k, ok := s.keys[name]
	if !ok {
		return nil, host.ErrNoSuchKey
	}
	if !slices.Contains(k.algorithms, algorithm) {
		return nil, fmt.Errorf("signing: the private key %q signs by %s, and not by %.16q",
			name, strings.Join(k.algorithms, " or "), algorithm)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	signature, err := jwt.GetSigningMethod(algorithm).Sign(string(message), k.private)
	if err != nil {
		return nil, fmt.Errorf("signing with the private key %q: %w", name, err)
	}
	return signature, nil
}
