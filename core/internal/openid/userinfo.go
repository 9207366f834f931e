package openid

import (
	"context"
	"errors"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/internal/router"
	"github.com/verge-id/verge/core/internal/token"
	"github.com/verge-id/verge/core/web"
)

// errAccess is the one error for every bad access token (RFC 6750, 3.1).
var errAccess = &fault{"invalid_token", "send the access token of a token response in the header " +
	"Authorization (Bearer), within 5 minutes"}

// userinfo returns the claims of the ID token about the verification. They are as they were when the code was
// exchanged.
func (p *Provider) userinfo(ctx context.Context, c *router.Call) (*web.Response, error) {
	if err := p.API.TakeSecret(ctx, c); err != nil {
		return nil, err
	}
	if err := c.CheckSize(); err != nil {
		return nil, err
	}
	text, present := c.Header.Bearer()
	if !present {
		return errAccess.response(401, `Bearer realm="oidc"`), nil
	}
	g, err := token.OpenGrant(p.Sealer, token.Access, text)
	t, err := p.Results.Of(g.ResultClaims, err)
	if errors.Is(err, host.ErrKeyAwaited) {
		return nil, err
	}
	if err != nil || !isCurrent(&g, grantLife, c.Now) {
		return errAccess.response(401, `Bearer realm="oidc", error="invalid_token"`), nil
	}
	return web.JSONBytes(200, []byte("{"+factsOf(&g, t.Session.Level))), nil
}
