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
// Each guest carries this code, so one route serves all paths, and JSON whose values need no escape is
// written as text.
package openid

import (
	"context"
	"log/slog"
	"slices"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/api"
	"github.com/verge-id/verge/core/internal/result"
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

// Methods are the methods of all paths together.
var Methods = []string{"GET", "HEAD", "POST"}

// paths are the paths below Path with their methods. GET of authorize acts, so it has no HEAD.
var paths = []struct {
	text    string
	methods []string
}{
	{".well-known/openid-configuration", []string{"GET", "HEAD"}},
	{"jwks", []string{"GET", "HEAD"}},
	{"authorize", []string{"GET", "POST"}},
	{"token", []string{"POST"}},
	{"userinfo", []string{"GET", "HEAD", "POST"}},
}

// Serve serves a request for a path below Path.
func (p *Provider) Serve(ctx context.Context, c *web.Call) (*web.Response, error) {
	for n := range paths {
		if paths[n].text != c.Text || len(p.Keys) == 0 {
			continue
		}
		if !slices.Contains(paths[n].methods, c.Method) {
			return nil, c.NotAllowed(paths[n].methods)
		}
		switch n {
		case 0:
			return p.discovery(), nil
		case 1:
			return p.jwks(), nil
		case 2:
			return p.authorize(ctx, c)
		case 3:
			return p.token(ctx, c)
		}
		return p.userinfo(ctx, c)
	}
	return nil, web.ErrNoPath
}

// fault is an error of OAuth (RFC 6749, 4.1.2.1 and 5.2). Its texts are constants of printable ASCII without
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
func formOf(c *web.Call) (string, error) {
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
