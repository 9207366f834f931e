package operate

import (
	"encoding/json"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/verge-id/verge/core/internal/uuid"
	"github.com/verge-id/verge/core/web"
)

// The tags of an input's fields name their places in a request:
//
//	in:"path"     the placeholder of the path
//	in:"match"    the header If-Match: the version that is changed
//	in:"body"     the whole body
//	query:"name"  a parameter of the query; a flag is 1 or true
//	json:"name"   a field of the body; an input of GET with both tags has it in the query
//	need:"why"    the field is required, and why is the message if it is missing
//	only:"create" the field is not read for a change, which is an input with a version
//	schema:"..."  its schema in openapi.yaml, see package admin
//
// An input that is a string is the placeholder of the path.

// read fills an input from a request. It returns an error for each field of the body that cannot be read, and
// an error that ends the request.
func read(r Request, method string, in reflect.Value) ([]web.FieldError, error) {
	r.ID = lowerUUID(r.ID)
	reads := &reader{Request: r, get: method == "GET"}
	reads.read(in, false)
	return reads.misread, reads.err
}

// integrationField is the name of the fields and parameters with the id of an integration.
const integrationField = "integration_id"

// lowerUUID returns a UUID in lower case, as ids of integrations are stored, and any other text unchanged.
func lowerUUID(text string) string {
	if u, err := uuid.Parse(text); err == nil {
		return uuid.Format(u)
	}
	return text
}

// read fills a part of an input. changes reports that a version comes with the input.
func (r *reader) read(in reflect.Value, changes bool) {
	if in.Kind() == reflect.String {
		in.SetString(r.ID)
		return
	}
	of := in.Type()
	for n := range of.NumField() {
		f, v := of.Field(n), in.Field(n)
		switch {
		case f.Anonymous && v.Kind() == reflect.Pointer:
			part := reflect.New(f.Type.Elem())
			if r.read(part.Elem(), changes); !part.Elem().IsZero() {
				v.Set(part)
			}
		case f.Anonymous:
			changes = changes || f.Type == reflect.TypeFor[Versioned]()
			r.read(v, changes)
		case !changes || f.Tag.Get("only") != "create":
			r.readField(f.Tag, v)
		}
	}
}

func (r *reader) readField(tag reflect.StructTag, v reflect.Value) {
	need := tag.Get("need")
	query := inQuery(tag, r.get)
	switch where := tag.Get("in"); {
	case where == "path":
		v.SetString(r.ID)
	case where == "match":
		v.SetString(r.version())
	case where == "body":
		r.object() // null is not an object
		v.SetBytes(r.Body)
	case query == "":
		name, _, _ := strings.Cut(tag.Get("json"), ",")
		r.readJSON(name, need, v)
	case tag.Get("json") != "": // need is about the body
		r.readQuery(query, "", v)
	default:
		r.readQuery(query, need, v)
	}
}

func (r *reader) readQuery(name, need string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(r.isSet(name))
	case reflect.Int:
		v.SetInt(int64(r.limit(name)))
	default:
		text := r.Query.Get(name)
		if text == "" && need != "" {
			r.end(errInvalid(web.FieldError{Field: name, Code: "required", Message: need}))
		}
		if name == integrationField {
			text = lowerUUID(text)
		}
		v.SetString(text)
	}
}

func (r *reader) readJSON(name, need string, v reflect.Value) {
	switch field := v.Addr().Interface().(type) {
	case **string:
		*field = r.text(name)
	case **int:
		*field = r.integer(name)
	case *int:
		*field = r.count(name)
	case **bool:
		*field = r.flag(name)
	case *bool:
		b := r.flag(name)
		*field = b != nil && *b
	case **[]string:
		*field = r.texts(name)
	case *[]string:
		if all := r.texts(name); all != nil {
			*field = *all
		} else {
			r.missing(name, need)
		}
	case **map[string]json.RawMessage:
		*field = r.objects(name)
	case **time.Time:
		*field = r.moment(name)
	case *time.Time:
		if t := r.moment(name); t != nil {
			*field = *t
		} else {
			r.missing(name, need)
		}
	default: // a string, or a type of strings
		if need != "" && r.missing(name, need) {
			return
		}
		text := r.given(name)
		if name == integrationField {
			text = lowerUUID(text)
		}
		v.SetString(text)
	}
}

// inQuery returns the name of a field's parameter in the query, or "" if the field is elsewhere.
func inQuery(tag reflect.StructTag, get bool) string {
	name, _, _ := strings.Cut(tag.Get("json"), ",")
	if !get && name != "" && name != "-" {
		return ""
	}
	return tag.Get("query")
}

// encode returns the request of an endpoint for an input, and its path with the query.
func encode(in any, method, path string) (r Request, target string, err error) {
	r.Query = url.Values{}
	v := reflect.ValueOf(in)
	r.write(v, method == "GET")
	if method != "GET" && r.Body == nil {
		r.Body = []byte("{}")
		if v.Kind() != reflect.String {
			if r.Body, err = json.Marshal(in); err != nil {
				return Request{}, "", err
			}
		}
	}
	target = path
	if before, rest, found := strings.Cut(path, "{"); found {
		_, after, _ := strings.Cut(rest, "}")
		target = before + url.PathEscape(r.ID) + after
	}
	if len(r.Query) > 0 {
		target += "?" + r.Query.Encode()
	}
	return r, target, nil
}

// write writes the fields of an input that are not in the JSON of the body.
func (r *Request) write(in reflect.Value, get bool) {
	if in.Kind() == reflect.String {
		r.ID = in.String()
		return
	}
	for n := range in.NumField() {
		f, v := in.Type().Field(n), in.Field(n)
		query := inQuery(f.Tag, get)
		switch where := f.Tag.Get("in"); {
		case f.Anonymous && v.Kind() == reflect.Struct:
			r.write(v, get)
		case where == "path":
			r.ID = v.String()
		case where == "match" && v.String() == "":
			r.Match = "*"
		case where == "match":
			r.Match = `"` + v.String() + `"`
		case where == "body":
			r.Body = v.Bytes()
		case query == "" || v.IsZero():
		case v.Kind() == reflect.Bool:
			r.Query.Set(query, "1")
		case v.Kind() == reflect.Int:
			r.Query.Set(query, strconv.FormatInt(v.Int(), 10))
		default:
			r.Query.Set(query, v.String())
		}
	}
}
