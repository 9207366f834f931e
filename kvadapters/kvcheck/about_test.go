package kvcheck

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/verge-id/verge/kvadapters/postgres"
	"github.com/verge-id/verge/kvadapters/redis"
	"github.com/verge-id/verge/testharness/stores"
)

func TestAboutRedis(t *testing.T) {
	server := func(addr string, settings ...string) redis.Server {
		s := redis.Server{Addr: addr, Product: "Redis 7.0.0", Replicas: "0", Settings: map[string]string{}}
		for i := 0; i+1 < len(settings); i += 2 {
			s.Settings[settings[i]] = settings[i+1]
		}
		return s
	}
	safe := []string{"appendonly", "yes", "appendfsync", "always", "maxmemory", "1000",
		"maxmemory-policy", "noeviction", "min-replicas-to-write", "1"}
	with := func(extra ...string) redis.Server { return server("a", append(slices.Clone(safe), extra...)...) }
	replicated := server("a", safe...)
	replicated.Replicas = "1"
	cutOff := with("min-replicas-to-write", "0")
	cutOff.Replicas = "1"
	unlogged := server("b", append(slices.Clone(safe), "appendonly", "no")...)
	one := func(s redis.Server) []redis.Server { return []redis.Server{s} }
	for _, c := range []struct {
		name     string
		servers  []redis.Server
		replicas int
		says     string
		warnings []string
	}{
		{"safe", one(server("a", safe...)), 0, "keeps every write through kill -9 and a power cut", nil},
		{"everysec", one(with("appendfsync", "everysec")), 0,
			"a power cut the last second", []string{"appendfsync"}},
		{"no log", one(with("appendonly", "no")), 0, "a restart forgets everything", []string{"appendonly"}},
		{"one of two has no log", []redis.Server{server("a", safe...), unlogged}, 0,
			"a restart forgets everything", []string{"appendonly"}},
		{"no setting may be read", one(redis.Server{Addr: "a"}), 0, "may not be asked", nil},
		{"no bound", one(with("maxmemory", "0")), 0, "nothing bounds them", []string{"maxmemory is 0"}},
		{"no limit, and a policy that will evict",
			one(with("maxmemory", "0", "maxmemory-policy", "allkeys-lru")), 0,
			"nothing bounds them", []string{"maxmemory is 0", "maxmemory-policy"}},
		{"replicas that no write waits for", one(replicated), 0,
			"Replicas are connected", []string{"no write waits"}},
		{"replicas that writes wait for", one(replicated), 1, "waited for replicas (1)", nil},
		{"a primary that continues alone", one(cutOff), 1, "waited for replicas (1)",
			[]string{"min-replicas-to-write is 0"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := aboutRedis(c.servers, c.replicas)
			if said := fmt.Sprint(a.NotProven); !strings.Contains(said, c.says) {
				t.Errorf("want %q in %s", c.says, said)
			}
			if len(a.Warnings) != len(c.warnings) {
				t.Fatalf("warnings %q, want %q", a.Warnings, c.warnings)
			}
			for i, want := range c.warnings {
				if !strings.Contains(a.Warnings[i], want) {
					t.Errorf("warning %q, want %q", a.Warnings[i], want)
				}
			}
		})
	}
}

func TestAboutPostgres(t *testing.T) {
	with := func(names, waits string) map[string]string {
		return map[string]string{"synchronous_standby_names": names, "synchronous_commit": waits,
			"fsync": "on"}
	}
	for _, c := range []struct {
		name     string
		server   postgres.Server
		says     string
		warnings int
	}{
		{"alone", postgres.Server{Settings: with("", "on")}, "nothing to fail over to", 0},
		{"asynchronous", postgres.Server{Replicas: 1, Settings: with("", "on")}, "lacks the last commits", 1},
		{"local", postgres.Server{Replicas: 1, Settings: with("*", "local")}, "lacks the last commits", 1},
		{"remote_write", postgres.Server{Replicas: 1, Settings: with("*", "remote_write")}, "both lose power",
			0},
		{"synchronous", postgres.Server{Replicas: 2, Synchronous: 1, Settings: with("*", "on")}, "1 of 2", 0},
		{"none synchronous", postgres.Server{Replicas: 2, Settings: with("db2", "on")}, "is synchronous", 1},
		{"hidden", postgres.Server{Replicas: 2, Synchronous: -1, Settings: with("*", "on")}, "cannot be seen",
			0},
		{"no fsync", postgres.Server{Settings: map[string]string{"fsync": "off"}}, "destroy the whole", 1},
		{"torn", postgres.Server{Settings: map[string]string{"full_page_writes": "off"}}, "after an fsync",
			1},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := aboutPostgres(c.server, true, nil)
			if said := fmt.Sprint(a.NotProven); !strings.Contains(said, c.says) ||
				len(a.Warnings) != c.warnings {
				t.Errorf("warnings %q; want %q in %s", a.Warnings, c.says, said)
			}
		})
	}
}

// A check of PostgreSQL reports whether instances can wake each other.
func TestCheck_Signals(t *testing.T) {
	server := stores.StartPostgres(t)
	for _, c := range []struct{ name, more, says string }{
		{"on", "", "signals good they arrive"},
		{"off", "&signals=off", "signals off by the URL"},
		{"behind a pooler", "&pooler=transaction", "signals off by the URL"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := scratchOn(t, server.URL("verge")+c.more, "verge-check-signals")
			defer s.erase(t.Context())
			a, err := s.about(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var said bytes.Buffer
			text{&said}.signals(a.Signals)
			wantInWords(t, said.String(), c.says)
			if on := c.more == ""; *a.Signals != (signals{On: on, Arrive: on}) || len(a.Warnings) > 1 {
				t.Errorf("%+v, warnings %q", a.Signals, a.Warnings)
			}
		})
	}
	lost := errors.New("signals do not arrive: add pooler=transaction")
	a := aboutPostgres(postgres.Server{}, true, lost)
	var said bytes.Buffer
	text{&said}.signals(a.Signals)
	wantInWords(t, said.String()+strings.Join(a.Warnings, "\n"),
		"signals WARNING signals do not arrive: add pooler",
		"tasks that an instance leaves to others wait until they poll")
	said.Reset()
	text{&said}.signals(about{}.Signals)
	if said.Len() > 0 || a.Signals.Arrive {
		t.Errorf("a store without signals: %s; %+v", said.String(), a.Signals)
	}
}
