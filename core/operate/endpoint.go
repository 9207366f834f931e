package operate

import (
	"context"
	"errors"
	"net/url"
	"reflect"

	"github.com/verge-id/verge/core/web"
)

// Endpoint is an operation as the operators' API has it: its path, its input and its output. Package admin
// serves all [Endpoints]. A client encodes the input with [Endpoint.Request].
type Endpoint[In, Out any] struct {
	Name   string // its operationId in the description of the API
	Method string // GET, POST or PATCH
	Path   string // has at most one placeholder
	List   string // the JSON field of the items, if Out is a Page

	right Operation // "": every operator
	thing string    // the resource in the message of a 404; "": there is no 404
	needs string    // the parameter of the query that the description calls required, although "" is accepted
	body  int       // the maximum number of bytes of a body; 0: web.MaxBody
	do    func(*Operations, context.Context, Actor, In) (Out, error)
}

// Served is an Endpoint of any input and output.
type Served interface {
	Route() (method, path string, maxBody int)
	Serve(ctx context.Context, o *Operations, who Actor, r Request) (*web.Response, error)

	// Describe returns the other properties, for a description of the API.
	Describe() Description
}

// Description is an endpoint for a description of the API.
type Description struct {
	Name    string       // its operationId
	List    string       // the JSON field of the items, if Output is a Page
	Input   reflect.Type // its tags name the places of the fields
	Output  reflect.Type
	Needed  string // a parameter of the query that is described as required, although "" is accepted
	Missing bool   // a response may be 404

	Versioned bool // the response has an ETag
}

// Request is the part of an HTTP request that depends on the input.
type Request struct {
	ID    string // replaces the placeholder of the path
	Query url.Values
	Match string // the header If-Match
	Body  []byte
}

// Route returns the method and the path of e, and the maximum number of bytes of a body; 0: web.MaxBody.
func (e *Endpoint[In, Out]) Route() (method, path string, maxBody int) {
	return e.Method, e.Path, e.body
}

func (e *Endpoint[In, Out]) operation() Operation { return e.right }

// Describe implements Served.
func (e *Endpoint[In, Out]) Describe() Description {
	var out Out
	_, versioned := any(out).(interface{ version() string })
	return Description{e.Name, e.List, reflect.TypeFor[In](), reflect.TypeFor[Out](), e.needs, e.thing != "",
		versioned}
}

// Serve reads the input from a request and carries out the operation. An error of type [web.Error] is for the
// caller.
func (e *Endpoint[In, Out]) Serve(ctx context.Context, o *Operations, who Actor, r Request) (
	*web.Response, error) {
	var in In
	misread, err := read(r, e.Method, reflect.ValueOf(&in).Elem())
	if err != nil {
		return nil, err
	}
	out, err := e.do(o.WithMisread(misread), ctx, who, in)
	return respond(out, err, e.List, e.thing)
}

// respond returns the response for an output. It is no method of Endpoint, because the module of guests would
// have a copy of it for each endpoint.
func respond(out any, err error, list, thing string) (*web.Response, error) {
	switch {
	case errors.Is(err, web.ErrNotFound) && thing != "":
		return nil, noSuch(thing)
	case err != nil:
		return nil, err
	}
	switch v := out.(type) {
	case interface {
		list(name string) map[string]any
	}:
		return web.JSON(200, v.list(list)), nil
	case interface{ response() (*web.Response, error) }:
		return v.response()
	case interface{ version() string }:
		resp := web.JSON(200, out)
		resp.Header.Set("Etag", `"`+v.version()+`"`)
		return resp, nil
	}
	return web.JSON(200, out), nil
}

func noSuch(thing string) error {
	return &web.Error{Code: web.NotFound, Message: "There is no such " + thing + "."}
}

// list returns the JSON of a part of a list.
func (p Page[T]) list(name string) map[string]any {
	items := p.Items
	if items == nil {
		items = []T{}
	}
	all := map[string]any{name: items}
	if p.Next != "" {
		all["next"] = p.Next
	}
	return all
}

func (p Publisher) version() string   { return p.Version }
func (i Integration) version() string { return i.Version }

// Request encodes an input. URL is the path with the query.
func (e *Endpoint[In, Out]) Request(in In) (r Request, URL string, err error) {
	return encode(in, e.Method, e.Path)
}
