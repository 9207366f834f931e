package mdoc_test

import (
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/verge-id/verge/core/internal/mdoc"
	"github.com/verge-id/verge/edge/signing"
	"github.com/verge-id/verge/testharness/long"
	"github.com/verge-id/verge/testharness/npmwallet"
	"github.com/verge-id/verge/testharness/wallettest"
)

var record = flag.Bool("record", false, "write testdata/auth0.json again")

// recorded is a response of @auth0/mdl with documents that it has issued itself, all in hex.
type recorded struct {
	Root     string // DER
	Asked    string // it has age_over_18, and answers age_over_18
	Nearest  string // it has age_over_21 alone, and answers that when asked for age_over_18
	Licences string // it has more than that, of all types, and answers all of it
}

const (
	mdlType      = "org.iso.18013.5.1.mDL"
	mdlNamespace = "org.iso.18013.5.1"
)

// answersOfAuth0 has @auth0/mdl answer now.
func answersOfAuth0(t *testing.T) (r recorded) {
	t.Helper()
	issuer := wallettest.NewIssuer(wallettest.IssuerConfig{EKU: wallettest.MDLSigner, Now: testNow})
	r.Root = hex.EncodeToString(issuer.Root.Raw)
	d := npmwallet.Document{
		DocType: mdlType, Namespace: mdlNamespace, Transcript: vectorTranscript, Chain: issuer.Chain,
		IssuerKey: issuer.Key, DeviceKey: wallettest.New(issuer).Key,
		Signed: testNow.AddDate(0, 0, -1), ValidUntil: testNow.AddDate(0, 1, 0),
		Ask: []string{element},
	}
	d.Claims = map[string]any{element: true}
	r.Asked = hex.EncodeToString(d.Respond(t))
	d.Claims = map[string]any{"age_over_21": true}
	r.Nearest = hex.EncodeToString(d.Respond(t))
	d.Claims = map[string]any{
		element: true, "family_name": "Müller", "birth_date": "1990-02-28", "portrait": "AAAA",
	}
	d.Ask = []string{element, "family_name", "birth_date", "portrait"}
	r.Licences = hex.EncodeToString(d.Respond(t))
	return r
}

// askOfAuth0 returns the request of the responses of @auth0/mdl.
func askOfAuth0(t testing.TB, r recorded) mdoc.Ask {
	t.Helper()
	root, err := x509.ParseCertificate(unhex(t, r.Root))
	if err != nil {
		t.Fatal(err)
	}
	return mdoc.Ask{
		DocType: mdlType, Namespace: mdlNamespace, Elements: []string{element},
		EKU: []string{mdlDS}, Anchors: []mdoc.Anchor{{Certificate: root}},
		Transcript: vectorTranscript, Now: testNow,
		Verify: signing.Verify, Issued: new(mdoc.Issued),
	}
}

func checkAuth0(t *testing.T, r recorded) {
	ask := askOfAuth0(t, r)
	over21 := ask
	over21.Elements = []string{element, "age_over_21"}
	for _, c := range []struct {
		name     string
		response string
		ask      mdoc.Ask
		want     string
		elements int
	}{
		{"what was asked for", r.Asked, ask, "", 1},
		{"with other elements", r.Licences, ask, "", 1},
		{"another age than requested", r.Nearest, ask, "no element", 0},
		{"another age that was asked for, too", r.Nearest, over21, "not true", 1},
	} {
		p, err := mdoc.Verify(t.Context(), unhex(t, c.response), c.ask)
		if got := outcome(t, p, err); got != c.want || len(p.Elements) != c.elements {
			t.Errorf("%s: %q with %d elements, want %q with %d", c.name, got, len(p.Elements), c.want,
				c.elements)
		}
	}
	p, err := mdoc.Verify(t.Context(), unhex(t, r.Nearest), over21)
	if adult, ok := p.Elements["age_over_21"].Bool(); err != nil || !ok || !adult {
		t.Errorf("%+v, %v, want age_over_21", p, err)
	}
}

func recordedAuth0(t testing.TB) (r recorded) {
	t.Helper()
	readJSON(t, "auth0.json", &r)
	return r
}

func TestRecordedAnswersOfAuth0(t *testing.T) { checkAuth0(t, recordedAuth0(t)) }

func TestAnswersOfAuth0(t *testing.T) {
	long.Skip(t, "TestAnswersOfAuth0")
	r := answersOfAuth0(t)
	checkAuth0(t, r)
	if *record {
		b, err := json.MarshalIndent(r, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join("testdata", "auth0.json"), append(b, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// @auth0/mdl answers over the Digital Credentials API, by both kinds of protocol. Its answer counts for the
// transcript of its page alone.
func TestAnswersOfAuth0_DCAPI(t *testing.T) {
	long.Skip(t, "TestAnswersOfAuth0_DCAPI")
	issuer := wallettest.NewIssuer(wallettest.IssuerConfig{EKU: wallettest.MDLSigner, Now: testNow})
	const nonce, info = "nonce-0123456789abcdef", "gmVkY2FwaaA"
	for name, transcript := range map[string]func(origin string) []byte{
		"openid4vp": func(origin string) []byte {
			return mdoc.OpenID4VPDCAPITranscript(origin, nonce, make([]byte, 32))
		},
		"org-iso-mdoc": func(origin string) []byte { return mdoc.DCAPITranscript(info, origin) },
	} {
		response := npmwallet.Document{DocType: mdlType, Namespace: mdlNamespace,
			Transcript: transcript("https://verify.example"), Chain: issuer.Chain, IssuerKey: issuer.Key,
			DeviceKey: wallettest.New(issuer).Key, Signed: testNow.AddDate(0, 0, -1),
			ValidUntil: testNow.AddDate(0, 1, 0), Ask: []string{element},
			Claims: map[string]any{element: true}}.Respond(t)
		ask := mdoc.Ask{DocType: mdlType, Namespace: mdlNamespace, Elements: []string{element},
			EKU: []string{mdlDS}, Anchors: []mdoc.Anchor{{Certificate: issuer.Root}}, Now: testNow,
			Verify: signing.Verify, Issued: new(mdoc.Issued)}
		for origin, want := range map[string]string{"https://verify.example": "",
			"https://evil.example": "device_signature"} {
			ask.Transcript = transcript(origin)
			p, err := mdoc.Verify(t.Context(), response, ask)
			if got := outcome(t, p, err); got != want {
				t.Errorf("contract 55: %s, for %s: %q, want %q", name, origin, got, want)
			}
		}
	}
}
