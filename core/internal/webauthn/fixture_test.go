package webauthn_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/verge-id/verge/core/internal/webauthn"
	"github.com/verge-id/verge/edge/signing"
	"github.com/verge-id/verge/testharness/passkeytest"
)

const testOrigin = "https://verify.example"

var (
	challenge = bytes.Repeat([]byte{0xc5, 0x17, 0xfb, 0x3e}, 8)
	testUser  = webauthn.User{Handle: []byte("handle-1"), Name: "ada@example", DisplayName: "Ada"}

	algorithms = map[string]int64{
		"ES256": passkeytest.ES256, "EdDSA": passkeytest.EdDSA, "RS256": passkeytest.RS256,
	}
)

func party(t testing.TB) webauthn.RelyingParty {
	t.Helper()
	rp, err := webauthn.NewRelyingParty("verify.example", "Verify",
		testOrigin, "https://www.verify.example:8443")
	if err != nil {
		t.Fatal(err)
	}
	return rp
}

func options(t testing.TB) []byte {
	t.Helper()
	o, err := webauthn.CreationOptions(party(t), challenge, testUser, nil)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func requestOptions(t testing.TB) []byte {
	t.Helper()
	o, err := webauthn.RequestOptions(party(t), challenge)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// enrolled is an authenticator with one passkey, and the credential that its relying party has stored.
type enrolled struct {
	authenticator *passkeytest.Authenticator
	key           *passkeytest.Passkey
	stored        webauthn.Credential
}

var enrolments sync.Map // by algorithm; creating an RSA key is slow

// enrol returns an authenticator of this test, with the shared key of the algorithm.
func enrol(t testing.TB, algorithm int64) enrolled {
	t.Helper()
	if algorithm == 0 {
		algorithm = passkeytest.ES256
	}
	known, ok := enrolments.Load(algorithm)
	if !ok {
		a := passkeytest.New(testOrigin)
		a.Algorithm = algorithm
		answer, err := a.Create(options(t))
		if err != nil {
			t.Fatal(err)
		}
		stored, err := webauthn.VerifyRegistration(party(t), challenge, answer.JSON())
		if err != nil {
			t.Fatal(err)
		}
		stored.UserHandle = testUser.Handle
		known, _ = enrolments.LoadOrStore(algorithm, enrolled{a, a.Passkeys[0], stored})
	}
	e := known.(enrolled)
	key, a := *e.key, *e.authenticator
	a.Passkeys = []*passkeytest.Passkey{&key}
	return enrolled{&a, &key, e.stored}
}

// reason returns the reason why a response was rejected, or "" for nil.
func reason(t testing.TB, err error) string {
	t.Helper()
	if err == nil {
		return ""
	}
	var rejection *webauthn.Rejection
	if !errors.As(err, &rejection) || rejection.Reason == "" {
		t.Fatalf("%v is a %T, want a *Refusal with a reason", err, err)
	}
	if !strings.HasSuffix(err.Error(), ": "+rejection.Reason) {
		t.Fatalf("the error %q contains more than its reason %q", err, rejection.Reason)
	}
	return rejection.Reason
}

// in returns the fields of the response's inner response.
func in(answer map[string]any) map[string]any { return answer["response"].(map[string]any) }

// edited returns a response with its JSON changed.
func edited(t testing.TB, answer []byte, edit func(map[string]any)) []byte {
	t.Helper()
	var members map[string]any
	if err := json.Unmarshal(answer, &members); err != nil {
		t.Fatal(err)
	}
	edit(members)
	b, err := json.Marshal(members)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// verifyAssertion calls VerifyAssertion with the standard library's verification.
func verifyAssertion(
	t testing.TB, rp webauthn.RelyingParty, challenge []byte, stored webauthn.Credential, response []byte,
) (webauthn.Assertion, error) {
	return webauthn.VerifyAssertion(t.Context(), signing.Verify, rp, challenge, stored, response)
}
