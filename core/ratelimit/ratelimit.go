// Package ratelimit decides whether a request may be served now (spec, Limits; contract 21 and 30).
//
// The pure decision is decide. A Store keeps the counters. A Limiter checks one request against several
// limits together: it counts against all of them or, if one denies, against none. Use FromMeter if several
// instances share a store that can count, and NewLocal if there is one instance.
//
// If a store is unavailable, the result is an error, never an approval. The caller must then reject requests
// until the store is available.
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
	// Spend applies all charges, or none if one of them exceeds its burst. It returns the counters as
	// they were before, in the order of charges, as kv.Meter promises. The charges name different
	// counters.
	Spend(ctx context.Context, now time.Time, charges []kv.Charge) ([]time.Time, error)
}

// FromMeter returns the store that instances share: the meter's counters in one partition.
func FromMeter(m kv.Meter, p kv.Partition) Store { return metered{m, p} }

type metered struct {
	meter     kv.Meter
	partition kv.Partition
}

func (m metered) Spend(ctx context.Context, now time.Time, charges []kv.Charge) ([]time.Time, error) {
	return m.meter.Spend(ctx, m.partition, now, charges)
}

// Rule is one limit for a request.
type Rule struct {
	Name   string // of the policy, as headers show it: lower-case letters, digits, hyphens
	Key    string // the counter: an address as clientKey returns it, or a key's id; never a secret
	client bool   // Key is an address, which must not be in the store in clear
	hidden bool   // headers do not show it
	Limit  Limit
}

// Hidden returns the rule without a part in the headers, for a counter that the caller shares with others.
func (r Rule) Hidden() Rule {
	r.hidden = true
	return r
}

// ForClient returns the rule of a limit on a client's address.
func (l Limit) ForClient(name string, addr netip.Addr) Rule {
	return Rule{Name: name, Key: clientKey(addr), client: true, Limit: l}
}

// ForNetwork returns the rule of a limit on the /48 of a client's IPv6 address, the most that one subscriber
// usually gets. For any other address ok is false.
func (l Limit) ForNetwork(name string, addr netip.Addr) (r Rule, ok bool) {
	if addr = addr.Unmap(); !addr.Is6() {
		return Rule{}, false
	}
	key := netip.PrefixFrom(addr.WithZone(""), 48).Masked().String()
	return Rule{Name: name, Key: key, client: true, Limit: l}, true
}

// Result is the decision about one request.
type Result struct {
	Allowed    bool
	RetryAfter int // whole seconds, at least 1; zero if allowed

	// Policy and RateLimit are the values of the headers RateLimit-Policy and RateLimit
	// (draft-ietf-httpapi-ratelimit-headers), with one list member for each rule. If no request remains, t is
	// the time until one request is allowed, not until all are. So it never contradicts Retry-After.
	Policy, RateLimit string
}

// First returns the result with the headers of the first rule only.
func (r Result) First() Result {
	r.Policy, _, _ = strings.Cut(r.Policy, separator)
	r.RateLimit, _, _ = strings.Cut(r.RateLimit, separator)
	return r
}

// And joins the headers of two steps that both allowed a request.
func (r Result) And(later Result) Result {
	if later.Policy != "" { // otherwise all its rules are hidden
		r.Policy += separator + later.Policy
		r.RateLimit += separator + later.RateLimit
	}
	return r
}

// separator separates list members. No member contains it.
const separator = ", "

// Limiter checks requests against rules.
type Limiter struct {
	Store Store

	// MAC, if not nil, hides client addresses from readers of the store. Their counters are named by a hash,
	// whose key is the MAC of the day. All instances must have the same MAC. The names of one day cannot be
	// linked to the names of another day. At midnight, and when the key of MAC changes, counters start at
	// zero: then at most one period's requests are allowed a second time.
	MAC func(message []byte) ([]byte, error)

	hiding atomic.Pointer[hiding]
}

// hiding is the key with which client addresses are hashed, and when it was asked for.
type hiding struct {
	minute time.Time
	key    []byte
}

// hide returns the name of a client's counter. It asks for the key again each minute, so that soon
// after a change of the MAC all instances have the same one.
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

// Take counts one request at now against all rules, or against none of them if one denies. The rules must
// differ in name or key. An error means that the store is unavailable, and the request must be denied.
func (l *Limiter) Take(ctx context.Context, now time.Time, rules []Rule) (Result, error) {
	now = now.Truncate(time.Microsecond)
	charges := make([]kv.Charge, len(rules))
	for i, r := range rules {
		var err error
		if charges[i], err = l.charge(now, r); err != nil {
			return Result{}, err
		}
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
	if !result.Allowed { // no rule was charged, not even those that would have allowed it
		for i, r := range rules {
			decisions[i] = r.Limit.standing(tats[i], now)
		}
	}
	result.Policy, result.RateLimit = headers(rules, decisions)
	return result, nil
}

// charge is the cost of one request for the counter of a rule.
func (l *Limiter) charge(now time.Time, r Rule) (kv.Charge, error) {
	name := counterName(r.Name, r.Key)
	if r.client && l.MAC != nil {
		var err error
		if name, err = l.hide(now, r.Name, r.Key); err != nil {
			return kv.Charge{}, fmt.Errorf("ratelimit: naming the counter: %w", err)
		}
	}
	return kv.Charge{Name: name, Cost: r.Limit.cost(), Burst: r.Limit.burst()}, nil
}

// headers words the decisions. The buffers stay on the stack for as many rules
// as any request has.
func headers(rules []Rule, decisions []decision) (policy, rateLimit string) {
	p, r := make([]byte, 0, 96), make([]byte, 0, 96)
	for i, rule := range rules {
		if rule.hidden {
			continue
		}
		if len(p) > 0 {
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

// seconds rounds up, so that a client that waits that long is not too early.
func seconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }

// clientKey returns the key of a client address. IPv6 addresses are counted by their /64: it is the smallest
// network of a subscriber, who can use any address in it. All clients without an address count as one.
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

// counterName joins policy and key to a name that kv accepts. It hashes a key that does not fit. Such a name
// continues with a number sign, which other names do not contain at this position, so the two kinds cannot be
// confused.
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
