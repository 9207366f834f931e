package passkeytest_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/verge-id/verge/testharness/passkeytest"
)

const (
	creation = `{"rp":{"id":"site.example"},"user":{"id":"AQI"},"challenge":"AAAA",
		"pubKeyCredParams":[{"type":"public-key","alg":-7}]}`
	request = `{"challenge":"BBBB","rpId":"site.example"}`
)

// The signature covers the authenticator data and the hash of the client data, and the client data contains
// the page's request.
func TestGet(t *testing.T) {
	a := passkeytest.New("https://site.example")
	if _, err := a.Create([]byte(creation)); err != nil {
		t.Fatal(err)
	}
	key := a.Passkeys[0].Key.Public()
	point := slices.Concat([]byte{4}, key[10:42], key[45:77])
	public, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), point)
	if err != nil {
		t.Fatal(err)
	}
	a.Counts = true
	for n := byte(1); n < 4; n++ {
		answer, err := a.Get([]byte(request))
		if err != nil {
			t.Fatal(err)
		}
		hash := sha256.Sum256(answer.ClientData)
		signed := sha256.Sum256(append(slices.Clone(answer.AuthenticatorData), hash[:]...))
		if !ecdsa.VerifyASN1(public, signed[:], answer.Signature) {
			t.Error("the signature does not verify")
		}
		want := sha256.Sum256([]byte("site.example"))
		if got := answer.AuthenticatorData; !slices.Equal(got, append(want[:], 0x1d, 0, 0, 0, n)) {
			t.Errorf("authenticator data %x", got)
		}
		const said = `{"type":"webauthn.get","challenge":"BBBB",` +
			`"origin":"https://site.example","crossOrigin":false}`
		if string(answer.ClientData) != said {
			t.Errorf("client data %s", answer.ClientData)
		}
	}
}

// It rejects like a browser, and uses the allowed options.
func TestAuthenticator_Options(t *testing.T) {
	a := passkeytest.New("https://site.example")
	if _, err := a.Get([]byte(request)); err == nil {
		t.Error("it used a passkey that it does not have")
	}
	first, err := a.Create([]byte(creation))
	if err != nil {
		t.Fatal(err)
	}
	second, err := a.Create([]byte(creation))
	if err != nil {
		t.Fatal(err)
	}
	id := base64.RawURLEncoding.EncodeToString(first.ID)
	for want, options := range map[string]string{
		string(second.ID): request,
		string(first.ID):  `{"challenge":"BBBB","rpId":"site.example","allowCredentials":[{"id":"` + id + `"}]}`,
	} {
		if got, err := a.Get([]byte(options)); err != nil || string(got.ID) != want {
			t.Errorf("%s: used %x, want %x, %v", options, got.ID, want, err)
		}
	}
	for name, options := range map[string]string{
		"an excluded passkey":  creation[:len(creation)-1] + `,"excludeCredentials":[{"id":"` + id + `"}]}`,
		"no algorithm":         `{"rp":{"id":"site.example"},"user":{"id":"AQI"},"challenge":"AAAA"}`,
		"a user that is no id": strings.Replace(creation, "AQI", "!", 1),
		"no JSON":              `{`,
	} {
		if _, err := a.Create([]byte(options)); err == nil {
			t.Errorf("%s: it made a passkey", name)
		}
	}
	if _, err := a.Get([]byte(`{"challenge":"BBBB","rpId":"other.example"}`)); err == nil {
		t.Error("it used the passkey of another site")
	}
}

// A change reaches the answer before it is signed, and JSON has what toJSON has.
func TestChange(t *testing.T) {
	a := passkeytest.New("https://site.example")
	answer, err := a.Create([]byte(creation), func(c *passkeytest.Ceremony) {
		c.Origin, c.CrossOrigin, c.Members = "https://evil.example", true, `,"x":1`
		c.Flags, c.ID = 0, []byte("chosen")
	})
	if err != nil {
		t.Fatal(err)
	}
	const said = `{"type":"webauthn.create","challenge":"AAAA",` +
		`"origin":"https://evil.example","crossOrigin":true,"x":1}`
	if string(answer.ClientData) != said || answer.AuthenticatorData[32] != 0 ||
		string(answer.ID) != "chosen" {
		t.Errorf("got %s, % x, %q", answer.ClientData, answer.AuthenticatorData, answer.ID)
	}
	var written struct {
		ID, RawID, Type string
		Response        struct{ ClientDataJSON, AttestationObject, Signature string }
	}
	if err := json.Unmarshal(answer.JSON(), &written); err != nil {
		t.Fatal(err)
	}
	id := base64.RawURLEncoding.EncodeToString([]byte("chosen"))
	if written.ID != id || written.RawID != id || written.Type != "public-key" ||
		written.Response.AttestationObject == "" || written.Response.Signature != "" {
		t.Errorf("wrote %+v", written)
	}
}
