package webauthn

import (
	"bytes"
	"context"
	"crypto/sha256"
	"slices"

	"github.com/verge-id/verge/core/host"
)

// Assertion is the result of a verified response.
type Assertion struct {
	Counter    uint32 // to store in the Credential
	BackedUp   bool   // to store in the Credential
	UserHandle []byte // of the user; empty if the authenticator did not include it
}

// VerifyAssertion checks that response belongs to options with this challenge and is signed by the stored
// credential. An error is a *Rejection (ErrCounter is one), or an error of verify, which could not check the
// signature. verify is called at most once.
//
// It makes the checks of section 7.2: that the response is from the stored credential, and of its user if
// both name one; the client data's type, challenge, origin and crossOrigin; the hash of the relying party's
// id; that the user was present and verified; that backup eligibility has not changed; the signature; and
// last the counter.
func VerifyAssertion(
	ctx context.Context, verify host.VerifyFunc, rp RelyingParty, challenge []byte, stored Credential,
	response []byte,
) (Assertion, error) {
	r, err := readResponse(response)
	if err != nil {
		return Assertion{}, err
	}
	raw, okData := decode(r.inner.Value("authenticatorData"))
	signature, okSignature := decode(r.inner.Value("signature"))
	handle, okHandle := decode(r.inner.Value("userHandle"))
	if !okData || !okSignature || !okHandle && r.inner.Value("userHandle").Present() {
		return Assertion{}, rejected(badMember)
	}
	if !bytes.Equal(r.id, stored.ID) {
		return Assertion{}, rejected(otherCredential)
	}
	if len(handle) > 0 && len(stored.UserHandle) > 0 && !bytes.Equal(handle, stored.UserHandle) {
		return Assertion{}, rejected(otherUser)
	}
	if err := checkClientData(rp, r.clientData, challenge, typeGet); err != nil {
		return Assertion{}, err
	}
	data, err := readAuthenticatorData(rp, raw, false)
	if err != nil {
		return Assertion{}, err
	}
	if data.has(flagBackupEligible) != stored.BackupEligible {
		return Assertion{}, rejected(otherBackup)
	}
	key, ok := readKey(stored.PublicKey)
	if !ok {
		return Assertion{}, rejected(badStored)
	}
	sum := sha256.Sum256(r.clientData)
	ok, err = key.verify(ctx, verify, slices.Concat(raw, sum[:]), signature)
	if err != nil {
		return Assertion{}, err
	}
	if !ok {
		return Assertion{}, rejected(badSignature)
	}
	if !goesUp(stored.Counter, data.counter) {
		return Assertion{}, ErrCounter
	}
	return Assertion{data.counter, data.has(flagBackedUp), handle}, nil
}

// goesUp compares the counters of two signatures of one credential; now is the later one. An authenticator
// that counts never repeats a value. An authenticator without a counter always sends zero.
func goesUp(before, now uint32) bool { return now > before || now == 0 && before == 0 }
