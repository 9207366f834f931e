package trustlist

import (
	"crypto/x509"
	"fmt"
	"time"
)

// Limits of a trusted list. A list that exceeds one is rejected.
const (
	MaxSize = 16 << 20 // bytes of the document

	maxCertificates = 4096    // in all services, wanted or not
	maxElements     = 1 << 18 // XML elements, JSON values, CBOR items
	maxDepth        = 32      // levels of elements, values or items
	maxName         = 512     // bytes of a name that an operator may see
)

// Format is the format of a trusted list, by the name in settings.
type Format string

// The formats that Read accepts.
const (
	TS119612 Format = "etsi-ts-119612" // XML with an XAdES signature
	TS119602 Format = "etsi-ts-119602" // JSON with a JAdES signature
	VICAL    Format = "vical"          // CBOR with a COSE signature, ISO/IEC 18013-5, Annex C
)

// Expected is the trust in a list that its reader has configured.
type Expected struct {
	// Signers may sign the list, or issue the certificate that signs it: see the package documentation.
	// Without a signer, each list is rejected.
	Signers []*x509.Certificate

	// DocType is the type of the documents that the certificates are wanted for.
	DocType string

	// ServiceTypes are the service types of an ETSI list whose certificates are wanted. If it is empty,
	// they follow from DocType. A VICAL has no service types.
	ServiceTypes []string
}

// List is a trusted list whose signature is valid.
type List struct {
	Sequence uint64    // 0 for a VICAL without a number; its reader compares Issued then
	Issued   time.Time // not after the time of reading, except for a small difference between clocks

	// NextUpdate is the time after which the list is stale. It is zero for a VICAL without one. Read accepts
	// a stale list.
	NextUpdate time.Time

	Issuer  string            // the operator's name, as the list states it
	Signer  *x509.Certificate // the certificate that signed the list
	Skipped map[Skip]int      // certificates that are not in Entries

	// Entries may issue documents, or the certificates of their signers, in the order of the list and each
	// once. Lists contain both: the certificate of an authority, and the one of a document signer (the
	// European list of age verification). IsCA distinguishes them.
	Entries []*x509.Certificate
}

// Skip is the reason why a certificate of a list is not in its entries.
type Skip string

// The reasons of List.Skipped.
const (
	SkipType        Skip = "type"        // the service or the certificate is for other documents
	SkipStatus      Skip = "status"      // the service is not granted, or not yet
	SkipCertificate Skip = "certificate" // the certificate cannot be read
	SkipExpired     Skip = "expired"     // the certificate has expired
	SkipDuplicate   Skip = "duplicate"   // an entry has the same certificate
	SkipConflict    Skip = "conflict"    // another service with the certificate is not granted
)

// Reason is why a list is rejected. It is constant text for logs and metrics.
type Reason string

// The reasons of an Error.
const (
	UnknownFormat   Reason = "unknown_format"
	TooLarge        Reason = "too_large"
	Malformed       Reason = "malformed"        // not the format, or a rule of the format is violated
	Unsupported     Reason = "unsupported"      // an algorithm, a transform or a header that is not accepted
	WrongSignature  Reason = "wrong_signature"  // the signature or a digest does not match
	SignerUnknown   Reason = "signer_unknown"   // the signing certificate is not trusted
	SignerInvalid   Reason = "signer_invalid"   // a signer issued the signing certificate for other uses
	SignerExpired   Reason = "signer_expired"   // a certificate of the signer is not valid now
	IssuedInFuture  Reason = "issued_in_future" // the list or its signature is dated after now
	NothingExpected Reason = "nothing_expected" // no signer, or no service type, is configured
)

// Error is the error of [Read]. It contains no part of the list.
type Error struct {
	Reason  Reason
	Problem string // a constant sentence part, such as "the document has more than one signature"
	Do      string // a constant sentence part that an operator can follow
}

func (e *Error) Error() string {
	return fmt.Sprintf("trusted list rejected: %s; %s", e.Problem, e.Do)
}

// remedies are the actions of an operator, by reason.
var remedies = map[Reason]string{
	UnknownFormat:   "set the format to etsi-ts-119612, etsi-ts-119602 or vical",
	TooLarge:        "check that the address is the one of the list",
	Malformed:       "check the format and the address, then ask the list's operator",
	Unsupported:     "ask the list's operator for a list in the supported profile",
	WrongSignature:  "fetch the list again, then ask its operator whether it was published so",
	SignerUnknown:   "add the signing certificate, or its issuer, if the list's operator has announced it",
	SignerInvalid:   "configure the signing certificate itself if the list's operator has announced it",
	SignerExpired:   "check this machine's clock, then configure the operator's current certificate",
	IssuedInFuture:  "check this machine's clock",
	NothingExpected: "configure the certificates that may sign the list, and a document or service type",
}

func rejected(reason Reason, problem string) *Error {
	return &Error{Reason: reason, Problem: problem, Do: remedies[reason]}
}
