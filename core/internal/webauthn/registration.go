package webauthn

import (
	"bytes"

	"github.com/verge-id/verge/core/cbor"
)

// Credential is a passkey as its relying party stores it. Store all fields.
type Credential struct {
	ID        []byte // 1 to 1,023 bytes, chosen by the authenticator
	PublicKey []byte // in COSE, as the authenticator wrote it
	Counter   uint32 // of the last signature; always 0 with most authenticators

	// BackupEligible reports whether the passkey may be copied to the user's other devices, like the passkeys
	// of a phone or a password manager. It never changes. BackedUp reports whether it has been copied.
	BackupEligible, BackedUp bool

	// UserHandle is the handle that was passed to CreationOptions. The caller sets it, because responses to
	// them do not contain it. If it is empty, VerifyAssertion does not check the user handle.
	UserHandle []byte
}

// VerifyRegistration returns the new credential if response belongs to options with this challenge. An error
// is a *Rejection.
//
// It makes the checks of section 7.1: the client data's type, challenge, origin and crossOrigin; the hash of
// the relying party's id; that the user was present and verified; that a backed-up credential is eligible for
// backup; that the key is valid and of a requested algorithm; and that the credential's id is 1 to 1,023
// bytes and the same everywhere. A statement of the format "none" must be empty. Others are ignored.
func VerifyRegistration(rp RelyingParty, challenge, response []byte) (Credential, error) {
	r, err := readResponse(response)
	if err != nil {
		return Credential{}, err
	}
	attestation, ok := decode(r.inner.Value("attestationObject"))
	if !ok {
		return Credential{}, rejected(badMember)
	}
	if err := checkClientData(rp, r.clientData, challenge, typeCreate); err != nil {
		return Credential{}, err
	}
	raw, ok := readAttestation(attestation)
	if !ok {
		return Credential{}, rejected(badAttestation)
	}
	data, err := readAuthenticatorData(rp, raw, true)
	if err != nil {
		return Credential{}, err
	}
	if !bytes.Equal(data.id, r.id) {
		return Credential{}, rejected(badID)
	}
	if _, ok := readKey(data.key); !ok {
		return Credential{}, rejected(badKey)
	}
	return Credential{
		ID: r.id, PublicKey: bytes.Clone(data.key), Counter: data.counter,
		BackupEligible: data.has(flagBackupEligible), BackedUp: data.has(flagBackedUp),
	}, nil
}

// readAttestation returns the authenticator data of an attestation object. Browsers write it, and not all of
// them in canonical order.
func readAttestation(b []byte) (authenticatorData []byte, ok bool) {
	object, err := cbor.Read(b, cbor.Options{})
	if err != nil {
		return nil, false
	}
	members, ok := object.Pairs()
	format, okFormat := object.Member("fmt").Text()
	statement := object.Member("attStmt")
	data, okData := object.Member("authData").Bytes()
	if !ok || len(members) != 3 || !okFormat || !statement.Present() || !okData {
		return nil, false
	}
	if format == "none" {
		said, isMap := statement.Pairs()
		return data, isMap && len(said) == 0
	}
	return data, true
}
