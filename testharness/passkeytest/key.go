package passkeytest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"fmt"
	"io"
	"math/big"

	"github.com/verge-id/verge/core/cbor"
)

// Algorithms of COSE.
const (
	ES256 int64 = -7
	EdDSA int64 = -8
	RS256 int64 = -257
)

// key is a passkey's key pair.
type key struct{ private crypto.Signer }

// NewKey returns a new key. RS256 has 2,048 bits.
func NewKey(algorithm int64) (key, error) { return newKey(algorithm, rand.Reader) }

// newKey makes EdDSA keys from random alone. Go chooses the others from its own randomness.
func newKey(algorithm int64, random io.Reader) (k key, err error) {
	switch algorithm {
	case ES256:
		k.private, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case EdDSA:
		seed := make([]byte, ed25519.SeedSize)
		_, err = io.ReadFull(random, seed)
		k.private = ed25519.NewKeyFromSeed(seed)
	case RS256:
		k.private, err = rsa.GenerateKey(rand.Reader, 2048)
	default:
		err = fmt.Errorf("passkeytest: there is no algorithm %d", algorithm)
	}
	return k, err
}

// Public returns the public key in COSE.
func (k key) Public() []byte {
	switch public := k.private.Public().(type) {
	case *ecdsa.PublicKey:
		point, err := public.Bytes()
		if err != nil {
			panic(err) // the key was made here
		}
		return coseKey(2, ES256, cbor.Integer(1), cbor.Bytes(point[1:33]), cbor.Bytes(point[33:]))
	case ed25519.PublicKey:
		return coseKey(1, EdDSA, cbor.Integer(6), cbor.Bytes(public))
	case *rsa.PublicKey:
		return coseKey(3, RS256, cbor.Bytes(public.N.Bytes()),
			cbor.Bytes(big.NewInt(int64(public.E)).Bytes()))
	}
	panic("passkeytest: a zero Key")
}

// coseKey writes a key whose further members have the labels -1, -2 and so on.
func coseKey(kind, algorithm int64, members ...cbor.Item) []byte {
	pairs := []cbor.Pair{
		{Key: cbor.Integer(1), Value: cbor.Integer(kind)},
		{Key: cbor.Integer(3), Value: cbor.Integer(algorithm)},
	}
	for i, member := range members {
		pairs = append(pairs, cbor.Pair{Key: cbor.Integer(int64(-1 - i)), Value: member})
	}
	return cbor.Map(pairs...).Raw()
}

// Sign signs a message as the key's algorithm does.
func (k key) Sign(message []byte) ([]byte, error) {
	if _, ok := k.private.(ed25519.PrivateKey); ok {
		return k.private.Sign(rand.Reader, message, crypto.Hash(0))
	}
	sum := sha256.Sum256(message)
	return k.private.Sign(rand.Reader, sum[:], crypto.SHA256)
}

func randomID(random io.Reader) []byte {
	id := make([]byte, 32)
	if _, err := io.ReadFull(random, id); err != nil {
		panic(err) // no source of randomness fails
	}
	return id
}
