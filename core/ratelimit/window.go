package ratelimit

import (
	"context"
	"fmt"
	"net/netip"
	"strconv"
	"time"

	"github.com/verge-id/verge/core/kv"
)

// Window counts the faults of client addresses, in fixed periods of the clock. Unlike a Rule, it releases no
// count before the period ends. So a client that has reached the limit stays there for the rest of it.
type Window struct {
	Limiter *Limiter
	Name    string // of the counters, as in Rule
	Limit   Limit
}

// count is the count of a client in the present period.
type count struct {
	Used int
	Wait time.Duration // until the period ends, if the limit is reached; otherwise zero
}

// Look returns the count of a client and leaves it unchanged.
func (w Window) Look(ctx context.Context, now time.Time, client netip.Addr) (count, error) {
	return w.spend(ctx, now, client, false)
}

// Add counts one thing, unless the limit is reached. It returns how the client stood before.
func (w Window) Add(ctx context.Context, now time.Time, client netip.Addr) (count, error) {
	return w.spend(ctx, now, client, true)
}

func (w Window) spend(ctx context.Context, now time.Time, client netip.Addr, adds bool) (count, error) {
	now = now.Truncate(time.Microsecond)
	begin := now.Truncate(w.Limit.Per)
	// Each thing costs a whole period, so that none of it has been given back when the period ends.
	rule := Limit{w.Limit.Count, w.Limit.Per * time.Duration(w.Limit.Count)}.ForClient(w.Name, client)
	rule.Key += "/" + strconv.FormatInt(begin.Unix(), 36)
	charge, err := w.Limiter.charge(now, rule)
	if err != nil {
		return count{}, err
	}
	cost := charge.Cost
	if !adds {
		charge.Cost = charge.Burst + time.Microsecond // never fits, so the store returns the counter alone
	}
	tats, err := w.Limiter.Store.Spend(ctx, now, []kv.Charge{charge})
	if err == nil && len(tats) != 1 {
		err = fmt.Errorf("%d counters for one charge", len(tats))
	}
	if err != nil {
		return count{}, fmt.Errorf("ratelimit: counting in a window: %w", err)
	}
	t := count{Used: int((max(tats[0].Sub(now), 0) + cost - 1) / cost)}
	if t.Used >= w.Limit.Count {
		t.Wait = begin.Add(w.Limit.Per).Sub(now)
	}
	return t, nil
}
