// Package admin is the API of operators. The commands `verge integration`, `verge
// key` and `verge delivery` use it. It is served on a listener of its own. Every
// request but the one for the front page needs the operator token.
package admin

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/outbox"
	"github.com/verge-id/verge/core/ratelimit"
	"github.com/verge-id/verge/core/reply"
	"github.com/verge-id/verge/core/uuid"
	"github.com/verge-id/verge/core/web"
)

// Admin answers operators. All fields are needed.
type Admin struct {
	Sealer host.Sealer // for the session id of a webhook test
	Now    func() time.Time
	Random io.Reader
	Log    *slog.Logger

	Token      string // the operator token
	Limiter    *ratelimit.Limiter
	Failures   ratelimit.Limit // of wrong tokens of an address
	Dev        bool            // allows public keys without callback origins
	Directory  *integration.Directory
	Outbox     *outbox.Outbox
	Partitions []kv.Partition
}

// Patterns of the routes.
const (
	indexPath        = "/"       // GET, without a token
	Root             = "/admin/" // every other path begins with it
	prefix           = Root + "v1/"
	IntegrationsPath = prefix + "integrations"           // GET
	TestPath         = prefix + "integrations/{id}/test" // POST
	KeysPath         = prefix + "keys"                   // GET, POST
	RevokePath       = prefix + "keys/{id}/revoke"       // POST
	DeliveriesPath   = prefix + "deliveries"             // GET; ?state=dead (the default) or waiting
	ResendPath       = prefix + "deliveries/{id}/resend" // POST
)

// index tells whoever opens this listener in a browser what it is. It needs no
// token and tells nothing of the service.
func index() *web.Response {
	text := `Verge, operators' API. It is JSON and wants the operator token as "Authorization: Bearer ...".
The command line speaks it: verge integration list, verge delivery list, verge key list, each with --help.

`
	for _, r := range routes {
		if r.Pattern == indexPath {
			continue
		}
		for _, method := range r.Methods {
			text += fmt.Sprintf("  %-5s %s\n", method, r.Pattern)
		}
	}
	return &web.Response{Status: 200, Body: []byte(text), Header: web.Header{
		"Content-Type":           {"text/plain; charset=utf-8"},
		"Cache-Control":          {"no-store"},
		"X-Content-Type-Options": {"nosniff"},
	}}
}

// request is one request with what its route says of it.
type request struct {
	*web.Request
	id      string // what stands for {id}
	maxBody int
}

type handler func(a *Admin, ctx context.Context, req request) (*web.Response, error)

// routes has every route of operators. Package web says how to add one. Handle
// answers the first one itself, since it needs no token.
var routes = web.Table[handler]{
	{Methods: []string{"GET", "HEAD"}, Pattern: indexPath, Label: label, Only: isGet},
	{Methods: get, Pattern: IntegrationsPath, Label: label, Handle: (*Admin).integrations},
	{Methods: post, Pattern: TestPath, Label: label, Handle: (*Admin).test},
	{Methods: get, Pattern: KeysPath, Label: label, Handle: (*Admin).keys},
	{Methods: post, Pattern: KeysPath, Label: label, Handle: (*Admin).createKey},
	{Methods: post, Pattern: RevokePath, Label: label, Handle: (*Admin).revokeKey},
	{Methods: get, Pattern: DeliveriesPath, Label: label, Handle: (*Admin).deliveries},
	{Methods: post, Pattern: ResendPath, Label: label, Handle: (*Admin).resend},
	{Pattern: "{...}", Label: label},
}

// label counts all requests of operators together.
const label = "admin"

var (
	get  = []string{"GET"}
	post = []string{"POST"}
)

// isGet limits the index to GET, so that a caller without a token learns nothing else.
func isGet(req *web.Request) bool { return req.Method == "GET" || req.Method == "HEAD" }

// Routes lists the routes of operators, for the server in front of an engine.
func Routes() web.Listing { return routes.Listing() }

// Handle answers one request; an *reply.Error among the errors is for the caller.
func (a *Admin) Handle(ctx context.Context, req *web.Request) (*web.Response, error) {
	route, id, allow := routes.Find(req)
	if route != nil && route.Pattern == indexPath {
		return index(), nil
	}
	if !a.authorized(req) {
		return nil, a.refuse(ctx, req)
	}
	switch {
	case route != nil && len(req.Body) > 0 && !req.TakenAsJSON():
		return nil, &reply.Error{Code: reply.UnsupportedMediaType,
			Message: "Send the body as application/json; with curl: -H 'Content-Type: application/json'."}
	case route != nil:
		return route.Handle(a, ctx, request{req, id, route.BodyLimit()})
	case allow != nil:
		return nil, &reply.Error{Code: reply.MethodNotAllowed, Allow: allow,
			Message: "This path does not take that method."}
	}
	return nil, &reply.Error{Code: reply.NotFound, Message: reply.NoSuchPath}
}

// minToken is the length from which on a token counts as one that nobody can guess.
const minToken = 24

// CheckToken reports why an operator token is not good enough as a secret. An
// empty token is good: with it, nobody is let in.
func CheckToken(token string) error {
	if n := len(token); n > 0 && n < minToken {
		return fmt.Errorf("the operator token has %d characters; it must have at least %d "+
			"(`openssl rand -hex 32` makes a good one)", n, minToken)
	}
	return nil
}

// authorized compares hashes, so that the time it takes tells nothing about the
// token, not even its length.
func (a *Admin) authorized(req *web.Request) bool {
	given, ok := strings.CutPrefix(req.Header.Get("Authorization"), "Bearer ")
	want, got := sha256.Sum256([]byte(a.Token)), sha256.Sum256([]byte(given))
	return subtle.ConstantTimeCompare(want[:], got[:]) == 1 && ok && a.Token != ""
}

// refuse counts a wrong token against its address and refuses the request, with
// 429 once the rate is exceeded (contract 30). The right token is not counted and
// never waits. Otherwise, somebody who shares an operator's address could lock the
// operator out.
func (a *Admin) refuse(ctx context.Context, req *web.Request) error {
	rule := ratelimit.ClientRule("operator-ip", req.Client, a.Failures)
	result, err := a.Limiter.Take(ctx, a.Now(), []ratelimit.Rule{rule})
	if err != nil {
		return err
	}
	if !result.Allowed {
		return &reply.Error{Code: reply.RateLimited, RetryAfter: result.RetryAfter,
			Message: "Too many wrong operator tokens from this address. " +
				"Retry-After says when to try again; the right one need not wait."}
	}
	return &reply.Error{Code: reply.Unauthorized,
		Message: `Send the operator token as "Authorization: Bearer …".`}
}

// IntegrationView is an integration as operators see it, without any secret, not
// even a sealed one.
type IntegrationView struct {
	integration.Integration
	Ready bool `json:"ready"`
}

func (a *Admin) integrations(ctx context.Context, _ request) (*web.Response, error) {
	all, err := a.Directory.Integrations(ctx)
	if err != nil {
		return nil, err
	}
	views := make([]IntegrationView, len(all))
	for n, i := range all {
		ready, err := a.Directory.Ready(ctx, &i)
		if err != nil {
			a.Log.Warn("readiness cannot be told", "integration", i.ID, "error", err.Error())
		}
		views[n] = IntegrationView{i.Shown(), ready}
	}
	return reply.JSON(200, struct {
		Integrations []IntegrationView `json:"integrations"`
	}{views}), nil
}

// KeyRequest asks for a key. With an IntegrationID it is a public key.
type KeyRequest struct {
	PublisherID   string     `json:"publisher_id"`
	IntegrationID string     `json:"integration_id,omitempty"`
	Expires       *time.Time `json:"expires,omitempty"` // nil: it never ends by itself
}

// CreatedKey is the only answer that has the key itself.
type CreatedKey struct {
	Key  string          `json:"key"`
	Info integration.Key `json:"info"`
}

func (a *Admin) createKey(ctx context.Context, req request) (*web.Response, error) {
	if len(req.Body) > req.maxBody {
		return nil, &reply.Error{Code: reply.PayloadTooLarge, Message: web.LargerThan(req.maxBody)}
	}
	body, err := web.ReadObject(req.Body)
	if err != nil {
		return nil, &reply.Error{Code: reply.InvalidRequest,
			Message: "Send a JSON object with publisher_id, and for a public key integration_id."}
	}
	// A member of another type does not count as absent. Otherwise a request for a
	// public key could get a secret one, or one that never expires.
	for _, name := range []string{"publisher_id", "integration_id", "expires"} {
		if text, present, ok := body.String(name); !ok || present && text == "" {
			return nil, &reply.Error{
				Code:    reply.InvalidRequest,
				Message: name + " must be a string that is not empty.",
			}
		}
	}
	var kr KeyRequest
	var named bool
	if kr.PublisherID, named, _ = body.String("publisher_id"); !named {
		return nil, &reply.Error{Code: reply.InvalidRequest,
			Message: "publisher_id is missing: it says whose key it is."}
	}
	kr.IntegrationID, _, _ = body.String("integration_id")
	if text, present, _ := body.String("expires"); present {
		t, err := time.Parse(time.RFC3339, text)
		if err != nil || !t.After(a.Now()) {
			return nil, &reply.Error{Code: reply.InvalidRequest,
				Message: "expires must be an RFC 3339 time in the future."}
		}
		kr.Expires = &t
	}
	if err := a.allowPublic(ctx, kr); err != nil {
		return nil, err
	}
	text, key, err := a.Directory.CreateKey(ctx, kr.PublisherID, kr.IntegrationID, kr.Expires)
	if errors.Is(err, integration.ErrNotFound) || errors.Is(err, integration.ErrArchived) {
		return nil, &reply.Error{Code: reply.NotFound,
			Message: "There is no such publisher, or it has no such integration."}
	}
	if err != nil {
		return nil, err
	}
	return reply.JSON(200, CreatedKey{text, key}), nil
}

// allowPublic refuses a public key that could not start any session. CreateKey
// refuses integrations that do not exist or belong to another publisher.
func (a *Admin) allowPublic(ctx context.Context, kr KeyRequest) error {
	if kr.IntegrationID == "" {
		return nil
	}
	i, err := a.Directory.Integration(ctx, kr.IntegrationID)
	if errors.Is(err, integration.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if i.PublisherID != kr.PublisherID || i.AllowsPublicKeys(a.Dev) {
		return nil
	}
	return &reply.Error{Code: reply.Forbidden,
		Message: "A public key needs the integration's callback origins: anybody can read the key and would " +
			"choose where the result token goes. List them in callback_origins, then make the key."}
}

func (a *Admin) keys(ctx context.Context, _ request) (*web.Response, error) {
	all, err := a.Directory.Keys(ctx)
	if err != nil {
		return nil, err
	}
	return reply.JSON(200, struct {
		Keys []integration.Key `json:"keys"`
	}{append([]integration.Key{}, all...)}), nil
}

func (a *Admin) revokeKey(ctx context.Context, req request) (*web.Response, error) {
	key, err := a.Directory.RevokeKey(ctx, req.id)
	if errors.Is(err, integration.ErrNotFound) {
		return nil, &reply.Error{Code: reply.NotFound, Message: "There is no such key."}
	}
	if err != nil {
		return nil, err
	}
	return reply.JSON(200, key), nil
}

// deliveriesPage is the largest number of events in one answer.
const deliveriesPage = 200

// DeliveryPage is one page of events, outbox.Dead or outbox.Waiting. Next is the
// cursor of the next page, empty on the last one.
type DeliveryPage[T any] struct {
	Deliveries []T    `json:"deliveries"`
	Next       string `json:"next,omitempty"`
}

// Values of the parameter state.
const (
	StateDead    = "dead"    // events that were given up; the default
	StateWaiting = "waiting" // events that wait for a retry
)

// deliveries lists events that were not delivered.
func (a *Admin) deliveries(ctx context.Context, req request) (*web.Response, error) {
	query, err := url.ParseQuery(req.Query)
	if err != nil {
		return nil, &reply.Error{Code: reply.InvalidRequest, Message: "The query is not well formed."}
	}
	after := query.Get("after")
	switch query.Get("state") {
	case "", StateDead:
		event := func(d outbox.Dead) string { return d.Event }
		return eventPage(ctx, a.Partitions, after, a.Outbox.Dead, event)
	case StateWaiting:
		event := func(w outbox.Waiting) string { return w.Event }
		return eventPage(ctx, a.Partitions, after, a.Outbox.Waiting, event)
	}
	return nil, &reply.Error{Code: reply.InvalidRequest, Message: "state is neither dead nor waiting."}
}

// eventPage lists the events of one partition after the other. The cursor is the
// partition and the last event that was shown.
func eventPage[T any](ctx context.Context, partitions []kv.Partition, cursor string,
	list func(context.Context, kv.Partition, string, int) ([]T, error), event func(T) string) (
	*web.Response, error) {
	first, after, _ := strings.Cut(cursor, ":")
	page := DeliveryPage[T]{Deliveries: []T{}}
	for _, p := range partitions {
		if first != "" && string(p) != first {
			continue
		}
		first = ""
		room := deliveriesPage - len(page.Deliveries)
		found, err := list(ctx, p, after, room)
		if err != nil {
			return nil, err
		}
		after = ""
		page.Deliveries = append(page.Deliveries, found...)
		if len(found) == room {
			page.Next = string(p) + ":" + event(found[room-1])
			break
		}
	}
	return reply.JSON(200, page), nil
}

func (a *Admin) resend(ctx context.Context, req request) (*web.Response, error) {
	rest, ok := strings.CutPrefix(req.id, "evt_")
	if _, err := uuid.Parse(rest); !ok || err != nil {
		return nil, &reply.Error{Code: reply.InvalidRequest, Message: "An event id is evt_ and a UUID."}
	}
	for _, p := range a.Partitions {
		err := a.Outbox.Resend(ctx, p, req.id, "")
		if err == nil {
			return reply.JSON(200, struct {
				Event string `json:"event"`
				Sent  string `json:"status"`
			}{req.id, "scheduled"}), nil
		}
		if !errors.Is(err, outbox.ErrNotDead) {
			return nil, err
		}
	}
	return nil, &reply.Error{Code: reply.NotFound, Message: "There is no such dead event."}
}
