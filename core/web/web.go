// Package web is the HTTP of the core, in plain values: requests, responses, errors, rates, and a [Router]
// with its table of routes. It has no connections, so an engine can be a process, a WASM guest or a test.
//
// # How to add a route
//
// The routes of each side of the service are one Table: the public side's is in
// core/routes.go, the operators' in core/admin. Add a Route there, with its
// methods, pattern, label, body limit and handler, and the same to
// core/routes_test.go, which pins them. Then run `go generate ./edge/workers`,
// which writes the tables for the Worker.
//
// The native server and the Worker add no paths. The tables have the body limit, the label for
// logs and metrics, and the parts of a path that the log may show.
package web

import (
	"net/netip"
	"strings"
)

// MaxBody is the default maximum size of a request body in bytes (contract 3). An engine reads one byte more
// than the route's limit, so that the core can detect a body that is too large.
const MaxBody = 16 * 1024

// MaxURL is the usual limit of path and query together, in bytes. See Route.MaxURL.
const MaxURL = 8 * 1024

// Request is one request, read whole.
type Request struct {
	Method string
	Path   string // decoded
	Query  string // raw
	Header Header
	Body   []byte
	Client netip.Addr // of the client itself, not of a trusted proxy (contract 30)

	// Again means that the host repeats a waiting request (Route.Waits). It was counted when it arrived, and
	// is not counted again. Only hosts set it; clients cannot.
	Again bool
}

// Response is a whole response.
type Response struct {
	Status int
	Header Header
	Body   []byte
}

// Header maps canonical names (Content-Type) to their values. It has the
// shape of net/http's so that a server passes it through without a copy.
type Header map[string][]string

// Get returns the first value under the canonical name, or "".
func (h Header) Get(name string) string {
	if v := h[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// Has reports whether the header is present, empty or not.
func (h Header) Has(name string) bool { return len(h[name]) > 0 }

// Set replaces the values under the canonical name.
func (h Header) Set(name, value string) { h[name] = []string{value} }

// Bearer returns the token of the Authorization header (RFC 6750). The case of the scheme does not matter
// (RFC 9110, 11.1). present reports whether there is such a header, even if it has no token.
func (h Header) Bearer() (token string, present bool) {
	values := h["Authorization"]
	if len(values) == 0 {
		return "", false
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	if len(values) != 1 || !strings.EqualFold(scheme, "Bearer") {
		return "", true
	}
	return strings.TrimLeft(token, " "), true
}

// TakenAsJSON reports whether the body of a request counts as JSON: every Content-Type that it has is JSON.
// All must be, because some readers take the first one and others the last. A request without a Content-Type
// counts as JSON.
func (r *Request) TakenAsJSON() bool {
	for _, contentType := range r.Header["Content-Type"] {
		media := MediaType(contentType)
		if media != "application/json" &&
			!(strings.HasPrefix(media, "application/") && strings.HasSuffix(media, "+json")) {
			return false
		}
	}
	return true
}

// IsEncoded reports whether the request has a Content-Encoding other than "identity".
func (r *Request) IsEncoded() bool {
	for _, coding := range r.Header["Content-Encoding"] {
		if !strings.EqualFold(strings.TrimSpace(coding), "identity") {
			return true
		}
	}
	return false
}

// MediaType returns the lower-case type of a Content-Type value, parameters cut off.
func MediaType(contentType string) string {
	t, _, _ := strings.Cut(contentType, ";")
	return strings.ToLower(strings.TrimSpace(t))
}
