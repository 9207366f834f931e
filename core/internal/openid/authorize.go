package openid

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/api"
	"github.com/verge-id/verge/core/internal/formdata"
	"github.com/verge-id/verge/core/internal/language"
	"github.com/verge-id/verge/core/internal/router"
	"github.com/verge-id/verge/core/internal/strict64"
	"github.com/verge-id/verge/core/internal/uuid"
	"github.com/verge-id/verge/core/internal/weburl"
	"github.com/verge-id/verge/core/web"
)

// authorize serves an authorization request: it starts a session and sends the browser to its page.
//
// A request that does not name a client and one of its redirect URIs is an error for the person who sees it.
// Every other error goes back to the client (RFC 6749, 4.1.2.1).
func (p *Provider) authorize(ctx context.Context, c *router.Call) (*web.Response, error) {
	if err := p.API.TakePublic(ctx, c); err != nil {
		return nil, err
	}
	text, err := c.Query, error(nil)
	if c.Method == "POST" {
		if text, err = formOf(c); err != nil {
			return nil, err
		}
	}
	i, redirect, err := p.client(ctx, text)
	if err != nil {
		return nil, err
	}
	start, bad := readRequest(text, redirect)
	if bad == nil {
		started, err := p.API.StartOpenID(ctx, c, i, &start)
		switch {
		case err == nil:
			return seeOther(started.RedirectURL), nil
		case errors.Is(err, web.IntegrationNotReady):
			bad = faultNotReady
		case errors.Is(err, web.ProviderUnavailable):
			bad = faultUnavailable
		default:
			return nil, err
		}
	}
	p.rejected(ctx, "authorization request rejected", i.ID, bad)
	return seeOther(bad.url(p.BaseURL, redirect, start.State)), nil
}

var errParameters = &web.Error{Code: web.InvalidRequest,
	Message: "client_id or redirect_uri occurs twice, or is badly encoded."}

var errClient = &web.Error{Code: web.InvalidRequest, Message: "client_id does not name an OpenID client " +
	"of this service. It is the UUID of an integration that has redirect URIs."}

var errRedirect = &web.Error{Code: web.InvalidRequest, Message: "redirect_uri is missing, or the client " +
	"has not registered it. Add it to the integration's redirect_uris, byte for byte."}

// client returns the client and the redirect URI of a request. Until both are known, no browser is sent
// anywhere.
func (p *Provider) client(ctx context.Context, text string) (*integration.Integration, string, error) {
	values, err := formdata.ReadOAuth(text, "client_id", "redirect_uri")
	if err != nil {
		return nil, "", errParameters
	}
	i, err := p.clientOf(ctx, values.Get("client_id"))
	archived := false
	if err == nil {
		archived, err = p.Directory.PublisherArchived(ctx, i.PublisherID)
	}
	if err != nil {
		return nil, "", err
	}
	if archived || i.Archived != nil {
		return nil, "", errClient
	}
	redirect := values.Get("redirect_uri")
	if !slices.Contains(i.RedirectURIs, redirect) {
		p.rejected(ctx, "authorization request rejected", i.ID, faultRedirect)
		return nil, "", errRedirect
	}
	return i, redirect, nil
}

// clientOf returns the integration that is the client of that id, archived or not. The error is errClient or
// one of the store's. Ids have one spelling, since ID tokens repeat it as aud.
func (p *Provider) clientOf(ctx context.Context, id string) (*integration.Integration, error) {
	if u, err := uuid.Parse(id); err != nil || uuid.Format(u) != id {
		return nil, errClient
	}
	i, err := p.Directory.Integration(ctx, id)
	if errors.Is(err, integration.ErrNotFound) || err == nil && len(i.RedirectURIs) == 0 {
		return nil, errClient
	}
	return i, err
}

// Maximum lengths in bytes. OpenID clients put their own data into the state, so it may be longer than the
// state of a start. With the redirect URI it is not longer than both may be at a start, so addresses and
// cookies with the flow token are not longer either.
const (
	maxState  = 2048
	maxReturn = 3072 // state and redirect URI
	maxNonce  = 256
)

// Errors of an authorization request.
var (
	faultRedirect = &fault{"invalid_request", "redirect_uri is not registered"}
	faultState    = &fault{"invalid_request", "state has more than 2048 bytes, more than 3072 with " +
		"redirect_uri, or a control character"}
	faultRequest      = &fault{"request_not_supported", "send the parameters themselves"}
	faultRequestURI   = &fault{"request_uri_not_supported", "send the parameters themselves"}
	faultRegistration = &fault{"registration_not_supported", "clients are integrations of this service"}
	faultNoType       = &fault{"invalid_request", "response_type is missing"}
	faultType         = &fault{"unsupported_response_type", "response_type must be code"}
	faultMode         = &fault{"invalid_request", "response_mode must be query"}
	faultScope        = &fault{"invalid_scope", "scope must contain openid"}
	faultNonce        = &fault{"invalid_request", "nonce has more than 256 bytes"}
	faultPrompt       = &fault{"invalid_request", "prompt has none and another value"}
	faultInteraction  = &fault{"interaction_required", "each verification needs the user"}
	faultMethod       = &fault{"invalid_request", "code_challenge_method must be S256"}
	faultChallenge    = &fault{"invalid_request", "code_challenge must be 43 characters of base64url"}
	faultNotReady     = &fault{"unauthorized_client", "the signed webhook test has not reported Ready"}
	faultUnavailable  = &fault{"temporarily_unavailable", "the method of verification cannot begin"}
)

// readRequest reads the other parameters of an authorization request. It is pure. The state is also set if
// another parameter is wrong.
func readRequest(text, redirect string) (s api.OpenIDStart, bad *fault) {
	s.Redirect = redirect
	q, err := formdata.ReadOAuth(text, "response_type", "response_mode", "scope", "state", "nonce", "prompt",
		"code_challenge", "code_challenge_method", "request", "request_uri", "registration", "ui_locales")
	if err != nil {
		bad = &fault{"invalid_request", err.Error()}
		q, _ = formdata.ReadOAuth(text, "state")
	}
	if q.Has("state") {
		state := q.Get("state")
		if !api.IsState(state, min(maxState, maxReturn-len(redirect))) {
			return s, faultState
		}
		s.State = &state
	}
	if bad == nil {
		bad = check(q)
	}
	if locales := q.Get("ui_locales"); locales != "" {
		s.Language = language.Match(strings.ReplaceAll(locales, " ", ","))
	}
	s.Request = []byte(q.Get("code_challenge") + "." + q.Get("nonce"))
	return s, bad
}

// check returns the error of parameters that can be read, or nil.
func check(q url.Values) *fault {
	kind, mode, method := q.Get("response_type"), q.Get("response_mode"), q.Get("code_challenge_method")
	prompt := strings.Fields(q.Get("prompt"))
	switch {
	case q.Has("request"):
		return faultRequest
	case q.Has("request_uri"):
		return faultRequestURI
	case q.Has("registration"):
		return faultRegistration
	case kind == "":
		return faultNoType
	case kind != "code":
		return faultType
	case mode != "" && mode != "query":
		return faultMode
	case !slices.Contains(strings.Fields(q.Get("scope")), "openid"):
		return faultScope
	case len(q.Get("nonce")) > maxNonce:
		return faultNonce
	case slices.Contains(prompt, "none") && len(prompt) > 1:
		return faultPrompt
	case slices.Contains(prompt, "none"):
		return faultInteraction
	case !q.Has("code_challenge") && method == "":
		return nil
	case method != "S256": // without a method it would be plain (RFC 7636, 4.3)
		return faultMethod
	}
	if digest, ok := strict64.Decode(q.Get("code_challenge")); !ok || len(digest) != 32 {
		return faultChallenge
	}
	return nil
}

// url returns the redirect URI with the error for the client.
func (f *fault) url(baseURL, redirect string, state *string) string {
	return returnURL(baseURL, redirect, state, [2]string{"error", f.code},
		[2]string{"error_description", f.description})
}

// returnURL returns the redirect URI with parameters, the state as it was given and the issuer (RFC 9207).
func returnURL(baseURL, redirect string, state *string, params ...[2]string) string {
	if state != nil {
		params = append(params, [2]string{"state", *state})
	}
	return weburl.AppendQuery(redirect, append(params, [2]string{"iss", baseURL + Path}))
}

func seeOther(to string) *web.Response {
	r := web.JSONBytes(303, nil) // not stored
	delete(r.Header, "Content-Type")
	r.Header.Set("Location", to)
	r.Header.Set("Referrer-Policy", "no-referrer")
	return r
}
