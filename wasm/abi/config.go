package abi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"
)

// Config is what verge_config takes, as JSON. A member that is left out has the contract's value. A
// member that does not exist is refused, and so is a number that is 0 (see zeros).
type Config struct {
	BaseURL       string `json:"base_url"`
	Dev           bool   `json:"dev,omitempty"`
	Test          bool   `json:"test,omitempty"`
	OperatorToken string `json:"operator_token,omitempty"`
	Console       string `json:"console,omitempty"` // which listener has it: public, operators or off
	Partitions    int    `json:"partitions,omitempty"`

	SecurityContact string `json:"security_contact,omitempty"` // of security.txt
	Attempts        int    `json:"attempts,omitempty"`

	PasskeyDays int `json:"passkey_days,omitempty"` // for how many days a user's passkey counts

	OutcomeLife Milliseconds `json:"outcome_life_ms,omitempty"`
	AttemptTime Milliseconds `json:"attempt_time_ms,omitempty"`
	Lease       Milliseconds `json:"lease_ms,omitempty"`

	// The limits are requests a minute.
	PublicPerIP        int `json:"public_per_ip,omitempty"`
	PublicPerKey       int `json:"public_per_key,omitempty"`
	PublicPerNetwork   int `json:"public_per_network,omitempty"`
	StartsPerPublisher int `json:"starts_per_publisher,omitempty"`
	SecretPerIP        int `json:"secret_per_ip,omitempty"`
	ReconcilePerKey    int `json:"reconcile_per_key,omitempty"`

	PreflightsPerIP      int `json:"preflights_per_ip,omitempty"`
	PagesPerIP           int `json:"pages_per_ip,omitempty"`
	BoxesPerIP           int `json:"boxes_per_ip,omitempty"`
	BoxesPerHandle       int `json:"boxes_per_handle,omitempty"`
	FailedOperatorsPerIP int `json:"failed_operators_per_ip,omitempty"`

	// Retries are the waits between webhook attempts. null: the contract's. Empty: no retries.
	Retries       []Milliseconds `json:"retries_ms"`
	JitterPercent int            `json:"jitter_percent,omitempty"` // negative: none

	// Methods are the configured ways to verify.
	Methods []Method `json:"methods,omitempty"`

	LogLevel int8 `json:"log_level,omitempty"` // the lowest level that gets a notice, as in LogRecord

	// Keyring is a key ring file, for a guest that seals by itself. Without it the host seals, through
	// the imports.
	Keyring json.RawMessage `json:"keyring,omitempty"`

	// Host is the host name to which tokens are bound. It is needed with Keyring.
	Host string `json:"host,omitempty"`

	// KeySet makes the guest compare its Keyring with the set of keys in the store. It is for a host
	// that runs several guests, each of which may have another version of the ring (contract 16). Such
	// a guest asks the store for the set every few seconds, during a request.
	KeySet bool `json:"key_set,omitempty"`
}

// Method is a configured way to verify: core/method's Config. Its level, if it has one, is L1 or L2.
type Method struct {
	Name  string `json:"name"`
	Kind  string `json:"kind"`
	Level string `json:"level,omitempty"`
	Title Title  `json:"title,omitempty"`

	Settings json.RawMessage `json:"settings,omitempty"` // the kind's own object

	// Secrets are plain beside a Keyring. Without a Keyring they are sealed (see SealSecrets).
	Secrets map[string]string `json:"secrets,omitempty"`

	Keys []string `json:"keys,omitempty"` // names of the private keys with which the host signs for it
}

// Title is the text for users: a string, which is under the key "", or an object with a text for each
// language.
type Title map[string]string

// MarshalJSON implements json.Marshaler.
func (t Title) MarshalJSON() ([]byte, error) {
	if text, ok := t[""]; ok && len(t) == 1 {
		return json.Marshal(text)
	}
	return json.Marshal(map[string]string(t))
}

// UnmarshalJSON implements json.Unmarshaler.
func (t *Title) UnmarshalJSON(b []byte) error {
	if !bytes.HasPrefix(b, []byte(`"`)) {
		return json.Unmarshal(b, (*map[string]string)(t))
	}
	var text string
	err := json.Unmarshal(b, &text)
	if *t = nil; text != "" {
		*t = Title{"": text}
	}
	return err
}

// Milliseconds is a duration as a number.
type Milliseconds int64

// MillisecondsOf rounds d down.
func MillisecondsOf(d time.Duration) Milliseconds { return Milliseconds(d / time.Millisecond) }

// Duration returns the same time as a time.Duration.
func (ms Milliseconds) Duration() time.Duration { return time.Duration(ms) * time.Millisecond }

// ReadConfig reads the argument of verge_config. Its errors repeat no value of it.
func ReadConfig(b []byte) (Config, error) {
	var c Config
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		var syntax *json.SyntaxError
		var kind *json.UnmarshalTypeError
		switch {
		case errors.As(err, &syntax):
			return c, fmt.Errorf("abi: the configuration is no JSON at byte %d", syntax.Offset)
		case errors.As(err, &kind):
			return c, fmt.Errorf("abi: the configuration's %s must not be a %s", kind.Field, kind.Value)
		}
		return c, fmt.Errorf("abi: the configuration cannot be read: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return c, errors.New("abi: something follows the configuration")
	}
	if names := zeros(b, c); len(names) > 0 {
		return c, fmt.Errorf("abi: the configuration's %s must not be 0: "+
			"give more, or leave it out for the default "+
			"(a negative jitter_percent is none)", strings.Join(names, ", "))
	}
	return c, nil
}

// zeros names the numbers that were written as 0. In a Config 0 means the default, so whoever writes it
// means something else. log_level has another type and may be 0.
func zeros(b []byte, c Config) (names []string) {
	var written map[string]json.RawMessage
	if json.Unmarshal(b, &written) != nil {
		return nil // it has been read without an error before
	}
	v := reflect.ValueOf(c)
	for i := range v.NumField() {
		if kind := v.Field(i).Kind(); kind != reflect.Int && kind != reflect.Int64 || !v.Field(i).IsZero() {
			continue
		}
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		for given, raw := range written { // case does not matter, as in encoding/json
			if strings.EqualFold(given, name) && string(raw) != "null" {
				names = append(names, name)
			}
		}
	}
	return names
}
