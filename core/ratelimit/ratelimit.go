// Package ratelimit decides whether a request may be served now (spec, Limits;
// contract 21 and 30).
//
// A Store keeps the counters, and a Limiter holds one request against several
// limits at once: it counts against all of them or, if one denies, against
// none. Use FromMeter where several instances share a store that can count, and
// NewLocal where there is one instance. The decision itself is a pure function.
//
// A store that cannot answer is an error and never a yes: the caller serves
// nothing until it can count again.
package ratelimit

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/verge-id/verge/core/kv"
)

// Store keeps counters.
type Store interface {
	// Spend applies all charges, or none if one of them is over its burst,
	// and returns the counters as they were before, in the order of charges:
	// kv.Meter's promise. The charges name different counters.
	Spend(ctx context.Context, now time.Time, charges []kv.Charge) ([]time.Time, error)
}

// FromMeter is the store that instances share: their meter's counters in one partition.
func FromMeter(m kv.Meter, p kv.Partition) Store { return metered{m, p} }

type metered struct {
	meter     kv.Meter
	partition kv.Partition
}

func (m metered) Spend(ctx context.Context, now time.Time, charges []kv.Charge) ([]time.Time, error) {
	return m.meter.Spend(ctx, m.partition, now, charges)
}

// Rule is one limit that a request is held against.
type Rule struct {
	Name   string // of the policy, as headers show it: lower-case letters, digits, hyphens
	Key    string // who is counted: an address, a key's id; never a secret
	Client bool   // Key is an address, which a store does not keep in clear
	Limit  Limit
}

// ClientRule is a limit on a client's address.
func ClientRule(name string, addr netip.Addr, limit Limit) Rule {
	return Rule{Name: name, Key: clientKey(addr), Client: true, Limit: limit}
}

// Result is the answer to one request.
type Result struct {
	Allowed    bool
	RetryAfter int // whole seconds, at least 1; zero if allowed

	// Values of the headers RateLimit-Policy and RateLimit
	// (draft-ietf-httpapi-ratelimit-headers), one list member per rule. Where
	// nothing remains, t says when something will, not when all of it will:
	// so it never contradicts Retry-After.
	Policy, RateLimit string
}

// First is the result with the headers of the first rule alone.
func (r Result) First() Result {
	r.Policy, _, _ = strings.Cut(r.Policy, separator)
	r.RateLimit, _, _ = strings.Cut(r.RateLimit, separator)
	return r
}

// And joins the headers of two steps that both allowed a request.
func (r Result) And(later Result) Result {
	r.Policy += separator + later.Policy
	r.RateLimit += separator + later.RateLimit
	return r
}

// separator of list members; no member has it within.
const separator = ", "

// Limiter holds requests against rules.
type Limiter struct {
	Store Store

	// MAC, if there is one, hides client addresses from whoever reads the store:
	// their counters are named by a hash, with a key of the day that is MAC's of
	// that day. All instances must have the same. A day's names tell nothing on
	// another day. At midnight, and when MAC has another key, counters begin
	// anew: at most one period's requests are let through once more.
	MAC func(message []byte) ([]byte, error)

	hiding atomic.Pointer[hiding]
}

// hiding is what client addresses are hashed with.
type hiding struct {
	minute time.Time
	key    []byte
}

// hide returns the name of a client's counter. The key is asked for anew each
// minute, so that instances soon have the same one after the MAC's has changed.
func (l *Limiter) hide(now time.Time, policy, key string) (string, error) {
	h, minute := l.hiding.Load(), now.UTC().Truncate(time.Minute)
	if h == nil || !h.minute.Equal(minute) {
		k, err := l.MAC([]byte("counters\x00" + minute.Format(time.DateOnly)))
		if err != nil {
			return "", err
		}
		h = &hiding{minute, k}
		l.hiding.Store(h)
	}
	sum := sha256.Sum256(append(slices.Clip(h.key), key...))
	return policy + "/#" + base64.RawURLEncoding.EncodeToString(sum[:16]), nil
}

// Take counts one request at now against all rules, or against none of them
// if one denies. The rules differ in name or key. An error means that the
// store did not answer; the request must be denied.
func (l *Limiter) Take(ctx context.Context, now time.Time, rules []Rule) (Result, error) {
	now = now.Truncate(time.Microsecond)
	charges := make([]kv.Charge, len(rules))
	for i, r := range rules {
		name := counterName(r.Name, r.Key)
		if r.Client && l.MAC != nil {
			var err error
			if name, err = l.hide(now, r.Name, r.Key); err != nil {
				return Result{}, fmt.Errorf("ratelimit: naming the counter: %w", err)
			}
		}
		charges[i] = kv.Charge{Name: name, Cost: r.Limit.cost(), Burst: r.Limit.burst()}
	}
	tats, err := l.Store.Spend(ctx, now, charges)
	if err == nil && len(tats) != len(rules) {
		err = fmt.Errorf("%d counters for %d charges", len(tats), len(rules))
	}
	if err != nil {
		return Result{}, fmt.Errorf("ratelimit: counting the request: %w", err)
	}

	result := Result{Allowed: true}
	decisions := make([]decision, 0, 4) // on the stack, for as many rules as any request has
	for i, r := range rules {
		d := decide(tats[i], now, r.Limit)
		decisions = append(decisions, d)
		if !d.Allowed {
			result.Allowed = false
			result.RetryAfter = max(result.RetryAfter, seconds(d.RetryAfter))
		}
	}
	if !result.Allowed { // the rules that would have allowed it were not charged either
		for i, r := range rules {
			decisions[i] = r.Limit.standing(tats[i], now)
		}
	}
	result.Policy, result.RateLimit = headers(rules, decisions)
	return result, nil
}

// headers words the decisions. The buffers stay on the stack for as many rules
// as any request has.
func headers(rules []Rule, decisions []decision) (policy, rateLimit string) {
	p, r := make([]byte, 0, 96), make([]byte, 0, 96)
	for i, rule := range rules {
		if i > 0 {
			p, r = append(p, separator...), append(r, separator...)
		}
		d := decisions[i]
		until := d.Reset
		if d.Remaining == 0 {
			until = d.RetryAfter
		}
		p, r = appendItem(p, rule.Name), appendItem(r, rule.Name)
		p = strconv.AppendInt(append(p, ";q="...), int64(rule.Limit.Count), 10)
		p = strconv.AppendInt(append(p, ";w="...), int64(seconds(rule.Limit.Per)), 10)
		r = strconv.AppendInt(append(r, ";r="...), int64(d.Remaining), 10)
		r = strconv.AppendInt(append(r, ";t="...), int64(seconds(until)), 10)
	}
	return string(p), string(r)
}

func appendItem(b []byte, name string) []byte {
	b = append(b, '"')
	b = append(b, name...)
	return append(b, '"')
}

// seconds rounds up, so that whoever waits that long does not come too early.
func seconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }

// clientKey is what a client address counts as: IPv6 by its /64, the least
// that one subscriber gets, since an address within it costs nothing. Without
// an address all count as one.
func clientKey(addr netip.Addr) string {
	addr = addr.Unmap()
	switch {
	case !addr.IsValid():
		return "unknown"
	case addr.Is4():
		return addr.String()
	}
	return netip.PrefixFrom(addr, 64).Masked().String()
}

// counterName joins policy and key to a name that kv accepts. A key that does
// not fit is hashed; a number sign, with which no other name goes on, keeps
// the two kinds apart.
func counterName(policy, key string) string {
	name := policy + "/" + key
	if len(name) <= kv.MaxName && !strings.HasPrefix(key, "#") && printable(key) {
		return name
	}
	sum := sha256.Sum256([]byte(key))
	return policy + "/#" + base64.RawURLEncoding.EncodeToString(sum[:])
}

// printable reports whether s is ASCII without spaces and control characters.
func printable(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
