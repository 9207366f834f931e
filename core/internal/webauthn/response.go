package webauthn

import (
	"crypto/subtle"
	"slices"

	"github.com/verge-id/verge/core/internal/strict64"
	"github.com/verge-id/verge/core/web"
)

// maxResponse is the most bytes of an answer.
const maxResponse = 64 << 10

// maxID is the most bytes of a credential's id (Web Authentication, section 6.5.1).
const maxID = 1023

// response is an answer as PublicKeyCredential.toJSON writes it.
type response struct {
	id         []byte
	clientData []byte
	inner      web.Object // the member response
}

// readResponse reads what both kinds of answer have. Members that are not named here are not read, among them
// what toJSON repeats of the attestation object.
func readResponse(raw []byte) (r response, err error) {
	if len(raw) > maxResponse {
		return response{}, refused(tooLarge)
	}
	o, err := web.ReadForeign(raw)
	if err != nil {
		return response{}, refused(badJSON)
	}
	kind, _ := o.Value("type").Text()
	inner, okInner := o.Value("response").Object()
	id, okID := decode(o.Value("id"))
	rawID, okRaw := decode(o.Value("rawId"))
	clientData, okData := decode(inner.Value("clientDataJSON"))
	if kind != "public-key" || !okInner || !okID || !okRaw || !slices.Equal(id, rawID) || !okData {
		return response{}, refused(badMember)
	}
	if len(id) < 1 || len(id) > maxID {
		return response{}, refused(badID)
	}
	return response{id, clientData, inner}, nil
}

// CredentialID returns the id of the credential that an answer says it is from. Nothing of the answer has
// been verified. Use it to load what VerifyAssertion needs.
func CredentialID(response []byte) (id []byte, err error) {
	r, err := readResponse(response)
	return r.id, err
}

// Values of the client data's member type.
const (
	typeCreate = "webauthn.create"
	typeGet    = "webauthn.get"
)

// checkClientData checks what the browser says of where and why it asked (section 5.8.1). Browsers add
// members as they like, so others than these are ignored.
func checkClientData(rp RelyingParty, raw, challenge []byte, want string) error {
	if len(challenge) < minChallenge {
		return refused(shortChallenge)
	}
	o, err := web.ReadForeign(raw)
	if err != nil {
		return refused(badClientData)
	}
	if kind, _ := o.Value("type").Text(); kind != want {
		return refused(wrongType)
	}
	said, _ := o.Value("challenge").Text()
	if subtle.ConstantTimeCompare([]byte(said), []byte(encode(challenge))) == 0 {
		return refused(wrongChallenge)
	}
	if origin, ok := o.Value("origin").Text(); !ok || !slices.Contains(rp.origins, origin) {
		return refused(wrongOrigin)
	}
	if cross, present, ok := o.Bool("crossOrigin"); !ok || present && cross {
		return refused(crossOrigin)
	}
	// It is there only in a frame of another site, and no page of ours may be framed.
	if o.Has("topOrigin") {
		return refused(framed)
	}
	return nil
}

// decode reads base64url in its one form. It is not ok for a value that is missing.
func decode(v web.Value) ([]byte, bool) {
	s, ok := v.Text()
	if !ok {
		return nil, false
	}
	return strict64.Decode(s)
}
