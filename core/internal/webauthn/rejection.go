package webauthn

// Rejection is the reason why a response was rejected. Reason is a constant of this package, for logs and
// metrics.
type Rejection struct{ Reason string }

func (r *Rejection) Error() string { return "webauthn: response rejected: " + r.Reason }

// ErrCounter is returned for a valid assertion whose counter does not increase. Two authenticators have the
// same credential, so one of them is a copy. The caller blocks the credential.
//
// Only a holder of the credential's private key can cause it, because the signature is checked first.
var ErrCounter error = &Rejection{"counter"}

const (
	// The whole response.
	tooLarge        = "too_large"
	badJSON         = "json"
	badMember       = "member"           // a field is missing or malformed, or id and rawId differ
	otherCredential = "credential"       // the response is from another credential than the stored one
	otherUser       = "user_handle"      // the credential is another user's
	badID           = "credential_id"    // its length, or two that differ in one response
	badStored       = "stored_key"       // the stored key is not supported
	shortChallenge  = "challenge_short"  // the caller's challenge, which could be guessed
	badAttestation  = "attestation_form" // the attestation object, or a statement where none is allowed

	// The client data, which the browser writes.
	badClientData  = "client_data"
	wrongType      = "type"
	wrongChallenge = "challenge"
	wrongOrigin    = "origin"
	crossOrigin    = "cross_origin"
	framed         = "top_origin"

	// The authenticator data.
	badData      = "authenticator_data"
	wrongParty   = "rp_id_hash"
	notPresent   = "user_not_present"
	notVerified  = "user_not_verified"
	badBackup    = "backup_state"       // backed up, but not eligible for it
	otherBackup  = "backup_eligibility" // a credential cannot change it
	badKey       = "public_key"
	badSignature = "signature"
)

func rejected(reason string) error { return &Rejection{reason} }
