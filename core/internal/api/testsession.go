package api

import (
	"context"
	"errors"
	"time"

	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/web"
)

// TestSession is a session that was started without a key, to try an integration out.
type TestSession struct {
	Session     string
	RedirectURL string
	Expires     time.Time
}

// StartTestSession starts a session for somebody who has already shown that they may, in the console or as an
// operator. The caller has checked that the integration is ready and that the callback is allowed. It is like
// a start with a secret key otherwise.
func (a *API) StartTestSession(ctx context.Context, i *integration.Integration, callback string) (
	TestSession, error) {
	c := &call{API: a, Call: &web.Call{Now: a.Now()}, ctx: ctx}
	resp, err := c.begin(startRequest{integrationID: i.ID, callback: callback}, i, nil)
	if err != nil {
		return TestSession{}, err
	}
	answer, err := web.ReadObject(resp.Body)
	if err != nil {
		return TestSession{}, err
	}
	id, _, ok1 := answer.String("session_id")
	redirect, _, ok2 := answer.String("redirect_url")
	at, _, ok3 := answer.String("expires_at")
	expires, err := time.Parse(time.RFC3339, at)
	if !ok1 || !ok2 || !ok3 || err != nil {
		return TestSession{}, errors.New("api: start gave an answer that cannot be read")
	}
	return TestSession{Session: id, RedirectURL: redirect, Expires: expires}, nil
}
