// Package passkeytest is a browser with its authenticator, for tests of code that accepts passkeys.
//
// An Authenticator reads options as a page gets them and returns responses like PublicKeyCredential.toJSON.
// By default they are valid. For an invalid response, a test changes the Ceremony before it is signed, or the
// Answer after:
//
//	a := passkeytest.New("https://verify.example")
//	answer, err := a.Get(options, func(c *passkeytest.Ceremony) { c.Origin = "https://evil.example" })
//
// It shares no code with core/internal/webauthn, so that the two cannot have the same error. Both use
// core/cbor.
package passkeytest

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/verge-id/verge/core/cbor"
)

// Flags of authenticator data.
const (
	UserPresent    byte = 0x01
	UserVerified   byte = 0x04
	BackupEligible byte = 0x08
	BackedUp       byte = 0x10
	Attested       byte = 0x40
	Extensions     byte = 0x80
)

// Authenticator holds passkeys and the browser's place.
type Authenticator struct {
	Origin    string // of the page that asks
	Algorithm int64  // of new passkeys; one of ES256, EdDSA and RS256
	Flags     byte   // of each response, without Attested
	Counts    bool   // whether it counts signatures; otherwise the counter is always zero
	Passkeys  []*Passkey

	// Random is the source of ids and of EdDSA keys, so that a test can repeat them. Nil: crypto/rand.
	Random io.Reader
}

// Passkey is one credential.
type Passkey struct {
	ID         []byte
	RPID       string
	UserHandle []byte
	Counter    uint32 // of the last answer
	Key        key
}

// New returns an authenticator as phones have one: ES256, and passkeys that are backed up and not counted.
func New(origin string) *Authenticator {
	return &Authenticator{
		Origin: origin, Algorithm: ES256, Flags: UserPresent | UserVerified | BackupEligible | BackedUp,
	}
}

// Ceremony is the content of a response before it is signed.
type Ceremony struct {
	// The browser's part.
	Type, Challenge, Origin string
	CrossOrigin             bool
	Members                 string // more members of the client data, each with a comma before it

	// The authenticator's part.
	RPID       string
	Flags      byte
	Counter    uint32
	AAGUID     [16]byte
	ID         []byte
	PublicKey  []byte // in COSE
	Extensions []byte // in CBOR; the flag is for the test to set
	Behind     []byte // data after all other parts
	Format     string
	Statement  cbor.Item
	UserHandle []byte
}

// Create creates a passkey, like navigator.credentials.create.
func (a *Authenticator) Create(options []byte, changes ...func(*Ceremony)) (Answer, error) {
	var o struct {
		RP, User   struct{ ID string }
		Challenge  string
		Parameters []struct {
			Type string
			Alg  int64
		} `json:"pubKeyCredParams"`
		Exclude []struct{ ID string } `json:"excludeCredentials"`
	}
	if err := json.Unmarshal(options, &o); err != nil {
		return Answer{}, fmt.Errorf("passkeytest: the options: %w", err)
	}
	asked := false
	for _, p := range o.Parameters {
		asked = asked || p.Type == "public-key" && p.Alg == a.Algorithm
	}
	if !asked {
		return Answer{}, fmt.Errorf("passkeytest: the options do not ask for the algorithm %d", a.Algorithm)
	}
	for _, e := range o.Exclude {
		if a.find(o.RP.ID, e.ID) != nil {
			return Answer{}, errors.New("passkeytest: the authenticator has an excluded passkey")
		}
	}
	handle, err := base64.RawURLEncoding.DecodeString(o.User.ID)
	if err != nil {
		return Answer{}, fmt.Errorf("passkeytest: the user's id: %w", err)
	}
	random := a.Random
	if random == nil {
		random = rand.Reader
	}
	key, err := newKey(a.Algorithm, random)
	if err != nil {
		return Answer{}, err
	}
	p := &Passkey{ID: randomID(random), RPID: o.RP.ID, UserHandle: handle, Key: key}
	a.Passkeys = append(a.Passkeys, p)

	c := Ceremony{
		Type: "webauthn.create", Challenge: o.Challenge, Origin: a.Origin,
		RPID: p.RPID, Flags: a.Flags | Attested, ID: p.ID, PublicKey: key.Public(),
		Format: "none", Statement: cbor.Map(),
	}
	for _, change := range changes {
		change(&c)
	}
	attested := append(c.AAGUID[:], binary.BigEndian.AppendUint16(nil, uint16(len(c.ID)))...)
	data := c.authenticatorData(slices.Concat(attested, c.ID, c.PublicKey))
	return Answer{ID: c.ID, ClientData: c.clientData(), AuthenticatorData: data, Attestation: cbor.Map(
		cbor.Pair{Key: cbor.Text("fmt"), Value: cbor.Text(c.Format)},
		cbor.Pair{Key: cbor.Text("attStmt"), Value: c.Statement},
		cbor.Pair{Key: cbor.Text("authData"), Value: cbor.Bytes(data)},
	).Raw()}, nil
}

// Get uses a passkey, as navigator.credentials.get does: the last one made, of those that the options allow.
func (a *Authenticator) Get(options []byte, changes ...func(*Ceremony)) (Answer, error) {
	var o struct {
		Challenge, RPID string
		Allow           []struct{ ID string } `json:"allowCredentials"`
	}
	if err := json.Unmarshal(options, &o); err != nil {
		return Answer{}, fmt.Errorf("passkeytest: the options: %w", err)
	}
	var p *Passkey
	if len(o.Allow) == 0 {
		p = a.find(o.RPID, "")
	}
	for _, d := range o.Allow {
		if found := a.find(o.RPID, d.ID); found != nil {
			p = found
		}
	}
	if p == nil {
		return Answer{}, fmt.Errorf("passkeytest: there is no passkey of %q that the options allow", o.RPID)
	}
	if a.Counts {
		p.Counter++
	}

	c := Ceremony{
		Type: "webauthn.get", Challenge: o.Challenge, Origin: a.Origin,
		RPID: p.RPID, Flags: a.Flags, Counter: p.Counter, ID: p.ID, UserHandle: p.UserHandle,
	}
	for _, change := range changes {
		change(&c)
	}
	answer := Answer{
		ID: c.ID, ClientData: c.clientData(), AuthenticatorData: c.authenticatorData(nil),
		UserHandle: c.UserHandle,
	}
	return answer, answer.Sign(p.Key)
}

// find returns the last passkey of a relying party that has an id, or any id if it is "".
func (a *Authenticator) find(rpID, id string) *Passkey {
	for _, p := range slices.Backward(a.Passkeys) {
		if p.RPID == rpID && (id == "" || encode(p.ID) == id) {
			return p
		}
	}
	return nil
}

func (c *Ceremony) clientData() []byte {
	return fmt.Appendf(nil, `{"type":%s,"challenge":%s,"origin":%s,"crossOrigin":%v%s}`,
		quote(c.Type), quote(c.Challenge), quote(c.Origin), c.CrossOrigin, c.Members)
}

func (c *Ceremony) authenticatorData(attested []byte) []byte {
	hash := sha256.Sum256([]byte(c.RPID))
	b := binary.BigEndian.AppendUint32(append(hash[:], c.Flags), c.Counter)
	return slices.Concat(b, attested, c.Extensions, c.Behind)
}

// Answer is the response that the page sends back.
type Answer struct {
	ID                []byte
	ClientData        []byte
	AuthenticatorData []byte
	Attestation       []byte // of Create
	Signature         []byte // of Get
	UserHandle        []byte // of Get
}

// Sign signs the response in its present state.
func (a *Answer) Sign(key key) (err error) {
	hash := sha256.Sum256(a.ClientData)
	a.Signature, err = key.Sign(slices.Concat(a.AuthenticatorData, hash[:]))
	return err
}

// JSON returns the response in the form of PublicKeyCredential.toJSON.
func (a Answer) JSON() []byte {
	response := map[string]any{
		"clientDataJSON": encode(a.ClientData), "authenticatorData": encode(a.AuthenticatorData),
	}
	if a.Attestation != nil {
		response["attestationObject"] = encode(a.Attestation)
		response["transports"] = []string{"internal"}
	} else {
		response["signature"] = encode(a.Signature)
	}
	if len(a.UserHandle) > 0 {
		response["userHandle"] = encode(a.UserHandle)
	}
	b, err := json.Marshal(map[string]any{
		"id": encode(a.ID), "rawId": encode(a.ID), "type": "public-key", "response": response,
		"authenticatorAttachment": "platform", "clientExtensionResults": map[string]any{},
	})
	if err != nil {
		panic(err) // there is nothing in it that cannot be written
	}
	return b
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func quote(s string) []byte {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // every string marshals
	}
	return b
}
