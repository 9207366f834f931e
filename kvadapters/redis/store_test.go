package redis_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters/redis"
	"github.com/verge-id/verge/testharness/long"
	"github.com/verge-id/verge/testharness/stores"
)

func TestSweep_ExpiredNames(t *testing.T) {
	for _, way := range []string{"commits", "claims", "lists"} {
		t.Run(way, func(t *testing.T) {
			m, clock, advance := mini(t)
			s := open(t, "redis://"+m.Addr(), redis.Config{})
			put := func(i int, life time.Duration) {
				commit(t, s, kv.Tx{
					ID:        "id",
					Partition: "p",
					Puts:      []kv.Put{{Name: fmt.Sprint("n", i), Expires: clock.Now().Add(life)}},
				})
			}
			size := func(key string) int {
				names, _ := m.ZMembers("{verge:p}" + key)
				return len(names)
			}
			most := 0
			switch way {
			case "commits":
				for i := range 2000 {
					put(i, 10*time.Second)
					advance(time.Second)
					most = max(most, size("n"), size("x"))
				}
				if most > 40 {
					t.Errorf("the index has %d names; each of the 2,000 expires after nine more", most)
				}
				return
			case "claims":
				for i := range 500 {
					put(i, time.Second)
				}
				advance(time.Minute)
				for range 10 {
					if _, _, err := s.Claim(t.Context(), "p", clock.Now(), time.Second, 1); err != nil {
						t.Fatal(err)
					}
				}
			case "lists":
				for i := range 500 {
					put(i, time.Second)
				}
				advance(time.Minute)
				if items, err := s.List(t.Context(), kv.Key{Partition: "p"}, "", 10); err != nil ||
					len(items) != 0 {
					t.Fatalf("list: %d items, %v", len(items), err)
				}
			}
			if n, x := size("n"), size("x"); n+x > 0 {
				t.Errorf("%d names and %d expiries are left, though all have expired", n, x)
			}
		})
	}
}

func TestSweep_RotatingClaims(t *testing.T) {
	const partitions = 16
	m, clock, advance := mini(t)
	s := open(t, "redis://"+m.Addr(), redis.Config{})
	name := func(i int) kv.Partition { return kv.Partition(fmt.Sprint("p", i)) }
	for i := range partitions {
		commit(t, s, kv.Tx{
			ID:        "id",
			Partition: name(i),
			Puts:      []kv.Put{{Name: "a", Expires: clock.Now().Add(time.Second)}},
		})
	}
	advance(time.Minute)
	for range 64 {
		for i := range partitions {
			if _, _, err := s.Claim(t.Context(), name(i), clock.Now(), time.Second, 1); err != nil {
				t.Fatal(err)
			}
		}
	}
	if keys := m.Keys(); len(keys) > 0 {
		t.Errorf("expired names are still in the index: %q", keys)
	}
}

func TestPartitions_Braces(t *testing.T) {
	m, _, _ := mini(t)
	s := open(t, "redis://"+m.Addr(), redis.Config{})
	// Without the escape, keys of the second partition would have the prefix of items of the first.
	keys := []kv.Key{
		{Partition: "p", Name: "x}i:y"},
		{Partition: "p}i:x", Name: "y"},
		{Partition: "p%7Di:x", Name: "y"},
	}
	for i, k := range keys {
		commit(t, s, kv.Tx{
			ID:        fmt.Sprint(i),
			Partition: k.Partition,
			Checks:    []kv.Check{{Name: k.Name}},
			Puts:      []kv.Put{{Name: k.Name}},
		})
	}
	for i, k := range keys {
		if it, err := s.Get(t.Context(), k); err != nil || it.Tx != fmt.Sprint(i) {
			t.Errorf("%v is from %q, %v", k, it.Tx, err)
		}
	}
}

func TestPrefixes_Separate(t *testing.T) {
	m, _, _ := mini(t)
	a, b := open(t, "redis://"+m.Addr(), redis.Config{}), open(t, "redis://"+m.Addr(),
		redis.Config{Prefix: "other"})
	commit(t, a, mark("1", "a"))
	wantAbsent(t, b, "a", "only another prefix has it")
	for _, key := range m.Keys() {
		if !strings.HasPrefix(key, "{verge:p}") {
			t.Errorf("key %q", key)
		}
	}
}

func TestTimes_RoundedUp(t *testing.T) {
	m, clock, _ := mini(t)
	s := open(t, "redis://"+m.Addr(), redis.Config{})
	fine := clock.Now().Add(time.Hour + time.Microsecond)
	want := clock.Now().Add(time.Hour + time.Millisecond)
	commit(t, s, kv.Tx{
		ID:        "1",
		Partition: "p",
		Puts:      []kv.Put{{Name: "a", Expires: fine}},
		Schedule:  []kv.Task{{ID: "t", Due: fine}},
	})
	if it, err := s.Get(t.Context(), kv.Key{Partition: "p", Name: "a"}); err != nil ||
		!it.Expires.Equal(want) {
		t.Errorf("expires %v, %v, want %v: a mark must not expire before its token", it.Expires, err, want)
	}
	if tasks, _, _ := s.Claim(t.Context(), "p", fine, time.Second, 1); len(tasks) != 0 {
		t.Errorf("claimed %v before it is due", tasks)
	}
	if tasks, _, err := s.Claim(t.Context(), "p", want, time.Second, 1); err != nil || len(tasks) != 1 {
		t.Errorf("claimed %v, %v", tasks, err)
	}
}

func TestTimes_Far(t *testing.T) {
	m, clock, _ := mini(t)
	s := open(t, "redis://"+m.Addr(), redis.Config{})
	for _, at := range []time.Time{
		time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC),
		time.Date(1, 1, 1, 0, 0, 1, 0, time.UTC),
		time.Unix(0, 0).UTC(),
	} {
		commit(t, s, kv.Tx{ID: "1", Partition: "p", Schedule: []kv.Task{{ID: "t", Due: at}}})
		_, next, err := s.Claim(t.Context(), "p", at.Add(-time.Second), time.Second, 1)
		if err != nil || !next.Equal(at) {
			t.Errorf("a task at %v: next %v, %v", at, next, err)
		}
		tasks, _, err := s.Claim(t.Context(), "p", at, time.Second, 1)
		if err != nil || len(tasks) != 1 || !tasks[0].Due.Equal(at) {
			t.Errorf("a task at %v: claimed %v, %v", at, tasks, err)
		}
	}
	// A time beyond the range of scores: the task must not be lost and must not be due.
	commit(t, s, kv.Tx{ID: "1", Partition: "q", Schedule: []kv.Task{{ID: "t", Due: time.Unix(1<<60, 0)}}})
	tasks, next, err := s.Claim(t.Context(), "q", clock.Now(), time.Second, 1)
	if err != nil || len(tasks) != 0 || next.IsZero() {
		t.Errorf("claimed %v, next %v, %v", tasks, next, err)
	}
}

func TestClaim_DistinctLeases(t *testing.T) {
	m, _, _ := mini(t)
	random := bytes.NewReader(make([]byte, 16))
	s := open(t, "redis://"+m.Addr(), redis.Config{Random: random})
	commit(t, s, kv.Tx{ID: "1", Partition: "p",
		Schedule: []kv.Task{{ID: "a", Due: due}, {ID: "b", Due: due}}})
	tasks, _, err := s.Claim(t.Context(), "p", time.Now(), time.Second, 2)
	if err != nil || len(tasks) != 2 || tasks[0].Lease == tasks[1].Lease {
		t.Fatalf("claimed %v, %v", tasks, err)
	}
	for i := range tasks {
		var conflict *kv.Conflict
		tx := kv.Tx{ID: "2", Partition: "p", Held: []kv.Held{{TaskID: tasks[i].ID, Lease: tasks[1-i].Lease}}}
		if err := s.Commit(t.Context(), tx); !errors.As(err, &conflict) {
			t.Errorf("%s under the lease of the other: %v", tasks[i].ID, err)
		}
		tx.Held[0].Lease = tasks[i].Lease
		commit(t, s, tx)
	}
	_, _, err = s.Claim(t.Context(), "p", time.Now(), time.Second, 2)
	wantRejected(t, err, "randomness")
}

// claimCost returns the number of commands of some claims and the server's time for them.
func claimCost(t testing.TB, s *stores.Redis, store *redis.Store, p kv.Partition) (calls int, usec int64) {
	t.Helper()
	stats := func() (calls int, usec int64) {
		line := regexp.MustCompile(`cmdstat_(\w+):calls=(\d+),usec=(\d+)`)
		for _, m := range line.FindAllStringSubmatch(fmt.Sprint(s.Do("info", "commandstats")), -1) {
			if m[1] == "evalsha" {
				us, _ := strconv.ParseInt(m[3], 10, 64)
				usec += us
				continue
			}
			if slices.Contains([]string{"info", "hello", "client", "ping"}, m[1]) {
				continue
			}
			n, _ := strconv.Atoi(m[2])
			calls += n
		}
		return calls, usec
	}
	const rounds = 50
	s.Do("config", "resetstat")
	for range rounds {
		tasks, _, err := store.Claim(context.Background(), p, time.Unix(2e9, 0), time.Hour, 10)
		if err != nil || len(tasks) != 10 {
			t.Fatalf("claimed %d, %v", len(tasks), err)
		}
	}
	calls, usec = stats()
	return calls, usec / rounds
}

// fill schedules n tasks quickly. It writes the same data as the commit script.
func fill(t testing.TB, s *stores.Redis, p kv.Partition, n int) {
	t.Helper()
	for from := 1; from <= n; from += 20_000 {
		s.Do("eval", `for i = ARGV[1], ARGV[2] do
			redis.call('HSET', KEYS[1], '=t' .. i, '\1\0\0\0\0\0\0\0\0' .. string.rep('x', 100))
			redis.call('ZADD', KEYS[2], i, 't' .. i)
		end`, 2, "{verge:"+string(p)+"}t", "{verge:"+string(p)+"}d", from, min(from+20_000-1, n))
	}
}

func TestClaim_ManyPending(t *testing.T) {
	pending := long.Pick(t, "TestClaim_ManyPending", 100_000, 1_000_000)
	s := stores.StartRedis(t)
	store := open(t, s.URL(), redis.Config{})
	fill(t, s, "few", 1000)
	fill(t, s, "many", pending)
	if _, _, err := store.Claim(t.Context(), "none", time.Now(), time.Hour, 10); err != nil {
		t.Fatal(err)
	}
	few, fewTime := claimCost(t, s, store, "few")
	many, manyTime := claimCost(t, s, store, "many")
	if few != many || few == 0 {
		t.Errorf("50 claims make %d commands with 1,000 pending and %d with %d", few, many, pending)
	}
	t.Logf("a claim of 10 takes the server %d µs with 1,000 pending, %d µs with %d", fewTime, manyTime,
		pending)
}

func TestClaim_IdleNoWrites(t *testing.T) {
	s := stores.StartRedis(t, stores.Durable...)
	store := open(t, s.URL(), redis.Config{})
	commit(t, store, kv.Tx{
		ID:        "1",
		Partition: "p",
		Puts:      []kv.Put{{Name: "a"}},
		Schedule:  []kv.Task{{ID: "t", Due: time.Now().Add(time.Hour)}},
	})
	size := func() string {
		return regexp.MustCompile(`aof_current_size:\d+`).FindString(fmt.Sprint(s.Do("info", "persistence")))
	}
	before := size()
	for range 20 {
		tasks, _, err := store.Claim(t.Context(), "p", time.Now(), time.Second, 10)
		if err != nil || len(tasks) != 0 {
			t.Fatal(tasks, err)
		}
	}
	if after := size(); before == "" || after != before {
		t.Errorf("idle claims grew the server's log from %s to %s", before, after)
	}
}

func TestClaim_Limit(t *testing.T) {
	s := stores.StartRedis(t)
	store := open(t, s.URL(), redis.Config{})
	fill(t, s, "p", 1500)
	tasks, next, err := store.Claim(t.Context(), "p", time.Unix(9, 0), time.Hour, 1<<40)
	if err != nil || len(tasks) != redis.MaxClaim || next.After(time.Unix(9, 0)) {
		t.Errorf("%d tasks, next %v, %v, want %d and a past time", len(tasks), next, err,
			redis.MaxClaim)
	}
	tasks, _, err = store.Claim(t.Context(), "p", time.Unix(9, 0), time.Hour, -1)
	if err != nil || len(tasks) != 0 {
		t.Errorf("%d tasks, %v, want none for a claim of -1", len(tasks), err)
	}
}

func TestClaim_TaskWithoutBody(t *testing.T) {
	m, clock, _ := mini(t)
	s := open(t, "redis://"+m.Addr(), redis.Config{})
	commit(t, s, kv.Tx{ID: "1", Partition: "p", Schedule: []kv.Task{{ID: "t", Due: due}}})
	m.Del("{verge:p}t")
	_, _, err := s.Claim(t.Context(), "p", clock.Now(), time.Second, 1)
	wantRejected(t, err, "set maxmemory-policy noeviction")
}

func TestSpend(t *testing.T) {
	now := time.Date(2026, 11, 20, 22, 10, 0, 123_456_000, time.UTC)
	minute := kv.Charge{Name: "minute", Cost: 20 * time.Second, Burst: time.Minute}
	hour := kv.Charge{Name: "hour", Cost: time.Second, Burst: time.Hour}
	engines := map[string]func(t *testing.T) string{
		"miniredis": func(t *testing.T) string { m, _, _ := mini(t); return "redis://" + m.Addr() },
		"redis":     func(t *testing.T) string { return stores.StartRedis(t).URL() },
		"cluster": func(t *testing.T) string {
			return "redis+cluster://" +
				stores.StartCluster(t, 3)[0].Addr()
		},
	}
	for name, url := range engines {
		t.Run(name, func(t *testing.T) {
			s := open(t, url(t), redis.Config{})
			spend := func(at time.Time, charges ...kv.Charge) []time.Time {
				t.Helper()
				tats, err := s.Spend(t.Context(), "limits", at, charges)
				if err != nil {
					t.Fatal(err)
				}
				return tats
			}
			want := func(got []time.Time, want ...time.Time) {
				t.Helper()
				if !slices.EqualFunc(got, want, time.Time.Equal) {
					t.Errorf("counters were %v, want %v", got, want)
				}
			}
			want(spend(now, minute, hour), time.Time{}, time.Time{})
			want(spend(now, minute, hour), now.Add(20*time.Second), now.Add(time.Second))
			want(spend(now, minute, hour), now.Add(40*time.Second), now.Add(2*time.Second))
			// The minute is used up: both counters must stay unchanged.
			want(spend(now, minute, hour), now.Add(60*time.Second), now.Add(3*time.Second))
			want(spend(now.Add(20*time.Second-time.Microsecond), minute, hour), now.Add(60*time.Second),
				now.Add(3*time.Second))
			// The charge must be allowed exactly when the minute has room again, to the microsecond.
			want(spend(now.Add(20*time.Second), minute), now.Add(60*time.Second))
			want(spend(now.Add(20*time.Second), minute), now.Add(80*time.Second))
			want(spend(now.Add(20*time.Second), hour), now.Add(3*time.Second))
			if tats := spend(now); tats != nil {
				t.Errorf("no charges: %v", tats)
			}
			_, err := s.Spend(t.Context(), "limits", time.Unix(-1, 0), []kv.Charge{minute})
			wantRejected(t, err, "minute")

			// The model is kv.Meter's promise, word for word. It must hold for clocks that jump, too.
			model := map[string]time.Time{}
			for i := range 300 {
				at := now.Add(time.Duration(i*i%7000) * time.Millisecond)
				charges := []kv.Charge{
					{Name: fmt.Sprint("a", i%3), Cost: 300_001 * time.Microsecond, Burst: time.Second},
					{Name: "b", Cost: 11 * time.Microsecond, Burst: time.Second},
				}
				var before, after []time.Time
				all := true
				for _, c := range charges {
					tat := model[c.Name]
					before = append(before, tat)
					if at.After(tat) {
						tat = at
					}
					after = append(after, tat.Add(c.Cost))
					all = all && !after[len(after)-1].After(at.Add(c.Burst))
				}
				for k, c := range charges {
					if all {
						model[c.Name] = after[k]
					}
				}
				want(spend(at, charges...), before...)
			}
		})
	}
}

func TestSpend_SharedLimit(t *testing.T) {
	s := stores.StartRedis(t)
	now := time.Now().Truncate(time.Microsecond)
	charge := []kv.Charge{{Name: "c", Cost: time.Second, Burst: 50 * time.Second}}
	var allowed atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		store := open(t, s.URL(), redis.Config{})
		wg.Go(func() {
			for range 100 {
				tats, err := store.Spend(t.Context(), "limits", now, charge)
				if err != nil {
					t.Error(err)
					return
				}
				if tats[0].Before(now) {
					tats[0] = now
				}
				if !tats[0].Add(charge[0].Cost).After(now.Add(charge[0].Burst)) {
					allowed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if allowed.Load() != 50 {
		t.Errorf("%d of 400 were allowed, want 50", allowed.Load())
	}
	if ttl := s.Do("pttl", "{verge:limits}r:c").(int64); ttl <= 0 || ttl > 60_000 {
		t.Errorf("the counter is kept for %d ms, want until it is full again and ten seconds more", ttl)
	}
}

func TestOpen_Errors(t *testing.T) {
	for _, c := range []struct{ name, url, want string }{
		{"another scheme", "http://h", "scheme"},
		{"an unknown kind", "redis+ring://h", "redis+cluster or redis+sentinel"},
		{"no scheme", "localhost:6379", "scheme"},
		{"a port that is not a number", "redis://u:canary@h:port", "user:password@host:port"},
		{"a password with a slash", "redis://u:canary/x@h:1", "user:password@host:port"},
		{"an invalid escape", "redis://u:canary%zz@h:1", "URL"},
		{"a database that is not a number", "redis://u:canary@h/canary", "URL"},
		{"Sentinel without the master's name", "redis+sentinel://u:canary@h", "master_name"},
		{"an unknown option", "redis://u:canary@h?canary=1", "URL"},
		{"retries", "redis://u:canary@h?max_retries=3", "max_retries"},
		{"reads from replicas", "redis+cluster://u:canary@h?read_only=true", "read_only"},
		{"nobody there", "redis://u:canary@127.0.0.1:1", "refused"},
		{"no Cluster at the address", "redis+cluster://u:canary@127.0.0.1:1", "refused"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := redis.Open(t.Context(), c.url, redis.Config{})
			if err == nil {
				s.Close()
				t.Fatal("Open succeeded, want an error")
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("%q does not say %q", err, c.want)
			}
			if strings.Contains(err.Error(), "canary") {
				t.Errorf("the error contains a secret: %v", err)
			}
		})
	}
}

func TestNew_Errors(t *testing.T) {
	single := func(o goredis.Options) goredis.UniversalClient { return goredis.NewClient(&o) }
	for _, c := range []struct {
		name   string
		client goredis.UniversalClient
		config redis.Config
		want   string
	}{
		{"a client that repeats commands", single(goredis.Options{}), redis.Config{}, "MaxRetries"},
		{"a ring", goredis.NewRing(&goredis.RingOptions{}), redis.Config{}, "ClusterClient"},
		{
			"reads from replicas",
			goredis.NewClusterClient(&goredis.ClusterOptions{ReadOnly: true}),
			redis.Config{},
			"ReadOnly",
		},
		{
			"a prefix that ends the hash tag",
			single(goredis.Options{MaxRetries: -1}),
			redis.Config{Prefix: "a}b"},
			"prefix",
		},
		{
			"a prefix that could collide with another partition",
			single(goredis.Options{MaxRetries: -1}),
			redis.Config{Prefix: "a:b"},
			"prefix",
		},
		{
			"a negative number of replicas",
			single(goredis.Options{MaxRetries: -1}),
			redis.Config{Replicas: -1},
			"Replicas is -1",
		},
		{
			"a wait longer than the client's",
			single(goredis.Options{MaxRetries: -1}),
			redis.Config{Replicas: 1, WaitTimeout: time.Minute},
			"ReadTimeout",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			defer c.client.Close()
			if _, err := redis.New(c.client, c.config); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}

func TestTLS(t *testing.T) {
	c := stores.NewCertificate(t)
	port := stores.FreePort(t)
	stores.StartRedis(t, "--tls-port", fmt.Sprint(port),
		"--tls-cert-file", c.CertFile, "--tls-key-file", c.KeyFile,
		"--tls-ca-cert-file", c.CertFile, "--tls-auth-clients", "yes")
	url := fmt.Sprintf("rediss://127.0.0.1:%d", port)

	_, err := redis.Open(t.Context(), url, redis.Config{})
	wantRejected(t, err, "certificate")
	_, err = redis.Open(t.Context(), url, redis.Config{TLS: &tls.Config{RootCAs: c.Roots}})
	if err == nil || !strings.Contains(err.Error(), "certificate required") {
		// The server's reason can be lost. The error then has the likely reason.
		wantRejected(t, err, "requires a client's certificate")
	}
	kvWalk(t,
		open(t, url, redis.Config{TLS: &tls.Config{RootCAs: c.Roots,
			Certificates: []tls.Certificate{c.Pair}}}))
}

func TestTLS_ConnectionReset(t *testing.T) {
	c := stores.NewCertificate(t)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{c.Pair}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conn.(*tls.Conn).Handshake()
			conn.(*tls.Conn).NetConn().(*net.TCPConn).SetLinger(0) // a reset, which overtakes any reason
			conn.(*tls.Conn).NetConn().Close()
		}
	}()
	_, err = redis.Open(t.Context(), "rediss://"+l.Addr().String(),
		redis.Config{TLS: &tls.Config{RootCAs: c.Roots}})
	wantRejected(t, err, "requires a client's certificate", "Config.TLS")
}

// The commit is like validate's.
func BenchmarkCommit(b *testing.B) {
	s := stores.StartRedis(b)
	store, err := redis.Open(context.Background(), s.URL(), redis.Config{})
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	var n atomic.Int64
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			id := fmt.Sprintf("svc_sess_%020d", n.Add(1))
			tx := mark(id, id)
			tx.Partition = kv.Partition(fmt.Sprintf("p%02d", n.Load()%16))
			if err := store.Commit(context.Background(), tx); err != nil {
				b.Error(err)
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
}

// BenchmarkSetNX is the baseline for BenchmarkCommit.
func BenchmarkSetNX(b *testing.B) {
	s := stores.StartRedis(b)
	c := goredis.NewClient(&goredis.Options{Addr: s.Addr(), Protocol: 2, PoolSize: 64})
	defer c.Close()
	var n atomic.Int64
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			id := fmt.Sprintf("svc_sess_%020d", n.Add(1))
			if err := c.SetNX(context.Background(), id, id, time.Hour).Err(); err != nil {
				b.Error(err)
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
}
