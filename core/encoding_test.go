package core

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"maps"
	"strings"
	"testing"

	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/internal/hosted"
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
		{"a picture", hosted.FilePath, []string{"gzip"}, "x", page, true},
		{"a wallet's response", web.PendingPath + "x", []string{"gzip"}, "x", nil, true},
		{"the console", "/console/sign-in", []string{"gzip"}, "x", page, true},
	} {
		header := web.Header{}
		maps.Copy(header, c.header)
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

// Contract 50: an authorization request without a known redirect_uri sends no browser elsewhere, so the page
// shows the reason to the client's developers.
func TestErrorPage_Cause(t *testing.T) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	coretest.Must(t, err)
	spki, err := x509.MarshalPKIXPublicKey(private.Public())
	coretest.Must(t, err)
	w := newFixture(t, func(c *Config) {
		c.ProviderKeys = []string{base64.StdEncoding.EncodeToString(spki)}
	})
	for _, c := range []struct{ path, cause string }{
		{"/oidc/authorize?client_id=x", "client_id does not name an OpenID client"},
		{"/oidc/authorize?client_id=x&client_id=y", "client_id or redirect_uri occurs twice"},
		{"/oidc/userinfo", ""}, // its own errors (RFC 6750)
		{"/nowhere", ""},
	} {
		header := web.Header{"Accept": {"text/html"}, "Accept-Language": {"de"}}
		page := string(w.ask("GET", c.path, header, "").Body)
		if c.cause == "" == strings.Contains(page, "Für die Entwickler") ||
			!strings.Contains(page, c.cause) {
			t.Errorf("contract 22: %s: %s", c.path, page)
		}
	}
}
