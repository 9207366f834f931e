package api

import (
	"context"
	"errors"

	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/result"
	"github.com/verge-id/verge/core/internal/router"
	"github.com/verge-id/verge/core/internal/strictjson"
	"github.com/verge-id/verge/core/internal/timestamp"
	"github.com/verge-id/verge/core/web"
)

// validateResponse is the body of a 200.
type validateResponse struct {
	Valid         bool   `json:"valid"`
	Verified      bool   `json:"verified"`
	Level         string `json:"level"`
	ChallengeAge  int    `json:"challenge_age"`
	SessionID     string `json:"session_id"`
	IntegrationID string `json:"integration_id"`
	ValidatedAt   string `json:"validated_at"`
}

func (r validateResponse) marshal() []byte {
	w := strictjson.NewWriter(320)
	w.Bool("valid", r.Valid)
	w.Bool("verified", r.Verified)
	w.Text("level", r.Level)
	w.Number("challenge_age", int64(r.ChallengeAge))
	w.Text("session_id", r.SessionID)
	w.Text("integration_id", r.IntegrationID)
	w.Text("validated_at", r.ValidatedAt)
	return w.End()
}

// Validate is POST /api/v1/verify/validate. It redeems a result token.
func (a *API) Validate(ctx context.Context, r *router.Call) (*web.Response, error) {
	return a.serve(ctx, r, (*call).validate)
}

func (c *call) validate() (*web.Response, error) {
	key, err := c.secretCaller(nil)
	if err != nil {
		return nil, c.publicInBody(err)
	}
	f, err := c.body()
	if err != nil {
		return nil, err
	}
	text := f.required("result_token")
	idempotency := c.idempotencyKey(f, false)
	if err := f.err(); err != nil {
		return nil, err
	}
	t, err := c.openResult(key, *text)
	if err != nil {
		return nil, err
	}
	by := ""
	if idempotency != "" {
		by = key.PublisherID + "\x00" + idempotency
	}
	at, err := c.Results.Redeem(c.ctx, t, by, c.Now)
	if err != nil {
		return nil, err
	}
	return web.JSONBytes(200, validateResponse{
		Valid: true, Verified: true, Level: t.Session.Level.String(), ChallengeAge: t.Session.ChallengeAge,
		SessionID: t.Text, IntegrationID: t.Session.Integration, ValidatedAt: timestamp.Text(at),
	}.marshal()), nil
}

// publicInBody returns 403 if the body contains a known public key, which cannot validate (contract 5).
func (c *call) publicInBody(rejection error) error {
	var e *web.Error
	if _, present := c.Header.Bearer(); present || !errors.As(rejection, &e) || e.Code != web.Unauthorized {
		return rejection
	}
	f, err := c.body()
	if err != nil {
		return rejection
	}
	public, _, _ := f.object.String("public_key")
	_, err = c.activeKey(integration.Present(integration.PublicPrefix, public))
	switch {
	case errors.As(err, &e):
		return rejection
	case err != nil:
		return err
	}
	return &web.Error{Code: web.Forbidden,
		Message: "A public key cannot validate. Use the secret key, from a server."}
}

// openResult returns an authentic result token of the key's publisher, expired or not. All other tokens
// return the same error.
func (c *call) openResult(key *integration.Key, text string) (result.Token, error) {
	t, err := c.Results.Open(text)
	if err != nil {
		return result.Token{}, err
	}
	i, err := c.ownIntegration(key, t.Session.Integration)
	if err != nil {
		return result.Token{}, err
	}
	if i == nil {
		return result.Token{}, result.ErrInvalid
	}
	c.about.Session, c.about.Integration = t.Text, i.ID
	return t, nil
}
