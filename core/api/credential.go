package api

import (
	"errors"
	"strings"

	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/ratelimit"
	"github.com/verge-id/verge/core/reply"
)

// take counts the request against its address and, in the same step, against
// the rules of the key that it presents, or answers 429 and counts nothing.
// Nothing is looked up before: guessing counts too, and costs the KV no read
// once the address is at its limit.
func (c *call) take(address ratelimit.Rule, ofKey ...ratelimit.Rule) error {
	result, err := c.Limiter.Take(c.ctx, c.now, append([]ratelimit.Rule{address}, ofKey...))
	if err != nil {
		return err
	}
	c.limits = result
	if !result.Allowed {
		c.limitHeaders(result)
		return &reply.Error{Code: reply.RateLimited, Message: "Too many requests. Retry-After says when to try again.", RetryAfter: result.RetryAfter}
	}
	// How a key stands is for whoever proves to be allowed it.
	c.limitHeaders(result.First())
	for _, r := range ofKey {
		c.charged = r.Key
	}
	return nil
}

// proven says that the key of the rule has been found good. Where that was not
// to be foreseen, it is counted only now.
func (c *call) proven(rule ratelimit.Rule) error {
	var err error
	if before := c.limits; c.charged != rule.Key {
		if err = c.take(rule); c.limits != before {
			c.limits = before.And(c.limits)
		}
	}
	c.limitHeaders(c.limits)
	return err
}

func (c *call) limitHeaders(r ratelimit.Result) {
	c.header.Set("Ratelimit-Policy", r.Policy)
	c.header.Set("Ratelimit", r.RateLimit)
}

// secretIP is for the address of a request that a secret key belongs on.
func (c *call) secretIP() ratelimit.Rule {
	return ratelimit.ClientRule("secret-ip", c.req.Client, c.Limits.SecretPerIP)
}

// publicIP is for the address of any other request.
func (c *call) publicIP() ratelimit.Rule {
	return ratelimit.ClientRule("public-ip", c.req.Client, c.Limits.PublicPerIP)
}

func (c *call) preflightIP() ratelimit.Rule {
	return ratelimit.ClientRule("preflight-ip", c.req.Client, c.Limits.PreflightsPerIP)
}

func (c *call) pageIP() ratelimit.Rule {
	return ratelimit.ClientRule("page-ip", c.req.Client, c.Limits.PagesPerIP)
}

func (c *call) reconcileKey(id string) ratelimit.Rule {
	return ratelimit.Rule{Name: "reconcile-key", Key: id, Limit: c.Limits.ReconcilePerKey}
}

func (c *call) publicKeyRule(id string) ratelimit.Rule {
	return ratelimit.Rule{Name: "public-key", Key: id, Limit: c.Limits.PublicPerKey}
}

var errUnauthorized = &reply.Error{Code: reply.Unauthorized, Message: "Send a valid secret key as \"Authorization: Bearer svc_sk_…\"."}

// bearer returns the credential of the Authorization header.
func (c *call) bearer() (text string, present bool) {
	values := c.req.Header["Authorization"]
	if len(values) == 0 {
		return "", false
	}
	scheme, text, _ := strings.Cut(values[0], " ")
	if len(values) != 1 || !strings.EqualFold(scheme, "Bearer") {
		return "", true
	}
	return strings.TrimLeft(text, " "), true
}

// secretKey returns the key that the Authorization header holds, if it is an
// active secret key sent by a server. presented is what text is as such a key.
func (c *call) secretKey(text string, presented integration.Presented) (*integration.Key, error) {
	if strings.HasPrefix(text, integration.PublicPrefix) {
		if _, err := c.activeKey(integration.Present(integration.PublicPrefix, text)); err != nil {
			return nil, err
		}
		return nil, &reply.Error{Code: reply.Forbidden, Message: "A public key cannot do this, nor go into the Authorization header. Use the secret key, from a server."}
	}
	key, err := c.activeKey(presented)
	if err != nil {
		return nil, err
	}
	if c.browser() {
		return nil, &reply.Error{Code: reply.Forbidden, Message: "A secret key must not be used in a browser. Call from a server, and replace this key: whoever opened the page has seen it."}
	}
	return key, nil
}

// browser reports whether the request comes from a page.
func (c *call) browser() bool {
	return c.req.Header.Has("Origin") || c.req.Header.Has("Sec-Fetch-Site")
}

// activeKey returns a known key that is neither expired nor revoked.
func (c *call) activeKey(presented integration.Presented) (*integration.Key, error) {
	key, err := c.Directory.KeyOf(c.ctx, presented)
	if errors.Is(err, integration.ErrNotFound) || err == nil && !key.Active(c.now) {
		return nil, errUnauthorized
	}
	return key, err
}

// requireSecret is the whole of authentication for validate and reconcile. A
// key that is found good is counted against ofKey, if there is one.
func (c *call) requireSecret(ofKey func(id string) ratelimit.Rule) (*integration.Key, error) {
	text, _ := c.bearer()
	presented := integration.Present(integration.SecretPrefix, text)
	var rules []ratelimit.Rule
	if ofKey != nil && !c.browser() && presented != (integration.Presented{}) {
		if seen := c.Directory.SeenKey(presented); seen == nil || seen.Active(c.now) {
			rules = append(rules, ofKey(presented.ID()))
		}
	}
	if err := c.take(c.secretIP(), rules...); err != nil {
		return nil, err
	}
	key, err := c.secretKey(text, presented)
	if err == nil && ofKey != nil {
		err = c.proven(ofKey(key.ID))
	}
	return key, err
}
