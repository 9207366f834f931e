package api

import "github.com/verge-id/verge/core/ratelimit"

// secretIP limits the address of a request that needs a secret key.
func (c *call) secretIP() ratelimit.Rule {
	return c.Limits.SecretPerIP.ForClient("secret-ip", c.Client)
}

// publicIP limits the address of any other request.
func (c *call) publicIP() []ratelimit.Rule {
	rules := append(noRules(), c.Limits.PublicPerIP.ForClient("public-ip", c.Client))
	if network, ok := c.Limits.PublicPerNetwork.ForNetwork("public-net", c.Client); ok {
		rules = append(rules, network)
	}
	return rules
}

func (c *call) preflightIP() ratelimit.Rule {
	return c.Limits.PreflightsPerIP.ForClient("preflight-ip", c.Client)
}

// noRules returns an empty list with room for the rules of a request with a secret key.
func noRules() []ratelimit.Rule { return make([]ratelimit.Rule, 0, 2) }

// keyRules appends the limits of a key. publisher is "" while the key's publisher is not known.
type keyRules func(rules []ratelimit.Rule, id, publisher string) []ratelimit.Rule

func (c *call) reconcileKey(rules []ratelimit.Rule, id, _ string) []ratelimit.Rule {
	return append(rules, ratelimit.Rule{Name: "reconcile-key", Key: id, Limit: c.Limits.ReconcilePerKey})
}

func (c *call) publicKeyRules(rules []ratelimit.Rule, id, publisher string) []ratelimit.Rule {
	rules = append(rules, ratelimit.Rule{Name: "public-key", Key: id, Limit: c.Limits.PublicPerKey})
	return c.startRules(rules, "", publisher)
}

// startRules limits the sessions that a publisher has in progress. The rest is not shown: anyone can read a
// public key, and the counters would show how busy the publisher is.
func (c *call) startRules(rules []ratelimit.Rule, _, publisher string) []ratelimit.Rule {
	if publisher == "" {
		return rules
	}
	return append(rules, ratelimit.Rule{Name: "starts", Key: publisher,
		Limit: c.Limits.StartsPerPublisher}.Hidden())
}
