package api

import (
	"context"
	"log/slog"
	"strings"

	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/language"
	"github.com/verge-id/verge/core/internal/lifecycle"
	"github.com/verge-id/verge/core/internal/metric"
	"github.com/verge-id/verge/core/internal/router"
	"github.com/verge-id/verge/core/internal/session"
	"github.com/verge-id/verge/core/internal/strictjson"
	"github.com/verge-id/verge/core/internal/timestamp"
	"github.com/verge-id/verge/core/internal/token"
	"github.com/verge-id/verge/core/internal/uuid"
	"github.com/verge-id/verge/core/internal/weburl"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/web"
)

// Lengths in bytes (contract 8).
const (
	maxState = 1024
	maxUser  = 256
)

// startResponse is the body of a 200.
type startResponse struct {
	SessionID   string `json:"session_id"`
	RedirectURL string `json:"redirect_url"`
	ExpiresAt   string `json:"expires_at"`
}

func (r startResponse) marshal() []byte {
	w := strictjson.NewWriter(64 + len(r.SessionID) + len(r.RedirectURL) + len(r.ExpiresAt))
	w.Text("session_id", r.SessionID)
	w.Text("redirect_url", r.RedirectURL)
	w.Text("expires_at", r.ExpiresAt)
	return w.End()
}

// startRequest contains the values of a body that has passed every check.
type startRequest struct {
	integrationID string
	callback      string
	state, user   *string
	language      string
	openID        []byte // token.FlowClaims.OpenID
}

// Start is POST /api/v1/verify/start.
func (a *API) Start(ctx context.Context, r *router.Call) (*web.Response, error) {
	return a.serve(ctx, r, (*call).start)
}

func (c *call) start() (*web.Response, error) {
	key, f, err := c.startCaller()
	if err != nil {
		return nil, err
	}
	public := key == nil || key.Public()
	if text := f.text("public_key"); text != nil && !public {
		f.fail("public_key", detailConflict, "Must be omitted when a secret key is sent.")
	}
	idempotency := c.idempotencyKey(f, public)
	req, owned, err := c.startFields(f, key)
	if err != nil && key == nil {
		err = c.readable(err)
	}
	begin := func(r *replay) (*web.Response, error) {
		if err == nil {
			err = c.mayStart(key, owned)
		}
		if err != nil {
			return nil, err
		}
		return c.begin(req, owned, r)
	}
	if idempotency == "" {
		return begin(nil)
	}
	if owned != nil {
		c.about.Integration = owned.ID
	}
	// A change of the integration since the first request does not hide the response to it.
	return c.once(idempotency, begin)
}

// mayStart returns an error if a key cannot start sessions of an integration. A missing integration is nil.
func (c *call) mayStart(key *integration.Key, i *integration.Integration) error {
	if i == nil {
		return &web.Error{Code: web.NotFound, Message: "There is no such integration."}
	}
	if key.Public() && key.IntegrationID != i.ID {
		return &web.Error{Code: web.Forbidden, Message: "This public key belongs to another integration."}
	}
	c.about.Integration = i.ID
	return c.checkReady(i)
}

// checkReady returns an error if the integration must not start sessions yet.
func (c *call) checkReady(i *integration.Integration) error {
	if c.Dev {
		return nil
	}
	ready, err := c.Directory.Ready(c.ctx, i)
	if err == nil && !ready {
		err = &web.Error{Code: web.IntegrationNotReady, Message: "The integration's signed " +
			"webhook test has not reported Ready. Run the test, or switch its webhooks off explicitly."}
	}
	return err
}

// startCaller authenticates the caller by exactly one of a secret key in the header and a public key in the
// body (contract 9). The key is nil if public_key is not a string.
func (c *call) startCaller() (*integration.Key, *fields, error) {
	if _, present := c.Header.Bearer(); !present {
		return c.publicCaller()
	}
	key, err := c.secretCaller(c.startRules)
	if err != nil {
		return nil, nil, err
	}
	f, err := c.body()
	return key, f, err
}

// startFields checks the whole body. owned is nil if the integration does not exist, is archived or belongs
// to another publisher. It is nil without a key as well, because the publisher is then unknown.
func (c *call) startFields(f *fields, key *integration.Key) (
	req startRequest, owned *integration.Integration, err error) {
	rules := weburl.CallbackRules{Dev: c.Dev}
	if id := f.required("integration_id"); id != nil {
		if _, err := uuid.Parse(*id); err != nil {
			f.fail("integration_id", detailFormat, "Must be a UUID.")
		} else {
			req.integrationID = strings.ToLower(*id)
			if key != nil {
				if owned, err = c.startable(key, req.integrationID); err != nil {
					return req, nil, err
				}
			}
		}
	}
	// A public key of another integration is rejected later. Its holder must not learn origins from errors.
	if owned != nil && (!key.Public() || key.IntegrationID == owned.ID) {
		rules.Origins = owned.CallbackOrigins
	}
	if callback := f.required("callback_url"); callback != nil {
		req.callback = *callback
		if _, problem := weburl.ParseCallback(*callback, rules); problem != "" {
			f.fail("callback_url", detailFormat, problem)
		}
	}
	req.state = f.free("state", maxState)
	req.user = f.free("external_user_id", maxUser)
	if lang := f.text("language"); lang != nil {
		req.language = *lang
		if !language.Known(*lang) {
			f.fail("language", detailValue, "Must be one of en, de, es, fr, pt, it.")
		}
	}
	return req, owned, f.err()
}

// begin creates the session. With a replay, the commit that creates the session stores the response
// too.
func (c *call) begin(req startRequest, i *integration.Integration, r *replay) (*web.Response, error) {
	level, err := session.ParseLevel(i.Level)
	if err != nil {
		return nil, err
	}
	partition, err := c.partition(r)
	if err != nil {
		return nil, err
	}
	id, err := session.NewID(c.Random, i.ID, level, i.ChallengeAge, c.Now, partition)
	if err != nil {
		return nil, err
	}
	text, err := id.Format(c.Sealer)
	if err != nil {
		return nil, err
	}
	c.about.Session = text
	s := lifecycle.Session{ID: id, Text: text, Integration: i, User: req.user, State: req.state,
		Untimed: !i.Webhook.Sends()}
	name, initiation := c.initiate(s, req.language)
	resp, rejection, err := c.startedOrFailed(req, s, initiation)
	if err != nil {
		return nil, err
	}
	checks, puts, err := r.keep(resp, rejection)
	if err != nil {
		return nil, err
	}
	var failed *session.Step
	if initiation != nil {
		step := lifecycle.WhyFailed(name, initiation)
		step.Result, failed = metric.MethodUnavailable, &step
	}
	if err := c.Lifecycle.Begin(c.ctx, s, failed, checks, puts); err != nil {
		return nil, err
	}
	if rejection != nil {
		c.Log.LogAttrs(c.ctx, slog.LevelWarn, "provider initiation failed",
			lifecycle.StepAttrs(s, *failed, initiation)...)
		return nil, rejection
	}
	return resp, nil
}

// initiate begins the integration's only method, and returns its name and its error. If there are several
// methods, the user chooses one later, and initiate does nothing (contract 33). Methods that are no longer
// configured are ignored. If none remains, the integration's users cannot be verified, and the error is the
// first one's.
func (c *call) initiate(s lifecycle.Session, language string) (name string, err error) {
	known, only := 0, ""
	for _, name := range s.Integration.Offers() {
		if _, ok := c.Methods[name]; ok {
			known, only = known+1, name
		}
	}
	switch known {
	case 0:
		return s.Integration.Offers()[0], &method.Rejection{Reason: "not_configured"}
	case 1:
		return only, c.Methods[only].Begin(c.ctx,
			s.ForMethod(only, language, 0, c.BaseURL+web.ReturnPath+only))
	}
	return "", nil
}

// startedOrFailed returns the 200 or the 502.
func (c *call) startedOrFailed(req startRequest, s lifecycle.Session, initiation error) (
	*web.Response, *web.Error, error) {
	if initiation != nil {
		return nil, initiationFailed(s.Text), nil
	}
	claims := token.FlowClaims{Session: s.Text, Callback: []byte(req.callback), Language: req.language,
		Expires: token.At(s.ID.Expires()), OpenID: req.openID, Untimed: s.Untimed}
	claims.SetState(s.State)
	claims.SetUser(s.User)
	flow, err := token.SealFlow(c.Sealer, claims)
	if err != nil {
		return nil, nil, err
	}
	return web.JSONBytes(200, startResponse{
		SessionID:   s.Text,
		RedirectURL: c.BaseURL + web.HostedPath + "?flow=" + flow, // base64url needs no escape
		ExpiresAt:   timestamp.Text(s.ID.Expires()),
	}.marshal()), nil, nil
}

func initiationFailed(session string) *web.Error {
	return &web.Error{Code: web.ProviderUnavailable, Session: session,
		Message: "The provider could not start the verification. The session has failed; start a new one."}
}
