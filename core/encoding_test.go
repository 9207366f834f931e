package core

import (
	"strings"
	"testing"

	"github.com/verge-id/verge/core/web"
)

// Contract 3: a request body with a content coding is 415, and the response names the accepted coding (RFC
// 9110, 15.5.16).
func TestRequest_ContentEncoding(t *testing.T) {
	w := newFixture(t, nil)
	page := web.Header{"Accept": {"text/html"}, "Content-Type": {"application/x-www-form-urlencoded"}}
	for _, c := range []struct {
		rule, path string
		coding     []string
		body       string
		header     web.Header
		rejected   bool
	}{
		{"none", web.StartPath, nil, "{}", nil, false},
		{"identity", web.StartPath, []string{"Identity"}, "{}", nil, false},
		{"no body", web.StartPath, []string{"gzip"}, "", nil, false},
		{"gzip", web.StartPath, []string{"gzip"}, "{}", nil, true},
		{"gzip of validate", web.ValidatePath, []string{"gzip"}, "{}", nil, true},
		{"a list", web.StartPath, []string{"identity, gzip"}, "{}", nil, true},
		{"two lines", web.StartPath, []string{"identity", "br"}, "{}", nil, true},
		{"unknown", web.StartPath, []string{"x-rot13"}, "{}", nil, true},
		{"a form", web.HostedPath, []string{"gzip"}, "flow=x", page, true},
		{"a picture", web.FilePath, []string{"gzip"}, "x", page, true},
		{"a wallet's response", web.PendingPath + "x", []string{"gzip"}, "x", nil, true},
		{"the console", "/console/sign-in", []string{"gzip"}, "x", page, true},
	} {
		header := web.Header{}
		for name, values := range c.header {
			header[name] = values
		}
		if c.coding != nil {
			header["Content-Encoding"] = c.coding
		}
		resp := w.ask("POST", c.path, header, c.body)
		accepts := resp.Header.Get("Accept-Encoding")
		if c.rejected != (accepts == "identity") || c.rejected && resp.Status != 415 {
			t.Errorf("contract 3: %s: %d, Accept-Encoding %q", c.rule, resp.Status, accepts)
		}
		if isPage := strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html"); c.rejected &&
			isPage != (c.header != nil) {
			t.Errorf("contract 22: %s: a page: %v", c.rule, isPage)
		}
	}
	admin := w.Admin(ctx, &web.Request{Method: "POST", Path: "/admin/v1/keys", Body: []byte("{}"),
		Header: web.Header{"Content-Encoding": {"gzip"}}})
	if admin.Status != 415 || admin.Header.Get("Accept-Encoding") != "identity" {
		t.Errorf("contract 3: operators' API: %d %v", admin.Status, admin.Header)
	}
}
