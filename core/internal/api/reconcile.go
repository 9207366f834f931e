package api

import (
	"context"
	"errors"
	"strings"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/internal/lifecycle"
	"github.com/verge-id/verge/core/internal/router"
	"github.com/verge-id/verge/core/internal/session"
	"github.com/verge-id/verge/core/internal/strictjson"
	"github.com/verge-id/verge/core/internal/timestamp"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/core/webhook"
)

// reconcileResponse is the body of a 200. A nil member is null.
type reconcileResponse struct {
	SessionID       string  `json:"session_id"`
	Status          string  `json:"status"`
	Verified        *bool   `json:"verified"`
	FailureCode     *string `json:"failure_code"`
	FailureReason   *string `json:"failure_reason"`
	Level           string  `json:"level"`
	ChallengeAge    int     `json:"challenge_age"`
	CompletedAt     *string `json:"completed_at"`
	ExpiresAt       string  `json:"expires_at"`
	ResultAvailable bool    `json:"result_available"`
}

func (r reconcileResponse) marshal() []byte {
	w := strictjson.NewWriter(448)
	w.Text("session_id", r.SessionID)
	w.Text("status", r.Status)
	if r.Verified == nil {
		w.Null("verified")
	} else {
		w.Bool("verified", *r.Verified)
	}
	w.Optional("failure_code", r.FailureCode)
	w.Optional("failure_reason", r.FailureReason)
	w.Text("level", r.Level)
	w.Number("challenge_age", int64(r.ChallengeAge))
	w.Optional("completed_at", r.CompletedAt)
	w.Text("expires_at", r.ExpiresAt)
	w.Bool("result_available", r.ResultAvailable)
	return w.End()
}

var errNoSession = &web.Error{Code: web.NotFound, Message: "There is no such session."}

// Reconcile is GET /api/v1/verify/sessions/{sessionId}.
func (a *API) Reconcile(ctx context.Context, r *router.Call) (*web.Response, error) {
	return a.serve(ctx, r, (*call).reconcile)
}

func (c *call) reconcile() (*web.Response, error) {
	key, err := c.secretCaller(c.reconcileKey)
	if err != nil {
		return nil, err
	}
	text := c.Text
	id, err := session.ParseID(c.Sealer, text)
	if errors.Is(err, session.ErrMalformed) && !looksLikeID(text) {
		return nil, &web.Error{Code: web.InvalidRequest,
			Message: "The session id is not of the form svc_sess_….",
			Details: []web.FieldError{{Field: "sessionId", Code: detailFormat,
				Message: "Must be a session id as start returned it."}}}
	}
	if errors.Is(err, host.ErrKeyAwaited) {
		return nil, err
	}
	if err != nil {
		return nil, errNoSession
	}
	i, err := c.ownIntegration(key, id.Integration)
	if err != nil {
		return nil, err
	}
	if i == nil || !c.Now.Before(id.Expires().Add(c.Lifecycle.OutcomeLife)) {
		return nil, errNoSession
	}
	c.about.Session, c.about.Integration = text, i.ID
	r, err := c.Lifecycle.Outcome(c.ctx, lifecycle.Session{ID: id, Text: text, Integration: i})
	if err != nil {
		return nil, err
	}
	return web.JSONBytes(200, view(text, id, r).marshal()), nil
}

// looksLikeID reports whether text has the form of a session id in openapi.yaml. A well-formed id that this
// service did not issue returns 404. Any other text returns 400.
func looksLikeID(text string) bool {
	rest, ok := strings.CutPrefix(text, session.Prefix)
	return ok && rest != "" && len(text) <= maxID &&
		strings.Trim(rest, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") == ""
}

const maxID = 256

// view returns the part of a record that publishers see (contract 20).
func view(text string, id session.ID, r session.Record) reconcileResponse {
	v := reconcileResponse{SessionID: text, Status: r.State.Status(), Level: id.Level.String(),
		ChallengeAge: id.ChallengeAge, ExpiresAt: timestamp.Text(id.Expires()),
		ResultAvailable: r.State == session.Completed}
	if !r.Terminal() {
		return v
	}
	verified := r.State == session.Completed
	at := timestamp.Text(r.At)
	v.Verified, v.CompletedAt = &verified, &at
	if r.FailureCode != "" {
		reason := webhook.FailureMessage(r.FailureCode)
		v.FailureCode, v.FailureReason = &r.FailureCode, &reason
	}
	return v
}
