package admin

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/verge-id/verge/core/operate"
	"github.com/verge-id/verge/core/timestamp"
	"github.com/verge-id/verge/core/web"
)

// call is one request of an operator on its way through a handler.
type call struct {
	ctx   context.Context
	req   *web.Request
	who   operate.Actor
	id    string // what stands for the placeholder of the route
	query url.Values
}

func newCall(ctx context.Context, req *web.Request, who operate.Actor, id string) (*call, error) {
	query, err := url.ParseQuery(req.Query)
	if err != nil {
		return nil, &web.Error{Code: web.InvalidRequest, Message: "The query is not well formed."}
	}
	return &call{ctx: ctx, req: req, who: who, id: id, query: query}, nil
}

// cursor reads after and limit.
func (c *call) cursor() (operate.Cursor, error) {
	cursor := operate.Cursor{After: c.query.Get("after")}
	if text := c.query.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > operate.MaxLimit {
			return cursor, &web.Error{Code: web.InvalidRequest, Message: "The request is not valid.",
				Details: []web.FieldError{{Field: "limit", Code: "value",
					Message: "Must be a number from 1 to " + strconv.Itoa(operate.MaxLimit) + "."}}}
		}
		cursor.Limit = n
	}
	return cursor, nil
}

// flag reports whether a parameter of the query is 1 or true.
func (c *call) flag(name string) bool {
	text := c.query.Get(name)
	return text == "1" || text == "true"
}

// version returns the version that If-Match names. "*" is any.
func (c *call) version() (string, error) {
	text := strings.TrimSpace(c.req.Header.Get("If-Match"))
	if text == "*" {
		return "", nil
	}
	inner, ok := strings.CutPrefix(text, `"`)
	inner, ok2 := strings.CutSuffix(inner, `"`)
	if !ok || !ok2 || inner == "" {
		return "", &web.Error{Code: web.InvalidRequest,
			Message: `Say which version you change: send If-Match with the ETag of what you have read, or "*" for any.`}
	}
	return inner, nil
}

// versioned is an answer with its version.
func versioned(v any, version string) *web.Response {
	resp := web.JSON(200, v)
	resp.Header.Set("Etag", `"`+version+`"`)
	return resp
}

// list is an answer with a part of a list, under the name of what it lists.
func list[T any](name string, page operate.Page[T], err error) (*web.Response, error) {
	if err != nil {
		return nil, err
	}
	items := page.Items
	if items == nil {
		items = []T{}
	}
	answer := map[string]any{name: items}
	if page.Next != "" {
		answer["next"] = page.Next
	}
	return web.JSON(200, answer), nil
}

// answer is the answer with v, unless there is an error.
func answer(v any, err error) (*web.Response, error) {
	if err != nil {
		return nil, err
	}
	return web.JSON(200, v), nil
}

// done answers an operation that returns nothing.
func done(err error) (*web.Response, error) {
	return answer(struct {
		Status string `json:"status"`
	}{"done"}, err)
}

// named gives a web.ErrNotFound the name of the missing resource.
func named(err error, resource string) error {
	if errors.Is(err, web.ErrNotFound) {
		return &web.Error{Code: web.NotFound, Message: "There is no such " + resource + "."}
	}
	return err
}

// input is a body whose members are read one by one. It collects what cannot be read. Its request
// is carried out by judging, so that the answer also has what is wrong with the values that could be read.
type input struct {
	web.Object
	misread []web.FieldError
}

// operations returns what carries out a body whose members have all been read.
func (a *Admin) operations(in *input) *operate.Operations {
	return a.Operations.WithMisread(in.misread)
}

// body reads a JSON object. No body is an empty one.
func (c *call) body() (*input, error) {
	if len(c.req.Body) == 0 {
		return &input{}, nil
	}
	o, err := web.ReadObject(c.req.Body)
	if err != nil {
		return nil, &web.Error{Code: web.InvalidRequest,
			Message: "Send a JSON object: " + err.Error() + "."}
	}
	return &input{Object: o}, nil
}

// change returns the version that a request changes, and its body.
func (c *call) change() (version string, in *input, err error) {
	if version, err = c.version(); err == nil {
		in, err = c.body()
	}
	return version, in, err
}

func (in *input) fail(name, code, message string) {
	in.misread = append(in.misread, web.FieldError{Field: name, Code: code, Message: message})
}

// text returns a string, or nil if it is absent.
func (in *input) text(name string) *string {
	text, present, ok := in.String(name)
	if !ok {
		in.fail(name, "type", "Must be a string.")
	}
	if !present || !ok {
		return nil
	}
	return &text
}

// given returns a string that must not be empty, or "" if it is absent.
func (in *input) given(name string) string {
	text := in.text(name)
	if text == nil {
		return ""
	}
	if *text == "" {
		in.fail(name, "value", "Must not be empty.")
	}
	return *text
}

// needed returns a string that must be there.
func (in *input) needed(name, why string) string {
	if !in.Value(name).Present() { // null is as good as absent
		in.fail(name, "required", why)
		return ""
	}
	return in.given(name)
}

func (in *input) integer(name string) *int {
	n, present, ok := in.Integer(name)
	if !ok || int64(int(n)) != n {
		in.fail(name, "type", "Must be a whole number.")
		return nil
	}
	if !present {
		return nil
	}
	small := int(n)
	return &small
}

func (in *input) flag(name string) *bool {
	b, present, ok := in.Bool(name)
	if !ok {
		in.fail(name, "type", "Must be true or false.")
	}
	if !present || !ok {
		return nil
	}
	return &b
}

// isTrue is a flag that is false if it is absent.
func (in *input) isTrue(name string) bool {
	b := in.flag(name)
	return b != nil && *b
}

func (in *input) texts(name string) *[]string {
	v := in.Value(name)
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
		in.fail(name, "type", "Must be a list of strings.")
		return nil
	}
	return &texts
}

// objects returns an object whose members are objects, as their JSON.
func (in *input) objects(name string) *map[string]json.RawMessage {
	o, present, ok := in.Object.Object(name)
	if !ok {
		in.fail(name, "type", "Must be an object.")
	}
	if !present || !ok {
		return nil
	}
	all := map[string]json.RawMessage{}
	for member, v := range o.All() {
		if _, ok := v.Object(); !ok {
			in.fail(name+"."+member, "type", "Must be an object.")
			continue
		}
		all[member] = json.RawMessage(v.JSON())
	}
	return &all
}

// moment returns an RFC 3339 time.
func (in *input) moment(name string) *time.Time {
	text := in.text(name)
	if text == nil {
		return nil
	}
	t, err := time.Parse(time.RFC3339, *text)
	if err != nil || !timestamp.Fits(t) {
		in.fail(name, "format", "Must be an RFC 3339 time, such as 2027-01-31T12:00:00Z.")
		return nil
	}
	return &t
}
