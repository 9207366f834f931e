package mdoc

// Rejection is the reason why a response was rejected. Reason is a constant of this package, for logs and
// metrics.
type Rejection struct {
	Reason string

	// Document is the rule that the document itself breaks. It is set only if the wallet has signed this
	// session's transcript with the key of the document, so the wallet that was asked has sent it. "":
	// another rule, or the signature is missing or wrong.
	Document Fault
}

// Fault is a rule that a document violates, although the wallet's response belongs to this session.
type Fault string

// Faults of documents.
const (
	NotValid  Fault = "not_valid" // it has expired, or is not valid yet
	Untrusted Fault = "untrusted" // its issuer leads to no trust anchor
	OtherType Fault = "type"      // another type of document was requested
)

// FaultOf returns the fault of a document by the reason of a rejection. "": the reason is no such fault. Then
// the rejection is about a response that a wallet which works correctly does not send.
func FaultOf(reason string) Fault {
	switch reason {
	case expired, notYetValid, outOfDate:
		return NotValid
	case untrusted, wrongPurpose, notSigner:
		return Untrusted
	case otherDocType, msoDocType:
		return OtherType
	}
	return ""
}

func (r *Rejection) Error() string { return "mdoc: response rejected: " + r.Reason }

func rejected(reason string) error { return &Rejection{Reason: reason} }

const (
	// Of the DeviceResponse.
	badCBOR      = "cbor"
	badVersion   = "version"
	badStatus    = "status"        // the wallet reports a failure
	badDocuments = "documents"     // none, several, or errors instead
	badMember    = "member"        // a member is missing or of another type
	otherDocType = "document_type" // the document is not of the requested type

	// Of the issuer's certificates.
	badChain       = "chain"                 // none, too many, or not in order
	badCertificate = "certificate"           // it cannot be read
	badExtension   = "certificate_extension" // an unknown critical extension, or name constraints
	badCertKey     = "certificate_key"       // it is not ECDSA on P-256, P-384 or P-521
	outOfDate      = "certificate_validity"
	notAuthority   = "certificate_authority" // it may not issue certificates
	pathTooLong    = "certificate_path"
	notSigner      = "certificate_usage" // it may not sign documents
	wrongPurpose   = "certificate_eku"
	untrusted      = "untrusted" // no trust anchor has issued it

	// Of signatures.
	badSign1        = "cose"
	critical        = "cose_critical"
	badAlgorithm    = "cose_algorithm" // unknown, or for another curve than the key's
	issuerSignature = "issuer_signature"
	listSignature   = "list_signature" // of a status list

	// Errors of the data that the issuer has signed.
	badMSO         = "mso"
	msoVersion     = "mso_version"
	msoDocType     = "mso_document_type"
	msoDigests     = "mso_digest_algorithm"
	badValidity    = "mso_validity"
	expired        = "mso_expired"
	notYetValid    = "mso_not_yet_valid"
	signedOutside  = "mso_signed_outside_certificate"
	badDeviceKey   = "mso_device_key"
	badItem        = "item"
	shortRandom    = "item_random"
	elementTwice   = "element_twice"
	tooMany        = "too_many_elements"
	digestMissing  = "digest_missing"
	digestMismatch = "digest_mismatch"

	// Of the wallet's signature.
	badDeviceAuth   = "device_auth"
	deviceMAC       = "device_mac"
	badTranscript   = "transcript" // the caller's is no CBOR
	deviceSignature = "device_signature"

	// Of a zero-knowledge proof.
	badZKProof = "zk_proof"

	// Errors of encrypted responses.
	tooLarge      = "too_large"
	badJWE        = "jwe_form"
	badJWEHeader  = "jwe_header"
	badEncryption = "jwe_algorithm"
	otherKeyID    = "jwe_key_id"
	badEphemeral  = "jwe_ephemeral_key"
	jweNotOpened  = "jwe_not_opened"
	badHPKE       = "hpke_form"
	hpkeNotOpened = "hpke_not_opened"
)
