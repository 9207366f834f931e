package openid4vp_test

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/method/openid4vp"
	edge "github.com/verge-id/verge/edge/signing"
	"github.com/verge-id/verge/testharness/wallettest"
)

// Circuits by their number of elements, of version 7.
func circuit(elements int) settings {
	for _, c := range host.Circuits() {
		if c.Version == 7 && c.Elements == elements {
			return settings{"hash": c.Name, "file": "/circuits/" + c.Name}
		}
	}
	panic("no such circuit")
}

// proving are the settings of a method that accepts or requires proofs.
func proving(mode string, more settings) settings {
	s := settings{"zero_knowledge": mode, "circuits": []settings{circuit(1)}}
	maps.Copy(s, more)
	return s
}

// statement is the content of a double of a proof: a hash of its statement. testharness/conformance
// has real proofs.
func statement(
	circuit string,
	issuer, transcript []byte,
	docType string,
	elements []string,
	at time.Time,
) []byte {
	sum := sha256.Sum256(
		fmt.Appendf(nil, "%q %x %x %q %q %s", circuit, issuer, transcript, docType, elements, at),
	)
	return sum[:]
}

func proveDouble(docType string) func(wallettest.ProofTask) ([]byte, error) {
	return func(t wallettest.ProofTask) ([]byte, error) {
		issuer, err := x509.MarshalPKIXPublicKey(t.Issuer)
		var elements []string
		for _, e := range t.Elements {
			elements = append(elements, fmt.Sprintf("%s %x", e.Name, e.Value.Raw()))
		}
		return statement(t.Circuit, issuer, t.Transcript, docType, elements, t.Time), err
	}
}

func verifyDouble(_ context.Context, s host.ProofStatement, proof []byte) (bool, string, error) {
	var elements []string
	for _, e := range s.Elements {
		elements = append(elements, fmt.Sprintf("%s %x", e.Identifier, e.Value))
	}
	if want := statement(s.Circuit, s.Issuer, s.SessionTranscript, s.DocType, elements, s.Time); string(
		want,
	) !=
		string(
			proof,
		) {
		return false, "another statement", nil
	}
	return true, "", nil
}

// newProvingFixture is newFixture for a wallet that proves.
func newProvingFixture(t *testing.T, profile, mode string, more settings) *fixture {
	t.Helper()
	w := newFixture(t, config(t, profile, proving(mode, more)))
	w.wallet.Prove = proveDouble(
		map[string]string{"mdl": "org.iso.18013.5.1.mDL", "eu-av": "eu.europa.ec.av.1",
			"pid": "eu.europa.ec.eudi.pid.1"}[profile],
	)
	return w
}

func TestProofSettings(t *testing.T) {
	two := []settings{circuit(1), circuit(1)}
	checkSettings(t, []settingsCase{
		{"accept", "eu-av", proving("accept", nil), "", ""},
		{"require", "pid", proving("require", nil), "", ""},
		{"off, with circuits", "eu-av", proving("off", nil), "", ""},
		{"by an address", "eu-av", proving("accept", settings{"circuits": []settings{
			{"hash": circuit(1)["hash"], "url": "https://circuits.example/1"}}}), "", ""},
		{"an unknown mode", "eu-av", proving("required", nil), "zero_knowledge", "off, accept, require"},
		{"no circuits", "eu-av", settings{"zero_knowledge": "accept"}, "circuits", "one element is missing"},
		{
			"no circuit for one element",
			"eu-av",
			proving("accept", settings{"circuits": []settings{circuit(2)}}),
			"circuits",
			"one element is missing",
		},
		{
			"circuits that are a text",
			"eu-av",
			proving("off", settings{"circuits": "a"}),
			"circuits",
			"a list",
		},
		{
			"a circuit that is a text",
			"eu-av",
			proving("off", settings{"circuits": []string{"a"}}),
			"circuits.1",
			"a table",
		},
		{"an unknown circuit", "eu-av", proving("accept", settings{"circuits": []settings{{"hash": "8d07",
			"file": "/a"}}}), "circuits.1.hash", "no circuit that Verge knows"},
		{
			"a circuit twice",
			"eu-av",
			proving("accept", settings{"circuits": two}),
			"circuits.2.hash",
			"twice",
		},
		{"nine circuits", "eu-av", proving("accept", settings{"circuits": slices.Repeat(two, 5)}), "circuits",
			"at most 8"},
		{"a circuit without a source", "eu-av", proving("accept", settings{"circuits": []settings{
			{"hash": circuit(1)["hash"]}}}), "circuits.1.url", "either url"},
		{"a circuit by http", "eu-av", proving("accept", settings{"circuits": []settings{
			{"hash": circuit(1)["hash"], "url": "http://circuits.example/1"}}}), "circuits.1.url", "https"},
		{"an unknown member", "eu-av", proving("accept", settings{"circuits": []settings{
			{"hash": circuit(1)["hash"], "file": "/a", "sha256": "b"}}}), "circuits.1.sha256", "use only"},
		{
			"SD-JWT alone",
			"pid",
			proving("accept", settings{"formats": []string{"dc+sd-jwt"}}),
			"zero_knowledge",
			"mso_mdoc",
		},
		{
			"require with SD-JWT",
			"pid",
			proving("require", settings{"formats": []string{"dc+sd-jwt", "mso_mdoc"}}),
			"formats",
			"no proofs",
		},
		{"contract 56: a status is required", "eu-av", proving("accept", settings{"revocation": "required"}),
			"zero_knowledge", "cannot be looked up"},
		{
			"a status is required, and proofs are off",
			"eu-av",
			proving("off", settings{"revocation": "required"}),
			"",
			"",
		},
	})
}

// An engine without the effect, such as a Worker, rejects the setting when it starts (contract 56).
func TestProofs_EngineWithout(t *testing.T) {
	for _, mode := range []string{"accept", "require", "off"} {
		c := config(t, "eu-av", proving(mode, nil))
		_, err := openid4vp.Kind.Open(c, method.Host{Verify: edge.Verify, Sign: sign})
		if mode == "off" && err != nil || mode != "off" && (err == nil ||
			!strings.Contains(err.Error(), "zero_knowledge: this engine verifies no proofs")) {
			t.Errorf("%s: %v", mode, err)
		}
		if n := len(openid4vp.Kind.Circuits(c)); (n > 0) != (mode != "off") {
			t.Errorf("%s: the host is to read %d circuits", mode, n)
		}
	}
}

// The requests of all protocols offer the circuits, and the wallet's proof decides (contract 56).
func TestProofs_Protocols(t *testing.T) {
	for _, profile := range []string{"eu-av", "mdl"} {
		for _, mode := range []string{"accept", "require"} {
			w := newProvingFixture(t, profile, mode, settings{"browser": allProtocols})
			for _, protocol := range allProtocols {
				t.Run(profile+", "+mode+", "+protocol, func(t *testing.T) {
					w.TB = t
					w.wantByBrowser(w.answered(w.requestTo(protocol), service), method.Approved, "")
					set := func(p *wallettest.Presentation) { p.Set("age_over_18", false) }
					w.wantByBrowser(w.answered(w.requestTo(protocol), service, set), method.Rejected, "")
					other := func(p *wallettest.Presentation) { p.Session.Nonce, p.Session.Origin = "a", "b" }
					reason := "zk_proof"
					if protocol == isoProtocol {
						reason = "hpke_not_opened"
					}
					w.wantByBrowser(
						w.answered(w.requestTo(protocol), service, other),
						method.AttemptFailed,
						reason,
					)
				})
			}
			t.Run(profile+", "+mode+", link", func(t *testing.T) {
				w.TB = t
				kept, err := w.send(w.message(w.shows().Code))
				if err != nil {
					t.Fatal(err)
				}
				d := w.act(nil, kept)
				if d.Verdict != method.Approved || d.Age != 18 || !strings.HasPrefix(d.Trust, "zk.") {
					t.Errorf("%+v", d)
				}
			})
		}
	}
}

// A proof counts if it names its circuit by Multipaz's label, and the verdict has the circuit's name.
func TestProofs_Label(t *testing.T) {
	w := newProvingFixture(t, "mdl", "accept", settings{"browser": allProtocols})
	w.wallet.LabelProof = true
	for _, protocol := range allProtocols {
		w.wantByBrowser(w.answered(w.requestTo(protocol), service), method.Approved, "")
	}
	kept, err := w.send(w.message(w.shows().Code))
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("zk.%s.%s", circuit(1)["hash"], w.anchor())
	if d := w.act(nil, kept); d.Verdict != method.Approved || d.Trust != want {
		t.Errorf("%+v; want the trust %q", d, want)
	}
}

// Encrypted responses may be compressed if the method requests proofs (contract 56).
func TestProofs_Compressed(t *testing.T) {
	w := newProvingFixture(t, "mdl", "accept", settings{"browser": allProtocols})
	plain := newFixture(t, config(t, "mdl", settings{"browser": allProtocols}))
	w.wallet.Compress, plain.wallet.Compress = true, true
	for _, protocol := range []string{unsignedProtocol, signedProtocol} {
		w.wantByBrowser(w.answered(w.requestTo(protocol), service), method.Approved, "")
		plain.wantByBrowser(plain.answered(plain.requestTo(protocol), service), method.AttemptFailed,
			"jwe_header")
	}
	kept, err := w.send(w.message(w.shows().Code))
	if err != nil {
		t.Fatal(err)
	}
	if d := w.act(nil, kept); d.Verdict != method.Approved || d.Age != 18 {
		t.Errorf("%+v", d)
	}
	kept, err = plain.send(plain.message(plain.shows().Code))
	plain.wantRejected("jwe_header", kept, err)
}

// A document without a proof counts only if proofs are not required (contract 56).
func TestProofs_DocumentInstead(t *testing.T) {
	w := newFixture(t, config(t, "mdl", proving("accept", settings{"browser": allProtocols})))
	strict := newFixture(t, config(t, "mdl", proving("require", settings{"browser": allProtocols})))
	request := strict.requestTo(isoProtocol).Data
	if _, err := strict.wallet.Credential(service, isoProtocol, request); err == nil ||
		!strings.Contains(err.Error(), "requires a zero-knowledge proof") {
		t.Errorf("the request does not require a proof: %v", err)
	}
	strict.state = w.state // so a document answers the same request
	for protocol, reason := range map[string]string{isoProtocol: "zk_missing",
		unsignedProtocol: "vp_token_credential", signedProtocol: "vp_token_credential"} {
		form := w.answered(w.requestTo(protocol), service)
		w.wantByBrowser(form, method.Approved, "")
		strict.wantByBrowser(form, method.AttemptFailed, reason)
	}
}

// label names a circuit as Multipaz does.
func label(
	system string, version, elements, hash, signature int, circuit settings,
) func(*wallettest.ZKResponse) {
	return func(z *wallettest.ZKResponse) {
		z.Circuit = wallettest.Circuit{System: "longfellow-libzk-" + system, Version: version,
			Elements: elements, BlockEncHash: hash, BlockEncSig: signature,
			Hash: circuit["hash"].(string)}.Label()
	}
}

// Responses that must not count (contract 56).
func TestProofs_Rejected(t *testing.T) {
	stranger := wallettest.NewIssuer(wallettest.IssuerConfig{Now: noon, EKU: wallettest.MDLSigner})
	day := 24 * time.Hour
	for _, c := range []struct {
		name   string
		edit   func(z *wallettest.ZKResponse)
		reason string
	}{
		{"good", func(*wallettest.ZKResponse) {}, ""},
		{"another value", func(z *wallettest.ZKResponse) {
			p := wallettest.Presentation{}
			p.Set("age_over_18", false)
			z.Elements = p.Elements
		}, "zk_proof"},
		{"another circuit of this release", func(z *wallettest.ZKResponse) {
			z.Circuit = circuit(2)["hash"].(string)
		}, "zk_circuit"},
		{"no circuit", func(z *wallettest.ZKResponse) { z.Circuit = "circuit" }, "zk_circuit"},
		{"label", label("v1", 7, 1, 4151, 4096, circuit(1)), ""},
		{"label of another circuit", label("v1", 7, 2, 4265, 4096, circuit(2)), "zk_circuit"},
		{"label with another hash", label("v1", 7, 1, 4151, 4096, circuit(2)), "zk_circuit"},
		{"label with another version", label("v1", 6, 1, 4151, 4096, circuit(1)),
			"zk_circuit"},
		{"label with another number", label("v1", 7, 1, 4096, 4151, circuit(1)), "zk_circuit"},
		{"label of another system", label("v2", 7, 1, 4151, 4096, circuit(1)), "zk_circuit"},
		{"another type", func(z *wallettest.ZKResponse) { z.DocType = "eu.europa.ec.av.1" }, "document_type"},
		{"another namespace", func(z *wallettest.ZKResponse) { z.Namespace = "eu.europa.ec.av.1" }, "member"},
		{"an unknown issuer", func(z *wallettest.ZKResponse) { z.Chain = stranger.Chain }, "untrusted"},
		{"another time", func(z *wallettest.ZKResponse) { z.Time = z.Time.Add(-time.Second) }, "zk_proof"},
		{"two days before", func(z *wallettest.ZKResponse) { z.Time = z.Time.Add(-2 * day) }, "zk_timestamp"},
		{"two days after", func(z *wallettest.ZKResponse) { z.Time = z.Time.Add(2 * day) }, "zk_timestamp"},
		{"a large proof", func(z *wallettest.ZKResponse) { z.Proof = make([]byte, 1<<20) }, "too_large"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newProvingFixture(t, "mdl", "accept", settings{"browser": allProtocols})
			w.wallet.EditProof = c.edit
			verdict := method.AttemptFailed
			if c.reason == "" {
				verdict = method.Approved
			}
			if c.reason != "untrusted" { // the page has other words for it, if the wallet sends a document
				w.wantByBrowser(w.answered(w.requestTo(isoProtocol), service), verdict, c.reason)
			}
			kept, err := w.send(w.message(w.shows().Code))
			if c.reason != "" {
				w.wantRejected(c.reason, kept, err)
			} else if err != nil {
				t.Error(err)
			}
		})
	}
}

// The time of a proof may differ by a day and the margin of clocks (contract 56).
func TestProofs_Time(t *testing.T) {
	for _, c := range []struct {
		after time.Duration
		ok    bool
	}{
		{24*time.Hour + host.ClockMargin, true}, {24*time.Hour + host.ClockMargin + time.Second, false},
		{-24*time.Hour - host.ClockMargin, true}, {-24*time.Hour - host.ClockMargin - time.Second, false},
	} {
		w := newProvingFixture(t, "mdl", "accept", settings{"browser": allProtocols})
		form := w.answered(w.requestTo(isoProtocol), service) // of the end of the day
		w.now = noon.Truncate(24 * time.Hour).Add(24*time.Hour - time.Second - c.after)
		want, reason := method.Approved, ""
		if !c.ok {
			want, reason = method.AttemptFailed, "zk_timestamp"
		}
		w.wantByBrowser(form, want, reason)
	}
}

// If the host cannot verify a proof, nothing is decided (contract 56).
func TestProofs_HostError(t *testing.T) {
	w := newProvingFixture(t, "mdl", "accept", settings{"browser": allProtocols})
	form := w.answered(w.requestTo(isoProtocol), service)
	m, err := openid4vp.Kind.Open(config(t, "mdl", proving("accept", settings{"browser": allProtocols})),
		method.Host{Now: func() time.Time { return noon }, Sign: sign, Verify: edge.Verify,
			VerifyProof: func(context.Context, host.ProofStatement, []byte) (bool, string, error) {
				return true, "", errors.New("away")
			}})
	if err != nil {
		t.Fatal(err)
	}
	w.session.ResponseURI = ""
	d, err := m.Act(t.Context(), w.session, method.Step{Form: form, State: w.state})
	var fetch *host.FetchError
	var rejection *method.Rejection
	if !errors.As(err, &fetch) || fetch.Reason != host.FetchUnavailable || errors.As(err, &rejection) ||
		d.Verdict != 0 {
		t.Errorf("%+v, %v", d, err)
	}
}

// A verdict by a proof counts while the anchor and the circuit are configured and proofs count (contract 56).
func TestProofs_Trust(t *testing.T) {
	w := newProvingFixture(t, "mdl", "accept", nil)
	kept, err := w.send(w.message(w.shows().Code))
	if err != nil {
		t.Fatal(err)
	}
	trust := w.act(nil, kept).Trust
	if !strings.HasSuffix(trust, "."+w.anchor()) {
		t.Fatalf("the verdict depends on %q", trust)
	}
	for name, c := range map[string]struct {
		changes settings
		want    bool
	}{
		"the same":        {proving("accept", nil), true},
		"required":        {proving("require", nil), true},
		"off":             {proving("off", nil), false},
		"another circuit": {proving("accept", settings{"circuits": []settings{otherCircuit}}), false},
		"one circuit more": {
			proving("accept", settings{"circuits": []settings{circuit(2), circuit(1)}}), true},
		"another anchor": {
			proving("accept", settings{"trust_anchors": []string{string(issuers["pid"].PEM())}}), false},
	} {
		w := newFixture(t, config(t, "mdl", c.changes))
		got, err := w.method.(method.Truster).Trusts(t.Context(), trust)
		if got != c.want || err != nil {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

// otherCircuit is the circuit for one element of version 6.
var otherCircuit = settings{"hash": "137e5a75ce72735a37c8a72da1a8a0a5df8d13365c2ae3d2c2bd6a0e7197c7c6",
	"file": "/circuits/6"}

// A request by org-iso-mdoc, which has no alternatives, is for as many elements as a circuit has. One by
// OpenID4VP has alternatives of one element.
func TestProofs_Elements(t *testing.T) {
	for _, c := range []struct {
		name, profile string
		age           int
		circuits      []int
		want          []string
	}{
		{"one", "mdl", 18, []int{1}, []string{"age_over_18"}},
		{"two", "mdl", 18, []int{1, 2}, []string{"age_over_18", "age_over_21"}},
		{"two of three", "mdl", 16, []int{1, 2}, []string{"age_over_16", "age_over_18"}},
		{"the element of each document", "eu-av", 16, []int{1}, []string{"age_over_18"}},
		{"both", "eu-av", 16, []int{2, 1}, []string{"age_over_16", "age_over_18"}},
		{"a higher age", "eu-av", 21, []int{1}, []string{"age_over_21"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var circuits []settings
			for _, n := range c.circuits {
				circuits = append(circuits, circuit(n))
			}
			w := newProvingFixture(
				t,
				c.profile,
				"require",
				settings{"circuits": circuits, "browser": allProtocols},
			)
			w.asks(c.age)
			w.wallet.Elements["age_over_21"] = true
			var proven []string
			w.wallet.EditProof = func(z *wallettest.ZKResponse) {
				proven = nil
				for _, e := range z.Elements {
					proven = append(proven, e.Name)
				}
				slices.Sort(proven)
			}
			w.wantByBrowser(w.answered(w.requestTo(isoProtocol), service), method.Approved, "")
			if !reflect.DeepEqual(proven, c.want) {
				t.Errorf("org-iso-mdoc: %q, want %q", proven, c.want)
			}
			w.wantByBrowser(w.answered(w.requestTo(unsignedProtocol), service), method.Approved, "")
			if len(proven) != 1 {
				t.Errorf("OpenID4VP: %q", proven)
			}
		})
	}
}

// The query of OpenID4VP has the members that Google's wallet expects.
func TestProofs_Query(t *testing.T) {
	w := newProvingFixture(t, "pid", "accept", settings{"browser": []string{unsignedProtocol}})
	var request struct {
		Query struct {
			Credentials []struct {
				ID, Format string
				Meta       struct {
					Doctype string           `json:"doctype_value"`
					Systems []map[string]any `json:"zk_system_type"`
				}
			}
			Sets []struct{ Options [][]string } `json:"credential_sets"`
		} `json:"dcql_query"`
		Metadata struct {
			Formats map[string]json.RawMessage `json:"vp_formats_supported"`
		} `json:"client_metadata"`
	}
	if err := json.Unmarshal(w.requestTo(unsignedProtocol).Data, &request); err != nil {
		t.Fatal(err)
	}
	all := request.Query.Credentials
	want := map[string]any{"system": "longfellow-libzk-v1", "id": circuit(1)["hash"],
		"circuit_hash": circuit(1)["hash"], "num_attributes": 1.0, "version": 7.0, "block_enc_hash": 4151.0,
		"block_enc_sig": 4096.0}
	if len(all) != 3 || all[1].Format != "mso_mdoc_zk" || all[1].Meta.Doctype != "eu.europa.ec.eudi.pid.1" ||
		!reflect.DeepEqual(all[1].Meta.Systems, []map[string]any{want}) {
		t.Errorf("credentials %+v", all)
	}
	options := [][]string{{"identity_sd_jwt"}, {"identity_zk"}, {"identity"}}
	if !reflect.DeepEqual(request.Query.Sets[0].Options, options) || len(request.Metadata.Formats) != 3 {
		t.Errorf("sets %v, formats %v", request.Query.Sets, request.Metadata.Formats)
	}
	w.wallet.Elements["birth_date"] = born("1990-01-01")
	w.wantByBrowser(w.answered(w.requestTo(unsignedProtocol), service), method.Approved, "")
}
