package ratelimit

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/verge-id/verge/core/kv"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func TestDecide(t *testing.T) {
	minute := PerMinute(60)
	for _, c := range []struct {
		rule  string
		tat   time.Time
		limit Limit
		want  decision
	}{
		{"a counter never used allows", time.Time{}, minute,
			decision{Allowed: true, NewTAT: noon.Add(time.Second), Remaining: 59, Reset: time.Second}},
		{"a counter full again allows", noon.Add(-time.Hour), minute,
			decision{Allowed: true, NewTAT: noon.Add(time.Second), Remaining: 59, Reset: time.Second}},
		{"the 60th is allowed and returns the time of the next", noon.Add(59 * time.Second), minute,
			decision{Allowed: true, NewTAT: noon.Add(60 * time.Second), Reset: 60 * time.Second,
				RetryAfter: time.Second}},
		{"the 61st is not", noon.Add(60 * time.Second), minute,
			decision{NewTAT: noon.Add(60 * time.Second), Reset: 60 * time.Second, RetryAfter: time.Second}},
		{"a nanosecond early is early", noon.Add(59*time.Second + 1), minute,
			decision{NewTAT: noon.Add(59*time.Second + 1), Reset: 59*time.Second + 1, RetryAfter: 1}},
		{"a nanosecond late gives no more", noon.Add(59*time.Second - 1), minute,
			decision{Allowed: true, NewTAT: noon.Add(60*time.Second - 1), Reset: 60*time.Second - 1,
				RetryAfter: time.Second - 1}},
		{"600 a minute cost 100 ms each", noon, PerMinute(600),
			decision{Allowed: true, NewTAT: noon.Add(100 * time.Millisecond), Remaining: 599,
				Reset: 100 * time.Millisecond}},
		{"a limit of one", noon, Limit{1, time.Second},
			decision{Allowed: true, NewTAT: noon.Add(time.Second), Reset: time.Second,
				RetryAfter: time.Second}},
		{"a period that the count does not divide is rounded up", noon, Limit{7, time.Second},
			decision{Allowed: true, NewTAT: noon.Add(142858 * time.Microsecond), Remaining: 6,
				Reset: 142858 * time.Microsecond}},
		{"the clock went back an hour: denied, and said for how long", noon.Add(time.Hour), minute,
			decision{NewTAT: noon.Add(time.Hour), Reset: time.Hour, RetryAfter: time.Hour - 59*time.Second}},
	} {
		if got := decide(c.tat, noon, c.limit); got != c.want {
			t.Errorf("%s:\n got %+v\nwant %+v", c.rule, got, c.want)
		}
	}
}

func TestLimit_Invalid(t *testing.T) {
	for _, l := range []Limit{{}, {0, time.Minute}, {-1, time.Minute}, {1, 0}, {1, -time.Second}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%+v was accepted", l)
				}
			}()
			decide(time.Time{}, noon, l)
		}()
	}
}

// TestNeverMoreThanTheLimit makes requests at random times, with a clock that sometimes goes back, and
// checks every window between two of them.
func TestNeverMoreThanTheLimit(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		limit := Limit{1 + r.IntN(20), time.Duration(1+r.IntN(1000)) * 10 * time.Millisecond}
		store, now := NewLocal(0), noon
		var allowed []time.Time
		for range 400 {
			pause := time.Duration(r.Int64N(int64(limit.Per/time.Duration(limit.Count)) * 3 / 2))
			now = now.Add(pause).Truncate(time.Microsecond)
			tats, err := store.Spend(context.Background(), now,
				[]kv.Charge{{Name: "a", Cost: limit.cost(), Burst: limit.burst()}})
			if err != nil {
				t.Fatal(err)
			}
			if decide(tats[0], now, limit).Allowed {
				allowed = append(allowed, now)
			}
		}
		if len(allowed) < limit.Count {
			t.Fatalf("seed %d: only %d allowed by %+v", seed, len(allowed), limit)
		}
		for i := range allowed {
			for j := i; j < len(allowed); j++ {
				elapsed := allowed[j].Sub(allowed[i])
				if most := limit.Count + int(elapsed*time.Duration(limit.Count)/limit.Per); j-i+1 > most {
					t.Fatalf("seed %d: %+v allowed %d requests within %v, want at most %d",
						seed, limit, j-i+1, elapsed, most)
				}
			}
		}
	}
}

// A client without earlier requests can use the whole count in one burst, and the requests that the first
// minute restores. The contract states these numbers.
func TestLimit_Burst(t *testing.T) {
	l := &Limiter{Store: NewLocal(0)}
	rule := []Rule{{Name: "public-ip", Key: "192.0.2.7", Limit: PerMinute(60)}}
	for minute, want := range []int{119, 60, 60} {
		allowed := 0
		for at := time.Duration(0); at < time.Minute; at += 50 * time.Millisecond {
			result, err := l.Take(context.Background(), noon.Add(time.Duration(minute)*time.Minute+at), rule)
			if err != nil {
				t.Fatal(err)
			}
			if result.Allowed {
				allowed++
			}
		}
		if allowed != want {
			t.Errorf("contract 30: minute %d allows %d requests, want %d", minute+1, allowed, want)
		}
	}
}

func TestTake(t *testing.T) {
	both := []Rule{
		{Name: "public-ip", Key: "192.0.2.7", Limit: PerMinute(60)},
		{Name: "public-key", Key: "k1", Limit: PerMinute(600)},
	}
	l := &Limiter{Store: NewLocal(0)}
	take := func(now time.Time, rules []Rule) Result {
		t.Helper()
		result, err := l.Take(context.Background(), now, rules)
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	check := func(rule string, got, want Result) {
		t.Helper()
		if got != want {
			t.Errorf("%s:\n got %+v\nwant %+v", rule, got, want)
		}
	}
	const policy = `"public-ip";q=60;w=60, "public-key";q=600;w=60`

	check("the first", take(noon, both), Result{true, 0, policy, `"public-ip";r=59;t=1, "public-key";r=599;t=1`})
	for range 58 {
		take(noon, both)
	}
	check("spec: the 60th of one address is allowed",
		take(noon, both), Result{true, 0, policy, `"public-ip";r=0;t=1, "public-key";r=540;t=6`})
	check("spec: the 61st is not, and costs the key nothing",
		take(noon, both), Result{false, 1, policy, `"public-ip";r=0;t=1, "public-key";r=540;t=6`})
	check("a second early by a microsecond",
		take(noon.Add(time.Second-time.Microsecond), both), Result{
			false,
			1,
			policy,
			`"public-ip";r=0;t=1, "public-key";r=549;t=6`,
		})
	check("after exactly a second one more",
		take(noon.Add(time.Second), both), Result{true, 0, policy, `"public-ip";r=0;t=1, "public-key";r=549;t=6`})
	check("and only one", take(noon.Add(time.Second), both), Result{
		false,
		1,
		policy,
		`"public-ip";r=0;t=1, "public-key";r=549;t=6`,
	})

	other := []Rule{{Name: "public-ip", Key: "192.0.2.8", Limit: PerMinute(60)}, both[1]}
	check("another address counts for itself",
		take(noon.Add(time.Second), other), Result{true, 0, policy, `"public-ip";r=59;t=1, "public-key";r=548;t=6`})
	check("a minute later all is there again",
		take(noon.Add(2*time.Minute), both), Result{
			true,
			0,
			policy,
			`"public-ip";r=59;t=1, "public-key";r=599;t=1`,
		})

	slow := []Rule{
		{Name: "a", Key: "k", Limit: Limit{1, time.Minute}},
		{Name: "b", Key: "k", Limit: Limit{1, 90 * time.Second}},
	}
	take(noon, slow)
	check("contract 5: the longest wait of all that deny, rounded up",
		take(noon.Add(500*time.Millisecond), slow),
		Result{false, 90, `"a";q=1;w=60, "b";q=1;w=90`, `"a";r=0;t=60, "b";r=0;t=90`})
	check("no rules", take(noon, nil), Result{Allowed: true})
}

func TestTakeClockGoesBack(t *testing.T) {
	l := &Limiter{Store: NewLocal(0)}
	rules := []Rule{{Name: "a", Key: "k", Limit: PerMinute(60)}}
	allowed := func(now time.Time) (n int) {
		for range 100 {
			if result, err := l.Take(context.Background(), now, rules); err != nil {
				t.Fatal(err)
			} else if result.Allowed {
				n++
			} else if result.RetryAfter != 1 {
				t.Fatalf("wait %d s, want 1", result.RetryAfter)
			}
		}
		return n
	}
	for _, step := range []struct {
		rule string
		at   time.Duration
		want int
	}{
		{"a full counter", 0, 60},
		{"an hour back restores no requests", -time.Hour, 0},
		{"and continues from there", -time.Hour + time.Second, 1},
		{"back to before gives at most the limit", 0, 60},
	} {
		if got := allowed(noon.Add(step.at)); got != step.want {
			t.Errorf("%s: %d allowed, want %d", step.rule, got, step.want)
		}
	}
}

type brokenStore struct {
	tats []time.Time
	err  error
}

func (s brokenStore) Spend(context.Context, time.Time, []kv.Charge) ([]time.Time, error) {
	return s.tats, s.err
}

func TestTakeFailsClosed(t *testing.T) {
	rules := []Rule{{Name: "a", Key: "k", Limit: PerMinute(60)}}
	result, err := (&Limiter{Store: brokenStore{err: kv.ErrUnavailable}}).Take(context.Background(), noon,
		rules)
	if !errors.Is(err, kv.ErrUnavailable) || result.Allowed {
		t.Errorf("store unavailable: got %+v, %v", result, err)
	}
	result, err = (&Limiter{Store: brokenStore{}}).Take(context.Background(), noon, rules)
	if err == nil || result.Allowed {
		t.Errorf("store that returns no counters: got %+v, %v", result, err)
	}
}

type meterFunc func(p kv.Partition, now time.Time, charges []kv.Charge) ([]time.Time, error)

func (f meterFunc) Spend(
	_ context.Context, p kv.Partition, now time.Time, charges []kv.Charge,
) ([]time.Time, error) {
	return f(p, now, charges)
}

func TestFromMeter(t *testing.T) {
	meter := meterFunc(func(p kv.Partition, now time.Time, charges []kv.Charge) ([]time.Time, error) {
		want := (kv.Charge{Name: "a/k", Cost: time.Second, Burst: time.Minute})
		if p != "limits" || !now.Equal(noon) || len(charges) != 1 || charges[0] != want {
			t.Errorf("got %q, %v, %+v", p, now, charges)
		}
		return []time.Time{noon.Add(time.Minute)}, nil
	})
	l := &Limiter{Store: FromMeter(meter, "limits")}
	result, err := l.Take(context.Background(), noon.Add(999),
		[]Rule{{Name: "a", Key: "k", Limit: PerMinute(60)}})
	if err != nil || result.Allowed {
		t.Errorf("got %+v, %v", result, err)
	}
}

func TestLocalIsBounded(t *testing.T) {
	l := NewLocal(1600)
	charge := func(name string, now time.Time, cost time.Duration) time.Time {
		tats, _ := l.Spend(context.Background(), now,
			[]kv.Charge{{Name: name, Cost: cost, Burst: time.Minute}})
		return tats[0]
	}
	charge("heavy", noon, time.Minute)
	for i := range 100_000 {
		charge(fmt.Sprintf("2001:db8:0:%x::/64", i), noon, time.Second)
	}
	if n := l.counters(); n > 1600 {
		t.Errorf("%d counters, want at most 1600", n)
	}
	if charge("heavy", noon, time.Second).IsZero() {
		t.Error("the counter at its limit was forgotten, though others were closer to rest")
	}
	later := noon.Add(time.Hour)
	for i := range 2000 {
		charge(fmt.Sprintf("late-%d", i), later.Add(time.Duration(i)*time.Minute), time.Second)
	}
	if n := l.counters(); n > 600 {
		t.Errorf("%d counters are left, although all but one are at rest", n)
	}
}

func (l *Local) counters() (n int) {
	for i := range l.shards {
		n += len(l.shards[i].tats)
	}
	return n
}

func TestLocalKeepsNothingOfADenial(t *testing.T) {
	l := NewLocal(0)
	for range 10 {
		_, err := l.Spend(context.Background(), noon, []kv.Charge{
			{Name: "a", Cost: 1, Burst: 1},
			{Name: "b", Cost: 2, Burst: 1},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if n := l.counters(); n != 0 {
		t.Errorf("%d counters after denials only", n)
	}
}

func TestLocalHoldsTheLimitUnderConcurrentCalls(t *testing.T) {
	l := &Limiter{Store: NewLocal(0)}
	var allowed atomic.Int64
	var wait sync.WaitGroup
	for g := range 8 {
		wait.Go(func() {
			// Each goroutine has another order, so that locks taken without an order would deadlock.
			rules := []Rule{
				{Name: "a", Key: "k", Limit: PerMinute(60)},
				{Name: "b", Key: fmt.Sprint(g), Limit: PerMinute(600)},
				{Name: "c", Key: "k", Limit: PerMinute(600)},
			}
			if g%2 == 0 {
				rules[0], rules[2] = rules[2], rules[0]
			}
			for range 100 {
				if result, err := l.Take(context.Background(), noon, rules); err == nil && result.Allowed {
					allowed.Add(1)
				}
			}
		})
	}
	wait.Wait()
	if n := allowed.Load(); n != 60 {
		t.Errorf("%d of 800 allowed, want 60", n)
	}
}

func TestClientKey(t *testing.T) {
	for _, c := range []struct{ rule, addr, want string }{
		{"IPv4 counts by address", "192.0.2.7", "192.0.2.7"},
		{"IPv4 mapped to IPv6 is IPv4", "::ffff:192.0.2.7", "192.0.2.7"},
		{"contract 30: IPv6 counts by /64", "2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"},
		{"contract 30: another host of the same /64", "2001:db8:1:2::1", "2001:db8:1:2::/64"},
		{"contract 30: another /64", "2001:db8:1:3::1", "2001:db8:1:3::/64"},
		{"a zone is no part of it", "fe80::1%eth0", "fe80::/64"},
	} {
		if got := clientKey(netip.MustParseAddr(c.addr)); got != c.want {
			t.Errorf("%s: %s is %s, want %s", c.rule, c.addr, got, c.want)
		}
	}
	if got := clientKey(netip.Addr{}); got != "unknown" {
		t.Errorf("no address: %s", got)
	}
}

func TestCounterName(t *testing.T) {
	long := strings.Repeat("x", 300)
	seen := map[string]string{}
	posing := strings.TrimPrefix(counterName("secret-ip", "é"), "secret-ip/")
	for _, key := range []string{
		"",
		"k",
		"192.0.2.7",
		"2001:db8::/64",
		"with space",
		"é",
		"\n",
		long,
		long + "y",
		"#",
		posing,
	} {
		name := counterName("secret-ip", key)
		if len(name) > kv.MaxName || strings.IndexFunc(name, func(r rune) bool {
			return r <= ' ' ||
				r > '~'
		}) >= 0 {
			t.Errorf("the key %q gives %q, which is not a name", key, name)
		}
		if other, dup := seen[name]; dup {
			t.Errorf("the keys %q and %q both give %q", key, other, name)
		}
		seen[name] = key
	}
	if got := counterName("secret-ip", "192.0.2.7"); got != "secret-ip/192.0.2.7" {
		t.Errorf("a key that fits gives %q, want it readable", got)
	}
	if got := counterName("a", strings.Repeat("x", kv.MaxName-2)); len(got) != kv.MaxName {
		t.Errorf("a key that just fits gives %q, want it readable", got)
	}
}

func BenchmarkTake(b *testing.B) {
	l := &Limiter{Store: NewLocal(0)}
	rules := []Rule{
		{Name: "public-ip", Key: "192.0.2.7", Limit: PerMinute(60)},
		{Name: "public-key", Key: "k1", Limit: PerMinute(600)},
	}
	now := noon
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(time.Second)
		if _, err := l.Take(context.Background(), now, rules); err != nil {
			b.Fatal(err)
		}
	}
}

// names notes which counters are charged.
type names struct {
	Store
	seen []string
}

func (n *names) Spend(ctx context.Context, now time.Time, charges []kv.Charge) ([]time.Time, error) {
	for _, c := range charges {
		n.seen = append(n.seen, c.Name)
	}
	return n.Store.Spend(ctx, now, charges)
}

func TestStore_HashesClientAddress(t *testing.T) {
	secret, asked := "ring", 0
	store := &names{Store: NewLocal(0)}
	instance := func() *Limiter {
		return &Limiter{Store: store, MAC: func(message []byte) ([]byte, error) {
			asked++
			sum := sha256.Sum256([]byte(secret + string(message)))
			return sum[:20], nil
		}}
	}
	l, other := instance(), instance()
	named := func(l *Limiter, now time.Time, client string) string {
		t.Helper()
		store.seen, store.Store = nil, NewLocal(0)
		rules := []Rule{
			PerMinute(60).ForClient("secret-ip", netip.MustParseAddr(client)),
			{Name: "reconcile-key", Key: "key_1", Limit: PerMinute(60)},
		}
		result, err := l.Take(context.Background(), now, rules)
		named := store.seen[1] == "reconcile-key/key_1" && strings.HasPrefix(store.seen[0], "secret-ip/#")
		if err != nil || !result.Allowed || !named {
			t.Fatalf("%v %v %v", store.seen, result, err)
		}
		return store.seen[0]
	}
	first := named(l, noon, "192.0.2.7")
	if strings.Contains(first, "192") {
		t.Errorf("contract 13: the counter is named %s", first)
	}
	if got := named(other, noon, "192.0.2.7"); got != first {
		t.Errorf("contract 30: two instances count one address under different names: %s, %s", got, first)
	}
	if named(l, noon, "192.0.2.8") == first {
		t.Error("contract 30: two addresses are counted together")
	}
	if got := named(l, noon.Add(11*time.Hour+59*time.Minute), "192.0.2.7"); got != first {
		t.Error("contract 30: the counter changes within a day")
	}
	if named(l, noon.Add(12*time.Hour), "192.0.2.7") == first {
		t.Error("contract 13: an address has the same name on another day")
	}
	asked = 0
	for range 50 {
		named(l, noon, "192.0.2.7")
	}
	if asked != 1 {
		t.Errorf("the key of the day was asked for %d times", asked)
	}
	secret = "rotated"
	if named(l, noon, "192.0.2.7") != first {
		t.Error("contract 30: the name changed within a minute, before all instances have the new key")
	}
	now := noon.Add(time.Minute)
	if named(l, now, "192.0.2.7") == first || named(l, now, "192.0.2.7") != named(other, now, "192.0.2.7") {
		t.Error("contract 30: after a rotation instances count one address under different names")
	}
	l.MAC = func([]byte) ([]byte, error) { return nil, errors.New("no key") }
	result, err := l.Take(context.Background(), noon.Add(time.Hour),
		[]Rule{PerMinute(60).ForClient("a", netip.Addr{})})
	if err == nil || result.Allowed {
		t.Errorf("a request that cannot be counted: %v, %v, want an error", result, err)
	}
}
