// Package setting reads the declarations of a configuration, and encodes it as JSON. A configuration is a
// struct. The tags of its fields declare the settings:
//
//	Attempts int `setting:"attempts" toml:"attempts" default:"3"`
//
// The tag setting is the name in JSON. default is the value instead of a zero one. toml is the name in the
// configuration file; without it, the file has another form of the setting. zero:"value" marks a number
// whose 0 is not the default. A struct without the tag setting is a part: its settings belong to the whole,
// and its tag toml is the table in which the file has them by their names in JSON.
//
// A time.Duration is a number of milliseconds in JSON, and has no tag default. Use [Marshal] in a host and
// [Unmarshal] in a guest.
package setting

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"strings"
	"time"

	"github.com/verge-id/verge/core/problem"
)

// setting is a declared setting of a configuration.
type setting struct {
	Name  string // in JSON, such as outcome_life_ms
	Field string // in Go and in problems, such as OutcomeLife or Limits.PagesPerIP
	Key   string // in the configuration file, such as outcome_life; "" if the file has another form of it
	Value any    // points to the value

	standard string
	zero     bool
}

// Of returns the settings of the struct that config points to, in the order of its fields.
func Of(config any) []setting { return of(reflect.ValueOf(config).Elem(), "", "") }

func of(v reflect.Value, fields, table string) (all []setting) {
	for n := range v.NumField() {
		f := v.Type().Field(n)
		name, declared := f.Tag.Lookup("setting")
		switch {
		case declared:
			s := setting{Name: name, Field: fields + f.Name, Key: f.Tag.Get("toml"),
				Value: v.Field(n).Addr().Interface(), standard: f.Tag.Get("default"),
				zero: f.Tag.Get("zero") != ""}
			if table != "" {
				s.Key = table + "." + name
			}
			all = append(all, s)
		case f.Anonymous:
			all = append(all, of(v.Field(n), fields, table)...)
		case f.Type.Kind() == reflect.Struct:
			all = append(all, of(v.Field(n), f.Name+".", f.Tag.Get("toml"))...)
		}
	}
	return all
}

// SetDefaults sets each setting of the struct that config points to that is zero and has a default.
func SetDefaults(config any) {
	for _, s := range Of(config) {
		if s.standard == "" || !reflect.ValueOf(s.Value).Elem().IsZero() {
			continue
		}
		if text, ok := s.Value.(*string); ok {
			*text = s.standard
		} else if err := json.Unmarshal([]byte(s.standard), s.Value); err != nil {
			panic(fmt.Sprintf("setting: the default of %s: %v", s.Field, err)) // only for a wrong declaration
		}
	}
}

// Marshal returns the settings of the struct that config points to as a JSON object, without those that are
// zero. The error is a problem.List with the fields that JSON cannot express.
func Marshal(config any) ([]byte, error) {
	var wrong problem.List
	out := []byte{'{'}
	for _, s := range Of(config) {
		text, err := encode(s.Value)
		if err != nil || len(text) == 0 {
			wrong.AddError(s.Field, err)
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(append(out, '"'), s.Name...), '"', ':'), text...)
	}
	return append(out, '}'), wrong.Err()
}

// encode returns the JSON of the value that v points to, or nothing if the value is empty.
func encode(v any) ([]byte, error) {
	switch v := v.(type) {
	case *time.Duration:
		if *v == 0 {
			return nil, nil
		}
		return milliseconds(nil, *v)
	case *[]time.Duration:
		if *v == nil {
			return []byte("null"), nil // the default; an empty list is a value
		}
		out := []byte{'['}
		for n, d := range *v {
			if n > 0 {
				out = append(out, ',')
			}
			var err error
			if out, err = milliseconds(out, d); err != nil {
				return nil, err
			}
		}
		return append(out, ']'), nil
	}
	value := reflect.ValueOf(v).Elem()
	if value.IsZero() || value.Kind() == reflect.Slice && value.Len() == 0 {
		return nil, nil
	}
	text, err := json.Marshal(v)
	if inner, ok := errors.AsType[*json.MarshalerError](err); ok {
		err = inner.Err
	}
	return text, err
}

func milliseconds(out []byte, d time.Duration) ([]byte, error) {
	if d%time.Millisecond != 0 {
		return nil, fmt.Errorf("%s is not a whole number of milliseconds, in which a guest counts", d)
	}
	return fmt.Append(out, d.Milliseconds()), nil
}

// ErrTrailing reports that something follows the JSON object.
var ErrTrailing = errors.New("something follows the configuration")

// Unmarshal reads the output of Marshal into the struct that config points to. A setting that is absent
// keeps its value, and an unknown name is an error. zeros are the names of numbers that are 0 where 0 would
// mean the default.
func Unmarshal(b []byte, config any) (zeros []string, err error) {
	var given map[string]json.RawMessage
	d := json.NewDecoder(bytes.NewReader(b))
	if err := d.Decode(&given); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, ErrTrailing
	}
	for _, s := range Of(config) {
		for name, text := range given {
			if !strings.EqualFold(name, s.Name) { // as encoding/json compares them
				continue
			}
			delete(given, name)
			if string(text) == "null" {
				continue
			}
			if err := decode(text, s.Value); err != nil {
				if kind, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
					kind.Field = strings.TrimSuffix(s.Name+"."+kind.Field, ".")
				}
				return nil, err
			}
			isNumber := text[0] == '-' || text[0] >= '0' && text[0] <= '9'
			if isNumber && !s.zero && reflect.ValueOf(s.Value).Elem().IsZero() {
				zeros = append(zeros, s.Name)
			}
		}
	}
	for name := range given {
		return nil, fmt.Errorf("json: unknown field %q", name)
	}
	return zeros, nil
}

// errRange reports a duration that does not fit.
var errRange = errors.New("it has more milliseconds than a duration can have")

// decode reads text into the value that v points to.
func decode(text []byte, v any) error {
	switch v := v.(type) {
	case *time.Duration:
		var ms int64
		if err := json.Unmarshal(text, &ms); err != nil {
			return err
		}
		return setMilliseconds(v, ms)
	case *[]time.Duration:
		var all []int64
		if err := json.Unmarshal(text, &all); err != nil {
			return err
		}
		*v = make([]time.Duration, len(all))
		for n, ms := range all {
			if err := setMilliseconds(&(*v)[n], ms); err != nil {
				return err
			}
		}
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	return d.Decode(v)
}

func setMilliseconds(d *time.Duration, ms int64) error {
	if most := int64(math.MaxInt64 / time.Millisecond); ms > most || ms < -most {
		return errRange
	}
	*d = time.Duration(ms) * time.Millisecond
	return nil
}
