package web

import (
	"context"
	"slices"
	"testing"
)

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		pattern, path, text string
		ok                  bool
	}{
		{"/", "/", "", true},
		{"/", "", "", false},
		{"/", "/x", "", false},
		{"/docs", "/docs", "", true},
		{"/docs", "/docs/", "", false},
		{"/docs", "/Docs", "", false},

		{"/sessions/{session}", "/sessions/x", "x", true},
		{"/sessions/{session}", "/sessions/{session}", "{session}", true},
		{"/sessions/{session}", "/sessions/\x00", "\x00", true},
		{"/sessions/{session}", "/sessions/", "", false},
		{"/sessions/{session}", "/sessions", "", false},
		{"/sessions/{session}", "/sessions/x/", "", false},
		{"/sessions/{session}", "/sessions/x/y", "", false},
		{"/assets/{}", "/assets/x.css", "x.css", true},

		{"/keys/{id}/revoke", "/keys/x/revoke", "x", true},
		{"/keys/{id}/revoke", "/keys//revoke", "", true},
		{"/keys/{id}/revoke", "/keys/revoke", "", false},
		{"/keys/{id}/revoke", "/keys/x/y/revoke", "", false},
		{"/keys/{id}/revoke", "/keys/x/revoke/", "", false},
		{"/box/{handle}.s", "/box/x.s", "x", true},
		{"/box/{handle}.s", "/box/x", "", false},

		{"/docs/{...}", "/docs", "", true},
		{"/docs/{...}", "/docs/", "", true},
		{"/docs/{...}", "/docs/x/y", "x/y", true},
		{"/docs/{...}", "/docsx", "", false},
		{"/docs/{...}", "/doc", "", false},
		{"{...}", "*", "*", true},
		{"{...}", "", "", true},
	} {
		if text, ok := match(c.pattern, c.path); ok != c.ok || ok && text != c.text {
			t.Errorf("%q fits %q: %v, with %q, want %v, with %q", c.path, c.pattern, ok, text, c.ok, c.text)
		}
	}
}

func TestPlaceholder(t *testing.T) {
	for pattern, want := range map[string][3]string{
		"/docs":             {"/docs", "", ""},
		"/keys/{id}/revoke": {"/keys/", "id", "/revoke"},
		"/s/{session...}":   {"/s/", "session", ""},
		"{...}":             {"", "", ""},
	} {
		if before, name, after := Placeholder(pattern); want != [3]string{before, name, after} {
			t.Errorf("%q: %q %q %q, want %q", pattern, before, name, after, want)
		}
	}
}

// word serves a word.
func word(text string) Handler {
	return Page(func(context.Context, *Call) *Response { return &Response{Body: []byte(text)} })
}

// table has one route of each kind. Each serves a word.
var table = Table{
	{Methods: []string{"POST"}, Pattern: "/start", Label: "start", Handle: word("start")},
	{Methods: []string{"OPTIONS"}, Pattern: "/start", Label: "start", Handle: word("preflight")},
	{Methods: []string{"POST"}, Pattern: "/verify", Label: "verify", MaxBody: 1 << 20, Handle: word("photo")},
	{Methods: []string{"GET", "HEAD"}, Pattern: "/verify", Label: "verify", Handle: word("page")},
	{Methods: []string{"GET"}, Pattern: "/", Label: "home", Handle: word("home"),
		Only: func(req *Request) bool { return req.Query == "person" }},
	{Methods: []string{"GET"}, Pattern: "/verify/{name}", Label: "name", Handle: word("name")},
	{Pattern: "/verify/{...}", Label: "verify"},
	{Pattern: "{...}", Label: "other"},
}

func TestFind(t *testing.T) {
	for _, c := range []struct {
		method, path, query string
		handle, text        string
		allow               []string
	}{
		{"POST", "/start", "", "start", "", nil},
		{"OPTIONS", "/start", "", "preflight", "", nil},
		{"GET", "/start", "", "", "", []string{"POST", "OPTIONS"}},
		{"", "/start", "", "", "", []string{"POST", "OPTIONS"}},
		{"HEAD", "/verify", "", "page", "", nil},
		{"PUT", "/verify", "", "", "", []string{"POST", "GET", "HEAD"}},
		{"GET", "/verify/x", "", "name", "x", nil},
		{"GET", "/verify/x/y", "", "", "", nil},
		{"GET", "/", "person", "home", "", nil},
		{"PUT", "/", "person", "", "", []string{"GET"}},
		{"GET", "/", "", "", "", nil},
		{"PUT", "/", "", "", "", nil},
		{"GET", "/nowhere", "", "", "", nil},
	} {
		route, text, allow := table.Find(&Request{Method: c.method, Path: c.path, Query: c.query})
		handle := ""
		if route != nil {
			resp, _ := route.Handle(context.Background(), nil)
			handle = string(resp.Body)
		}
		if handle != c.handle || text != c.text || !slices.Equal(allow, c.allow) {
			t.Errorf("%s %s?%s: %q with %q, allow %v, want %q with %q, allow %v",
				c.method, c.path, c.query, handle, text, allow, c.handle, c.text, c.allow)
		}
	}
}

func TestAt(t *testing.T) {
	for _, c := range []struct {
		method, path   string
		label, pattern string
		limit          int
	}{
		{"POST", "/start", "start", "/start", MaxBody},
		{"GET", "/start", "start", "/start", MaxBody},
		{"POST", "/verify", "verify", "/verify", 1 << 20},
		{"GET", "/verify", "verify", "/verify", MaxBody},
		{"PUT", "/verify", "verify", "/verify", MaxBody}, // the limit applies only to POST
		{"GET", "/verify/x", "name", "/verify/{name}", MaxBody},
		{"GET", "/verify/x/y", "verify", "/verify/{...}", MaxBody},
		{"GET", "/", "home", "/", MaxBody},
		{"GET", "*", "other", "{...}", MaxBody},
	} {
		r := table.Listing().At(c.method, c.path)
		if r.Label != c.label || r.Pattern != c.pattern || r.BodyLimit() != c.limit {
			t.Errorf("%s %s: %q %q %d, want %q %q %d", c.method, c.path,
				r.Label, r.Pattern, r.BodyLimit(), c.label, c.pattern, c.limit)
		}
	}
	if r := (Table{}).At("GET", "/"); r.Label != "" || r.BodyLimit() != MaxBody {
		t.Errorf("an empty table has %+v", r)
	}
}

func TestLargerThan(t *testing.T) {
	if got := LargerThan(MaxBody); got != "The body is larger than 16 KiB." {
		t.Errorf("got %q", got)
	}
}
