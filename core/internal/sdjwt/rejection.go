package sdjwt

import "github.com/verge-id/verge/core/internal/mdoc"

// Reasons of rejections. Package mdoc has the reasons about certificates.
const (
	tooLarge   = "sd_jwt_size"
	badForm    = "sd_jwt_form" // no key binding, or too many disclosures
	badToken   = "sd_jwt_token"
	badPayload = "sd_jwt_payload"
	otherType  = "sd_jwt_type" // the document is of another type than those asked for

	badDates      = "sd_jwt_dates"
	expired       = "sd_jwt_expired"
	notYetValid   = "sd_jwt_not_yet_valid"
	signedOutside = "sd_jwt_signed_outside_certificate"

	badAlgorithm     = "sd_jwt_digest_algorithm"
	badDisclosure    = "sd_jwt_disclosure"
	disclosureTwice  = "sd_jwt_disclosure_twice"
	disclosureUnused = "sd_jwt_disclosure_unused" // no digest is for it
	badDigest        = "sd_jwt_digest"
	digestTwice      = "sd_jwt_digest_twice"
	reservedName     = "sd_jwt_reserved_name"
	claimTwice       = "sd_jwt_claim_twice"
	tooDeep          = "sd_jwt_depth"

	badKey           = "sd_jwt_key" // cnf has no key on P-256, P-384 or P-521
	badBinding       = "key_binding"
	otherAudience    = "key_binding_audience"
	otherNonce       = "key_binding_nonce"
	otherHash        = "key_binding_hash" // of another presentation
	bindingDate      = "key_binding_date"
	bindingSignature = "key_binding_signature"
)

// faultOf returns the fault of a document by the reason of a rejection. Certificates have other reasons.
func faultOf(reason string) mdoc.Fault {
	switch reason {
	case expired, notYetValid:
		return mdoc.NotValid
	case otherType:
		return mdoc.OtherType
	}
	return mdoc.FaultOf(reason)
}

func rejected(reason string) error { return &mdoc.Rejection{Reason: reason} }
