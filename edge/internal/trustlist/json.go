package trustlist

import (
	"bytes"
	"encoding/json"
	"time"
	"unicode/utf8"
)

// errJSON is the error of a text that is not one JSON value without duplicate members.
var errJSON = rejected(Malformed, "it is not JSON in UTF-8 without duplicate members")

// object is a JSON object.
type object map[string]any

// readJSON reads a JSON object. encoding/json accepts duplicate members, and names in another case.
func readJSON(text []byte) (object, *Error) {
	if !utf8.Valid(text) {
		return nil, errJSON
	}
	r := jsonReader{Decoder: json.NewDecoder(bytes.NewReader(text))}
	r.UseNumber()
	value, err := r.value(1)
	if err != nil {
		return nil, err
	}
	o, ok := value.(object)
	if _, err := r.Token(); err == nil || !ok || len(bytes.TrimSpace(text[r.InputOffset():])) > 0 {
		return nil, errJSON
	}
	return o, nil
}

type jsonReader struct {
	*json.Decoder
	values int
}

// value reads the next value, which is at a level.
func (r *jsonReader) value(depth int) (any, *Error) {
	if r.values++; r.values > maxElements || depth > maxDepth {
		return nil, rejected(TooLarge, "it has too many or too deeply nested values")
	}
	token, err := r.Token()
	if err != nil {
		return nil, errJSON
	}
	switch token {
	case json.Delim('{'):
		return r.object(depth)
	case json.Delim('['):
		list := []any{}
		for r.More() {
			element, err := r.value(depth + 1)
			if err != nil {
				return nil, err
			}
			list = append(list, element)
		}
		return list, r.end()
	}
	return token, nil
}

func (r *jsonReader) object(depth int) (any, *Error) {
	o := object{}
	for r.More() {
		token, err := r.Token()
		name, ok := token.(string)
		if err != nil || !ok {
			return nil, errJSON
		}
		if _, twice := o[name]; twice {
			return nil, errJSON
		}
		value, problem := r.value(depth + 1)
		if problem != nil {
			return nil, problem
		}
		o[name] = value
	}
	return o, r.end()
}

// end reads the end of an object or an array.
func (r *jsonReader) end() *Error {
	if _, err := r.Token(); err != nil {
		return errJSON
	}
	return nil
}

// text returns a member that is a string. It is not ok if it is missing.
func (o object) text(name string) (text string, ok bool) {
	text, ok = o[name].(string)
	return text, ok
}

// object returns a member that is an object.
func (o object) object(name string) (member object, ok bool) {
	member, ok = o[name].(object)
	return member, ok
}

// objects returns the elements of a member that is an array of objects. A missing member is an empty one.
func (o object) objects(name string) (members []object, ok bool) {
	value, present := o[name]
	if !present {
		return nil, true
	}
	list, ok := value.([]any)
	if !ok {
		return nil, false
	}
	for _, v := range list {
		member, ok := v.(object)
		if !ok {
			return nil, false
		}
		members = append(members, member)
	}
	return members, true
}

// texts returns the elements of a member that is an array of strings.
func (o object) texts(name string) (texts []string, ok bool) {
	list, ok := o[name].([]any)
	if !ok {
		return nil, false
	}
	for _, v := range list {
		text, ok := v.(string)
		if !ok {
			return nil, false
		}
		texts = append(texts, text)
	}
	return texts, true
}

// seconds returns the time of a number of seconds since 1970.
func seconds(value any) (t time.Time, ok bool) {
	number, ok := value.(json.Number)
	if !ok {
		return t, false
	}
	n, err := number.Int64()
	return time.Unix(n, 0), err == nil
}
