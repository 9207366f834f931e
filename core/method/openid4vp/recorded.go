package openid4vp

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	"github.com/verge-id/verge/core/cbor"
	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/internal/mdoc"
)

// RecordedProof is a wallet's response with a zero-knowledge proof, with the inputs of its verification.
// `verge method proof` verifies it. No session takes part, so the response is no proof about a present user.
type RecordedProof struct {
	Response   []byte    // DeviceResponse with zkDocuments
	Transcript []byte    // SessionTranscript
	Anchors    []byte    // certificates of authorities and document signers, in PEM
	At         time.Time // at which the certificates have to be valid
}

// ProofReport is the result of CheckProof. A response that cannot be read has no document.
type ProofReport struct {
	Document  string          `json:"document,omitempty"`
	Namespace string          `json:"namespace,omitempty"`
	Circuit   string          `json:"circuit,omitempty"`
	Elements  []reportElement `json:"elements,omitempty"`
	Timestamp *time.Time      `json:"timestamp,omitempty"`
	Issuer    string          `json:"issuer,omitempty"` // common name of the document signer
	Anchor    string          `json:"anchor,omitempty"` // fingerprint of the trust anchor
	Skipped   int             `json:"skipped_anchors,omitempty"`
	Accepted  bool            `json:"accepted"`
	Reason    string          `json:"reason,omitempty"` // of the rejection
}

// reportElement is an element of the document. Value is its CBOR in hex, or true, false or a text.
type reportElement struct {
	Identifier string `json:"identifier"`
	Value      string `json:"value"`
}

// CheckProof verifies a recorded response: its form, the document signer's certificates for the document
// type, and the proof. It does not compare the timestamp with a clock. The error is not about the response:
// the anchors have none that can be used, or the host cannot verify.
func CheckProof(ctx context.Context, r RecordedProof, verify host.VerifyFunc, proves host.VerifyProofFunc) (
	report ProofReport, err error,
) {
	// Published files of anchors have damaged and unusable certificates. An anchor less accepts less.
	var anchors []mdoc.Anchor
	report.Skipped = bytes.Count(r.Anchors, []byte("-----BEGIN CERTIFICATE-----"))
	for block, rest := pem.Decode(r.Anchors); block != nil; block, rest = pem.Decode(rest) {
		if a, ok := mdoc.ListedAnchor(block.Bytes); ok && block.Type == "CERTIFICATE" {
			anchors = append(anchors, a)
			report.Skipped--
		}
	}
	if len(anchors) == 0 {
		return report, errors.New("there is no certificate of an authority or a document signer in PEM")
	}

	d, err := mdoc.ReadZKDocument(r.Response)
	if err != nil {
		return report.rejected(err, "")
	}
	if name := circuitOf(host.Circuits(), d.Circuit); name != "" {
		d.Circuit = name
	}
	report.Document, report.Namespace, report.Circuit, report.Timestamp = d.DocType, d.Namespace, d.Circuit,
		&d.Time
	var identifiers []string
	for _, e := range d.Elements {
		identifiers = append(identifiers, e.Identifier)
		report.Elements = append(report.Elements, reportElement{e.Identifier, readable(e.Value)})
	}
	ask := mdoc.Ask{Elements: identifiers, Anchors: anchors, Transcript: r.Transcript, Now: r.At,
		Verify: verify, Issued: &mdoc.Issued{}}
	for _, name := range profileNames() {
		if p, _ := profileOf(name); p.doctype == d.DocType {
			ask.DocType, ask.Namespace, ask.EKU = p.doctype, p.namespace, p.signers
		}
	}
	p, why, err := ask.VerifyZK(ctx, d, proves)
	if err != nil {
		return report.rejected(err, why)
	}
	report.Accepted, report.Issuer, report.Anchor = true, p.Path[0].Subject.CommonName, p.Anchor.Fingerprint()
	return report, nil
}

// rejected adds the reason of a *mdoc.Rejection. Other errors are returned.
func (r ProofReport) rejected(err error, detail string) (ProofReport, error) {
	rejection, ok := errors.AsType[*mdoc.Rejection](err)
	if !ok {
		return r, err
	}
	r.Reason = rejection.Reason
	if detail != "" {
		r.Reason += ": " + detail
	}
	return r, nil
}

// readable returns a value for people to read.
func readable(value []byte) string {
	item, err := cbor.Read(value, cbor.Options{Any: true})
	if err == nil {
		if _, content, ok := item.Tag(); ok {
			item = content
		}
		if b, ok := item.Bool(); ok {
			return fmt.Sprint(b)
		}
		if n, ok := item.Integer(); ok {
			return fmt.Sprint(n)
		}
		if s, ok := item.Text(); ok {
			return s
		}
	}
	return hex.EncodeToString(value)
}
