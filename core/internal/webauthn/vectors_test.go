package webauthn_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"flag"
	"os"
	"testing"

	"github.com/verge-id/verge/core/internal/webauthn"
	"github.com/verge-id/verge/testharness/passkeytest"
)

var update = flag.Bool("update", false, "rewrite testdata/vectors.json")

const vectorsFile = "testdata/vectors.json"

type vectorFile struct {
	About         []string             `json:"about"`
	ID            string               `json:"rp_id"`
	Origins       []string             `json:"origins"`
	Challenge     string               `json:"challenge"`
	Registrations []registrationVector `json:"registrations"`
	Assertions    []assertionVector    `json:"assertions"`
}

type storedVector struct {
	ID             string `json:"id"`
	PublicKey      string `json:"public_key"`
	Counter        uint32 `json:"counter"`
	BackupEligible bool   `json:"backup_eligible"`
	BackedUp       bool   `json:"backed_up"`
	UserHandle     string `json:"user_handle,omitempty"`
}

type registrationVector struct {
	Name     string        `json:"name"`
	Rejected string        `json:"refused,omitempty"`
	Stored   *storedVector `json:"stored,omitempty"`
	Response string        `json:"response"`
}

type assertionVector struct {
	Name     string       `json:"name"`
	Rejected string       `json:"refused,omitempty"`
	Stored   storedVector `json:"stored"`
	Counter  uint32       `json:"counter,omitempty"`
	Response string       `json:"response"`
}

func storedAs(c webauthn.Credential) storedVector {
	return storedVector{encode(c.ID), encode(c.PublicKey), c.Counter, c.BackupEligible, c.BackedUp,
		encode(c.UserHandle)}
}

func (v storedVector) credential(t testing.TB) webauthn.Credential {
	return webauthn.Credential{ID: decode(t, v.ID), PublicKey: decode(t, v.PublicKey), Counter: v.Counter,
		BackupEligible: v.BackupEligible, BackedUp: v.BackedUp, UserHandle: decode(t, v.UserHandle)}
}

func decode(t testing.TB, s string) []byte {
	t.Helper()
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func vectors(t testing.TB) (file vectorFile) {
	t.Helper()
	b, err := os.ReadFile(vectorsFile)
	if err != nil {
		t.Fatal(err)
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&file); err != nil {
		t.Fatal(err)
	}
	return file
}

// writeVectors writes every case to the file, with new keys.
func writeVectors(t *testing.T) {
	t.Helper()
	file := vectorFile{
		About: []string{
			"Answers of browsers, each as PublicKeyCredential.toJSON() writes it, to check a " +
				"relying party with.",
			"A registration is accepted, and stored as the member stored says, or refused.",
			"An assertion is verified with the credential that is stored. The counter is the " +
				"one to store next.",
			"What is binary is in base64url, and public_key is in COSE. Every name is a rule.",
			"A relying party must refuse what has a member refused. To name the same reason is a " +
				"help, not a duty.",
			"The user is to be verified, and no attestation is asked for.",
		},
		ID: "verify.example", Origins: []string{testOrigin, "https://www.verify.example:8443"},
		Challenge: encode(challenge),
	}
	for _, c := range allRegistrations() {
		if c.name == "64 KiB" || c.reason == "too_large" {
			continue // only spaces
		}
		v := registrationVector{Name: c.name, Rejected: c.reason, Response: string(c.answer(t))}
		if got, err := webauthn.VerifyRegistration(party(t), challenge, []byte(v.Response)); err == nil {
			stored := storedAs(got)
			v.Stored = &stored
		}
		file.Registrations = append(file.Registrations, v)
	}
	for _, c := range allAssertions() {
		if c.name == "64 KiB" || c.reason == "too_large" {
			continue
		}
		e, answer := c.answer(t)
		got, _ := verifyAssertion(t, party(t), challenge, e.stored, answer)
		file.Assertions = append(file.Assertions,
			assertionVector{c.name, c.reason, storedAs(e.stored), got.Counter, string(answer)})
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	if err := enc.Encode(file); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(vectorsFile, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// The file has every case, with keys that no longer exist.
func TestVectors(t *testing.T) {
	if *update {
		writeVectors(t)
	}
	file := vectors(t)
	challenge := decode(t, file.Challenge)
	rp, err := webauthn.NewRelyingParty(file.ID, "Verify", file.Origins...)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, v := range file.Registrations {
		names["registration, "+v.Name] = true
		got, err := webauthn.VerifyRegistration(rp, challenge, []byte(v.Response))
		if r := reason(t, err); r != v.Rejected {
			t.Errorf("registration, %s: rejected for %q, want %q", v.Name, r, v.Rejected)
		}
		if (v.Stored == nil) != (err != nil) || v.Stored != nil && *v.Stored != storedAs(got) {
			t.Errorf("registration, %s: stored %+v, want %+v", v.Name, storedAs(got), v.Stored)
		}
	}
	for _, v := range file.Assertions {
		names["assertion, "+v.Name] = true
		got, err := verifyAssertion(t, rp, challenge, v.Stored.credential(t), []byte(v.Response))
		if r := reason(t, err); r != v.Rejected || got.Counter != v.Counter {
			t.Errorf("assertion, %s: rejected for %q, want %q; counter %d", v.Name, r, v.Rejected,
				got.Counter)
		}
	}
	for _, c := range registrationCases {
		if !names["registration, "+c.name] {
			t.Errorf("%s has no registration %q; run go test . -update", vectorsFile, c.name)
		}
	}
	for _, c := range assertionCases {
		if !names["assertion, "+c.name] {
			t.Errorf("%s has no assertion %q; run go test . -update", vectorsFile, c.name)
		}
	}
}

// Responses of Chromium 156 to our options, from the virtual authenticator of its developer tools, which does
// not support RS256.
func TestVerify_Chromium(t *testing.T) {
	b, err := os.ReadFile("testdata/chromium.json")
	if err != nil {
		t.Fatal(err)
	}
	var answers []struct {
		Name, Origin, Created, Got string
		CreateChallenge            string `json:"create_challenge"`
		GetChallenge               string `json:"get_challenge"`
	}
	if err := json.Unmarshal(b, &answers); err != nil {
		t.Fatal(err)
	}
	if len(answers) != 2 {
		t.Errorf("there are %d answers, want 2", len(answers))
	}
	for _, a := range answers {
		rp, err := webauthn.NewRelyingParty("localhost", "Verify", a.Origin)
		if err != nil {
			t.Fatal(err)
		}
		stored, err := webauthn.VerifyRegistration(rp, decode(t, a.CreateChallenge), []byte(a.Created))
		if err != nil || stored.Counter != 1 || !stored.BackedUp {
			t.Errorf("%s: stored %+v, %v", a.Name, stored, err)
		}
		got, err := verifyAssertion(t, rp, decode(t, a.GetChallenge), stored, []byte(a.Got))
		if err != nil || got.Counter != 2 || string(got.UserHandle) != "u-"+a.Name {
			t.Errorf("%s: got %+v, %v", a.Name, got, err)
		}
	}
}

// hexBytes is binary data in hexadecimal, as in W3C documents.
type hexBytes []byte

func (h *hexBytes) UnmarshalText(text []byte) (err error) {
	*h, err = hex.DecodeString(string(text))
	return err
}

// The examples of the specification (Web Authentication Level 3, section 16). Some lack a verified user, and
// some use an algorithm that we do not request. The file contains our expected result for each.
func TestVerify_SpecificationExamples(t *testing.T) {
	b, err := os.ReadFile("testdata/w3c.json")
	if err != nil {
		t.Fatal(err)
	}
	var examples []struct {
		Name         string
		ID           hexBytes `json:"credential_id"`
		Signed       bool     // by a supported algorithm
		Registration struct {
			Challenge, ClientDataJSON, AttestationObject hexBytes
			Rejected                                     string `json:"refused"`
		}
		Authentication struct {
			Challenge, ClientDataJSON, AuthenticatorData, Signature hexBytes
			Rejected                                                string `json:"refused"`
		}
	}
	if err := json.Unmarshal(b, &examples); err != nil {
		t.Fatal(err)
	}
	rp, err := webauthn.NewRelyingParty("example.org", "Example", "https://example.org")
	if err != nil {
		t.Fatal(err)
	}
	accepted, signed := 0, 0
	for _, e := range examples {
		r, a := e.Registration, e.Authentication
		stored, err := webauthn.VerifyRegistration(rp, r.Challenge, passkeytest.Answer{
			ID: e.ID, ClientData: r.ClientDataJSON, Attestation: r.AttestationObject,
		}.JSON())
		if got := reason(t, err); got != r.Rejected {
			t.Errorf("%s: registration rejected for %q, want %q", e.Name, got, r.Rejected)
		}
		got := webauthn.Signed(r.AttestationObject, a.AuthenticatorData, a.ClientDataJSON, a.Signature)
		if got != e.Signed {
			t.Errorf("%s: the signature verifies: %v", e.Name, got)
		} else if got {
			signed++
		}
		if err != nil {
			continue
		}
		_, err = verifyAssertion(t, rp, a.Challenge, stored, passkeytest.Answer{
			ID: e.ID, ClientData: a.ClientDataJSON, AuthenticatorData: a.AuthenticatorData,
			Signature: a.Signature,
		}.JSON())
		if got := reason(t, err); got != a.Rejected {
			t.Errorf("%s: assertion rejected for %q, want %q", e.Name, got, a.Rejected)
		} else if got == "" {
			accepted++
		}
	}
	if len(examples) != 15 || signed < 12 || accepted < 2 {
		t.Errorf("%d examples, %d signatures verify, %d assertions are accepted", len(examples), signed,
			accepted)
	}
}
