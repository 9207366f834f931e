package web

import (
	"slices"
	"strconv"
	"strings"
)

// Route is one row of a table of routes: the requests, their label in logs
// and metrics, the limits of body and URL, and the handler.
//
// A pattern is a path that may have one placeholder:
//
//	/docs                  this path and no other
//	/sessions/{session}    text without a slash
//	/keys/{id}/revoke      the same, with more behind it
//	/assets/{}             the same, without a name
//	/docs/{...}            /docs and every path below
//	/sessions/{session...} the same, with a name
//	{...}                  every path
//
// Text at the end of a pattern is not empty: a path with a slash at its end is
// another path. A log shows the text at a placeholder only if the
// placeholder has a name and the text has the form of an id.
type Route struct {
	// Methods are those that the route serves, in the order in which Allow
	// names them. A route without methods serves nothing: it gives a label to
	// paths that no other route has.
	Methods []string

	Pattern string
	Label   string // of logs and metrics

	// MaxBody is the maximum size of a body in bytes. Zero: MaxBody, the constant.
	//
	// A host whose table lacks the route, because the module that it runs is newer, cuts the body after
	// MaxBody+1 bytes (the constant). A handler with a larger limit must be able to detect this, for example
	// by Content-Length.
	MaxBody int

	// MaxURL is the maximum number of bytes of path and query together. Zero: MaxURL, the constant.
	MaxURL int

	// Whole means that a request is carried out to its end, even if the caller does not wait for it. It is
	// for a step that must be sent once: a browser drops the first request if its user clicks twice.
	Whole bool

	// Waits means that a host may hold a request that prefers to wait (RFC 7240) while the response is 304,
	// and repeat it until the response changes. See Request.Again.
	Waits bool

	// Only restricts the route: if it returns false, the route does not exist. Nil: the route exists for
	// every request. The server in front of an engine does not call it.
	Only func(*Request) bool

	Handle Handler
}

// BodyLimit returns the maximum size of a body of the route in bytes.
func (r *Route) BodyLimit() int {
	if r.MaxBody == 0 {
		return MaxBody
	}
	return r.MaxBody
}

// URLLimit is the maximum number of bytes of path and query that the route accepts.
func (r *Route) URLLimit() int {
	if r.MaxURL == 0 {
		return MaxURL
	}
	return r.MaxURL
}

// Table is the routes of one side of a service. Where two routes have the same
// path, the first one counts.
type Table []Route

// Listing returns the table without its handlers. The server in front of an engine has it: it limits and
// counts the requests that the engine serves.
func (t Table) Listing() Table {
	listing := make(Table, len(t))
	for i, r := range t {
		listing[i] = Route{Methods: r.Methods, Pattern: r.Pattern, Label: r.Label, MaxBody: r.BodyLimit(),
			MaxURL: r.URLLimit(), Whole: r.Whole, Waits: r.Waits}
	}
	return listing
}

// Find returns the route that serves a request, and the text that stands for
// its placeholder. If the path is served for other methods only, the route is
// nil and allow has those methods. If the path is not served at all, both are nil.
func (t Table) Find(req *Request) (route *Route, text string, allow []string) {
	for i := range t {
		r := &t[i]
		if !slices.Contains(r.Methods, req.Method) {
			continue
		}
		if text, ok := match(r.Pattern, req.Path); ok && r.isFor(req) {
			return r, text, nil
		}
	}
	for i := range t {
		r := &t[i]
		if _, ok := match(r.Pattern, req.Path); ok && r.isFor(req) {
			allow = append(allow, r.Methods...)
		}
	}
	return nil, "", allow
}

func (r *Route) isFor(req *Request) bool { return r.Only == nil || r.Only(req) }

// At returns the data that the server in front of an engine needs about a request before the engine handles
// it. If no route serves the request, that is the label and the pattern of the first route with that path,
// with the usual body limit. A table should therefore end with a route for every path.
func (t Table) At(method, path string) Route {
	var other *Route
	for i := range t {
		r := &t[i]
		if _, ok := match(r.Pattern, path); !ok {
			continue
		}
		if slices.Contains(r.Methods, method) {
			return *r
		}
		if other == nil {
			other = r
		}
	}
	if other == nil {
		return Route{}
	}
	return Route{Pattern: other.Pattern, Label: other.Label}
}

// match reports whether a path fits a pattern, and returns the text that
// stands for the placeholder.
func match(pattern, path string) (text string, ok bool) {
	before, rest, has := strings.Cut(pattern, "{")
	if !has {
		return "", pattern == path
	}
	name, after, _ := strings.Cut(rest, "}")
	if strings.HasSuffix(name, "...") {
		if text, ok := strings.CutPrefix(path, before); ok {
			return text, true
		}
		return "", len(path) == len(before)-1 && strings.HasPrefix(before, path)
	}
	text, begins := strings.CutPrefix(path, before)
	text, ends := strings.CutSuffix(text, after)
	return text, begins && ends && !strings.Contains(text, "/") && (text != "" || after != "")
}

// Placeholder returns the name of a pattern's placeholder, without dots, and the text before and after it. A
// pattern without a placeholder is returned as before.
func Placeholder(pattern string) (before, name, after string) {
	before, rest, _ := strings.Cut(pattern, "{")
	name, after, _ = strings.Cut(rest, "}")
	return before, strings.TrimSuffix(name, "..."), after
}

// LargerThan means that a body is too large for a route with this limit.
func LargerThan(limit int) string {
	return "The body is larger than " + strconv.Itoa(limit>>10) + " KiB."
}
