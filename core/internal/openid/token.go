package openid

import (
	"bytes"
	"context"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/formdata"
	"github.com/verge-id/verge/core/internal/result"
	"github.com/verge-id/verge/core/internal/router"
	"github.com/verge-id/verge/core/internal/token"
	"github.com/verge-id/verge/core/web"
)

// Errors of a token request (RFC 6749, 5.2). One error stands for every bad code and one for every bad
// credential, so that neither can be explored.
var (
	errCredentials = &fault{"invalid_client", "send the client_id and a secret key of its publisher, " +
		"from a server"}
	errCode = &fault{"invalid_grant", "the code is not valid for this client, redirect_uri and " +
		"code_verifier, or it was used, or it is older than 60 seconds"}
)

// How long a code, and an access token or an ID token, are valid.
const (
	codeLife  = time.Minute
	grantLife = 5 * time.Minute
)

// token serves a token request: it exchanges a code for an ID token.
func (p *Provider) token(ctx context.Context, c *router.Call) (*web.Response, error) {
	resp, err := p.exchange(ctx, c)
	var f *fault
	switch {
	case err == error(errCredentials):
		resp = errCredentials.response(401, `Basic realm="oidc"`)
	case errors.As(err, &f):
		resp = f.response(400, "")
	case err != nil:
		return nil, err
	}
	resp.Header.Set("Pragma", "no-cache") // RFC 6749, 5.1
	return resp, nil
}

// Errors of a token request that name a mistake of the client.
var (
	faultBoth      = &fault{"invalid_request", "send the secret in the header or in the form, not in both"}
	faultClientID  = &fault{"invalid_request", "client_id differs from that of the Authorization header"}
	faultNoGrant   = &fault{"invalid_request", "grant_type is missing"}
	faultGrantType = &fault{"unsupported_grant_type", "grant_type must be authorization_code"}
	faultNoCode    = &fault{"invalid_request", "code is missing"}
	faultNoURI     = &fault{"invalid_request", "redirect_uri is missing"}
)

func (p *Provider) exchange(ctx context.Context, c *router.Call) (*web.Response, error) {
	text, err := formOf(c)
	if err != nil {
		if limited := p.API.TakeSecret(ctx, c); limited != nil {
			return nil, limited
		}
		return nil, err
	}
	form, malformed := formdata.ReadOAuth(text, "grant_type", "code", "redirect_uri", "code_verifier",
		"client_id", "client_secret")
	id, secret, bad := credentials(c.Header, form)
	i, err := p.authenticate(ctx, c, id, secret)
	switch kind := form.Get("grant_type"); {
	case errors.Is(err, web.RateLimited):
		return nil, err
	case malformed != nil:
		return nil, &fault{"invalid_request", malformed.Error()}
	case bad != nil:
		return nil, bad
	case err != nil:
		return nil, err
	case kind == "":
		return nil, faultNoGrant
	case kind != "authorization_code":
		return nil, faultGrantType
	case form.Get("code") == "":
		return nil, faultNoCode
	case form.Get("redirect_uri") == "":
		return nil, faultNoURI
	}
	r, err := p.redeem(ctx, c.Now, i, form)
	if err == errCode {
		p.rejected(ctx, "authorization code rejected", i.ID, errCode)
	}
	return r, err
}

// credentials returns the client's id and secret, from the header or from the form.
func credentials(h web.Header, form url.Values) (id, secret string, bad *fault) {
	lines := h["Authorization"]
	if len(lines) == 0 {
		return form.Get("client_id"), form.Get("client_secret"), nil
	}
	scheme, text, _ := strings.Cut(lines[0], " ")
	pair, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
	if len(lines) > 1 || !strings.EqualFold(scheme, "Basic") || err != nil {
		return "", "", errCredentials
	}
	id, secret, _ = strings.Cut(string(pair), ":")
	id, err1 := url.QueryUnescape(id) // RFC 6749, 2.3.1
	secret, err2 := url.QueryUnescape(secret)
	switch {
	case err1 != nil || err2 != nil:
		return "", "", errCredentials
	case form.Has("client_secret"):
		return "", "", faultBoth
	case form.Has("client_id") && form.Get("client_id") != id:
		return "", "", faultClientID
	}
	return id, secret, nil
}

// authenticate returns the client with that id whose publisher has that secret key. It counts the request.
func (p *Provider) authenticate(ctx context.Context, c *router.Call, id, secret string) (
	*integration.Integration, error) {
	key, err := p.API.SecretKey(ctx, c, secret)
	if errors.Is(err, web.Unauthorized) || errors.Is(err, web.Forbidden) {
		return nil, errCredentials
	}
	if err != nil {
		return nil, err
	}
	i, err := p.clientOf(ctx, id)
	if err == error(errClient) || err == nil && i.PublisherID != key.PublisherID {
		return nil, errCredentials
	}
	return i, err
}

// redeem exchanges a code. The ID token is signed before the code is used, so that a failure of the key
// does not cost the user the result.
func (p *Provider) redeem(ctx context.Context, now time.Time, i *integration.Integration, form url.Values) (
	*web.Response, error) {
	g, err := token.OpenGrant(p.Sealer, token.Code, form.Get("code"))
	t, err := p.Results.Of(g.ResultClaims, err)
	if errors.Is(err, host.ErrKeyAwaited) {
		return nil, err
	}
	if err != nil || t.Session.Integration != i.ID || !accepts(&g, form, now) ||
		!slices.Contains(i.RedirectURIs, form.Get("redirect_uri")) {
		return nil, errCode
	}
	_, nonce, _ := strings.Cut(string(g.OpenID), ".")
	idToken, err := p.sign(ctx, i.ID, nonce, factsOf(&g, t.Session.Level), now)
	if err != nil {
		return nil, &web.Error{Code: web.Unavailable, RetryAfter: 1, Cause: err,
			Message: "The service cannot sign just now; the code was not used. Try again."}
	}
	access, err := token.SealGrant(p.Sealer, token.Access, &token.Grant{ResultClaims: g.ResultClaims,
		Issued: token.At(now), Age: g.Age})
	if err != nil {
		return nil, err
	}
	switch _, err := p.Results.Redeem(ctx, t, "", now); {
	case err == error(result.ErrInvalid), err == error(result.ErrExpired), err == error(result.ErrUsed):
		return nil, errCode
	case err != nil:
		return nil, err
	}
	p.About(ctx, host.RequestInfo{Session: t.Text, Integration: i.ID})
	return web.JSONBytes(200, []byte(`{"access_token":"`+access+`","token_type":"Bearer","expires_in":300,`+
		`"scope":"openid","id_token":"`+idToken+`"}`)), nil
}

// accepts reports whether a code is young enough and the form is of the client that sent the request. A
// verifier without a challenge is rejected, so that removing the challenge from a request gains nothing
// (RFC 9700, 4.8.2). It is pure.
func accepts(g *token.Grant, form url.Values, now time.Time) bool {
	redirect := hashOf(form.Get("redirect_uri"))
	if !isCurrent(g, codeLife, now) || !bytes.Equal(g.Redirect, redirect) {
		return false
	}
	verifier := form.Get("code_verifier")
	challenge, _, _ := strings.Cut(string(g.OpenID), ".")
	if challenge == "" {
		return !form.Has("code_verifier")
	}
	return len(verifier) >= 43 && len(verifier) <= 128 &&
		subtle.ConstantTimeCompare([]byte(challenge), []byte(encode(hashOf(verifier)))) == 1
}

// isCurrent reports whether a grant is at most so old.
func isCurrent(g *token.Grant, life time.Duration, now time.Time) bool {
	age := now.Sub(g.Issued.Time())
	return age < life && age >= -host.ClockMargin
}
