// Package admin is the API of operators: what `verge integration`, `verge
// key` and `verge delivery` ask a running service for. It is served on a
// listener of its own and every request carries the operator token.
package admin

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/verge-id/verge/core/api"
	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/outbox"
	"github.com/verge-id/verge/core/ratelimit"
	"github.com/verge-id/verge/core/session"
	"github.com/verge-id/verge/core/web"
)

// Admin answers operators. All fields are needed.
type Admin struct {
	host.Host
	Token      string // the operator token
	Limiter    *ratelimit.Limiter
	Failures   ratelimit.Limit // of wrong tokens of an address
	Dev        bool            // public keys without callback origins
	Directory  *integration.Directory
	Outbox     *outbox.Outbox
	Partitions []kv.Partition
}

// Paths. {id} stands for one segment.
const (
	Prefix           = "/admin/v1/"
	IntegrationsPath = Prefix + "integrations"           // GET
	TestPath         = Prefix + "integrations/{id}/test" // POST
	KeysPath         = Prefix + "keys"                   // GET, POST
	RevokePath       = Prefix + "keys/{id}/revoke"       // POST
	DeliveriesPath   = Prefix + "deliveries"             // GET; ?state=dead (the default) or waiting
	ResendPath       = Prefix + "deliveries/{id}/resend" // POST
)

// index says what this listener is to whoever opens it in a browser. It needs
// no token and tells nothing of the service.
func index() *web.Response {
	return &web.Response{Status: 200, Header: web.Header{
		"Content-Type":           {"text/plain; charset=utf-8"},
		"Cache-Control":          {"no-store"},
		"X-Content-Type-Options": {"nosniff"},
	}, Body: []byte(`Verge, operators' API. It is JSON and wants the operator token as "Authorization: Bearer ...".
The command line speaks it: verge integration list, verge delivery list, verge key list, each with --help.

  GET   ` + IntegrationsPath + `
  POST  ` + TestPath + `
  GET   ` + KeysPath + `
  POST  ` + KeysPath + `
  POST  ` + RevokePath + `
  GET   ` + DeliveriesPath + `
  POST  ` + ResendPath + `
`)}
}

type handler func(a *Admin, ctx context.Context, req *web.Request, id string) (*web.Response, error)

var routes = map[string]map[string]handler{
	IntegrationsPath: {"GET": (*Admin).integrations},
	TestPath:         {"POST": (*Admin).test},
	KeysPath:         {"GET": (*Admin).keys, "POST": (*Admin).createKey},
	RevokePath:       {"POST": (*Admin).revokeKey},
	DeliveriesPath:   {"GET": (*Admin).deliveries},
	ResendPath:       {"POST": (*Admin).resend},
}

// Handle answers one request; an *api.Error among the errors is for the caller.
func (a *Admin) Handle(ctx context.Context, req *web.Request) (*web.Response, error) {
	if req.Path == "/" && (req.Method == "GET" || req.Method == "HEAD") {
		return index(), nil
	}
	if !a.authorized(req) {
		return nil, a.refuse(ctx, req)
	}
	pattern, id := req.Path, ""
	if parts := strings.Split(req.Path, "/"); len(parts) == 6 {
		id, parts[4] = parts[4], "{id}"
		pattern = strings.Join(parts, "/")
	}
	methods, ok := routes[pattern]
	if !ok {
		return nil, &api.Error{Code: api.NotFound, Message: "There is no such path."}
	}
	h, ok := methods[req.Method]
	if !ok {
		e := &api.Error{Code: api.MethodNotAllowed, Message: "This path does not take that method."}
		e.Allow = slices.Sorted(maps.Keys(methods))
		return nil, e
	}
	return h(a, ctx, req, id)
}

// minToken is the least length of a token that nobody can guess.
const minToken = 24

// CheckToken reports what is wrong with an operator token as a secret. An empty
// one lets nobody in, and is good.
func CheckToken(token string) error {
	if n := len(token); n > 0 && n < minToken {
		return fmt.Errorf("the operator token has %d characters; it must have at least %d "+
			"(`openssl rand -hex 32` makes a good one)", n, minToken)
	}
	return nil
}

// authorized compares hashes, so that the time taken tells nothing of the token, not even its length.
func (a *Admin) authorized(req *web.Request) bool {
	given, ok := strings.CutPrefix(req.Header.Get("Authorization"), "Bearer ")
	want, got := sha256.Sum256([]byte(a.Token)), sha256.Sum256([]byte(given))
	return subtle.ConstantTimeCompare(want[:], got[:]) == 1 && ok && a.Token != ""
}

// refuse counts a wrong token against its address and says no, past the rate
// with 429 (contract 30). The right token is never counted and never waits:
// whoever shares an operator's address must not be able to lock the operator out.
func (a *Admin) refuse(ctx context.Context, req *web.Request) error {
	rule := ratelimit.ClientRule("operator-ip", req.Client, a.Failures)
	result, err := a.Limiter.Take(ctx, a.Now(), []ratelimit.Rule{rule})
	if err != nil {
		return err
	}
	if !result.Allowed {
		return &api.Error{Code: api.RateLimited, Message: "Too many wrong operator tokens from this address. Retry-After says when to try again; the right one need not wait.",
			RetryAfter: result.RetryAfter}
	}
	return &api.Error{Code: api.Unauthorized, Message: "Send the operator token as \"Authorization: Bearer …\"."}
}

// IntegrationView is an integration as operators see it: no secret, sealed or not.
type IntegrationView struct {
	integration.Integration
	Ready bool `json:"ready"`
}

func (a *Admin) integrations(ctx context.Context, _ *web.Request, _ string) (*web.Response, error) {
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
		i.Webhook.Sealed = ""
		views[n] = IntegrationView{i, ready}
	}
	return api.Answer(200, struct {
		Integrations []IntegrationView `json:"integrations"`
	}{views}), nil
}

// KeyRequest asks for a key: a public one if IntegrationID is given.
type KeyRequest struct {
	PublisherID   string
	IntegrationID string
	Expires       *time.Time // RFC 3339 on the wire
}

// CreatedKey is the one answer that ever holds the key itself.
type CreatedKey struct {
	Key  string          `json:"key"`
	Info integration.Key `json:"info"`
}

func (a *Admin) createKey(ctx context.Context, req *web.Request, _ string) (*web.Response, error) {
	if len(req.Body) > web.MaxBody {
		return nil, &api.Error{Code: api.PayloadTooLarge, Message: "The body is larger than 16 KiB."}
	}
	body, err := web.ReadObject(req.Body)
	if err != nil {
		return nil, &api.Error{Code: api.InvalidRequest, Message: "Send a JSON object with publisher_id, and for a public key integration_id."}
	}
	// A member of another type is not taken for an absent one: that would make
	// a secret key where a public one was asked for, or one that never expires.
	for _, name := range []string{"publisher_id", "integration_id", "expires"} {
		if text, present, ok := body.String(name); !ok || present && text == "" {
			return nil, &api.Error{Code: api.InvalidRequest, Message: name + " must be a string that is not empty."}
		}
	}
	var kr KeyRequest
	var named bool
	if kr.PublisherID, named, _ = body.String("publisher_id"); !named {
		return nil, &api.Error{Code: api.InvalidRequest, Message: "publisher_id is missing: it says whose key it is."}
	}
	kr.IntegrationID, _, _ = body.String("integration_id")
	if text, present, _ := body.String("expires"); present {
		t, err := time.Parse(time.RFC3339, text)
		if err != nil || !t.After(a.Now()) {
			return nil, &api.Error{Code: api.InvalidRequest, Message: "expires must be an RFC 3339 time in the future."}
		}
		kr.Expires = &t
	}
	if err := a.allowPublic(ctx, kr); err != nil {
		return nil, err
	}
	text, key, err := a.Directory.CreateKey(ctx, kr.PublisherID, kr.IntegrationID, kr.Expires)
	if errors.Is(err, integration.ErrNotFound) {
		return nil, &api.Error{Code: api.NotFound, Message: "There is no such publisher, or it has no such integration."}
	}
	if err != nil {
		return nil, err
	}
	return api.Answer(200, CreatedKey{text, key}), nil
}

// allowPublic refuses a public key with which nothing could be started. What
// does not exist or is another publisher's is CreateKey's to refuse.
func (a *Admin) allowPublic(ctx context.Context, kr KeyRequest) error {
	if kr.IntegrationID == "" {
		return nil
	}
	i, err := a.Directory.Integration(ctx, kr.IntegrationID)
	if errors.Is(err, integration.ErrNotFound) || err == nil && (i.PublisherID != kr.PublisherID || i.AllowsPublicKeys(a.Dev)) {
		return nil
	}
	if err != nil {
		return err
	}
	return &api.Error{Code: api.Forbidden, Message: "A public key needs the integration's callback origins: anybody can read the key and would choose where the result token goes. List them in callback_origins, then make the key."}
}

func (a *Admin) keys(ctx context.Context, _ *web.Request, _ string) (*web.Response, error) {
	all, err := a.Directory.Keys(ctx)
	if err != nil {
		return nil, err
	}
	return api.Answer(200, struct {
		Keys []integration.Key `json:"keys"`
	}{append([]integration.Key{}, all...)}), nil
}

func (a *Admin) revokeKey(ctx context.Context, _ *web.Request, id string) (*web.Response, error) {
	key, err := a.Directory.RevokeKey(ctx, id)
	if errors.Is(err, integration.ErrNotFound) {
		return nil, &api.Error{Code: api.NotFound, Message: "There is no such key."}
	}
	if err != nil {
		return nil, err
	}
	return api.Answer(200, key), nil
}

// deliveriesPage is how many events one answer holds at the most.
const deliveriesPage = 200

// DeliveryPage is one page of events, outbox.Dead or outbox.Waiting. Next, if
// not empty, is the cursor of the next one.
type DeliveryPage[T any] struct {
	Deliveries []T    `json:"deliveries"`
	Next       string `json:"next,omitempty"`
}

// Values of the parameter state.
const (
	StateDead    = "dead"    // given up; as without the parameter
	StateWaiting = "waiting" // for a retry
)

// deliveries lists events that were not delivered.
func (a *Admin) deliveries(ctx context.Context, req *web.Request, _ string) (*web.Response, error) {
	query, err := url.ParseQuery(req.Query)
	if err != nil {
		return nil, &api.Error{Code: api.InvalidRequest, Message: "The query is not well formed."}
	}
	switch query.Get("state") {
	case "", StateDead:
		return eventPage(ctx, a.Partitions, query.Get("after"), a.Outbox.Dead, func(d outbox.Dead) string { return d.Event })
	case StateWaiting:
		return eventPage(ctx, a.Partitions, query.Get("after"), a.Outbox.Waiting, func(w outbox.Waiting) string { return w.Event })
	}
	return nil, &api.Error{Code: api.InvalidRequest, Message: "state is neither dead nor waiting."}
}

// eventPage goes from partition to partition. The cursor is the partition and
// the last event that was shown.
func eventPage[T any](ctx context.Context, partitions []kv.Partition, cursor string,
	list func(context.Context, kv.Partition, string, int) ([]T, error), event func(T) string) (*web.Response, error) {
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
	return api.Answer(200, page), nil
}

func (a *Admin) resend(ctx context.Context, _ *web.Request, id string) (*web.Response, error) {
	uuid, ok := strings.CutPrefix(id, "evt_")
	if _, err := session.ParseUUID(uuid); !ok || err != nil {
		return nil, &api.Error{Code: api.InvalidRequest, Message: "An event id is evt_ and a UUID."}
	}
	for _, p := range a.Partitions {
		err := a.Outbox.Resend(ctx, p, id)
		if err == nil {
			return api.Answer(200, struct {
				Event string `json:"event"`
				Sent  string `json:"status"`
			}{id, "scheduled"}), nil
		}
		if !errors.Is(err, outbox.ErrNotDead) {
			return nil, err
		}
	}
	return nil, &api.Error{Code: api.NotFound, Message: "There is no such dead event."}
}
