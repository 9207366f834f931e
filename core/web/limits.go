package web

import (
	"github.com/verge-id/verge/core/problem"
	"github.com/verge-id/verge/core/ratelimit"
	"github.com/verge-id/verge/core/setting"
)

// Limits are the rates per minute (spec, Limits; contract 21 and 30). Package setting explains the tags.
type Limits struct {
	PublicPerIP      ratelimit.Limit `setting:"public_per_ip" default:"60"`
	PublicPerKey     ratelimit.Limit `setting:"public_per_key" default:"600"`
	PublicPerNetwork ratelimit.Limit `setting:"public_per_network" default:"240"` // of an IPv6 /48

	StartsPerPublisher ratelimit.Limit `setting:"starts_per_publisher" default:"10000"` // by all its keys
	SecretPerIP        ratelimit.Limit `setting:"secret_per_ip" default:"600"`
	ReconcilePerKey    ratelimit.Limit `setting:"reconcile_per_key" default:"120"`
	PreflightsPerIP    ratelimit.Limit `setting:"preflights_per_ip" default:"600"`
	PagesPerIP         ratelimit.Limit `setting:"pages_per_ip" default:"600"` // of hosted pages, shown and posted

	PendingPerIP     ratelimit.Limit `setting:"boxes_per_ip" default:"600"`    // of responses of wallets and phones
	PendingPerHandle ratelimit.Limit `setting:"boxes_per_handle" default:"20"` // of those to one pending response

	FailedOperatorsPerIP ratelimit.Limit `setting:"failed_operators_per_ip" default:"20"` // wrong operator tokens
}

// WithDefaults returns l with the standard rate instead of every rate that is zero.
func (l Limits) WithDefaults() Limits {
	setting.SetDefaults(&l)
	return l
}

// Validate returns the errors in limits of which none is zero.
func (l Limits) Validate() problem.List {
	var wrong problem.List
	for _, s := range setting.Of(&l) {
		wrong.AddError(s.Field, s.Value.(*ratelimit.Limit).Validate())
	}
	return wrong
}
