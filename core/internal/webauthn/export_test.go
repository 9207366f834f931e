package webauthn

import (
	"crypto/sha256"
	"slices"
)

// Signed reports whether the credential of an attestation object has signed an answer, whatever its flags
// say.
func Signed(attestationObject, data, clientData, signature []byte) bool {
	raw, ok := readAttestation(attestationObject)
	if !ok || len(raw) < fixed {
		return false
	}
	var d authenticatorData
	if _, err := d.readCredential(raw[fixed:]); err != nil {
		return false
	}
	verify, ok := readKey(d.key)
	sum := sha256.Sum256(clientData)
	return ok && verify(slices.Concat(data, sum[:]), signature)
}
