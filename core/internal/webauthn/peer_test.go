package webauthn_test

import (
	"encoding/base64"
	"testing"

	"github.com/descope/virtualwebauthn"

	"github.com/verge-id/verge/core/internal/webauthn"
)

// The peer omits leading zeros of a point's coordinates, which is wrong for one key in 128. This key, for
// this test only, has two coordinates of 32 bytes.
const peerKey = "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgc1j9rdr3v2gG9PiytmrxOfGi5SKQvo99iVbAf" +
	"q/vN2yhRANCAATwcXK6pfs8sIbFrLodu/xkfwu/AHWQinjx+mY/7oeCSPz2QKFKdrjT7BwMsZ9YTrcvQWNKSbypvABDv7mmfaze"

// An independent authenticator, with its own CBOR code, reads our options and returns responses that we
// accept. It sends a statement of the format "packed" although none is requested.
func TestVerify_IndependentAuthenticator(t *testing.T) {
	key, err := base64.StdEncoding.DecodeString(peerKey)
	if err != nil {
		t.Fatal(err)
	}
	for name, credential := range map[string]virtualwebauthn.Credential{
		"ES256": virtualwebauthn.NewCredentialWithImportedKey(virtualwebauthn.KeyTypeEC2, key),
		"RS256": virtualwebauthn.NewCredential(virtualwebauthn.KeyTypeRSA),
	} {
		t.Run(name, func(t *testing.T) {
			site := virtualwebauthn.RelyingParty{ID: "verify.example", Name: "Verify", Origin: testOrigin}
			authenticator := virtualwebauthn.NewAuthenticator()
			asked, err := virtualwebauthn.ParseAttestationOptions(string(options(t)))
			if err != nil {
				t.Fatal(err)
			}
			made := virtualwebauthn.CreateAttestationResponse(site, authenticator, credential, *asked)
			stored, err := webauthn.VerifyRegistration(party(t), challenge, []byte(made))
			if err != nil {
				t.Fatal(err)
			}

			use := func(a virtualwebauthn.Authenticator, site virtualwebauthn.RelyingParty) error {
				asked, err := virtualwebauthn.ParseAssertionOptions(string(requestOptions(t)))
				if err != nil {
					t.Fatal(err)
				}
				answer := virtualwebauthn.CreateAssertionResponse(site, a, credential, *asked)
				_, err = verifyAssertion(t, party(t), challenge, stored, []byte(answer))
				return err
			}
			if err := use(authenticator, site); err != nil {
				t.Error(err)
			}
			site.Origin = "https://evil.example"
			if got := reason(t, use(authenticator, site)); got != "origin" {
				t.Errorf("from another origin reason %q", got)
			}
			site.Origin = testOrigin
			authenticator.Options.UserNotVerified = true
			if got := reason(t, use(authenticator, site)); got != "user_not_verified" {
				t.Errorf("without verification reason %q", got)
			}
		})
	}
}
