package webauthn

import (
	"crypto/subtle"
	"slices"

	"github.com/verge-id/verge/core/internal/strict64"
	"github.com/verge-id/verge/core/internal/strictjson"
)

// maxResponse is the maximum size of a response in bytes.
const maxResponse = 64 << 10

// maxID is the maximum length of a credential's id in bytes (Web Authentication, section 6.5.1).
const maxID = 1023

// response is a response in the form of PublicKeyCredential.toJSON.
type response struct {
	id         []byte
	clientData []byte
	inner      strictjson.Object // the field response
}

// readResponse reads the common fields of both kinds of response. Other fields are ignored, including the
// copies that toJSON makes from the attestation object.
func readResponse(raw []byte) (r response, err error) {
	if len(raw) > maxResponse {
		return response{}, rejected(tooLarge)
	}
	o, err := strictjson.ReadForeign(raw)
	if err != nil {
		return response{}, rejected(badJSON)
	}
	kind, _ := o.Value("type").Text()
	inner, okInner := o.Value("response").Object()
	id, okID := decode(o.Value("id"))
	rawID, okRaw := decode(o.Value("rawId"))
	clientData, okData := decode(inner.Value("clientDataJSON"))
	if kind != "public-key" || !okInner || !okID || !okRaw || !slices.Equal(id, rawID) || !okData {
		return response{}, rejected(badMember)
	}
	if len(id) < 1 || len(id) > maxID {
		return response{}, rejected(badID)
	}
	return response{id, clientData, inner}, nil
}

// CredentialID returns the id of the credential in a response. The response is not verified yet. Use it to
// load the credential for VerifyAssertion.
func CredentialID(response []byte) (id []byte, err error) {
	r, err := readResponse(response)
	return r.id, err
}

// Values of the client data's field type.
const (
	typeCreate = "webauthn.create"
	typeGet    = "webauthn.get"
)

// checkClientData checks where and why the browser made the request (section 5.8.1). Browsers may add fields,
// so others are ignored.
func checkClientData(rp RelyingParty, raw, challenge []byte, want string) error {
	if len(challenge) < minChallenge {
		return rejected(shortChallenge)
	}
	o, err := strictjson.ReadForeign(raw)
	if err != nil {
		return rejected(badClientData)
	}
	if kind, _ := o.Value("type").Text(); kind != want {
		return rejected(wrongType)
	}
	said, _ := o.Value("challenge").Text()
	if subtle.ConstantTimeCompare([]byte(said), []byte(encode(challenge))) == 0 {
		return rejected(wrongChallenge)
	}
	if origin, ok := o.Value("origin").Text(); !ok || !slices.Contains(rp.origins, origin) {
		return rejected(wrongOrigin)
	}
	if cross, present, ok := o.Bool("crossOrigin"); !ok || present && cross {
		return rejected(crossOrigin)
	}
	// Only a frame in another site has it, and our pages must not be framed.
	if o.Has("topOrigin") {
		return rejected(framed)
	}
	return nil
}

// decode reads base64url in its only valid form. ok is false for a missing value.
func decode(v strictjson.Value) ([]byte, bool) {
	s, ok := v.Text()
	if !ok {
		return nil, false
	}
	return strict64.Decode(s)
}
