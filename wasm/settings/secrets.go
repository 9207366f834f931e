package settings

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/verge-id/verge/core/host"
)

// secret is the data that a host seals for a guest. It includes the method and the secret's name, so that
// one secret never opens as another.
type secret struct {
	Method string `json:"method"`
	Name   string `json:"name"`
	Secret string `json:"secret"`
}

// SealSecrets returns the configuration with the secrets of its methods sealed, for a guest whose host
// seals. A reader of the configuration then cannot read the secrets. A configuration with a Keyring is
// returned unchanged: the keys would be next to the sealed data.
//
// The host seals them again for each guest that it starts, because a ring drops keys with time.
func SealSecrets(c Config, s host.Sealer) (Config, error) {
	return eachSecret(c, func(method, name, plain string) (string, error) {
		claims, err := json.Marshal(secret{method, name, plain})
		if err != nil {
			return "", err
		}
		sealed, err := s.Seal(host.MethodSecret, claims)
		return base64.RawURLEncoding.EncodeToString(sealed), err
	})
}

// OpenSecrets is the reverse of SealSecrets, for the guest. Its errors name the method and the secret, and
// quote no values.
func OpenSecrets(c Config, s host.Sealer) (Config, error) {
	return eachSecret(c, func(method, name, text string) (string, error) {
		sealed, err := base64.RawURLEncoding.Strict().DecodeString(text)
		if err != nil {
			return "", host.ErrNotAuthentic
		}
		// The host has just sealed it, so the date of its key does not matter.
		claims, _, err := s.Open(host.MethodSecret, sealed)
		if err != nil {
			return "", err
		}
		var v secret
		if json.Unmarshal(claims, &v) != nil || v.Method != method || v.Name != name {
			return "", errors.New("it was sealed for another method or name")
		}
		return v.Secret, nil
	})
}

func eachSecret(c Config, change func(method, name, value string) (string, error)) (Config, error) {
	if len(c.Keyring) > 0 {
		return c, nil
	}
	c.Methods = slices.Clone(c.Methods)
	for i, m := range c.Methods {
		secrets := maps.Clone(m.Secrets)
		for name, value := range secrets {
			changed, err := change(m.Name, name, value)
			if err != nil {
				return Config{}, fmt.Errorf("abi: methods.%s.secrets.%s: %w", m.Name, name, err)
			}
			secrets[name] = changed
		}
		c.Methods[i].Secrets = secrets
	}
	return c, nil
}
