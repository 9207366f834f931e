package web

import (
	"slices"
	"strings"

	"github.com/verge-id/verge/core/internal/pattern"
)

// Route is one row of a table of routes: the requests, their label in logs
// and metrics, and the limits of body and URL.
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

// Table is the routes of one side of a service, as the server in front of an engine has them: it limits and
// counts the requests that the engine serves. Where two routes have the same path, the first one counts.
type Table []Route

// At returns the data that the server in front of an engine needs about a request before the engine handles
// it. If no route serves the request, that is the label and the pattern of the first route with that path,
// with the usual body limit. A table should therefore end with a route for every path.
func (t Table) At(method, path string) Route {
	var other *Route
	for i := range t {
		r := &t[i]
		if _, ok := pattern.Match(r.Pattern, path); !ok {
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

// Placeholder returns the name of a pattern's placeholder, without dots, and the text before and after it. A
// pattern without a placeholder is returned as before.
func Placeholder(pattern string) (before, name, after string) {
	before, rest, _ := strings.Cut(pattern, "{")
	name, after, _ = strings.Cut(rest, "}")
	return before, strings.TrimSuffix(name, "..."), after
}
