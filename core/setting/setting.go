// Package setting encodes a configuration as JSON. A configuration lists its settings, each with its names
// and a pointer to its value; see core.Config.Settings. Use [Marshal] in a host and [Unmarshal] in a guest.
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

// Setting is the declaration of one setting.
type Setting struct {
	Name  string // in JSON, such as outcome_life_ms
	Field string // in Go and in problems, such as OutcomeLife
	Key   string // in the configuration file, such as outcome_life; "" if the file has another form of it

	// Value points to the value. A time.Duration is a number of milliseconds in JSON.
	Value any

	// Standard replaces a zero value. Nil: the package that uses the value has its own default.
	Standard any

	Zero bool // the number 0 is a value, not the default
}

// SetStandards gives each setting that is zero its standard value.
func SetStandards(list []Setting) {
	for _, s := range list {
		if v := reflect.ValueOf(s.Value).Elem(); s.Standard != nil && v.IsZero() {
			v.Set(reflect.ValueOf(s.Standard))
		}
	}
}

// Marshal returns the settings as a JSON object, without those that are zero. The error is a problem.List
// with the fields that JSON cannot express.
func Marshal(list []Setting) ([]byte, error) {
	var wrong problem.List
	out := []byte{'{'}
	for _, s := range list {
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
	var inner *json.MarshalerError
	if errors.As(err, &inner) {
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

// Unmarshal reads what Marshal writes. A setting that is absent keeps its value, and an unknown name is an
// error. zeros are the names of numbers that are 0 where 0 would mean the default.
func Unmarshal(b []byte, list []Setting) (zeros []string, err error) {
	var given map[string]json.RawMessage
	d := json.NewDecoder(bytes.NewReader(b))
	if err := d.Decode(&given); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, ErrTrailing
	}
	for _, s := range list {
		for name, text := range given {
			if !strings.EqualFold(name, s.Name) { // as encoding/json compares them
				continue
			}
			delete(given, name)
			if string(text) == "null" {
				continue
			}
			if err := decode(text, s.Value); err != nil {
				var kind *json.UnmarshalTypeError
				if errors.As(err, &kind) {
					kind.Field = strings.TrimSuffix(s.Name+"."+kind.Field, ".")
				}
				return nil, err
			}
			isNumber := text[0] == '-' || text[0] >= '0' && text[0] <= '9'
			if isNumber && !s.Zero && reflect.ValueOf(s.Value).Elem().IsZero() {
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
