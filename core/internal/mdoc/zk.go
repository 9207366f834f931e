package mdoc

import (
	"context"
	"slices"
	"time"

	"github.com/verge-id/verge/core/cbor"
	"github.com/verge-id/verge/core/host"
)

// The limits of a response with a zero-knowledge proof. Circuits exist for up to four elements.
const (
	MaxZKResponse = 1 << 20

	maxZKName     = 255 // bytes of a document type, namespace, circuit or identifier
	timestampSize = len("2006-01-02T15:04:05Z")
)

// ZKDocument is the one document of a DeviceResponse with zkDocuments (ISO/IEC 18013-5, second edition,
// 10.2.7), before anything of it was verified. It has a proof instead of the issuer's signature.
type ZKDocument struct {
	DocType   string
	Circuit   string // the zkSystemId: the name of a circuit, or a label of it
	Namespace string
	Elements  []host.ProvenElement
	// Time is the time at which the document is valid, if the proof is. Wallets round it, to the end of the
	// day for example, so that it does not link two proofs.
	Time  time.Time
	Proof []byte

	chain [][]byte
}

// large are the options for a response that may have a proof.
var large = cbor.Options{Any: true, Size: MaxZKResponse}

// HasZKDocuments reports whether a DeviceResponse has zkDocuments, and not documents.
func HasZKDocuments(response []byte) bool {
	if len(response) > MaxZKResponse {
		return false
	}
	top, err := cbor.Read(response, large)
	return err == nil && top.Member("zkDocuments").Present()
}

// ReadZKDocument reads a DeviceResponse. The error is a *Rejection.
func ReadZKDocument(response []byte) (d ZKDocument, err error) {
	if len(response) > MaxZKResponse {
		return d, rejected(tooLarge)
	}
	top, err := cbor.Read(response, large)
	if err != nil {
		return d, rejected(badCBOR)
	}
	if !hasVersion(top) {
		return d, rejected(badVersion)
	}
	if status, ok := top.Member("status").Integer(); !ok || status != 0 {
		return d, rejected(badStatus)
	}
	documents, _ := top.Member("zkDocuments").List()
	if len(documents) != 1 || top.Member("documents").Present() || top.Member("documentErrors").Present() {
		return d, rejected(badDocuments)
	}
	data, okData := embedded(documents[0].Member("documentData"))
	var okProof bool
	d.Proof, okProof = documents[0].Member("proof").Bytes()
	if !okData || !okProof || !isMap(data) {
		return d, rejected(badMember)
	}
	var okType, okCircuit bool
	d.DocType, okType = data.Member("docType").Text()
	d.Circuit, okCircuit = data.Member("zkSystemId").Text()
	if !okType || !okCircuit || !named(d.DocType) || !named(d.Circuit) {
		return d, rejected(badMember)
	}
	var okChain bool
	d.chain, okChain = readChain(data.Member("msoX5chain"))
	if !d.readTime(data.Member("timestamp")) || !okChain || len(d.chain) == 0 {
		return d, rejected(badMember)
	}
	return d, d.readElements(data.Member("issuerSigned"))
}

func named(s string) bool { return s != "" && len(s) <= maxZKName }

// readTime reads the timestamp. The proof has its text, so there is one form for each time.
func (d *ZKDocument) readTime(i cbor.Item) bool {
	number, content, ok := i.Tag()
	text, okText := content.Text()
	if !ok || !okText || number != tagDateTime || len(text) != timestampSize {
		return false
	}
	at, err := time.Parse(time.RFC3339, text)
	d.Time = at.UTC()
	return err == nil && d.Time.Format(time.RFC3339) == text
}

// readElements reads the elements of one namespace.
func (d *ZKDocument) readElements(i cbor.Item) error {
	namespaces, ok := i.Pairs()
	if !ok || len(namespaces) != 1 {
		return rejected(badMember)
	}
	items, okItems := namespaces[0].Value.List()
	if d.Namespace, ok = namespaces[0].Key.Text(); !ok || !okItems || !named(d.Namespace) {
		return rejected(badMember)
	}
	if len(items) == 0 || len(items) > host.MaxProofElements {
		return rejected(tooMany)
	}
	for _, item := range items {
		identifier, ok := item.Member("elementIdentifier").Text()
		value := item.Member("elementValue")
		if !ok || !named(identifier) || !value.Present() {
			return rejected(badItem)
		}
		same := func(e host.ProvenElement) bool { return e.Identifier == identifier }
		if slices.ContainsFunc(d.Elements, same) {
			return rejected(elementTwice)
		}
		d.Elements = append(d.Elements, host.ProvenElement{Identifier: identifier, Value: value.Raw()})
	}
	return nil
}

// VerifyZK verifies a document with a zero-knowledge proof. An error is a *Rejection, or the error of the
// host, which could not check a signature or the proof. rejected is the reason of a rejected proof, for logs.
//
// It checks, in this order:
//
//   - The document type, the namespace, and the certificates of the document signer, as Verify does.
//   - The proof: the signer has signed a document with the elements that is valid at the document's time, and
//     its device has signed the session transcript and the document type.
//
// The caller compares ZKDocument.Time with the clock, and the circuit with those that it has offered. The
// proof does not show the namespace, nor that the issuer has signed the document type (see
// edge/internal/longfellow): the extended key usage has to be for this document type alone. There is no
// Status: a proof does not show which document it is about.
func (a Ask) VerifyZK(ctx context.Context, d ZKDocument, proves host.VerifyProofFunc) (
	p Proof, reason string, err error,
) {
	if d.DocType != a.DocType {
		return p, "", rejected(otherDocType)
	}
	if d.Namespace != a.Namespace {
		return p, "", rejected(badMember)
	}
	path, anchor, err := a.signer(ctx, d.chain)
	if err != nil {
		return p, "", err
	}
	shown, reason, err := proves(ctx, host.ProofStatement{
		Circuit: d.Circuit, Issuer: path[0].RawSubjectPublicKeyInfo, SessionTranscript: a.Transcript,
		DocType: d.DocType, Elements: d.Elements, Time: d.Time,
	}, d.Proof)
	if err != nil {
		return p, "", err
	}
	if !shown {
		return p, reason, rejected(badZKProof)
	}
	p = Proof{Elements: map[string]Value{}, Anchor: anchor, Path: path}
	for _, e := range d.Elements {
		value, err := cbor.Read(e.Value, options)
		if err != nil {
			return Proof{}, "", rejected(badItem)
		}
		if slices.Contains(a.Elements, e.Identifier) {
			p.Elements[e.Identifier] = Value{value}
		}
	}
	return p, "", nil
}
