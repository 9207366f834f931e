// Package admin serves the operators' API: the endpoints of package operate, for callers with an operator
// token. The commands of `verge` use it. It has a separate listener. Only the front page and openapi.yaml
// need no token.
package admin

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/verge-id/verge/core/internal/member"
	"github.com/verge-id/verge/core/internal/router"
	"github.com/verge-id/verge/core/operate"
	secrets "github.com/verge-id/verge/core/secret"
	"github.com/verge-id/verge/core/web"
)

// Admin handles the requests of operators. All fields are required.
type Admin struct {
	Now func() time.Time

	Operations *operate.Operations
	People     *member.Registry // checks operator tokens
	Guard      *operate.TokenGuard

	used seen
}

// Root is the prefix of every path except the front page.
const Root = "/admin/"

// index serves the front page, for a browser on this listener. It has no data of the service.
func index(context.Context, *router.Call) *web.Response {
	text := `Verge operators' API. Send JSON, and the operator token as "Authorization: Bearer ...".
The command line uses this API: verge publisher, verge integration, verge key and others; see --help.

`
	for _, r := range (*Admin)(nil).Routes() {
		if r.Pattern == indexPath || len(r.Methods) == 0 {
			continue
		}
		text += fmt.Sprintf("  %-5s %s\n", r.Methods[0], r.Pattern) // HEAD is implied
	}
	return &web.Response{Status: 200, Body: []byte(text), Header: web.Header{
		"Content-Type":           {"text/plain; charset=utf-8"},
		"Cache-Control":          {"no-store"},
		"X-Content-Type-Options": {"nosniff"},
	}}
}

// label counts all requests of operators together.
const label = "admin"

// isGet limits the index to GET, so that a caller without a token cannot find other methods.
func isGet(req *web.Request) bool { return req.Method == "GET" || req.Method == "HEAD" }

// operator serves an operation: it checks the operator token, then the body and the query.
func (a *Admin) operator(e operate.Served) router.Handler {
	return func(ctx context.Context, r *router.Call) (*web.Response, error) {
		who, err := a.caller(ctx, r.Request)
		if err != nil {
			return nil, err
		}
		if len(r.Body) > 0 && !r.TakenAsJSON() {
			return nil, &web.Error{Code: web.UnsupportedMediaType, Message: "Send the body as " +
				"application/json; with curl: -H 'Content-Type: application/json'."}
		}
		if err := r.CheckSize(); err != nil {
			return nil, err
		}
		query, err := url.ParseQuery(r.Query)
		if err != nil {
			return nil, &web.Error{Code: web.InvalidRequest, Message: "The query is not well formed."}
		}
		return e.Serve(ctx, a.Operations, who, operate.Request{ID: r.Text, Query: query,
			Match: r.Header.Get("If-Match"), Body: r.Body})
	}
}

// NoRoute serves the requests without a route. Without a token, they return 401 instead of 404.
func (a *Admin) NoRoute(ctx context.Context, c *router.Call) (*web.Response, error) {
	if _, err := a.caller(ctx, c.Request); err != nil {
		return nil, err
	}
	if c.Allow != nil {
		return nil, &web.Error{Code: web.MethodNotAllowed, Allow: c.Allow,
			Message: "This path does not support this method."}
	}
	return nil, web.ErrNoPath
}

// minToken is the minimum length of a token that cannot be guessed.
const minToken = 24

// CheckToken returns an error if an operator token is too weak. An empty token is valid: it disables the
// token.
func CheckToken(token string) error {
	if n := len(token); n > 0 && n < minToken {
		return fmt.Errorf("the operator token has %d characters; it must have at least %d "+
			"(generate one with `openssl rand -hex 32`)", n, minToken)
	}
	if why := secrets.Problem(token); why != "" && token != "" {
		return errors.New("the operator token: " + why)
	}
	return nil
}

// caller returns the holder of the request's operator token. After too many wrong tokens from an address, its
// tokens are no longer checked (contract 30).
func (a *Admin) caller(ctx context.Context, req *web.Request) (operate.Actor, error) {
	var nobody operate.Actor
	token, _ := req.Header.Bearer()
	if token == "" {
		return nobody, errNoToken
	}
	var o member.Operator
	err := a.Guard.Check(ctx, req.Client, func() (err error) {
		o, err = a.People.FindOperator(ctx, token)
		return err
	})
	switch {
	case errors.Is(err, web.ErrNotFound):
		return nobody, errNoToken
	case err != nil:
		return nobody, err
	}
	who := operate.Actor(o.Actor())
	if a.used.first(who.ID, req.Client, a.Now()) {
		a.Operations.TellUse(ctx, who, req.Client)
	}
	return who, nil
}

var errNoToken = &web.Error{Code: web.Unauthorized,
	Message: `Send the operator token as "Authorization: Bearer …".`}
