package webauthn

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
)

// Algorithms of COSE, in our order of preference: every authenticator supports ES256.
const (
	es256 = -7
	edDSA = -8
	rs256 = -257
)

// minChallenge is the minimum length of a challenge in bytes. Callers use 32.
const minChallenge = 16

// timeout is the time that a browser gives its user, in milliseconds.
const timeout = 5 * 60 * 1000

// User is the user of a new passkey.
type User struct {
	// Handle is 1 to 64 bytes that identify the user. It must not be a name or an address: authenticators
	// show it to anyone who has the device.
	Handle []byte

	// Name and DisplayName are shown to users who choose among their passkeys. DisplayName may be empty.
	Name, DisplayName string
}

type partyEntity struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

type userEntity struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	DisplayName string `json:"displayName"` // browsers require it even if it is empty
}

type parameter struct {
	Type string `json:"type"`
	Alg  int    `json:"alg"`
}

type descriptor struct {
	Type string `json:"type"`
	ID   string `json:"id"`
}

type selection struct {
	ResidentKey        string `json:"residentKey"`
	RequireResidentKey bool   `json:"requireResidentKey"` // Level 1 reads this instead of residentKey
	UserVerification   string `json:"userVerification"`
}

// CreationOptions returns the PublicKeyCredentialCreationOptionsJSON for a new passkey of user. exclude lists
// the ids of the user's passkeys: an authenticator that holds one of them creates no other.
func CreationOptions(rp RelyingParty, challenge []byte, user User, exclude [][]byte) ([]byte, error) {
	if err := usable(rp, challenge); err != nil {
		return nil, err
	}
	if n := len(user.Handle); n < 1 || n > 64 || user.Name == "" {
		return nil, fmt.Errorf("webauthn: a user needs a name, and a handle of 1 to 64 bytes, not %d", n)
	}
	return json.Marshal(struct {
		RP          partyEntity  `json:"rp"`
		User        userEntity   `json:"user"`
		Challenge   string       `json:"challenge"`
		Parameters  []parameter  `json:"pubKeyCredParams"`
		Timeout     int          `json:"timeout"`
		Exclude     []descriptor `json:"excludeCredentials"`
		Selection   selection    `json:"authenticatorSelection"`
		Attestation string       `json:"attestation"`
	}{
		partyEntity{rp.id, rp.name},
		userEntity{encode(user.Handle), user.Name, user.DisplayName},
		encode(challenge),
		[]parameter{{"public-key", es256}, {"public-key", edDSA}, {"public-key", rs256}},
		timeout, descriptors(exclude), selection{"required", true, "required"}, "none",
	})
}

// RequestOptions returns the PublicKeyCredentialRequestOptionsJSON to request a passkey. The user
// chooses among all their passkeys of this relying party.
func RequestOptions(rp RelyingParty, challenge []byte) ([]byte, error) {
	if err := usable(rp, challenge); err != nil {
		return nil, err
	}
	return json.Marshal(struct {
		Challenge    string       `json:"challenge"`
		Timeout      int          `json:"timeout"`
		ID           string       `json:"rpId"`
		Allow        []descriptor `json:"allowCredentials"`
		Verification string       `json:"userVerification"`
	}{encode(challenge), timeout, rp.id, descriptors(nil), "required"})
}

func usable(rp RelyingParty, challenge []byte) error {
	if rp.id == "" {
		return fmt.Errorf("webauthn: the relying party is zero; make it with NewRelyingParty")
	}
	if len(challenge) < minChallenge {
		return fmt.Errorf("webauthn: a challenge of %d bytes can be guessed; use 32 random ones",
			len(challenge))
	}
	return nil
}

func descriptors(ids [][]byte) []descriptor {
	all := make([]descriptor, len(ids)) // never null in JSON
	for i, id := range ids {
		all[i] = descriptor{"public-key", encode(id)}
	}
	return all
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }
