package api

import (
	"errors"
	"strings"

	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/language"
	"github.com/verge-id/verge/core/lifecycle"
	"github.com/verge-id/verge/core/provider"
	"github.com/verge-id/verge/core/ratelimit"
	"github.com/verge-id/verge/core/reply"
	"github.com/verge-id/verge/core/session"
	"github.com/verge-id/verge/core/token"
	"github.com/verge-id/verge/core/uuid"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/core/weburl"
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
	w := web.NewObjectWriter(64 + len(r.SessionID) + len(r.RedirectURL) + len(r.ExpiresAt))
	w.Text("session_id", r.SessionID)
	w.Text("redirect_url", r.RedirectURL)
	w.Text("expires_at", r.ExpiresAt)
	return w.End()
}

// startRequest is a body that has passed every check that does not need to
// know more than the body.
type startRequest struct {
	integrationID string
	callback      string
	state, user   *string
	language      string
}

// Start is POST /api/v1/verify/start.
func Start(c *call) (*web.Response, error) {
	key, f, err := c.startCredential()
	if err != nil {
		return nil, err
	}
	if public := f.text("public_key"); public != nil && !key.Public() {
		f.fail("public_key", detailConflict, "Must be omitted when a secret key is sent.")
	}
	idempotency := c.idempotencyKey(f, key.Public())
	req, owned, err := c.startFields(f, key)
	if err != nil {
		return nil, err
	}
	if owned == nil {
		return nil, &reply.Error{Code: reply.NotFound, Message: "There is no such integration."}
	}
	if key.Public() && key.IntegrationID != owned.ID {
		return nil, &reply.Error{Code: reply.Forbidden, Message: "This public key belongs to another integration."}
	}
	if !c.Dev {
		ready, err := c.Directory.Ready(c.ctx, owned)
		if err != nil {
			return nil, err
		}
		if !ready {
			return nil, &reply.Error{Code: reply.IntegrationNotReady, Message: "The integration's signed webhook test has not reported Ready. Run the test, or switch its webhooks off explicitly."}
		}
	}
	if idempotency == "" {
		return c.begin(req, owned, nil)
	}
	return c.once(key, idempotency, func(r *replay) (*web.Response, error) { return c.begin(req, owned, r) })
}

// startCredential finds out who asks: exactly one of a secret key in the
// header and a public key in the body (contract 9).
func (c *call) startCredential() (*integration.Key, *fields, error) {
	if text, present := c.bearer(); present {
		if err := c.take(c.secretIP()); err != nil {
			return nil, nil, err
		}
		key, err := c.secretKey(text, integration.Present(integration.SecretPrefix, text))
		if err != nil {
			return nil, nil, err
		}
		f, err := c.body()
		return key, f, err
	}
	key, f, err := c.publicKey()
	if err != nil {
		return nil, nil, c.readable(err)
	}
	if err := c.allowPublic(key); err != nil {
		return nil, nil, err
	}
	return key, f, c.proven(c.publicKeyRule(key.ID))
}

// publicKey returns the active public key that the body holds.
func (c *call) publicKey() (*integration.Key, *fields, error) {
	// The body names the key and so is read before the request is counted;
	// what is wrong with it is said only afterwards.
	f, wrong := c.body()
	var public string
	var present, isText bool
	var presented integration.Presented
	var rules []ratelimit.Rule
	if wrong == nil {
		public, present, isText = f.object.String("public_key")
		presented = integration.Present(integration.PublicPrefix, public)
		if c.mayStart(presented) {
			rules = append(rules, c.publicKeyRule(presented.ID()))
		}
	}
	if err := c.take(c.publicIP(), rules...); err != nil {
		return nil, nil, err
	}
	if wrong != nil {
		return nil, nil, wrong
	}
	if present && !isText {
		f.text("public_key")
		c.idempotencyKey(f, true)
		_, _, err := c.startFields(f, nil)
		return nil, nil, err
	}
	key, err := c.activeKey(presented)
	if errors.Is(err, errUnauthorized) {
		err = errNoStartKey
	}
	return key, f, err
}

// mayStart reports whether a public key may, by what was seen last, start this
// request: what is refused must not use up the key, which anybody can read.
func (c *call) mayStart(public integration.Presented) bool {
	if public == (integration.Presented{}) {
		return false
	}
	seen := c.Directory.SeenKey(public)
	if seen == nil {
		return true
	}
	i := c.Directory.SeenIntegration(seen.IntegrationID)
	return seen.Active(c.now) && (i == nil || c.refusal(i) == nil)
}

// errNoStartKey is for whoever sends no Authorization header: to ask a browser
// for the secret key would be bad advice.
var errNoStartKey = &reply.Error{Code: reply.Unauthorized, Message: "Send a valid secret key as \"Authorization: Bearer svc_sk_…\" from a server, or a valid public key in public_key from a browser."}

// startFields checks the body, all of it at once. owned is nil if the
// integration does not exist or is another publisher's, or if key is nil:
// then nobody is known for whom to look it up.
func (c *call) startFields(f *fields, key *integration.Key) (req startRequest, owned *integration.Integration, err error) {
	rules := weburl.CallbackRules{Dev: c.Dev}
	if id := f.required("integration_id"); id != nil {
		if _, err := uuid.Parse(*id); err != nil {
			f.fail("integration_id", detailFormat, "Must be a UUID.")
		} else {
			req.integrationID = strings.ToLower(*id)
			if key != nil {
				if owned, err = c.ownIntegration(key, req.integrationID); err != nil {
					return req, nil, err
				}
			}
		}
	}
	if owned != nil {
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

// ownIntegration returns an integration of the key's publisher, nil if there is none.
func (c *call) ownIntegration(key *integration.Key, id string) (*integration.Integration, error) {
	i, err := c.Directory.Integration(c.ctx, id)
	if errors.Is(err, integration.ErrNotFound) || err == nil && i.PublisherID != key.PublisherID {
		return nil, nil
	}
	return i, err
}

// begin makes the session. With a replay, the answer is kept under its key in
// the commit that makes the session durable.
func (c *call) begin(req startRequest, i *integration.Integration, r *replay) (*web.Response, error) {
	level, err := session.ParseLevel(i.Level)
	if err != nil {
		return nil, err
	}
	partition, err := c.partition(r)
	if err != nil {
		return nil, err
	}
	id, err := session.NewID(c.Random, i.ID, level, i.ChallengeAge, c.now, partition)
	if err != nil {
		return nil, err
	}
	text, err := id.Format(c.Sealer)
	if err != nil {
		return nil, err
	}
	s := lifecycle.Session{ID: id, Text: text, Integration: i, User: req.user, State: req.state}
	method, ok := c.Providers[i.Method]
	if !ok {
		return nil, errors.New("api: integration " + i.ID + " names a method that this service does not have")
	}
	initiation := method.Initiate(c.ctx, provider.Session{ID: text, Level: level.String(),
		ChallengeAge: i.ChallengeAge, Language: req.language, ExpiresAt: id.Expires(), User: req.user})

	resp, refusal, err := c.startAnswer(req, id, text, initiation)
	if err != nil {
		return nil, err
	}
	checks, puts, err := r.keep(resp, refusal)
	if err != nil {
		return nil, err
	}
	if err := c.Lifecycle.Begin(c.ctx, s, initiation == nil, checks, puts); err != nil {
		return nil, err
	}
	if refusal != nil {
		c.Log.Warn("provider initiation failed", "session", text, "method", i.Method, "error", initiation.Error())
		return nil, refusal
	}
	return resp, nil
}

// startAnswer returns the 200 or the 502.
func (c *call) startAnswer(req startRequest, id session.ID, text string, initiation error) (*web.Response, *reply.Error, error) {
	if initiation != nil {
		return nil, initiationFailed(text), nil
	}
	claims := token.FlowClaims{Session: text, Callback: []byte(req.callback), Language: req.language, Expires: token.At(id.Expires())}
	claims.SetState(req.state)
	claims.SetUser(req.user)
	flow, err := token.SealFlow(c.Sealer, claims)
	if err != nil {
		return nil, nil, err
	}
	return reply.Written(200, startResponse{
		SessionID:   text,
		RedirectURL: c.BaseURL + HostedPath + "?flow=" + flow, // base64url needs no escape
		ExpiresAt:   timestamp(id.Expires()),
	}.marshal()), nil, nil
}

func initiationFailed(session string) *reply.Error {
	return &reply.Error{Code: reply.ProviderUnavailable, Session: session,
		Message: "The verification provider could not begin. The session has failed; start a new one."}
}
