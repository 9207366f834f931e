package method

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"strings"
)

// plain is a Config without its methods.
type plain Config

// configJSON is the JSON of a Config.
type configJSON struct {
	plain
	Title title `json:"title,omitempty"`
}

// MarshalJSON implements json.Marshaler. Secrets are in the result.
func (c Config) MarshalJSON() ([]byte, error) {
	all := maps.Clone(title(c.Titles))
	if c.Title != "" {
		if all == nil {
			all = title{}
		}
		all[""] = c.Title
	}
	return json.Marshal(configJSON{plain(c), all})
}

// UnmarshalJSON implements json.Unmarshaler. An unknown field is an error.
func (c *Config) UnmarshalJSON(b []byte) error {
	var read configJSON
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&read); err != nil {
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			wrong.Field = strings.TrimPrefix(wrong.Field, "plain.")
		}
		return err
	}
	*c = Config(read.plain)
	c.Title = read.Title[""]
	if delete(read.Title, ""); len(read.Title) > 0 {
		c.Titles = read.Title
	}
	return nil
}

// title is a text under the key "", or a text for each language. The former is a string in JSON.
type title map[string]string

// MarshalJSON implements json.Marshaler.
func (t title) MarshalJSON() ([]byte, error) {
	if text, ok := t[""]; ok && len(t) == 1 {
		return json.Marshal(text)
	}
	return json.Marshal(map[string]string(t))
}

// UnmarshalJSON implements json.Unmarshaler.
func (t *title) UnmarshalJSON(b []byte) error {
	if !bytes.HasPrefix(b, []byte(`"`)) {
		return json.Unmarshal(b, (*map[string]string)(t))
	}
	var text string
	err := json.Unmarshal(b, &text)
	if *t = nil; text != "" {
		*t = title{"": text}
	}
	return err
}
