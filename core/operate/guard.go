package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/verge-id/verge/core/ratelimit"
	"github.com/verge-id/verge/core/web"
)

// TokenGuard limits the wrong operator tokens of a client address (contract 30). The operators' API and the
// console share one, so they count together. All fields are needed.
type TokenGuard struct {
	Limiter    *ratelimit.Limiter
	Limit      ratelimit.Limit
	Operations *Operations // whose audit has wrong tokens
}

// Check runs find, which looks up a token and returns web.ErrNotFound if it is wrong. It returns the error of
// find, or RATE_LIMITED if the limit is reached. Then a right token is rejected like a wrong one.
//
// The limit is compared before find, so that a locked address reads no token. It is compared again after
// find, in the one step that counts a wrong token, because many tokens can be looked up concurrently. So each
// result depends on one read of the counter, and at most the limit's number of tokens has a result.
func (g *TokenGuard) Check(ctx context.Context, client netip.Addr, find func() error) error {
	count, err := g.window().Look(ctx, g.Operations.Now(), client)
	if err != nil || count.Wait > 0 {
		return locked(count.Wait, err)
	}
	found := find()
	switch {
	case found == nil:
		count, err = g.window().Look(ctx, g.Operations.Now(), client)
	case errors.Is(found, web.ErrNotFound):
		if count, err = g.window().Add(ctx, g.Operations.Now(), client); err == nil && count.Used == 0 {
			g.Operations.TellWrongToken(ctx, client) // the first of the period
		}
	default:
		return found
	}
	return cmp.Or(locked(count.Wait, err), found)
}

// locked returns err, or the error for an address whose tokens are not checked for the time wait.
func locked(wait time.Duration, err error) error {
	if err != nil || wait == 0 {
		return err
	}
	seconds := int((wait + time.Second - 1) / time.Second)
	return &web.Error{Code: web.RateLimited, RetryAfter: seconds, Message: fmt.Sprintf("Too many wrong "+
		"operator tokens from this address. No token from it is accepted for %d s, not even a valid one.",
		seconds)}
}

func (g *TokenGuard) window() ratelimit.Window {
	return ratelimit.Window{Limiter: g.Limiter, Name: "operator-ip", Limit: g.Limit}
}
