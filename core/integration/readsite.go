package integration

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"

	"github.com/verge-id/verge/core/problem"
)

// ReadSite reads a Site. Unknown fields are rejected; errors repeat no value. If values have a wrong type,
// the error is a problem.List of them, and the Site lacks only these.
func ReadSite(b []byte) (Site, error) {
	var raw struct {
		Publishers   []json.RawMessage `json:"publishers"`
		Integrations []json.RawMessage `json:"integrations"`
	}
	var wrong problem.List
	if err := readMembers("", b, &raw, &wrong); err != nil {
		return Site{}, err
	}
	var s Site
	for n, text := range raw.Publishers {
		var p SitePublisher
		if err := readMembers(fmt.Sprintf("publishers.%d", n), text, &p, &wrong); err != nil {
			return Site{}, err
		}
		s.Publishers = append(s.Publishers, p)
	}
	for n, text := range raw.Integrations {
		var i SiteIntegration
		if err := readMembers(fmt.Sprintf("integrations.%d", n), text, &i, &wrong); err != nil {
			return Site{}, err
		}
		s.Integrations = append(s.Integrations, i)
	}
	return s, wrong.Err()
}

// readMembers reads an object into v, without the members that are of a wrong type. It adds these to wrong.
// The decoder reports only the first, so readMembers reads again without that one until all are found.
func readMembers[T any](member string, text []byte, v *T, wrong *problem.List) error {
	for {
		err := decodeOnly(text, v)
		kind, ok := errors.AsType[*json.UnmarshalTypeError](err)
		if !ok {
			return err
		}
		name := strings.TrimPrefix(member+"."+kind.Field, ".")
		wrong.Add(strings.TrimSuffix(name, "."), "must not be a %s", kind.Value)
		first, _, _ := strings.Cut(kind.Field, ".")
		var all map[string]json.RawMessage
		if json.Unmarshal(text, &all) != nil {
			return nil // the value is no object, which wrong says
		}
		n := len(all)
		maps.DeleteFunc(all, func(name string, _ json.RawMessage) bool {
			return strings.EqualFold(name, first) // as the decoder compares them
		})
		if len(all) == n {
			return err
		}
		if text, err = json.Marshal(all); err != nil {
			return err
		}
		*v = *new(T)
	}
}

// decodeOnly reads one JSON value that has no members that v lacks.
func decodeOnly(text []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	err := d.Decode(v)
	var kind *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &kind):
		return err
	case errors.As(err, &syntax):
		return fmt.Errorf("site: no JSON at byte %d", syntax.Offset)
	case err != nil:
		return fmt.Errorf("site: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("site: something follows it")
	}
	return nil
}
