// Package settings encodes the configuration of a guest, the argument of verge_config. Hosts write a [Config]
// as JSON, and a guest reads it with [Read]. wasm/ABI.md describes its fields.
package settings

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/problem"
	"github.com/verge-id/verge/core/setting"
)

// Config is the service's configuration and the settings that only a guest has. Kinds are not encoded,
// because a guest has its own.
type Config struct {
	core.Config

	LogLevel int8 `setting:"log_level" zero:"value"` // the lowest level that is logged, as in abi.LogRecord

	// Keyring is a key ring file, for a guest that seals with its own keys. Without it, the host seals
	// through the imports.
	Keyring json.RawMessage `setting:"keyring"`

	// Host is the host name to which tokens are bound. It is required with Keyring.
	Host string `setting:"host"`

	// KeySet makes the guest compare its Keyring with the set of keys in the store. It is for a host that
	// runs several guests, each of which may have another version of the ring (contract 16). Such a guest
	// reads the set from the store every few seconds, during a request.
	KeySet bool `setting:"key_set"`

	// VerifiesProofs is set by a host with the effect abi.VerifyProof. Without it, a method that asks for
	// zero-knowledge proofs is an error (contract 56).
	VerifiesProofs bool `setting:"verifies_proofs"`
}

// MarshalJSON implements json.Marshaler. The error is a problem.List with the fields that JSON cannot
// express: times of less than a millisecond, and limits that are not per minute.
func (c Config) MarshalJSON() ([]byte, error) { return setting.Marshal(&c) }

// UnmarshalJSON implements json.Unmarshaler.
func (c *Config) UnmarshalJSON(b []byte) error {
	_, err := setting.Unmarshal(b, c)
	return err
}

// Read parses the argument of verge_config. An omitted setting has its default. An unknown field is an
// error, and so is a number that is 0. Errors quote no values.
func Read(b []byte) (c Config, err error) {
	zeros, err := setting.Unmarshal(b, &c)
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return c, fmt.Errorf("abi: the configuration is no JSON at byte %d", syntax.Offset)
	case errors.As(err, &kind):
		return c, fmt.Errorf("abi: the configuration's %s must not be a %s", kind.Field, kind.Value)
	case err == setting.ErrTrailing:
		return c, fmt.Errorf("abi: %w", err)
	case err != nil:
		return c, fmt.Errorf("abi: the configuration cannot be read: %w", err)
	case len(zeros) > 0:
		return c, fmt.Errorf("abi: the configuration's %s must not be 0: give more, or leave it out for the "+
			"default (a negative jitter_percent is none)", strings.Join(zeros, ", "))
	}
	return c, nil
}

// Explain replaces the names of fields in an error of core.New with the names in the configuration's JSON.
func Explain(err error) error {
	wrong, ok := errors.AsType[problem.List](err)
	if !ok {
		return err
	}
	names := map[string]string{}
	for _, s := range setting.Of(new(core.Config)) {
		names[s.Field] = s.Name
	}
	return wrong.Rename(names)
}
