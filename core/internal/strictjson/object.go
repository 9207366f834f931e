package strictjson

// Names returns the names of the fields in their order, including null fields.
func (o Object) Names() []string {
	names := make([]string, len(o.members))
	for i, m := range o.members {
		names[i] = m.name
	}
	return names
}

// String returns the top-level field of exactly that name. ok is false only if the field is present and its
// value is neither a string nor null. For a field that is absent or null, String returns ("", false, true)
// (contract 3). The other methods for fields of a type return the same.
func (o Object) String(name string) (value string, present, ok bool) {
	v := o.Value(name)
	value, ok = v.Text()
	return value, v.Present(), ok || !v.Present()
}

// Integer returns an integer field. It is not ok if it is not an integer of 64 bits; a number with a fraction
// or an exponent is not.
func (o Object) Integer(name string) (value int64, present, ok bool) {
	v := o.Value(name)
	value, ok = v.Integer()
	return value, v.Present(), ok || !v.Present()
}

// Number returns a number field. It is not ok if it is larger than a float64 can be. JSON has no NaN and no
// infinity, so an ok number is finite.
func (o Object) Number(name string) (value float64, present, ok bool) {
	v := o.Value(name)
	value, ok = v.Number()
	return value, v.Present(), ok || !v.Present()
}

// Bool returns a field that is true or false. It is not ok if it has another type, such as the text "true".
func (o Object) Bool(name string) (value, present, ok bool) {
	v := o.Value(name)
	value, ok = v.Bool()
	return value, v.Present(), ok || !v.Present()
}

// Object returns a field that is an object.
func (o Object) Object(name string) (value Object, present, ok bool) {
	v := o.Value(name)
	value, ok = v.Object()
	return value, v.Present(), ok || !v.Present()
}

// Raw returns the text of a field's value as in the JSON, or "" if the field is absent or null. It is for
// objects of Read.
func (o Object) Raw(name string) string { return o.raw(name) }
