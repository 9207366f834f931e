package api

import (
	"slices"

	"github.com/verge-id/verge/core/problem"
	"github.com/verge-id/verge/core/ratelimit"
	"github.com/verge-id/verge/core/web"
)

// Limits are the rates (spec, Limits; contract 21 and 30).
type Limits struct {
	PublicPerIP      ratelimit.Limit
	PublicPerNetwork ratelimit.Limit // of an IPv6 /48
	PublicPerKey     ratelimit.Limit
	SecretPerIP      ratelimit.Limit
	ReconcilePerKey  ratelimit.Limit

	StartsPerPublisher   ratelimit.Limit // by all its keys
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
		{&l.PublicPerIP, 60}, {&l.PublicPerNetwork, 240}, {&l.StartsPerPublisher, 10_000},
		{&l.PublicPerKey, 600}, {&l.SecretPerIP, 600}, {&l.ReconcilePerKey, 120},
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
		{"PublicPerNetwork", l.PublicPerNetwork}, {"StartsPerPublisher", l.StartsPerPublisher},
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
	return c.takeAll(append([]ratelimit.Rule{address}, ofKey...))
}

// takeAll counts the request against all rules. The caller may see how much is left of the first one.
func (c *call) takeAll(rules []ratelimit.Rule) error {
	if c.req.Again {
		return nil
	}
	result, err := c.Limiter.Take(c.ctx, c.now, rules)
	if err != nil {
		return err
	}
	c.limits = result
	if !result.Allowed {
		c.limitHeaders(result)
		return &web.Error{Code: web.RateLimited, RetryAfter: result.RetryAfter,
			Message: "Too many requests. Retry-After says when to try again."}
	}
	// Only the holder of a key may see how much is left of its limit. The caller has not proven yet to be
	// the holder.
	c.limitHeaders(result.First())
	for _, r := range rules {
		c.charged = append(c.charged, r.Key)
	}
	return nil
}

// takeKey is for a key that has been found good. It counts those of its rules that take has not counted, and
// shows how much is left of all limits.
func (c *call) takeKey(rules []ratelimit.Rule) error {
	if c.req.Again {
		return nil
	}
	rules = slices.DeleteFunc(rules, func(r ratelimit.Rule) bool { return slices.Contains(c.charged, r.Key) })
	var err error
	if before := c.limits; len(rules) > 0 {
		if err = c.takeAll(rules); c.limits != before {
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
func (c *call) publicIP() []ratelimit.Rule {
	rules := []ratelimit.Rule{ratelimit.ClientRule("public-ip", c.req.Client, c.Limits.PublicPerIP)}
	if network, ok := ratelimit.NetworkRule("public-net", c.req.Client, c.Limits.PublicPerNetwork); ok {
		rules = append(rules, network)
	}
	return rules
}

func (c *call) preflightIP() ratelimit.Rule {
	return ratelimit.ClientRule("preflight-ip", c.req.Client, c.Limits.PreflightsPerIP)
}

func (c *call) pageIP() ratelimit.Rule {
	return ratelimit.ClientRule("page-ip", c.req.Client, c.Limits.PagesPerIP)
}

// keyRules returns the limits of a key. publisher is "" while the key's publisher is not known.
type keyRules func(id, publisher string) []ratelimit.Rule

func (c *call) reconcileKey(id, _ string) []ratelimit.Rule {
	return []ratelimit.Rule{{Name: "reconcile-key", Key: id, Limit: c.Limits.ReconcilePerKey}}
}

func (c *call) publicKeyRules(id, publisher string) []ratelimit.Rule {
	return append([]ratelimit.Rule{{Name: "public-key", Key: id, Limit: c.Limits.PublicPerKey}},
		c.startRules("", publisher)...)
}

// startRules bounds the sessions that a publisher has in progress. How much is left is not shown: anybody can
// read a public key, and the counters would show how busy the publisher is.
func (c *call) startRules(_, publisher string) []ratelimit.Rule {
	if publisher == "" {
		return nil
	}
	return []ratelimit.Rule{ratelimit.Rule{Name: "starts", Key: publisher,
		Limit: c.Limits.StartsPerPublisher}.Hidden()}
}
