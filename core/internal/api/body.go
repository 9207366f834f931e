package api

import (
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/verge-id/verge/core/internal/strictjson"
	"github.com/verge-id/verge/core/web"
)

// fields reads the fields of a request body. It collects all field errors, so that one response lists them.
type fields struct {
	object strictjson.Object
	bad    []web.FieldError
}

// body reads the request's body as fields (contract 3).
func (c *call) body() (*fields, error) {
	if err := c.CheckSize(); err != nil {
		return nil, err
	}
	if !c.TakenAsJSON() {
		return nil, &web.Error{Code: web.UnsupportedMediaType,
			Message: "Send the body as application/json."}
	}
	object, err := strictjson.Read(c.Body)
	if err != nil {
		syntax, ok := errors.AsType[*strictjson.SyntaxError](err)
		if !ok {
			return nil, err
		}
		return nil, &web.Error{Code: web.InvalidRequest, Message: "The " + syntax.Error() + ".",
			Details: []web.FieldError{{Field: "", Code: detailFormat,
				Message: strings.ToUpper(syntax.Problem[:1]) + syntax.Problem[1:] + "."}}}
	}
	return &fields{object: object}, nil
}

// Codes of a field error.
const (
	detailRequired = "required"
	detailType     = "type"
	detailFormat   = "format"
	detailLength   = "length"
	detailValue    = "value"
	detailConflict = "conflict"
)

func (f *fields) fail(field, code, message string) {
	f.bad = append(f.bad, web.FieldError{Field: field, Code: code, Message: message})
}

// err returns the error that names every bad field, or nil.
func (f *fields) err() error {
	if len(f.bad) == 0 {
		return nil
	}
	names := make([]string, len(f.bad))
	for i, d := range f.bad {
		names[i] = d.Field
	}
	return &web.Error{Code: web.InvalidRequest, Details: f.bad,
		Message: "The request is not valid: " + strings.Join(names, ", ") + "."}
}

// text returns a string field; nil if it is absent or not a string.
func (f *fields) text(name string) *string {
	v, _ := f.member(name)
	return v
}

func (f *fields) member(name string) (v *string, present bool) {
	text, present, ok := f.object.String(name)
	if !present {
		return nil, false
	}
	if !ok {
		f.fail(name, detailType, "Must be a string.")
		return nil, true
	}
	given := text // allocates only if the field is present
	return &given, true
}

// required is text for a required field.
func (f *fields) required(name string) *string {
	v, present := f.member(name)
	if !present {
		f.fail(name, detailRequired, "Is missing.")
	}
	return v
}

// free returns a free text: any Unicode except control characters, at most max bytes (contract 8).
func (f *fields) free(name string, max int) *string {
	v := f.text(name)
	switch {
	case v == nil:
	case len(*v) > max:
		f.fail(name, detailLength, "Is too long.")
	case hasControl(*v):
		f.fail(name, detailValue, "Must not contain control characters.")
	}
	return v
}

// hasControl reports whether s contains a character for which unicode.IsControl is true.
func hasControl(s string) bool {
	for _, r := range s {
		if r < ' ' || 0x7f <= r && r < 0xa0 {
			return true
		}
	}
	return false
}

// printable reports whether s is 1 to max printable ASCII characters.
func printable(s string, max int) bool {
	return len(s) > 0 && len(s) <= max &&
		!strings.ContainsFunc(s, func(r rune) bool { return r < 0x20 || r > 0x7e || r == utf8.RuneError })
}
