package api

import (
	"context"
	"errors"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/router"
	"github.com/verge-id/verge/core/internal/strictjson"
)

// Started is a session that was started without an API key.
type Started struct {
	Session     string
	RedirectURL string
	Expires     time.Time
}

// StartTestSession starts a session for an actor who has already shown that they may, in the console or as an
// operator. The caller has checked that the integration is ready and that the callback is allowed. It is like
// a start with a secret key otherwise.
func (a *API) StartTestSession(ctx context.Context, i *integration.Integration, callback string) (
	Started, error) {
	c := &call{API: a, Call: &router.Call{Now: a.Now()}, ctx: ctx}
	return c.beginKeyless(startRequest{integrationID: i.ID, callback: callback}, i)
}

// OpenIDStart is an authorization request of the OpenID provider.
type OpenIDStart struct {
	Redirect string // one of the integration's redirect URIs
	State    *string
	Language string // one of the service's, or ""
	Request  []byte // token.FlowClaims.OpenID
}

// StartOpenID starts a session for a client of the OpenID provider (contract 50). It is like a start with a
// public key, whose rates count for the integration: anyone can send such a request. The caller has counted
// it by TakePublic, and has checked its values.
func (a *API) StartOpenID(ctx context.Context, r *router.Call, i *integration.Integration, s *OpenIDStart) (
	Started, error) {
	c := &call{API: a, Call: r, ctx: ctx}
	a.About(ctx, host.RequestInfo{Integration: i.ID, Publisher: i.PublisherID})
	err := c.TakeKey(ctx, c.publicKeyRules(nil, i.ID, i.PublisherID))
	if err == nil {
		err = c.checkReady(i)
	}
	if err != nil {
		return Started{}, err
	}
	started, err := c.beginKeyless(startRequest{integrationID: i.ID, callback: s.Redirect, state: s.State,
		language: s.Language, openID: s.Request}, i)
	a.About(ctx, c.about)
	return started, err
}

// IsState reports whether a state has at most that number of bytes, and no control characters (contract 8).
func IsState(state string, most int) bool { return len(state) <= most && !hasControl(state) }

func (c *call) beginKeyless(req startRequest, i *integration.Integration) (Started, error) {
	resp, err := c.begin(req, i, nil)
	if err != nil {
		return Started{}, err
	}
	response, err := strictjson.Read(resp.Body)
	if err != nil {
		return Started{}, err
	}
	id, _, ok1 := response.String("session_id")
	redirect, _, ok2 := response.String("redirect_url")
	at, _, ok3 := response.String("expires_at")
	expires, err := time.Parse(time.RFC3339, at)
	if !ok1 || !ok2 || !ok3 || err != nil {
		return Started{}, errors.New("api: start returned a response that cannot be read")
	}
	return Started{Session: id, RedirectURL: redirect, Expires: expires}, nil
}

// TakePublic counts a request without a credential against its address.
func (a *API) TakePublic(ctx context.Context, r *router.Call) error {
	c := &call{API: a, Call: r, ctx: ctx}
	return r.Take(ctx, c.publicIP()...)
}

// TakeSecret counts a request with a secret credential against its address.
func (a *API) TakeSecret(ctx context.Context, r *router.Call) error {
	c := &call{API: a, Call: r, ctx: ctx}
	return r.Take(ctx, c.secretIP())
}

// SecretKey returns the active secret key with that text, and counts the request as validate does. The key is
// not in a Bearer header, but everything else is as for the API.
func (a *API) SecretKey(ctx context.Context, r *router.Call, text string) (*integration.Key, error) {
	c := &call{API: a, Call: r, ctx: ctx}
	defer func() {
		if c.about != (host.RequestInfo{}) {
			a.About(ctx, c.about)
		}
	}()
	return c.secretCallerOf(text, nil)
}
