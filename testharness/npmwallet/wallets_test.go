package npmwallet

import (
	"encoding/hex"
	"encoding/json"
	"testing"
)

// answered is a wallet's view of a request, and the service's reply to its response.
type answered struct {
	Status                 int
	Body                   string
	ClientID, ResponseMode string
	Algorithms             []int // of documents, as the request announces them

	// Error is the reason why the wallet does not accept the request. "": it does. Only answerCredo sets it.
	Error  string
	Signed bool // the request is signed. Only answerCredo sets it
}

// answerOpenID4VP makes a wallet of @openid4vc/openid4vp and @owf/mdoc open a link and send its response. It
// takes the Document's type, its namespace and the transcript from the request.
func answerOpenID4VP(t testing.TB, link string, d Document) (a answered) {
	t.Helper()
	in := d.person(t)
	in["link"] = link
	run(t, "answer-openid4vp.mjs", in, &a)
	return a
}

// holder is a wallet with one document, and the link that it opens.
type holder struct {
	Link     string
	Verifier []byte // the certificate, in DER, that it accepts in signed requests. Nil: none
	Document Document
}

// answerCredo has wallets of @credo-ts/openid4vc open links and send their responses. For an SD-JWT, DocType
// is the vct. The chain of the issuer has one certificate. All have the same time.
func answerCredo(t testing.TB, holders ...holder) (answered []answered) {
	t.Helper()
	var in []map[string]any
	for _, h := range holders {
		one := h.Document.person(t)
		one["link"], one["verifier"] = h.Link, hex.EncodeToString(h.Verifier)
		one["docType"], one["namespace"] = h.Document.DocType, h.Document.Namespace
		in = append(in, one)
	}
	credoModules.run(t, "answer-credo.mjs", in, &answered)
	if len(answered) != len(holders) {
		t.Fatalf("@credo-ts/openid4vc: %d responses of %d wallets", len(answered), len(holders))
	}
	return answered
}

// credential is the response of a wallet that a browser asks, with parts of the request as the wallet read
// it.
type credential struct {
	Error                  string // why the wallet does not accept the request; "": it does
	Data                   json.RawMessage
	ClientID, ResponseMode string
	VerifierInfo           json.RawMessage
}

// answerCredential has the wallet of answerOpenID4VP respond to a request by OpenID4VP over the Digital
// Credentials API, for a page of an origin.
func answerCredential(t testing.TB, origin string, data []byte, d Document) (c credential) {
	t.Helper()
	in := d.person(t)
	in["origin"], in["data"] = origin, json.RawMessage(data)
	run(t, "answer-credential.mjs", in, &c)
	return c
}

// reader is the verdict of @owf/mdoc about the readerAuth of a request.
type reader struct {
	Good     bool   // the signature is the signer's, over this request and transcript
	Signer   string // its certificate in hex
	Elements []string
}

// verifyReader has @owf/mdoc verify the readerAuth of a DeviceRequest, once for each transcript.
func verifyReader(t testing.TB, request []byte, transcripts ...[]byte) (readers []reader) {
	t.Helper()
	var in []map[string]string
	for _, transcript := range transcripts {
		in = append(in, map[string]string{"request": hex.EncodeToString(request),
			"transcript": hex.EncodeToString(transcript)})
	}
	run(t, "verify-reader.mjs", in, &readers)
	return readers
}

// response is a Deviceresponse to verify.
type response struct {
	Bytes      []byte
	Transcript []byte
	Root       []byte // DER of the trust anchor
	Now        string // RFC 3339. "": the present time
}

// verdict is the result of a verifier for a response.
type verdict struct {
	Error    string         // "": it is right
	Elements map[string]any // of the first document, by their names
}

// verifiers are the scripts that verify.
var verifiers = []string{"verify-owf.mjs", "verify-auth0.mjs"}

// verify has one of the verifiers check at responses.
func verify(t testing.TB, verifier string, responses ...response) (verdicts []verdict) {
	t.Helper()
	var in []map[string]string
	for _, r := range responses {
		in = append(in, map[string]string{
			"response": hex.EncodeToString(r.Bytes), "transcript": hex.EncodeToString(r.Transcript),
			"root": hex.EncodeToString(r.Root), "now": r.Now,
		})
	}
	run(t, verifier, in, &verdicts)
	if len(verdicts) != len(responses) {
		t.Fatalf("%s: %d verdicts of %d responses", verifier, len(verdicts), len(responses))
	}
	return verdicts
}
