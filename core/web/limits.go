package web

import (
	"context"

	"github.com/verge-id/verge/core/problem"
	"github.com/verge-id/verge/core/ratelimit"
	"github.com/verge-id/verge/core/setting"
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

// Settings declares the limits.
func (l *Limits) Settings() []setting.Setting {
	var all []setting.Setting
	for _, r := range []struct {
		name, field string
		limit       *ratelimit.Limit
		standard    int
	}{
		{"public_per_ip", "PublicPerIP", &l.PublicPerIP, 60},
		{"public_per_key", "PublicPerKey", &l.PublicPerKey, 600},
		{"public_per_network", "PublicPerNetwork", &l.PublicPerNetwork, 240},
		{"starts_per_publisher", "StartsPerPublisher", &l.StartsPerPublisher, 10_000},
		{"secret_per_ip", "SecretPerIP", &l.SecretPerIP, 600},
		{"reconcile_per_key", "ReconcilePerKey", &l.ReconcilePerKey, 120},
		{"preflights_per_ip", "PreflightsPerIP", &l.PreflightsPerIP, 600},
		{"pages_per_ip", "PagesPerIP", &l.PagesPerIP, 600},
		{"boxes_per_ip", "BoxesPerIP", &l.BoxesPerIP, 600},
		{"boxes_per_handle", "BoxesPerHandle", &l.BoxesPerHandle, 20},
		{"failed_operators_per_ip", "FailedOperatorsPerIP", &l.FailedOperatorsPerIP, 20},
	} {
		all = append(all, setting.Setting{Name: r.name, Field: r.field, Key: "limits." + r.name,
			Value: r.limit, Standard: ratelimit.PerMinute(r.standard)})
	}
	return all
}

// WithDefaults returns l with the standard rate instead of every rate that is zero.
func (l Limits) WithDefaults() Limits {
	setting.SetStandards(l.Settings())
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

// Validate returns the errors in limits of which none is zero.
func (l Limits) Validate() problem.List {
	var wrong problem.List
	for _, s := range l.Settings() {
		wrong.AddError(s.Field, s.Value.(*ratelimit.Limit).Validate())
	}
	return wrong
}
