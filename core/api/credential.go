package api

import (
	"errors"
	"strings"

	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/ratelimit"
)

// take spends one request of each rule, or answers 429.
func (c *call) take(rules ...ratelimit.Rule) error {
	result, err := c.Limiter.Take(c.ctx, c.now, rules)
	if err != nil {
		return err
	}
	c.addHeader("Ratelimit-Policy", result.Policy)
	c.addHeader("Ratelimit", result.RateLimit)
	if !result.Allowed {
		return &Error{Code: RateLimited, Message: "Too many requests. Retry-After says when to try again.", RetryAfter: result.RetryAfter}
	}
	return nil
}

// addHeader appends to a header that is a list.
func (c *call) addHeader(name, value string) {
	if before := c.header.Get(name); before != "" {
		value = before + ", " + value
	}
	c.header.Set(name, value)
}

func (c *call) client() string { return ratelimit.ClientKey(c.req.Client) }

// takeSecretIP charges the address of a request that a secret key belongs on,
// before the credential is looked at, so that guessing counts too.
func (c *call) takeSecretIP() error {
	return c.take(ratelimit.Rule{Name: "secret-ip", Key: c.client(), Limit: c.Limits.SecretPerIP})
}

// takePublicIP charges the address of any other request.
func (c *call) takePublicIP() error {
	return c.take(ratelimit.Rule{Name: "public-ip", Key: c.client(), Limit: c.Limits.PublicPerIP})
}

var errUnauthorized = &Error{Code: Unauthorized, Message: "Send a valid secret key as \"Authorization: Bearer svc_sk_…\"."}

// bearer returns the credential of the Authorization header.
func (c *call) bearer() (text string, present bool) {
	if !c.req.Header.Has("Authorization") {
		return "", false
	}
	scheme, text, _ := strings.Cut(c.req.Header.Get("Authorization"), " ")
	if len(c.req.Header["Authorization"]) != 1 || !strings.EqualFold(scheme, "Bearer") {
		return "", true
	}
	return strings.TrimLeft(text, " "), true
}

// secretKey returns the key that the Authorization header holds, if it is an
// active secret key sent by a server.
func (c *call) secretKey() (*integration.Key, error) {
	text, _ := c.bearer()
	if strings.HasPrefix(text, integration.PublicPrefix) {
		if _, err := c.activeKey(integration.PublicPrefix, text); err != nil {
			return nil, err
		}
		return nil, &Error{Code: Forbidden, Message: "A public key cannot do this, nor go into the Authorization header. Use the secret key, from a server."}
	}
	key, err := c.activeKey(integration.SecretPrefix, text)
	if err != nil {
		return nil, err
	}
	if c.req.Header.Has("Origin") || c.req.Header.Has("Sec-Fetch-Site") {
		return nil, &Error{Code: Forbidden, Message: "A secret key must not be used in a browser. Call from a server, and replace this key: whoever opened the page has seen it."}
	}
	return key, nil
}

// activeKey returns a known key that is neither expired nor revoked.
func (c *call) activeKey(prefix, text string) (*integration.Key, error) {
	key, err := c.Directory.Key(c.ctx, prefix, text)
	if errors.Is(err, integration.ErrNotFound) || err == nil && !key.Active(c.now) {
		return nil, errUnauthorized
	}
	return key, err
}

// requireSecret is the whole of authentication for validate and reconcile.
func (c *call) requireSecret() (*integration.Key, error) {
	if err := c.takeSecretIP(); err != nil {
		return nil, err
	}
	return c.secretKey()
}
