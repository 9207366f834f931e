package oidc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/internal/fetchcache"
	"github.com/verge-id/verge/core/internal/strictjson"
	"github.com/verge-id/verge/core/internal/weburl"
)

// wellKnown is the path of the discovery document, behind the issuer (OpenID Connect Discovery, 4).
const wellKnown = "/.well-known/openid-configuration"

// metadata is the provider's discovery document (OpenID Connect Discovery 1.0).
type metadata struct {
	authorization, token, jwks string // always present
	userinfo, par              string // "" if missing
	announcesIssuer            bool   // its returns carry iss (RFC 9207)

	// For the operator's check alone.
	requiresPAR                        bool
	clientAuth, algorithms, challenge  []string
	assertions                         []string // alg of client assertions
	encryptsIDToken, encryptsUserinfo  []string // alg of encrypted tokens
	scopes, claims, acrValues, prompts []string
	responseTypes, responseModes       []string
}

// discover returns the metadata, at most ten minutes old.
func (c *client) discover(ctx context.Context) (metadata, error) {
	meta, _, err := keptBy(&c.metadata, c.host.Now(), func() (metadata, error) {
		document, err := c.document(ctx, "discovery document",
			strings.TrimSuffix(c.issuer, "/")+wellKnown)
		if err != nil {
			return metadata{}, err
		}
		return c.readMetadata(document)
	})
	return meta, err
}

// errNoIssuer means that the document at the issuer's address is probably another one.
var errNoIssuer = fmt.Errorf("oidc: the discovery document has no member issuer: %w", rejected(otherIssuer))

// readMetadata reads only the fields that a relying party needs. A document of another issuer is rejected:
// otherwise its server would become the issuer.
func (c *client) readMetadata(o strictjson.Object) (metadata, error) {
	m := metadata{announcesIssuer: isTrue(o.Value("authorization_response_iss_parameter_supported")),
		requiresPAR: isTrue(o.Value("require_pushed_authorization_requests")),
		clientAuth:  offers(o, "token_endpoint_auth_methods_supported"),
		assertions:  offers(o, "token_endpoint_auth_signing_alg_values_supported"),
		algorithms:  offers(o, "id_token_signing_alg_values_supported"),
		challenge:   offers(o, "code_challenge_methods_supported"),
		scopes:      offers(o, "scopes_supported"),
		claims:      offers(o, "claims_supported"),
		acrValues:   offers(o, "acr_values_supported"),
		prompts:     offers(o, "prompt_values_supported"),

		responseTypes: offers(o, "response_types_supported"),
		responseModes: offers(o, "response_modes_supported"),

		encryptsIDToken:  offers(o, "id_token_encryption_alg_values_supported"),
		encryptsUserinfo: offers(o, "userinfo_encryption_alg_values_supported"),
	}
	named, ok := o.Value("issuer").Text()
	switch {
	case !ok:
		return metadata{}, errNoIssuer
	case named != c.issuer:
		return metadata{}, fmt.Errorf("oidc: the discovery document: %w", rejected(otherIssuer))
	}
	// These would count as absent. Lists for the operator's check may.
	if o.IsRepeated("authorization_response_iss_parameter_supported",
		"require_pushed_authorization_requests") {
		return metadata{}, fmt.Errorf("oidc: the discovery document has a member twice: %w",
			rejected(badDiscovery))
	}
	if m.requiresPAR && !c.pushes {
		return metadata{}, fmt.Errorf("oidc: the provider requires pushed requests: %w",
			rejected(pushRequired))
	}
	for _, endpoint := range []struct {
		name           string
		into           *string
		used, required bool
	}{
		{"authorization_endpoint", &m.authorization, true, true},
		{"token_endpoint", &m.token, true, true},
		{"jwks_uri", &m.jwks, true, true},
		{"userinfo_endpoint", &m.userinfo, c.userinfo, true},
		{"pushed_authorization_request_endpoint", &m.par, c.pushes, m.requiresPAR},
	} {
		v := o.Value(endpoint.name)
		address, ok := v.Text()
		absent := !v.Present() || ok && address == ""
		if !endpoint.used || absent && !endpoint.required {
			continue
		}
		if !ok || !weburl.IsEndpoint(address, c.dev) {
			return metadata{}, fmt.Errorf("oidc: the discovery document: %s is no https address: %w",
				endpoint.name, rejected(badDiscovery))
		}
		*endpoint.into = address
	}
	return m, nil
}

func isTrue(v strictjson.Value) bool {
	yes, _ := v.Bool()
	return yes
}

// offers returns a list of the discovery document without texts that a terminal cannot show.
func offers(o strictjson.Object, name string) []string {
	unprintable := func(r rune) bool { return !unicode.IsPrint(r) }
	return slices.DeleteFunc(texts(o.Value(name)), func(s string) bool {
		return strings.ContainsFunc(s, unprintable)
	})
}

// texts returns the strings of a list and leaves everything else out.
func texts(v strictjson.Value) (all []string) {
	list, _ := v.List()
	for _, e := range list {
		if s, ok := e.Text(); ok {
			all = append(all, s)
		}
	}
	return all
}

// maxDocument is the size from which a response is rejected. The fetcher cuts responses there, so a response
// of this size may have been longer.
const maxDocument = 64 << 10

// document fetches a JSON object. what names it in errors.
func (c *client) document(ctx context.Context, what, address string) (strictjson.Object, error) {
	response, err := c.ask(ctx, what, host.FetchRequest{
		Method:  "GET",
		URL:     address,
		Header:  map[string]string{"Accept": "application/json"},
		Timeout: documentTimeout,
	})
	if err != nil {
		return strictjson.Object{}, err
	}
	if response.Status != 200 {
		return strictjson.Object{}, &statusError{what, response.Status}
	}
	return readJSON(what, response.Body)
}

// statusError is a response of the provider with another status than 200.
type statusError struct {
	what   string
	status int
}

func (e *statusError) Error() string {
	return fmt.Sprintf("oidc: the %s: status %d: %v", e.what, e.status, e.Unwrap())
}

func (e *statusError) Unwrap() error { return rejected(badStatus) }

// ask fetches, and rejects a response that is too large.
func (c *client) ask(ctx context.Context, what string, req host.FetchRequest) (host.FetchResponse, error) {
	return c.askBy(ctx, c.host.Fetch.Fetch, what, req)
}

// fetch is a Fetch or a FetchOnce.
type fetch func(context.Context, host.FetchRequest) (host.FetchResponse, error)

func (c *client) askBy(ctx context.Context, by fetch, what string, req host.FetchRequest) (
	host.FetchResponse, error) {
	response, err := by(ctx, req)
	if err != nil {
		return host.FetchResponse{}, fmt.Errorf("oidc: asking for the %s: %w", what, err)
	}
	if len(response.Body) >= maxDocument {
		return host.FetchResponse{}, fmt.Errorf("oidc: the %s: %w", what, rejected(tooLarge))
	}
	return response, nil
}

// readJSON does not wrap the reader's error: it would not help, since the document is not available.
func readJSON(what string, body []byte) (strictjson.Object, error) {
	o, err := strictjson.ReadForeign(body)
	if err != nil {
		return strictjson.Object{}, fmt.Errorf("oidc: the %s: %w", what, rejected(badJSON))
	}
	return o, nil
}

// mediaType returns the type of a response, without its parameters and in lower case.
func mediaType(response host.FetchResponse) string {
	t, _, _ := strings.Cut(response.Header["Content-Type"], ";")
	return strings.ToLower(strings.TrimSpace(t))
}

// keepFor is how long a document of the provider is fresh.
const keepFor = 10 * time.Minute

// policy is how often the provider is asked: by at most 64 requests within five seconds, by four after one
// that failed, and by one while the document that is no longer fresh still counts. A key that is not known
// renews the keys once a minute.
var policy = fetchcache.Policy{Window: 5 * time.Second, Burst: 64, Retries: 4, Renewal: time.Minute}

// errBurst means that the provider was just asked often enough.
var errBurst error = &host.FetchError{Reason: host.FetchUnavailable, Err: fetchcache.ErrBusy}

// copyOf returns a document that was asked for at a time. It counts for a little longer than it is fresh, so
// that not all requests have to ask for the next one.
func copyOf[T any](value T, now time.Time) fetchcache.Copy[T] {
	fresh := now.Add(keepFor)
	return fetchcache.Copy[T]{Value: value, Fresh: fresh, Until: fresh.Add(policy.Window)}
}

// keptBy returns a document of the provider, which fetch asks for if it must.
func keptBy[T any](d *fetchcache.Document[T], now time.Time, fetch func() (T, error)) (value T, fetched bool,
	err error) {
	value, fetched, err = d.Get(now, policy, func() (fetchcache.Copy[T], error) {
		value, err := fetch()
		return copyOf(value, now), err
	})
	if errors.Is(err, fetchcache.ErrBusy) {
		err = errBurst
	}
	return value, fetched, err
}
