package webauthn

import (
	"context"
	"crypto/sha256"
	"slices"

	"github.com/verge-id/verge/edge/signing"
)

// Signed reports whether the credential of an attestation object has signed a response, regardless of its
// flags.
func Signed(attestationObject, data, clientData, signature []byte) bool {
	raw, ok := readAttestation(attestationObject)
	if !ok || len(raw) < fixed {
		return false
	}
	var d authenticatorData
	if _, err := d.readCredential(raw[fixed:]); err != nil {
		return false
	}
	key, ok := readKey(d.key)
	if !ok {
		return false
	}
	sum := sha256.Sum256(clientData)
	ok, err := key.verify(context.Background(), signing.Verify, slices.Concat(data, sum[:]), signature)
	return ok && err == nil
}
