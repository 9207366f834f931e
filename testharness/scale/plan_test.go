package scale

import (
	"cmp"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/verge-id/verge/core/web"
)

// The machine that the plan assumes for each instance and for the store's server.
const (
	planCores  = 4
	planUse    = 0.7 // of the processors
	planMemory = 64 << 30
	planDisk   = 1 << 40

	// planConnections is the default of PostgreSQL, without those that it reserves for superusers.
	planConnections = 100 - 3

	sessionLife = 10 * time.Minute
	secretCalls = 2 // requests with a secret key in a session: start and validate
	pageCalls   = 3 // requests for hosted pages in a session: the page, its form, and the page after it
)

// lives are the times for which the items of each class are kept.
var lives = [len(classes)]time.Duration{15 * time.Minute, 7 * 24 * time.Hour, 30 * 24 * time.Hour}

// shares returns the part of a finished session's bytes in each class, from a result that has them. Without
// one, everything counts as kept for the longest time.
func shares(all []result) (parts [len(classes)]float64) {
	for _, r := range all {
		sum := 0.0
		for _, kept := range r.finished.kept {
			sum += kept.bytes
		}
		if sum > 0 {
			for i, kept := range r.finished.kept {
				parts[i] = kept.bytes / sum
			}
			return parts
		}
	}
	parts[len(parts)-1] = 1
	return parts
}

// need is the need of a load in sessions per second.
type need struct {
	service, server float64 // cores
	instances       int
	connections     int
	bytes           float64 // of the store, in the long run
	timers          int
}

// whole returns the cost of a session with its events.
func (r result) whole() (service, server float64) {
	return (r.session.service + eventsOf*r.event.service).Seconds(),
		(r.session.server + eventsOf*r.event.server).Seconds()
}

// shared reports whether several instances can use the store.
func (r result) shared() bool {
	return slices.ContainsFunc(all, func(s store) bool { return s.name == r.store && s.shared })
}

// kept returns the bytes of the store that a load of one session per second needs in the long run.
func (r result) kept(parts [len(classes)]float64) (bytes float64) {
	for i, part := range parts {
		bytes += r.finished.bytes * part * lives[i].Seconds()
	}
	return bytes
}

func (r result) needs(rate float64, parts [len(classes)]float64) need {
	service, server := r.whole()
	n := need{service: rate * service, server: rate * server, bytes: rate * r.kept(parts),
		timers: int(rate * sessionLife.Seconds())}
	n.instances = 1
	if r.shared() {
		n.instances = max(1, int(math.Ceil(n.service/(planCores*planUse))))
	}
	n.connections = n.instances * int(math.Ceil(r.connections))
	return n
}

// bound is the number of sessions per second at which a resource is used up.
type bound struct {
	rate     float64
	resource string
	remedy   string
}

// limitBounds returns the bounds of one publisher or of one address of users by the default limits. They do
// not depend on the store.
func limitBounds() []bound {
	limits := web.Limits{}.WithDefaults()
	perSecond := func(count, requests int) float64 { return float64(count) / 60 / float64(requests) }
	return sorted([]bound{
		{perSecond(limits.SecretPerIP.Count, secretCalls), "`secret_per_ip`: one publisher's server",
			"raise it; or several addresses"},
		{perSecond(limits.StartsPerPublisher.Count, 1), "`starts_per_publisher`: one publisher", "raise it"},
		{perSecond(limits.PagesPerIP.Count, pageCalls),
			"`pages_per_ip`: users behind one address, or a proxy that `trusted_proxies` lacks",
			"name the proxy; raise it"},
	})
}

// bounds returns the bounds of a store, the first one first.
func (r result) bounds(parts [len(classes)]float64) (found []bound) {
	service, server := r.whole()
	add := func(rate float64, resource, remedy string) {
		if rate > 0 && !math.IsInf(rate, 0) {
			found = append(found, bound{rate, resource, remedy})
		}
	}
	switch r.store {
	case "memory", "bolt":
		add(planCores*planUse/service, "processors of the one process", "another store, several instances")
		if r.store == "bolt" {
			add(planDisk/r.kept(parts), "disk of the file", "a larger disk, a shorter `outcome_life`")
		}
	case "redis":
		add(planUse/server, "the one processor that runs Redis' commands", "a Redis Cluster")
		add(planMemory/r.kept(parts), "memory of Redis", "a Redis Cluster, a shorter `outcome_life`")
	case "postgres":
		add(planCores*planUse/server, "processors of PostgreSQL", "a larger server")
		add(planDisk/r.kept(parts), "disk of PostgreSQL", "a larger disk, a shorter `outcome_life`")
		add(math.Floor(planConnections/math.Ceil(r.connections))*planCores*planUse/service,
			"`max_connections` of PostgreSQL", "raise it, lower `pool_max_conns`, or PgBouncer")
	}
	return sorted(found)
}

func sorted(all []bound) []bound {
	slices.SortStableFunc(all, func(a, b bound) int { return cmp.Compare(a.rate, b.rate) })
	return all
}

// TestPlan_Calculation compares the plan of a made-up measurement with numbers that were calculated by hand.
func TestPlan_Calculation(t *testing.T) {
	t.Parallel()
	r := result{store: "postgres", connections: 17,
		session:  cost{4 * time.Millisecond, 2 * time.Millisecond},
		event:    cost{500 * time.Microsecond, time.Millisecond},
		finished: extent{bytes: 1000, kept: [len(classes)]extentOf{{bytes: 200}, {bytes: 300}, {bytes: 500}}}}
	parts := shares([]result{{}, r})
	if parts != [len(classes)]float64{.2, .3, .5} {
		t.Fatalf("shares: %v", parts)
	}
	// 200 B for 900 s, 300 B for 604,800 s, 500 B for 2,592,000 s.
	if got, want := r.kept(parts), 1_477_620_000.0; math.Abs(got-want) > 1 {
		t.Errorf("one session per second keeps %.0f bytes, want %.0f", got, want)
	}
	n := r.needs(1000, parts)
	if math.Abs(n.service-5) > 1e-9 || math.Abs(n.server-4) > 1e-9 || n.instances != 2 ||
		n.connections != 34 || n.timers != 600_000 {
		t.Errorf("1,000 sessions per second need %+v", n)
	}
	rates := func(all []bound) (rates []float64) {
		for _, b := range all {
			rates = append(rates, math.Round(b.rate))
		}
		return rates
	}
	// 600/60/3, 600/60/2, 10,000/60.
	if got, want := rates(limitBounds()), []float64{3, 5, 167}; !slices.Equal(got, want) {
		t.Errorf("bounds of limits: %v, want %v", got, want)
	}
	// 4 cores at 0.7 / 4 ms; 1 TiB / 1.48 GB; 5 instances at 2.8 cores / 5 ms.
	if got, want := rates(r.bounds(parts)), []float64{700, 744, 2800}; !slices.Equal(got, want) {
		t.Errorf("bounds: %v, want %v", got, want)
	}
	few := claimed{timers: 1000, cost: cost{service: 100 * time.Microsecond}}
	many := claimed{timers: 100_000, cost: cost{service: 150 * time.Microsecond}}
	if got := extrapolate(few, many, 10_000_000); got != 200*time.Microsecond {
		t.Errorf("a claim at 10,000,000 timers costs %s, want 200µs", got)
	}
}
