package webauthn

// Refusal says why an answer was refused. Reason is a constant of this package, for logs and metrics.
type Refusal struct{ Reason string }

func (r *Refusal) Error() string { return "webauthn: the answer is refused: " + r.Reason }

// ErrCounter is returned for an assertion that is right in all else, but whose counter does not go up. Two
// authenticators have the same credential, and one of them is a copy. The caller blocks the credential.
//
// Only whoever has the credential's private key can cause it, because the signature is checked first.
var ErrCounter error = &Refusal{"counter"}

const (
	// Of the answer as a whole.
	tooLarge        = "too_large"
	badJSON         = "json"
	badMember       = "member"           // a member is missing or malformed, or id and rawId differ
	otherCredential = "credential"       // the answer is from another credential than the stored one
	otherUser       = "user_handle"      // the credential is somebody else's
	badID           = "credential_id"    // its length, or two that differ in one answer
	badStored       = "stored_key"       // what the caller has stored is no key of ours
	shortChallenge  = "challenge_short"  // the caller's, which anybody could guess
	badAttestation  = "attestation_form" // the attestation object, or a statement where there must be none

	// Of the client data, which the browser writes.
	badClientData  = "client_data"
	wrongType      = "type"
	wrongChallenge = "challenge"
	wrongOrigin    = "origin"
	crossOrigin    = "cross_origin"
	framed         = "top_origin"

	// Of the authenticator data.
	badData      = "authenticator_data"
	wrongParty   = "rp_id_hash"
	notPresent   = "user_not_present"
	notVerified  = "user_not_verified"
	badBackup    = "backup_state"       // backed up, but not eligible for it
	otherBackup  = "backup_eligibility" // which a credential cannot change
	badKey       = "public_key"
	badSignature = "signature"
)

func refused(reason string) error { return &Refusal{reason} }
