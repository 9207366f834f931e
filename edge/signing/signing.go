// Package signing keeps the private keys of verification methods. It signs and decrypts with them as
// host.Host's Sign and Decrypt. Neither the core nor a guest ever has a private key. [Verify] is host.Host's
// Verify. Use [Open] with the keys' files.
//
// A key is a PEM file: PKCS#8, SEC 1 for elliptic curves, or PKCS#1 for RSA. The caller of Open checks who
// may read such a file. Or it is a key of an SSH agent, named by its fingerprint: agent:SHA256:…, as
// `ssh-add -l` prints it. Then the private key is never in this process, and it does not decrypt. Each key
// signs and decrypts only by the algorithms of its kind:
//
//	P-256              ES256; ECDH-ES
//	RSA, 2,048 bits    RS256, PS256, in an agent RS256 only; RSA-OAEP-256
//	Ed25519            EdDSA
//
// A signature has the format of JWS: for ES256 the 32 bytes of r followed by the 32 of s.
//
// Not guaranteed: that a key is used for one purpose only. A module that runs as a guest can have any
// message signed or decrypted with these keys, like it can use the store.
package signing

import (
	"context"
	"crypto"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
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
	public     crypto.PublicKey
	private    crypto.Signer // nil: a key of the agent
	agent      *agent
	algorithms []string
}

// Open reads the keys of files, which maps each key's name to a path or to the name of a key in the agent.
// read returns the content of a file with a secret, or an error for a file that others may read; the caller
// has the rule for such files. socket is the path of the SSH agent's socket; "" is none. The error contains
// all faults.
func Open(files map[string]string, read func(path string) ([]byte, error), socket string) (*Signer, error) {
	s := &Signer{keys: map[string]key{}}
	var wrong []error
	for _, name := range slices.Sorted(maps.Keys(files)) {
		k, err := load(files[name], read, socket)
		if err == nil {
			err = s.add(name, k)
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
	k, err := parse(file)
	if err == nil {
		err = all.add(name, k)
	}
	return all, err
}

// load returns the key of a path, or of the agent.
func load(path string, read func(path string) ([]byte, error), socket string) (key, error) {
	if fingerprint, ok := strings.CutPrefix(path, agentPrefix); ok {
		return (&agent{socket: socket}).find(fingerprint)
	}
	b, err := read(path)
	if err != nil {
		return key{}, err
	}
	return parse(b)
}

// Public returns the public key of that name as a SubjectPublicKeyInfo. The error is host.ErrNoSuchKey if
// there is no key of that name.
func (s *Signer) Public(name string) ([]byte, error) {
	if s == nil || s.keys[name].public == nil {
		return nil, host.ErrNoSuchKey
	}
	return x509.MarshalPKIXPublicKey(s.keys[name].public)
}

// maxName is the maximum length of a key's name in a guest's request.
const maxName = 64

func (s *Signer) add(name string, k key) error {
	switch {
	case name == "" || len(name) > maxName || strings.Trim(name,
		"abcdefghijklmnopqrstuvwxyz0123456789-_") != "":
		return fmt.Errorf("its name must have 1 to %d of the characters a to z, 0 to 9, - and _", maxName)
	case name == abi.TestKey:
		return fmt.Errorf("choose another name: a module that is tested asks for %q and must not get it",
			name)
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
	signer, ok := private.(crypto.Signer)
	if !ok {
		return key{}, errKind
	}
	algorithms, err := algorithmsOf(signer.Public())
	return key{public: signer.Public(), private: signer, algorithms: algorithms}, err
}

var errKind = errors.New("the key is neither of P-256 nor RSA nor Ed25519")

// algorithmsOf returns the algorithms of a public key.
func algorithmsOf(public crypto.PublicKey) ([]string, error) {
	switch k := public.(type) {
	case *ecdsa.PublicKey:
		if k.Curve != elliptic.P256() {
			return nil, fmt.Errorf("the key is of the curve %s, and only P-256 is supported", k.Params().Name)
		}
		return []string{"ES256"}, nil
	case *rsa.PublicKey:
		if n := k.N.BitLen(); n < minRSA || n > maxRSA {
			return nil, fmt.Errorf("the RSA key has %d bits, and must have %d to %d", n, minRSA, maxRSA)
		}
		return []string{"RS256", "PS256"}, nil
	case ed25519.PublicKey:
		return []string{"EdDSA"}, nil
	}
	return nil, errKind
}

// find returns the key of that name.
func (s *Signer) find(ctx context.Context, name string) (key, error) {
	if s == nil || s.keys[name].public == nil {
		return key{}, host.ErrNoSuchKey
	}
	return s.keys[name], ctx.Err()
}

// Sign is host.Host's Sign.
func (s *Signer) Sign(ctx context.Context, name, algorithm string, message []byte) ([]byte, error) {
	k, err := s.find(ctx, name)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(k.algorithms, algorithm) {
		return nil, fmt.Errorf("signing: the private key %q signs by %s, and not by %.16q",
			name, strings.Join(k.algorithms, " or "), algorithm)
	}
	signature, err := k.sign(ctx, algorithm, message)
	if err != nil {
		return nil, fmt.Errorf("signing with the private key %q: %w", name, err)
	}
	return signature, nil
}

func (k key) sign(ctx context.Context, algorithm string, message []byte) ([]byte, error) {
	if k.private == nil {
		return k.agent.sign(ctx, k.public, algorithm, message)
	}
	return jwt.GetSigningMethod(algorithm).Sign(string(message), k.private)
}

// Decrypt is host.Host's Decrypt.
func (s *Signer) Decrypt(ctx context.Context, name, algorithm string, message []byte) ([]byte, error) {
	k, err := s.find(ctx, name)
	if err != nil {
		return nil, err
	}
	switch private := k.private.(type) {
	case nil:
		return nil, fmt.Errorf("signing: the private key %q is in an SSH agent, which only signs; "+
			"use a key in a file", name)
	case *ecdsa.PrivateKey:
		if algorithm == "ECDH-ES" {
			return agree(private, message)
		}
	case *rsa.PrivateKey:
		if algorithm == "RSA-OAEP-256" {
			secret, err := rsa.DecryptOAEP(sha256.New(), nil, private, message, nil)
			if err != nil {
				return nil, nil // the message is not for this key
			}
			return secret, nil
		}
	}
	return nil, fmt.Errorf("signing: the private key %q does not decrypt by %.16q", name, algorithm)
}

// agree returns the secret that a key shares with a public key on P-256. It is nil for other public keys.
func agree(private *ecdsa.PrivateKey, public []byte) ([]byte, error) {
	k, err := private.ECDH()
	if err != nil {
		return nil, err
	}
	peer, err := ecdh.P256().NewPublicKey(public)
	if err != nil {
		return nil, nil
	}
	return k.ECDH(peer)
}

// probe is the message that Check signs. It is no JWS, no COSE structure and no request of a provider.
const probe = "verge: check of a private key"

// Check signs with each key of the agent, and returns the error of each by its name, or nil. A key of a file
// is not checked: it cannot be lost while the process runs.
func (s *Signer) Check(ctx context.Context) map[string]error {
	if s == nil {
		return nil
	}
	found := map[string]error{}
	for _, name := range slices.Sorted(maps.Keys(s.keys)) {
		if k := s.keys[name]; k.private == nil {
			_, found[name] = s.Sign(ctx, name, k.algorithms[0], []byte(probe))
		}
	}
	return found
}
