package openid4vp_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"strings"
	"testing"

	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/method/openid4vp"
)

// Each mistake is reported once, at the setting that has it.
func TestSettings(t *testing.T) {
	anchor := string(issuers["eu-av"].PEM())
	private := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte{1}}))
	_, noHost := newCertificate()
	_, five := signing()
	five = strings.Repeat(five, 5)
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	large := certificateFor(&p384.PublicKey, p384, serviceHost)
	checkSettings(t, []settingsCase{
		{"the least that is needed", "eu-av", nil, "", ""},
		{"signed requests", "mdl", nil, "", ""},
		{"two anchors", "eu-av", settings{"trust_anchors": []string{anchor, string(issuers["mdl"].PEM())}},
			"", ""},
		{"no anchor", "eu-av", settings{"trust_anchors": nil}, "trust_anchors",
			`trust_anchors = ["issuers.pem"]`},
		{"an empty list of anchors", "eu-av", settings{"trust_anchors": []string{}}, "trust_anchors",
			"no trust anchor"},
		{"an anchor that is no list", "eu-av", settings{"trust_anchors": anchor}, "trust_anchors",
			"a list of PEM files"},
		{"an anchor that is a number", "eu-av", settings{"trust_anchors": []int{1}}, "trust_anchors",
			"a list of PEM files"},
		{"an anchor that is empty", "eu-av", settings{"trust_anchors": []string{""}}, "trust_anchors", ""},
		{"a private key as anchor", "eu-av", settings{"trust_anchors": []string{private}}, "trust_anchors",
			"PRIVATE KEY"},
		{"65 anchors", "eu-av", settings{"trust_anchors": []string{strings.Repeat(anchor, 65)}},
			"trust_anchors", "at most 64"},
		{"no profile", "eu-av", settings{"profile": nil}, "profile", "eu-av, mdl, pid"},
		{"an unknown profile", "eu-av", settings{"profile": "EU-AV"}, "profile", "eu-av, mdl, pid"},
		{"an unknown setting", "eu-av", settings{"trust_anchor": "a"}, "trust_anchor",
			"trust_anchors"},
		{"a format that the profile lacks", "eu-av", settings{"formats": []string{"dc+sd-jwt"}}, "formats",
			"mso_mdoc"},
		{"formats that are a text", "pid", settings{"formats": "dc+sd-jwt"}, "formats",
			"dc+sd-jwt, mso_mdoc"},
		{"no formats", "pid", settings{"formats": []string{}}, "formats", "dc+sd-jwt, mso_mdoc"},
		{"a format twice", "pid", settings{"formats": []string{"mso_mdoc", "mso_mdoc"}}, "formats", "twice"},
		{"SD-JWT alone", "pid", settings{"formats": []string{"dc+sd-jwt"}}, "", ""},
		{"SD-JWT by a protocol for mobile documents", "pid", settings{"formats": []string{"dc+sd-jwt"},
			"browser": []string{"org-iso-mdoc"}}, "browser", "formats"},
		{"a scheme that browsers run", "eu-av", settings{"scheme": "javascript"}, "scheme", "openid4vp"},
		{"a scheme with a colon", "eu-av", settings{"scheme": "av:"}, "scheme", "openid4vp"},
		{"a scheme with a query", "eu-av", settings{"scheme": "av://?a=b"}, "scheme", "openid4vp"},
		{"a scheme of 300 letters", "eu-av", settings{"scheme": strings.Repeat("a", 300)}, "scheme", ""},
		{"a number as scheme", "eu-av", settings{"scheme": 1}, "scheme", "a text"},
		{"a wallet's address", "eu-av", settings{"scheme": "https://wallet.example/"}, "", ""},
		{"a wallet's address over http", "eu-av", settings{"scheme": "http://wallet.example/"}, "scheme",
			"https"},
		{"another kind of request", "eu-av", settings{"request": "reference"}, "request", "value, signed"},
		{"encrypted is no flag", "eu-av", settings{"encrypted": "yes"}, "encrypted", "true or false"},
		{"cross_device is a flag", "eu-av", settings{"cross_device": false}, "", ""},
		{"cross_device is no flag", "eu-av", settings{"cross_device": "no"}, "cross_device", "true or false"},
		{"revocation is required", "eu-av", settings{"revocation": "required"}, "", ""},
		{"revocation is off", "eu-av", settings{"revocation": "off"}, "", ""},
		{"another revocation", "eu-av", settings{"revocation": "on"}, "revocation",
			"if_present, required, off"},
		{"another way to name the client", "mdl", settings{"client_id_prefix": "did"}, "client_id_prefix",
			"x509_san_dns, x509_hash"},
		{"a certificate for a request that is not signed", "eu-av", settings{"certificate": noHost},
			"request", "signed"},
		{"no certificate", "mdl", settings{"certificate": nil}, "certificate_file", "name the PEM file"},
		{"a certificate that is none", "mdl", settings{"certificate": "a"}, "certificate_file", "PEM"},
		{"a private key as certificate", "mdl", settings{"certificate": private}, "certificate_file",
			"PRIVATE KEY"},
		{"a certificate that is damaged", "mdl",
			settings{"certificate": strings.ReplaceAll(private, "PRIVATE KEY",
				"CERTIFICATE")}, "certificate_file", "cannot be read"},
		{"five certificates", "mdl", settings{"certificate": five}, "certificate_file", "at most 4"},
		{"a certificate for a larger curve", "mdl", settings{"certificate": large}, "certificate_file",
			"P-256"},
		{"a certificate for no host", "mdl", settings{"certificate": noHost}, "certificate_file",
			"x509_hash"},
		{"a certificate for no host, named by its hash", "mdl",
			settings{"certificate": noHost, "client_id_prefix": "x509_hash"}, "", ""},
	})
}

// settingsCase is a method's settings, and the member that has the mistake.
type settingsCase struct {
	rule, profile string
	changes       settings
	member        string // "": nothing is wrong
	says          string
}

// checkSettings fails unless each mistake is reported once, at its member, and Open agrees.
func checkSettings(t *testing.T, cases []settingsCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.rule, func(t *testing.T) {
			config := config(t, c.profile, c.changes)
			wrong := openid4vp.Kind.Check(config)
			m, err := openid4vp.Kind.Open(config, method.Host{Sign: sign, VerifyProof: verifyDouble})
			if (err == nil) != (len(wrong) == 0) || (m == nil) != (err != nil) {
				t.Errorf("Open: %v; Check: %v", err, wrong)
			}
			switch {
			case c.member == "" && len(wrong) > 0:
				t.Errorf("it is wrong: %v", wrong)
			case c.member == "":
			case len(wrong) != 1 || wrong[0].Member != c.member || !strings.Contains(wrong[0].Text, c.says):
				t.Errorf("got %q, want one problem of %s with %q", wrong, c.member, c.says)
			}
		})
	}
}

// The settings of requests to browsers, and of what requests carry (contract 55).
func TestSettings_Requests(t *testing.T) {
	_, noHost := newCertificate()
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	large := certificateFor(&p384.PublicKey, p384, serviceHost)
	checkSettings(t, []settingsCase{
		{"browser is no list", "eu-av", settings{"browser": 1}, "browser", "true, false, or a list"},
		{"browser is a protocol", "eu-av", settings{"browser": "org-iso-mdoc"}, "browser", "a list"},
		{"no protocol", "eu-av", settings{"browser": []string{}}, "", ""},
		{"an unknown protocol", "eu-av", settings{"browser": []string{"openid4vp"}}, "browser",
			"openid4vp-v1-unsigned"},
		{"a protocol that is a number", "eu-av", settings{"browser": []any{1}}, "browser",
			"openid4vp-v1-unsigned"},
		{"a protocol twice", "eu-av", settings{"browser": []string{"org-iso-mdoc", "org-iso-mdoc"}},
			"browser",
			"twice"},
		{"a signed protocol without a certificate", "eu-av",
			settings{"browser": []string{"openid4vp-v1-signed"}, "certificate": nil}, "certificate_file",
			"name the PEM file"},
		{"a signed protocol, and requests by value", "eu-av",
			settings{"browser": []string{"openid4vp-v1-signed"}}, "", ""},
		{"a reader", "eu-av", settings{"reader_certificate": noHost}, "", ""},
		{"a reader's certificate that is none", "eu-av", settings{"reader_certificate": "a"},
			"reader_certificate_file", "PEM"},
		{"a reader's certificate for a larger curve", "eu-av", settings{"reader_certificate": large},
			"reader_certificate_file", "P-256"},
		{"a reader where the browser is not asked", "eu-av",
			settings{"reader_certificate": noHost, "browser": false}, "browser", "org-iso-mdoc"},
		{"a reader where the browser is asked by OpenID4VP", "mdl",
			settings{"reader_certificate": noHost, "browser": []string{"openid4vp-v1-signed"}}, "browser",
			"org-iso-mdoc"},
		{"verifier_info", "mdl", settings{"verifier_info": `[{"format":"registration_cert","data":"eyJ"},
			{"format":"a","data":{"b":1},"credential_ids":["driving_licence"]}]` + "\n"}, "", ""},
		{"verifier_info in a link", "eu-av", settings{"verifier_info": `[{"format":"a","data":"b"}]`},
			"verifier_info_file", "no room"},
		{"verifier_info for the browser", "eu-av", settings{"verifier_info": `[{"format":"a","data":"b"}]`,
			"browser": []string{"openid4vp-v1-unsigned"}}, "", ""},
		{"verifier_info that is no JSON", "mdl", settings{"verifier_info": `[{]`}, "verifier_info_file",
			"array"},
		{"verifier_info that is an object", "mdl", settings{"verifier_info": `{"format":"a"}`},
			"verifier_info_file", "array"},
		{"verifier_info that is empty", "mdl", settings{"verifier_info": `[]`}, "verifier_info_file",
			"array"},
		{"verifier_info with more behind it", "mdl",
			settings{"verifier_info": `[{"format":"a","data":"b"}],"x":1`}, "verifier_info_file", "array"},
		{"verifier_info without a format", "mdl", settings{"verifier_info": `[{"data":"b"}]`},
			"verifier_info_file", "attestation 1"},
		{"verifier_info with data that is a number", "mdl",
			settings{"verifier_info": `[{"format":"a","data":"b"},{"format":"a","data":1}]`},
			"verifier_info_file", "attestation 2"},
		{"verifier_info for another credential", "mdl",
			settings{"verifier_info": `[{"format":"a","data":"b","credential_ids":["pid"]}]`},
			"verifier_info_file", "driving_licence"},
		{"client_metadata", "mdl",
			settings{"client_metadata": `{"gw_rp_metadata_bytes":"2BhY","a":{"b":[1]}}`},
			"", ""},
		{"client_metadata in a link", "eu-av", settings{"client_metadata": `{"client_name":"a"}`},
			"client_metadata_file", "no room"},
		{"client_metadata that is an array", "mdl", settings{"client_metadata": `[]`}, "client_metadata_file",
			"no JSON object"},
		{"client_metadata with other keys", "mdl", settings{"client_metadata": `{"jwks":{"keys":[]}}`},
			"client_metadata_file", "jwks"},
		{"client_metadata with other formats", "mdl",
			settings{"client_metadata": `{"vp_formats_supported":{}}`},
			"client_metadata_file", "vp_formats_supported"},
		{"client_metadata with other encryption", "mdl",
			settings{"client_metadata": `{"encrypted_response_enc_values_supported":[]}`},
			"client_metadata_file", "encrypted_response_enc_values_supported"},
		{"client_metadata of 17 KiB", "mdl", settings{"client_metadata": `{"a":"` +
			strings.Repeat("b", 17<<10) + `"}`}, "client_metadata_file", "at most 16384"},
		{"verifier_info of 17 KiB", "mdl", settings{"verifier_info": `[{"format":"a","data":"` +
			strings.Repeat("b", 17<<10) + `"}]`}, "verifier_info_file", "at most 16384"},
	})
}

func TestSettingsDependOnKeysAndMode(t *testing.T) {
	noKey := config(t, "mdl", nil)
	noKey.Keys = nil
	if wrong := openid4vp.Kind.Check(noKey); len(wrong) != 1 || wrong[0].Member != "private_key_file" {
		t.Errorf("no key: %v", wrong)
	}
	if m, err := openid4vp.Kind.Open(config(t, "mdl", nil), method.Host{}); err == nil {
		t.Errorf("a host without keys: %v", m)
	}
	for text, member := range map[string]string{"{": "settings", "": "profile"} {
		c := method.Config{Name: "wallet", Settings: []byte(text)}
		if wrong := openid4vp.Kind.Check(c); len(wrong) != 1 || wrong[0].Member != member {
			t.Errorf("settings %q: %v", text, wrong)
		}
	}
	keyAlone := config(t, "eu-av", nil)
	keyAlone.Keys = []string{"reader_key"}
	if wrong := openid4vp.Kind.Check(keyAlone); len(wrong) != 1 ||
		wrong[0].Member != "reader_certificate_file" {
		t.Errorf("a reader's key without a certificate: %v", wrong)
	}
	certificateAlone := config(t, "eu-av", settings{"reader_certificate": string(issuers["mdl"].PEM())})
	certificateAlone.Keys = nil
	if wrong := openid4vp.Kind.Check(certificateAlone); len(wrong) != 1 ||
		wrong[0].Member != "reader_key_file" {
		t.Errorf("a reader's certificate without a key: %v", wrong)
	}
	dev := config(t, "eu-av", settings{"scheme": "http://127.0.0.1:8090/wallet"})
	if wrong := openid4vp.Kind.Check(dev); len(wrong) != 1 || wrong[0].Member != "scheme" {
		t.Errorf("http, not in dev: %v", wrong)
	}
	dev.Dev = true
	if wrong := openid4vp.Kind.Check(dev); len(wrong) > 0 {
		t.Errorf("http, in dev: %v", wrong)
	}
}

// The profiles are data. Each contains the required fields of its documents.
func TestProfiles(t *testing.T) {
	wrong := fmt.Sprint(openid4vp.Kind.Check(config(t, "pid", map[string]any{"profile": "other"})))
	if !strings.Contains(wrong, `"other" is not known; use one of: eu-av, mdl, pid, swiyu`) {
		t.Errorf("contract 39: the profiles are %s", wrong)
	}
	if oldest := openid4vp.Kind.Oldest(config(t, "eu-av", nil)); oldest != 99 {
		t.Errorf("the element of an age has two digits, and the oldest age is %d", oldest)
	}
	if oldest := openid4vp.Kind.Oldest(config(t, "pid", nil)); oldest != 0 {
		t.Errorf("a date of birth proves every age, and the oldest is %d", oldest)
	}
}
