package operate

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/verge-id/verge/core/internal/strictjson"
	"github.com/verge-id/verge/core/internal/timestamp"
	"github.com/verge-id/verge/core/web"
)

// reader reads the input of an endpoint from a request.
type reader struct {
	Request
	get    bool               // the method is GET: no input is in the body
	parsed *strictjson.Object // the body; nil: not read yet

	// misread has an error for each field of the body that cannot be read. The operation returns them with
	// the errors of the other fields, see Operations.WithMisread.
	misread []web.FieldError

	err error // the first error that ends the request before the operation
}

func (r *reader) end(e error) {
	if r.err == nil {
		r.err = e
	}
}

// isSet reports whether a parameter of the query is 1 or true. Any other text ends the request: a program
// that writes True expects a dry run.
func (r *reader) isSet(name string) bool {
	switch r.Query.Get(name) {
	case "1", "true":
		return true
	case "0", "false":
		return false
	}
	if r.Query.Has(name) {
		r.end(errInvalid(web.FieldError{Field: name, Code: "value", Message: "Must be 1 or true."}))
	}
	return false
}

// limit reads the size of a page. 0 is the default.
func (r *reader) limit(name string) int {
	text := r.Query.Get(name)
	if text == "" {
		return 0
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > MaxLimit {
		r.end(errInvalid(web.FieldError{Field: name, Code: "value",
			Message: "Must be a number from 1 to " + strconv.Itoa(MaxLimit) + "."}))
	}
	return n
}

// version reads the version that If-Match names. "*" is any. A proxy that compresses responses makes a weak
// tag of an ETag. It stands for the same version, so it is accepted.
func (r *reader) version() string {
	text := strings.TrimSpace(r.Match)
	if text == "*" {
		return ""
	}
	inner, ok := strings.CutPrefix(strings.TrimPrefix(text, "W/"), `"`)
	inner, ok2 := strings.CutSuffix(inner, `"`)
	if !ok || !ok2 || inner == "" {
		what := "malformed"
		if text == "" {
			what = "missing"
		}
		r.end(&web.Error{Code: web.InvalidRequest,
			Message: "If-Match is " + what + ". Send it with the ETag of the version that you have read, " +
				"in its quotes, or \"*\" for any version."})
	}
	return inner
}

// object reads the body, a JSON object. No body is an empty one.
func (r *reader) object() strictjson.Object {
	if r.parsed == nil {
		r.parsed = &strictjson.Object{}
		if len(r.Body) > 0 {
			o, err := strictjson.Read(r.Body)
			if err != nil {
				r.end(&web.Error{Code: web.InvalidRequest,
					Message: "Send a JSON object: " + err.Error() + "."})
			}
			r.parsed = &o
		}
	}
	return *r.parsed
}

func (r *reader) fail(name, code, message string) {
	r.misread = append(r.misread, web.FieldError{Field: name, Code: code, Message: message})
}

// text returns a string, or nil if it is absent.
func (r *reader) text(name string) *string {
	text, present, ok := r.object().String(name)
	if !ok {
		r.fail(name, "type", "Must be a string.")
	}
	if !present || !ok {
		return nil
	}
	return &text
}

// given returns a string that must not be empty, or "" if it is absent.
func (r *reader) given(name string) string {
	text := r.text(name)
	if text == nil {
		return ""
	}
	if *text == "" {
		r.fail(name, "value", "Must not be empty.")
	}
	return *text
}

// missing reports whether a field that is required is absent. null counts as absent.
func (r *reader) missing(name, why string) bool {
	absent := !r.object().Value(name).Present()
	if absent {
		r.fail(name, "required", why)
	}
	return absent
}

// count returns a whole number that must not be negative, or 0 if it is absent.
func (r *reader) count(name string) int {
	n := r.integer(name)
	if n == nil {
		return 0
	}
	if *n < 0 {
		r.fail(name, "value", "Must not be negative.")
	}
	return *n
}

func (r *reader) integer(name string) *int {
	n, present, ok := r.object().Integer(name)
	if !ok || int64(int(n)) != n {
		r.fail(name, "type", "Must be a whole number.")
		return nil
	}
	if !present {
		return nil
	}
	small := int(n)
	return &small
}

func (r *reader) flag(name string) *bool {
	b, present, ok := r.object().Bool(name)
	if !ok {
		r.fail(name, "type", "Must be true or false.")
	}
	if !present || !ok {
		return nil
	}
	return &b
}

func (r *reader) texts(name string) *[]string {
	v := r.object().Value(name)
	if !v.Present() {
		return nil
	}
	elements, ok := v.List()
	texts := make([]string, 0, len(elements))
	for _, e := range elements {
		text, isText := e.Text()
		ok = ok && isText
		texts = append(texts, text)
	}
	if !ok {
		r.fail(name, "type", "Must be a list of strings.")
		return nil
	}
	return &texts
}

// objects returns an object whose members are objects, as their JSON.
func (r *reader) objects(name string) *map[string]json.RawMessage {
	o, present, ok := r.object().Object(name)
	if !ok {
		r.fail(name, "type", "Must be an object.")
	}
	if !present || !ok {
		return nil
	}
	all := map[string]json.RawMessage{}
	for member, v := range o.All() {
		if _, ok := v.Object(); !ok {
			r.fail(name+"."+member, "type", "Must be an object.")
			continue
		}
		all[member] = json.RawMessage(v.JSON())
	}
	return &all
}

// moment returns an RFC 3339 time.
func (r *reader) moment(name string) *time.Time {
	text := r.text(name)
	if text == nil {
		return nil
	}
	t, err := time.Parse(time.RFC3339, *text)
	if err != nil || !timestamp.Fits(t) {
		r.fail(name, "format", "Must be an RFC 3339 time, such as 2027-01-31T12:00:00Z.")
		return nil
	}
	return &t
}
