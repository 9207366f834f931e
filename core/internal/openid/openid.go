// Package openid is the OpenID provider of publishers (contract 50): any OpenID client, or a proxy in front
// of a site, asks for a verification by it.
//
// It adds no kind of session. An authorization request is a start, an authorization code is a result token
// for the redirect URI, and a token request is a validate. The hosted pages send the browser back by
// [Callback] and [Denied].
//
// There is no state of the provider's own: a request is sealed into the flow token, a code and an access
// token are sealed, and the store marks a used code as it marks a used result token.
//
// Each guest carries this code, so JSON whose values need no escape is written as text.
package openid

import (
	"context"
	"log/slog"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/api"
	"github.com/verge-id/verge/core/internal/result"
	"github.com/verge-id/verge/core/internal/router"
	"github.com/verge-id/verge/core/web"
)

// Path is the path of the issuer, below which the provider is.
const Path = "/oidc"

// Provider serves the paths below Path. All fields but Keys are needed.
type Provider struct {
	host.Host

	BaseURL   string // scheme and host, no slash at the end
	API       *api.API
	Directory *integration.Directory
	Results   *result.Tokens
	Keys      Keys // the first one signs; none: the service has no provider
}

// Routes returns the routes of the provider. They exist if it has keys. GET of authorize acts, so it has no
// HEAD.
func (p *Provider) Routes() router.Table {
	t := router.Table{
		{Methods: []string{"GET", "HEAD"}, Pattern: "/.well-known/openid-configuration", Handle: p.discovery},
		{Methods: []string{"GET", "HEAD"}, Pattern: "/jwks", Handle: p.jwks},
		{Methods: []string{"GET", "POST"}, Pattern: "/authorize", Handle: p.authorize},
		{Methods: []string{"POST"}, Pattern: "/token", Handle: p.token},
		{Methods: []string{"GET", "HEAD", "POST"}, Pattern: "/userinfo", Handle: p.userinfo},
		{Pattern: "/{endpoint...}"}, // no route serves it
	}
	for i := range t {
		t[i].Pattern, t[i].Label, t[i].Only = Path+t[i].Pattern, "openid", p.exists
	}
	return t
}

func (p *Provider) exists(*web.Request) bool { return len(p.Keys) > 0 }

// fault is an error of OAuth (RFC 6749, 4.1.2.1 and 5.2). Its texts have only printable ASCII without
// quotes and backslashes.
type fault struct{ code, description string }

func (f *fault) Error() string { return f.code + ": " + f.description }

// response returns the error as a response to a program, with a challenge (RFC 9110, 11.6.1) if it is not "".
func (f *fault) response(status int, challenge string) *web.Response {
	r := web.JSONBytes(status, []byte(`{"error":"`+f.code+`","error_description":"`+f.description+`"}`))
	if challenge != "" {
		r.Header.Set("Www-Authenticate", challenge)
	}
	return r
}

// formOf returns the parameters of a POST, undecoded.
func formOf(c *router.Call) (string, error) {
	types := c.Header["Content-Type"]
	if len(types) != 1 || web.MediaType(types[0]) != "application/x-www-form-urlencoded" {
		return "", errType
	}
	return string(c.Body), c.CheckSize()
}

var errType = &web.Error{Code: web.UnsupportedMediaType,
	Message: "Send the parameters as application/x-www-form-urlencoded."}

func (p *Provider) rejected(ctx context.Context, message, client string, f *fault) {
	p.Log.LogAttrs(ctx, slog.LevelInfo, message, slog.String("integration", client),
		slog.String("error", f.code), slog.String("reason", f.description))
}
