package webauthn_test

import (
	"encoding/base64"
	"testing"

	"github.com/descope/virtualwebauthn"

	"github.com/verge-id/verge/core/internal/webauthn"
)

// The peer writes coordinates of a point without zeros before them, which is wrong for one key of 128. So it
// gets a key of which both have 32 bytes. It is for this test alone.
const peerKey = "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgc1j9rdr3v2gG9PiytmrxOfGi5SKQvo99iVbAf" +
	"q/vN2yhRANCAATwcXK6pfs8sIbFrLodu/xkfwu/AHWQinjx+mY/7oeCSPz2QKFKdrjT7BwMsZ9YTrcvQWNKSbypvABDv7mmfaze"

// An authenticator that others wrote, with a CBOR of its own, reads our options and gives answers that we
// take. It sends a statement of the format "packed" though none is asked for.
func TestWithAnAuthenticatorOfOthers(t *testing.T) {
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
				t.Errorf("from another origin it is refused for %q", got)
			}
			site.Origin = testOrigin
			authenticator.Options.UserNotVerified = true
			if got := reason(t, use(authenticator, site)); got != "user_not_verified" {
				t.Errorf("without verification it is refused for %q", got)
			}
		})
	}
}
