package router

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/verge-id/verge/core/internal/pattern"
	"github.com/verge-id/verge/core/web"
)

// Route is a web.Route with its handler.
type Route struct {
	Methods         []string
	Pattern, Label  string
	MaxBody, MaxURL int
	Whole, Waits    bool

	// Only restricts the route: if it returns false, the route does not exist. Nil: the route exists for
	// every request. The server in front of an engine does not call it.
	Only func(*web.Request) bool

	Handle Handler
}

// Table is the routes of one side of a service with their handlers. Where two routes have the same path, the
// first one counts.
type Table []Route

// Listing returns the table without its handlers.
func (t Table) Listing() web.Table {
	listing := make(web.Table, len(t))
	for i, r := range t {
		listing[i] = web.Route{Methods: r.Methods, Pattern: r.Pattern, Label: r.Label,
			MaxBody: r.BodyLimit(), MaxURL: cmp.Or(r.MaxURL, web.MaxURL), Whole: r.Whole, Waits: r.Waits}
	}
	return listing
}

// BodyLimit returns the maximum size of a body of the route in bytes.
func (r *Route) BodyLimit() int { return cmp.Or(r.MaxBody, web.MaxBody) }

// Find returns the route that serves a request, and the text that stands for
// its placeholder. If the path is served for other methods only, the route is
// nil and allow has those methods. If the path is not served at all, both are nil.
func (t Table) Find(req *web.Request) (route *Route, text string, allow []string) {
	for i := range t {
		r := &t[i]
		if !slices.Contains(r.Methods, req.Method) {
			continue
		}
		if text, ok := pattern.Match(r.Pattern, req.Path); ok && r.isFor(req) {
			return r, text, nil
		}
	}
	for i := range t {
		r := &t[i]
		if _, ok := pattern.Match(r.Pattern, req.Path); ok && r.isFor(req) {
			allow = append(allow, r.Methods...)
		}
	}
	return nil, "", allow
}

func (r *Route) isFor(req *web.Request) bool { return r.Only == nil || r.Only(req) }

// LargerThan means that a body is too large for a route with this limit.
func LargerThan(limit int) string {
	return "The body is larger than " + strconv.Itoa(limit>>10) + " KiB."
}
