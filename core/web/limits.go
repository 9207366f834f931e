package web

import (
	"context"

	"github.com/verge-id/verge/core/problem"
	"github.com/verge-id/verge/core/ratelimit"
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

// WithDefaults returns l with the contract's rate instead of each rate that is zero.
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

// LimitPages limits a handler of pages by the client's address. The files that pages load, and the
// documentation, have no rate: they cost the store nothing.
func (l Limits) LimitPages(serve Handler) Handler {
	return func(ctx context.Context, c *Call) (*Response, error) {
		err := c.Take(ctx, ratelimit.ClientRule("page-ip", c.Client, l.PagesPerIP))
		if err != nil {
			return nil, err
		}
		return serve(ctx, c)
	}
}

// Validate returns the errors of limits of which none is zero.
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
