package api

import (
	"github.com/verge-id/verge/core/problem"
	"github.com/verge-id/verge/core/ratelimit"
	"github.com/verge-id/verge/core/reply"
)

// Limits are the rates (spec, Limits; contract 21 and 30).
type Limits struct {
	PublicPerIP     ratelimit.Limit
	PublicPerKey    ratelimit.Limit
	SecretPerIP     ratelimit.Limit
	ReconcilePerKey ratelimit.Limit

	PreflightsPerIP      ratelimit.Limit
	PagesPerIP           ratelimit.Limit // of hosted pages, shown and posted
	BoxesPerIP           ratelimit.Limit // of answers that come from others than browsers
	BoxesPerHandle       ratelimit.Limit // of those to one box
	FailedOperatorsPerIP ratelimit.Limit // of operators' tokens that are wrong
}

// WithDefaults returns l with the contract's rate in place of every rate that is zero.
func (l Limits) WithDefaults() Limits {
	for _, d := range []struct {
		limit *ratelimit.Limit
		count int
	}{
		{&l.PublicPerIP, 60}, {&l.PublicPerKey, 600}, {&l.SecretPerIP, 600}, {&l.ReconcilePerKey, 120},
		{&l.PreflightsPerIP, 600}, {&l.PagesPerIP, 600}, {&l.BoxesPerIP, 600}, {&l.BoxesPerHandle, 20},
		{&l.FailedOperatorsPerIP, 20},
	} {
		if *d.limit == (ratelimit.Limit{}) {
			*d.limit = ratelimit.PerMinute(d.count)
		}
	}
	return l
}

// Validate returns everything that is wrong with limits of which none is zero.
func (l Limits) Validate() problem.List {
	var wrong problem.List
	for _, m := range []struct {
		member string
		limit  ratelimit.Limit
	}{
		{"PublicPerIP", l.PublicPerIP}, {"PublicPerKey", l.PublicPerKey},
		{"SecretPerIP", l.SecretPerIP}, {"ReconcilePerKey", l.ReconcilePerKey},
		{"PreflightsPerIP", l.PreflightsPerIP}, {"PagesPerIP", l.PagesPerIP},
		{"BoxesPerIP", l.BoxesPerIP}, {"BoxesPerHandle", l.BoxesPerHandle},
		{"FailedOperatorsPerIP", l.FailedOperatorsPerIP},
	} {
		wrong.AddError(m.member, m.limit.Validate())
	}
	return wrong
}

// take counts the request against its address and, in the same step, against the rules of the key that it
// presents. If one of them denies, nothing is counted and the answer is 429. What the host asks again was
// counted when it came.
func (c *call) take(address ratelimit.Rule, ofKey ...ratelimit.Rule) error {
	if c.req.Again {
		return nil
	}
	result, err := c.Limiter.Take(c.ctx, c.now, append([]ratelimit.Rule{address}, ofKey...))
	if err != nil {
		return err
	}
	c.limits = result
	if !result.Allowed {
		c.limitHeaders(result)
		return &reply.Error{Code: reply.RateLimited, RetryAfter: result.RetryAfter,
			Message: "Too many requests. Retry-After says when to try again."}
	}
	// Only the holder of a key may see how much is left of its limit. The caller has not proven yet to be
	// the holder.
	c.limitHeaders(result.First())
	for _, r := range ofKey {
		c.charged = r.Key
	}
	return nil
}

// takeKey is for a key that has been found good. It counts the key unless take has done so, and shows how
// much is left of all limits.
func (c *call) takeKey(rule ratelimit.Rule) error {
	if c.req.Again {
		return nil
	}
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
	c.header.set("Ratelimit-Policy", r.Policy)
	c.header.set("Ratelimit", r.RateLimit)
}

// secretIP limits the address of a request that a secret key belongs on.
func (c *call) secretIP() ratelimit.Rule {
	return ratelimit.ClientRule("secret-ip", c.req.Client, c.Limits.SecretPerIP)
}

// publicIP limits the address of any other request.
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
