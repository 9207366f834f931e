package strictjson

import "strconv"

// Names returns the names of the fields in their order, including null fields.
func (o Object) Names() []string {
	names := make([]string, len(o.members))
	for i, m := range o.members {
		names[i] = m.name
	}
	return names
}

// Number returns a number field. present is true if the field is present and not null. ok is false if it is
// present and is not a number, or is larger than a float64 can be. JSON has no NaN and no infinity, so an ok
// number is finite.
func (o Object) Number(name string) (value float64, present, ok bool) {
	raw := o.raw(name)
	if raw == "" {
		return 0, false, true
	}
	if raw[0] != '-' && !isDigit(raw[0]) {
		return 0, true, false
	}
	n, err := strconv.ParseFloat(raw, 64)
	if err != nil {
		return 0, true, false
	}
	return n, true, true
}

// Bool returns a field that is true or false. present is true if the field is present and not null. ok is
// false if it is present and has another type, such as the text "true".
func (o Object) Bool(name string) (value, present, ok bool) {
	switch o.raw(name) {
	case "":
		return false, false, true
	case "true":
		return true, true, true
	case "false":
		return false, true, true
	}
	return false, true, false
}

// Object returns a field that is an object. present is true if the field is present and not null. ok is false
// if it is present and not an object.
func (o Object) Object(name string) (value Object, present, ok bool) {
	raw := o.raw(name)
	if raw == "" {
		return Object{}, false, true
	}
	if raw[0] != '{' {
		return Object{}, true, false
	}
	s := scanner{text: raw, foreign: o.foreign}
	members, err := s.object(1)
	if err != nil { // it has been read before, as a part of o
		return Object{}, true, false
	}
	return Object{members, o.foreign}, true, true
}

// Raw returns the text of a field's value as in the JSON, or "" if the field is absent or null. It is for
// objects of Read.
func (o Object) Raw(name string) string { return o.raw(name) }
