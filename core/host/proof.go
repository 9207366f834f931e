package host

import (
	"context"
	"slices"
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
	Circuit           string // the name of a Circuit
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

// Limits of proofs.
const (
	// MaxProof is the maximum size of a proof. The proofs of the known circuits have up to 365 KiB.
	MaxProof = 512 << 10
	// MaxTranscript is the maximum size of a session transcript.
	MaxTranscript = 16 << 10
	// MaxProofElements is the maximum number of elements of a statement.
	MaxProofElements = 4
)

// Circuit has the parameters of a pair of circuits of Longfellow, which requests announce.
type Circuit struct {
	Name      string // the hash of its content in hex
	Version   int
	Elements  int // number of elements that a statement must have
	Hash      int // length of an extended row of the proof for the hash circuit (block_enc_hash)
	Signature int // the same for the signature circuit (block_enc_sig)
}

// circuits are all circuits that proofs may use. Google has published them. The name is the hash of the
// content, so a file cannot have other circuits. Versions before 6 are missing: their circuits prove too
// little.
var circuits = []Circuit{
	{"8d079211715200ff06c5109639245502bfe94aa869908d31176aae4016182121", 7, 1, 4151, 4096},
	{"6a5810683e62b6d7766ebd0d7ca72518a2b8325418142adcadb10d51dbbcd5ad", 7, 2, 4265, 4096},
	{"8ee4849ae1293ae6fe5f9082ce3e5e15c4f198f2998c682fa1b727237d6d252f", 7, 3, 4307, 4096},
	{"5aebdaaafe17296a3ef3ca6c80c6e7505e09291897c39700410a365fb278e460", 7, 4, 4415, 4096},
	{"137e5a75ce72735a37c8a72da1a8a0a5df8d13365c2ae3d2c2bd6a0e7197c7c6", 6, 1, 4096, 2945},
	{"b4bb6f01b7043f4f51d8302a30b36e3d4d2d0efc3c24557ab9212ad524a9764e", 6, 2, 4025, 2945},
	{"b2211223b954b34a1081e3fbf71b8ea2de28efc888b4be510f532d6ba76c2010", 6, 3, 4121, 2945},
	{"c70b5f44a1365c53847eb8948ad5b4fdc224251a2bc02d958c84c862823c49d6", 6, 4, 4283, 2945},
}

// CircuitOf returns the circuit of a name.
func CircuitOf(name string) (c Circuit, ok bool) {
	for _, c := range circuits {
		if c.Name == name {
			return c, true
		}
	}
	return c, false
}

// Circuits returns all circuits that proofs may use.
func Circuits() []Circuit { return slices.Clone(circuits) }
