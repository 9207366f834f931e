package mdoc_test

import (
	"crypto/ecdh"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/verge-id/verge/core/internal/mdoc"
	"github.com/verge-id/verge/edge/signing"
)

// The profile of the vectors.
const (
	docType = "eu.europa.ec.av.1"
	element = "age_over_18"
	mdlDS   = "1.0.18013.5.1.2" // extended key usage of document signers
)

var (
	testNow = time.Date(2026, 11, 21, 22, 0, 0, 0, time.UTC)

	vectorTranscript = mdoc.OpenID4VPTranscript("redirect_uri:https://verify.example/vp/h",
		"nonce-0123456789abcdef", nil, "https://verify.example/vp/h")
)

func fixedClock() time.Time { return testNow }

// vector is a DeviceResponse with the expected result.
type vector struct {
	Name     string
	OK       bool   // it proves that the element is true
	Reason   string // of the rejection
	Response string // in hex
}

type vectorFile struct {
	Root  string // in base64
	Cases []vector
}

func readJSON(t testing.TB, name string, v any) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err == nil {
		err = json.Unmarshal(b, v)
	}
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

func vectors(t testing.TB) (f vectorFile) {
	t.Helper()
	readJSON(t, "vectors.json", &f)
	return f
}

// askOfVectors returns the request of the vectors.
func askOfVectors(t testing.TB) mdoc.Ask {
	t.Helper()
	root, err := base64.StdEncoding.DecodeString(vectors(t).Root)
	if err != nil {
		t.Fatal(err)
	}
	anchors, err := mdoc.ParseAnchors(root)
	if err != nil {
		t.Fatal(err)
	}
	return mdoc.Ask{
		DocType: docType, Namespace: docType, Elements: []string{element},
		EKU: []string{mdlDS}, Anchors: anchors, Transcript: vectorTranscript, Now: testNow,
		Verify: signing.Verify, Issued: new(mdoc.Issued),
	}
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// outcome is the reason of a rejection. It is "" for a response that proves that the element is true, "not
// true" if the element is something else, and "no element" if the response has no element that was asked for.
func outcome(t testing.TB, p mdoc.Proof, err error) string {
	t.Helper()
	if err != nil {
		var rejection *mdoc.Rejection
		if !errors.As(err, &rejection) || rejection.Reason == "" || p.Elements != nil {
			t.Fatalf("error %v, with %v", err, p)
		}
		return rejection.Reason
	}
	if p.Anchor.Certificate == nil {
		t.Fatal("the response is verified and led to no anchor")
	}
	if len(p.Elements) == 0 {
		return "no element"
	}
	if value, ok := p.Elements[element].Bool(); !ok || !value {
		return "not true"
	}
	return ""
}

func privateKey(t testing.TB, s string) *ecdh.PrivateKey {
	t.Helper()
	key, err := ecdh.P256().NewPrivateKey(unhex(t, s))
	if err != nil {
		t.Fatal(err)
	}
	return key
}
