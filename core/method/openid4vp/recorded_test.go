package openid4vp_test

import (
	"context"
	"errors"
	"testing"

	"github.com/verge-id/verge/core/cbor"
	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/method/openid4vp"
	edge "github.com/verge-id/verge/edge/signing"
	"github.com/verge-id/verge/testharness/wallettest"
)

// recordedResponse returns a DeviceResponse with a proof.
func recordedResponse(docType, namespace, circuit string, certificate []byte) []byte {
	pair := func(name string, value cbor.Item) cbor.Pair {
		return cbor.Pair{Key: cbor.Text(name), Value: value}
	}
	element := func(name string, value cbor.Item) cbor.Item {
		return cbor.Map(pair("elementIdentifier", cbor.Text(name)), pair("elementValue", value))
	}
	data := cbor.Map(pair("docType", cbor.Text(docType)), pair("zkSystemId", cbor.Text(circuit)),
		pair("timestamp", cbor.Tagged(0, cbor.Text("2026-11-22T23:59:59Z"))),
		pair("msoX5chain", cbor.Bytes(certificate)),
		pair("issuerSigned", cbor.Map(pair(namespace, cbor.Array(element("age_over_18", cbor.Bool(true)),
			element("birth_date", cbor.Tagged(1004, cbor.Text("1971-09-01"))),
			element("height", cbor.Integer(175)), element("portrait", cbor.Bytes([]byte{1, 2})))))))
	document := cbor.Map(pair("documentData", cbor.Tagged(24, cbor.Bytes(data.Raw()))),
		pair("proof", cbor.Bytes([]byte("proof"))))
	return cbor.Map(pair("version", cbor.Text("1.0")), pair("status", cbor.Integer(0)),
		pair("zkDocuments", cbor.Array(document))).Raw()
}

// TestCheckProof checks the content of a report, and that only a proof that the host accepts is accepted.
func TestCheckProof(t *testing.T) {
	const mdl, mdlNames = "org.iso.18013.5.1.mDL", "org.iso.18013.5.1"
	issuer := issuers["mdl"]
	away := errors.New("no circuit")
	for _, tt := range []struct {
		name, docType, namespace string
		shown                    bool
		why                      string
		err                      error
		reason                   string
	}{
		{"accepted", mdl, mdlNames, true, "", nil, ""},
		{"rejected", mdl, mdlNames, false, "why", nil, "zk_proof: why"},
		{"not checked", mdl, mdlNames, true, "", away, ""},
		{"type of no profile", "com.example", mdlNames, true, "", nil, "document_type"},
		{"namespace of another profile", mdl, "eu.europa.ec.av.1", true, "", nil, "member"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			report, err := openid4vp.CheckProof(t.Context(), openid4vp.RecordedProof{
				Response:   recordedResponse(tt.docType, tt.namespace, "circuit", issuer.Chain[0]),
				Transcript: cbor.Null().Raw(), At: noon,
				Anchors: append([]byte("-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n"),
					issuer.PEM()...),
			}, edge.Verify, func(context.Context, host.ProofStatement, []byte) (bool, string, error) {
				return tt.shown, tt.why, tt.err
			})
			accepted := tt.shown && tt.err == nil && tt.reason == ""
			if !errors.Is(err, tt.err) || report.Accepted != accepted || report.Reason != tt.reason ||
				report.Skipped != 1 || report.Document != tt.docType || report.Circuit != "circuit" {
				t.Fatalf("%+v, %v", report, err)
			}
			for i, want := range []string{"true", "1971-09-01", "175", "420102"} {
				if got := report.Elements[i].Value; got != want {
					t.Errorf("element %d is %q, want %q", i, got, want)
				}
			}
			if accepted != (report.Issuer != "") || accepted != (report.Anchor != "") {
				t.Errorf("%+v", report)
			}
		})
	}
	empty := openid4vp.RecordedProof{Anchors: issuer.PEM()}
	report, err := openid4vp.CheckProof(t.Context(), empty, edge.Verify, nil)
	if err != nil || report.Accepted || report.Reason != "cbor" {
		t.Errorf("no response: %+v, %v", report, err)
	}
	empty.Anchors = []byte("none")
	if _, err := openid4vp.CheckProof(t.Context(), empty, edge.Verify, nil); err == nil {
		t.Error("no anchors")
	}
}

// A recorded proof may name its circuit by Multipaz's label. The host verifies it by the circuit's name.
func TestCheckProof_Label(t *testing.T) {
	for _, c := range host.Circuits() {
		label := wallettest.Circuit{System: "longfellow-libzk-v1", Hash: c.Name, Version: c.Version,
			Elements: c.Elements, BlockEncHash: c.Hash, BlockEncSig: c.Signature}.Label()
		asked := ""
		report, err := openid4vp.CheckProof(t.Context(), openid4vp.RecordedProof{
			Response: recordedResponse("org.iso.18013.5.1.mDL", "org.iso.18013.5.1", label,
				issuers["mdl"].Chain[0]),
			Transcript: cbor.Null().Raw(), At: noon, Anchors: issuers["mdl"].PEM(),
		}, edge.Verify, func(_ context.Context, s host.ProofStatement, _ []byte) (bool, string, error) {
			asked = s.Circuit
			return true, "", nil
		})
		if err != nil || !report.Accepted || report.Circuit != c.Name || asked != c.Name {
			t.Errorf("%s: %+v, %v; the host verified circuit %q", label, report, err, asked)
		}
	}
}
