package operate

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"strings"

	"github.com/verge-id/verge/core/web"
)

// Endpoint is an operation as the operators' API has it: its path, its input and its output. Package admin
// serves all [Endpoints]. A client encodes the input with [Endpoint.Request].
type Endpoint[In, Out any] struct {
	Method string // GET, POST or PATCH
	Path   string // has at most one placeholder
	List   string // the JSON field of the items, if Out is a Page

	thing string // the resource in the message of a 404
	body  int    // the maximum number of bytes of a body; 0: web.MaxBody
	read  func(*reader) In
	do    func(*Operations, context.Context, Actor, In) (Out, error)
}

// Served is an Endpoint of any input and output.
type Served interface {
	Route() (method, path string, maxBody int)
	Serve(ctx context.Context, o *Operations, who Actor, r Request) (*web.Response, error)
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

// Serve reads the input from a request and carries out the operation. An error of type [web.Error] is for the
// caller.
func (e *Endpoint[In, Out]) Serve(ctx context.Context, o *Operations, who Actor, r Request) (
	*web.Response, error) {
	read := &reader{Request: r}
	in := e.read(read)
	if read.err != nil {
		return nil, read.err
	}
	out, err := e.do(o.WithMisread(read.misread), ctx, who, in)
	return respond(out, err, e.List, e.thing)
}

// respond returns the response for an output. It is no method of Endpoint, because the module of guests would
// have a copy of it for each endpoint.
func respond(out any, err error, list, thing string) (*web.Response, error) {
	switch {
	case errors.Is(err, web.ErrNotFound):
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

func encode(in any, method, path string) (r Request, URL string, err error) {
	r.Query = url.Values{}
	switch in := in.(type) {
	case string:
		r.ID = in
	case interface{ encode(*Request) }:
		in.encode(&r)
	}
	if method != "GET" && r.Body == nil {
		r.Body = []byte("{}")
		if _, isID := in.(string); !isID {
			if r.Body, err = json.Marshal(in); err != nil {
				return Request{}, "", err
			}
		}
	}
	URL = path
	if before, rest, found := strings.Cut(URL, "{"); found {
		_, after, _ := strings.Cut(rest, "}")
		URL = before + url.PathEscape(r.ID) + after
	}
	for name, values := range r.Query {
		if values[0] == "" {
			delete(r.Query, name)
		}
	}
	if len(r.Query) > 0 {
		URL += "?" + r.Query.Encode()
	}
	return r, URL, nil
}
