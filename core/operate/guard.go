package operate

import (
	"context"
	"net/netip"
	"time"

	"github.com/verge-id/verge/core/ratelimit"
)

// TokenGuard limits the wrong operator tokens of a client address (contract 30). The operators' API and the
// console share one, so they count together. All fields are needed.
type TokenGuard struct {
	Limiter    *ratelimit.Limiter
	Limit      ratelimit.Limit
	Operations *Operations // whose audit has wrong tokens
}

// Wait returns how long no token of an address is judged. Zero: it is judged now.
func (g *TokenGuard) Wait(ctx context.Context, client netip.Addr) (time.Duration, error) {
	count, err := g.window().Look(ctx, g.Operations.Now(), client)
	return count.Wait, err
}

// Wrong counts a wrong token, and enters the first one of the period into the audit. It returns the wait as
// Wait does, for a token that came while the limit was reached.
func (g *TokenGuard) Wrong(ctx context.Context, client netip.Addr) (time.Duration, error) {
	count, err := g.window().Add(ctx, g.Operations.Now(), client)
	if err == nil && count.Used == 0 {
		g.Operations.TellWrongToken(ctx, client)
	}
	return count.Wait, err
}

func (g *TokenGuard) window() ratelimit.Window {
	return ratelimit.Window{Limiter: g.Limiter, Name: "operator-ip", Limit: g.Limit}
}
