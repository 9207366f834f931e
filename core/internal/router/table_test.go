package router

import (
	"context"
	"slices"
	"testing"

	"github.com/verge-id/verge/core/web"
)

// word serves a word.
func word(text string) Handler {
	return Page(func(context.Context, *Call) *web.Response { return &web.Response{Body: []byte(text)} })
}

// table has one route of each kind. Each serves a word.
var table = Table{
	{Methods: []string{"POST"}, Pattern: "/start", Label: "start", Handle: word("start")},
	{Methods: []string{"OPTIONS"}, Pattern: "/start", Label: "start", Handle: word("preflight")},
	{Methods: []string{"POST"}, Pattern: "/verify", Label: "verify", MaxBody: 1 << 20, Handle: word("photo")},
	{Methods: []string{"GET", "HEAD"}, Pattern: "/verify", Label: "verify", Handle: word("page")},
	{Methods: []string{"GET"}, Pattern: "/", Label: "home", Handle: word("home"),
		Only: func(req *web.Request) bool { return req.Query == "person" }},
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
		route, text, allow := table.Find(&web.Request{Method: c.method, Path: c.path, Query: c.query})
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
		{"POST", "/start", "start", "/start", web.MaxBody},
		{"GET", "/start", "start", "/start", web.MaxBody},
		{"POST", "/verify", "verify", "/verify", 1 << 20},
		{"GET", "/verify", "verify", "/verify", web.MaxBody},
		{"PUT", "/verify", "verify", "/verify", web.MaxBody}, // the limit applies only to POST
		{"GET", "/verify/x", "name", "/verify/{name}", web.MaxBody},
		{"GET", "/verify/x/y", "verify", "/verify/{...}", web.MaxBody},
		{"GET", "/", "home", "/", web.MaxBody},
		{"GET", "*", "other", "{...}", web.MaxBody},
	} {
		r := table.Listing().At(c.method, c.path)
		if r.Label != c.label || r.Pattern != c.pattern || r.BodyLimit() != c.limit {
			t.Errorf("%s %s: %q %q %d, want %q %q %d", c.method, c.path,
				r.Label, r.Pattern, r.BodyLimit(), c.label, c.pattern, c.limit)
		}
	}
	if r := (web.Table{}).At("GET", "/"); r.Label != "" || r.BodyLimit() != web.MaxBody {
		t.Errorf("an empty table has %+v", r)
	}
}

func TestLargerThan(t *testing.T) {
	if got := LargerThan(web.MaxBody); got != "The body is larger than 16 KiB." {
		t.Errorf("got %q", got)
	}
}
