// Package verdict has the basis of a verdict: the method's settings and the trust of that time. The core
// stores the basis with each verdict that is used later: a response that waits for its browser, a verdict of
// a phone, the outcome of a session, and a passkey. Each later use compares the basis with the settings and
// the trust of that time.
package verdict

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
)

// Basis has the settings and the trust of a verdict. The zero Basis belongs to no verdict, so it never holds.
type Basis struct {
	Method string `json:"method"` // its name
	Kind   string `json:"kind,omitempty"`

	Fingerprint string `json:"fingerprint,omitempty"` // of the method's settings
	Trust       string `json:"trust,omitempty"`       // the trust anchor that a proof led to, if there are several
	Settings    string `json:"settings,omitempty"`    // Settings of the integration's own

	Level string `json:"level"` // of the session: L1 or L2

	// The age that an estimate was compared with, or that a proof was requested for. An approval can have
	// proven more. The age that does not apply is 0.
	ChallengeAge int `json:"challenge_age,omitempty"`
	MinimumAge   int `json:"minimum_age,omitempty"`
}

// Lacks returns the integration's setting that makes an approval on this basis too little where now is asked
// for: another level or other settings, or a higher age. It returns "" if the approval is enough. The method
// is compared by method.Opened.
func (b Basis) Lacks(now Basis) string {
	switch {
	case b.Level < now.Level:
		return "level"
	case b.ChallengeAge < now.ChallengeAge:
		return "challenge_age"
	case b.MinimumAge < now.MinimumAge:
		return "minimum_age"
	case now.Settings != "" && now.Settings != b.Settings:
		return "method_settings"
	}
	return ""
}

// Digest returns a short digest of texts. Different lists of texts have different digests.
func Digest(texts ...string) string {
	var all []byte
	for _, text := range texts {
		all = append(binary.BigEndian.AppendUint32(all, uint32(len(text))), text...)
	}
	sum := sha256.Sum256(all)
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

// Settings returns the digest of an integration's own settings for a method. It is "" without settings.
func Settings(own json.RawMessage) string {
	if len(own) == 0 || string(own) == "{}" || string(own) == "null" {
		return ""
	}
	sum := sha256.Sum256(own)
	return base64.RawURLEncoding.EncodeToString(sum[:9])
}
