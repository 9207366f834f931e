package npmwallet

import (
	"encoding/hex"
	"encoding/json"
	"testing"
	"time"
)

// Answered is a wallet's view of a request, and the service's reply to its response.
type Answered struct {
	Status                 int
	Body                   string
	ClientID, ResponseMode string
	Algorithms             []int // of documents, as the request announces them

	// Error is the reason why the wallet does not accept the request. "": it does. Only AnswerCredo has it.
	Error  string
	Signed bool // the request is signed. Only AnswerCredo has it
}

// Answer makes a wallet of @openid4vc/openid4vp and @owf/mdoc open a link and send its response. It takes the
// Document's type, its namespace and the transcript from the request.
func Answer(t testing.TB, link string, d Document) (a Answered) {
	t.Helper()
	in := d.person(t)
	in["link"] = link
	run(t, "answer-openid4vp.mjs", in, &a)
	return a
}

// Holder is a wallet with one document, and the link that it opens.
type Holder struct {
	Link     string
	Verifier []byte // the certificate, in DER, that it accepts in signed requests. Nil: none
	Document Document
}

// AnswerCredo has wallets of @credo-ts/openid4vc open links and send their responses. For an SD-JWT, DocType
// is the vct. The chain of the issuer has one certificate. All have the same time.
func AnswerCredo(t testing.TB, holders ...Holder) (answered []Answered) {
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

// person returns the input of scripts that issue a document.
func (d Document) person(t testing.TB) map[string]any {
	t.Helper()
	var chain []string
	for _, der := range d.Chain {
		chain = append(chain, hex.EncodeToString(der))
	}
	return map[string]any{
		"claims": d.Claims, "sdJWTClaims": d.SDJWTClaims, "chain": chain,
		"issuerKey": jwk(t, d.IssuerKey), "deviceKey": jwk(t, d.DeviceKey),
		"signed": d.Signed.Format(time.RFC3339), "validUntil": d.ValidUntil.Format(time.RFC3339),
		"now": d.Now.Unix(),
	}
}

// credential is the response of a wallet that a browser asks, with parts of the request as the wallet read
// it.
type credential struct {
	Error                  string // why the wallet does not accept the request; "": it does
	Data                   json.RawMessage
	ClientID, ResponseMode string
	VerifierInfo           json.RawMessage
}

// AnswerCredential has the wallet of Answer answer a request by OpenID4VP over the Digital Credentials API,
// for a page of an origin.
func AnswerCredential(t testing.TB, origin string, data []byte, d Document) (c credential) {
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

// VerifyReader has @owf/mdoc verify the readerAuth of a DeviceRequest, once for each transcript.
func VerifyReader(t testing.TB, request []byte, transcripts ...[]byte) (readers []reader) {
	t.Helper()
	var in []map[string]string
	for _, transcript := range transcripts {
		in = append(in, map[string]string{"request": hex.EncodeToString(request),
			"transcript": hex.EncodeToString(transcript)})
	}
	run(t, "verify-reader.mjs", in, &readers)
	return readers
}
