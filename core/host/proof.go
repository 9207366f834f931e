package host

import (
	"context"
	"time"
)

// VerifyProofFunc reports whether a zero-knowledge proof shows a statement about a mobile document. If it
// does not, rejected is the reason, for logs. An error: the engine cannot check the proof. The caller then
// returns an error, and neither accepts nor rejects.
type VerifyProofFunc func(
	ctx context.Context, s ProofStatement, proof []byte,
) (shown bool, rejected string, err error)

// ProofStatement is the statement of a proof: the issuer has signed a document that has the elements and is
// valid at the time, and the device of the document has signed the session transcript with the document type.
type ProofStatement struct {
	Circuit           string // its name: the hash of its content in hex
	Issuer            []byte // SubjectPublicKeyInfo in DER, on P-256
	SessionTranscript []byte // CBOR
	DocType           string
	Elements          []ProvenElement // in the order of the response
	Time              time.Time       // in whole seconds
}

// ProvenElement is an element of the document.
type ProvenElement struct {
	Identifier string
	Value      []byte // CBOR, as the issuer has signed it
}
