package kvadapters

import (
	"crypto/tls"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestParseAddress(t *testing.T) {
	for _, c := range []struct {
		kv         string
		kind       Kind
		shown      string
		shared     bool
		partitions int
		err        string
	}{
		{kv: "memory", kind: Memory, shown: "memory", partitions: 1},
		{kv: "miniredis", kind: Miniredis, shown: "miniredis", partitions: 1},
		{kv: "bolt:/v/verge.db", kind: Bolt, shown: "bolt", partitions: 1},
		{kv: "redis://h", kind: Redis, shown: "redis://h", shared: true, partitions: 1},
		{kv: "rediss://u:canary7@h:6380/2?pool_size=5", kind: Redis,
			shown: "rediss://h:6380/2", shared: true, partitions: 1},
		{kv: "redis+cluster://h:1?addr=h:2", kind: Redis,
			shown: "redis+cluster://h:1", shared: true, partitions: 16},
		{kv: "rediss+cluster://:canary7@h", kind: Redis,
			shown: "rediss+cluster://h", shared: true, partitions: 16},
		{kv: "redis+sentinel://h/?master_name=m&password=canary7", kind: Redis,
			shown: "redis+sentinel://h/", shared: true, partitions: 1},
		{kv: "unix:///run/redis.sock", kind: Redis,
			shown: "unix:///run/redis.sock", shared: true, partitions: 1},
		{kv: "postgres://u:canary7@a:1,b:2/verge?schema=s", kind: Postgres,
			shown: "postgres://a:1,b:2/verge", shared: true, partitions: 1},
		{kv: "postgresql://h/verge", kind: Postgres, shown: "postgresql://h/verge", shared: true,
			partitions: 1},
		{kv: "redis+sentinel://s1:26379/0?master_name=m&password=canary7@canary7", kind: Redis,
			shown: "redis+sentinel://s1:26379/0", shared: true, partitions: 1},
		{kv: "redis://10.0.0.5:6379/0?client_name=verge@a", kind: Redis,
			shown: "redis://10.0.0.5:6379/0", shared: true, partitions: 1},
		{kv: "redis://u:c@canary7@h:1/0", kind: Redis, shown: "redis://h:1/0", shared: true, partitions: 1},
		{kv: "redis://u:canary7?c@h:1/0", kind: Redis, shown: "redis://", shared: true, partitions: 1},
		{kv: "redis://:7?canary7@h", kind: Redis, shown: "redis://", shared: true, partitions: 1},
		{kv: "redis://u:canary7/c@h", kind: Redis, shown: "redis://", shared: true, partitions: 1},
		{kv: "redis://u:canary7#c@h", kind: Redis, shown: "redis://", shared: true, partitions: 1},
		{kv: "bolt:", err: "it needs a file"},
		{kv: "bolt", err: "it needs a file"},
		{kv: "", err: "want bolt:FILE"},
		{kv: "mysql://u:canary7@h", err: "no store for mysql:// URLs: want bolt:FILE"},
		{kv: "redis:h", err: "want bolt:FILE"},
		{kv: "redis:/:canary7@h", err: "neither a store nor the URL of one"},
		{kv: "u:canary7@h:6379", err: "neither a store nor the URL of one"},
		{kv: "redis//u:canary7", err: "neither a store nor the URL of one"},
	} {
		at, err := ParseAddress(c.kv)
		switch {
		case c.err != "":
			text := fmt.Sprint(err)
			if err == nil || !strings.Contains(text, c.err) || strings.Contains(text, "canary7") {
				t.Errorf("%s: %v, want %s", c.kv, err, c.err)
			}
		case err != nil:
			t.Errorf("%s: %v", c.kv, err)
		case at.Kind != c.kind, at.String() != c.shown, at.Shared() != c.shared,
			at.Partitions() != c.partitions:
			t.Errorf("%s: %s, shown as %s, shared %v, %d partitions",
				c.kv, at.Kind, at, at.Shared(), at.Partitions())
		}
		if err == nil && c.shown != "redis://" && at.HasPassword() != strings.Contains(c.kv, "canary7") {
			t.Errorf("%s: has a password: %v", c.kv, at.HasPassword())
		}
	}
}

func TestAddress_WithPassword(t *testing.T) {
	for kv, want := range map[string]string{
		"redis://h":                          "redis://:p%40%2F+%3A@h",
		"redis://verge@h:1/2":                "redis://verge:p%40%2F+%3A@h:1/2",
		"redis+cluster://verge@h?addr=i:2":   "redis+cluster://verge:p%40%2F+%3A@h?addr=i:2",
		"redis+sentinel://s/?master_name=m":  "redis+sentinel://s/?master_name=m&password=p%40%2F%2B%3A",
		"redis+sentinel://s:26379/0":         "redis+sentinel://s:26379/0?password=p%40%2F%2B%3A",
		"redis+sentinel://:theirs@s/":        "redis+sentinel://:theirs@s/?password=p%40%2F%2B%3A",
		"postgres://verge@a,b:2/verge?x=1":   "postgres://verge:p%40%2F+%3A@a,b:2/verge?x=1",
		"postgres://verge:other@h/verge":     "",
		"redis://verge:other@h":              "",
		"redis://h?client_name=verge:@a":     "redis://:p%40%2F+%3A@h?client_name=verge:@a",
		"redis+sentinel://s/?password=other": "",
	} {
		at, err := ParseAddress(kv)
		if err != nil {
			t.Fatal(err)
		}
		at, err = at.WithPassword("p@/+:")
		if (err != nil) != (want == "") || err == nil && at.URL != want {
			t.Errorf("%s: %s, %v, want %s", kv, at.URL, err, want)
		}
	}
}

// Services with different key rings can share servers.
func TestForOwner(t *testing.T) {
	for kv, want := range map[string]Address{
		"redis://h": {Kind: Redis, URL: "redis://h", Prefix: "verge-pub_dev_1"},
		"miniredis": {Kind: Miniredis, Prefix: "verge-pub_dev_1"},
		"memory":    {Kind: Memory},
		"postgres://h/d?schema=s&sslmode=disable": {
			Kind: Postgres, URL: "postgres://h/d?schema=verge-pub_dev_1&sslmode=disable"},
	} {
		at, err := ParseAddress(kv)
		if got := at.ForOwner("pub_dev_1"); err != nil || got != want {
			t.Errorf("%s: %+v, %v", kv, got, err)
		}
	}
}

// Write access to the store can undo its promises (contract 19).
func TestExposed(t *testing.T) {
	private := func(a *Address) { a.TLS = new(tls.Config) }
	certified := func(a *Address) { a.TLS = &tls.Config{Certificates: make([]tls.Certificate, 1)} }
	const noTLS, noPassword = "without TLS", "without a password"
	for _, c := range []struct {
		kv, want string
		change   func(*Address)
	}{
		{"memory", "", nil},
		{"bolt:/var/lib/verge/verge.db", "", nil},
		{"unix:///run/redis.sock", "", nil},
		{"redis://localhost", "", nil},
		{"redis://localhost:6379/1", "", nil},
		{"redis://127.0.0.9:6379", "", nil},
		{"redis://[::1]:6379", "", nil},
		{"redis://[::1]", "", nil},
		{"redis://redis.internal", noTLS, nil},
		{"redis://10.0.0.5:6379", noTLS, nil},
		{"redis://:6379", "", nil},
		{"redis:///0", "", nil},
		{"redis://u:p@10.0.0.5?client_name=a@localhost", noTLS, nil},
		{"rediss://10.0.0.5?client_name=verge:@a", noPassword, nil},
		{"postgres://verge@/verge?host=/run/postgresql", "", nil},
		{"postgres://verge:p@/verge?host=/run/postgresql&sslmode=disable", "", nil},
		{"redis://localhost.evil.example", noTLS, nil},
		{"redis://127.0.0.1@10.0.0.5", noTLS, nil},
		{"redis://u:p@10.0.0.5", noTLS, nil},
		{"redis://0.0.0.0:6379", noTLS, nil},
		{"redis+cluster://127.0.0.1:7000?addr=10.0.0.5:7000", noTLS, nil},
		{"rediss://:p@10.0.0.5?skip_verify=true", noTLS, nil},
		{"rediss://10.0.0.5", noPassword, nil},
		{"rediss://user@10.0.0.5", noPassword, nil},
		{"rediss+cluster://10.0.0.5", noPassword, private},
		{"rediss+sentinel://:ofSentinels@10.0.0.5/?master_name=m", noPassword, nil},
		{"postgres://localhost,127.0.0.1:5433/verge", "", nil},
		{"postgres:///verge?host=/run/postgresql", "", nil},
		{"postgres://10.0.0.5/verge?sslmode=disable", noTLS, nil},
		{"postgres://u:p@10.0.0.5/verge?sslmode=require", noTLS, nil},
		{"postgres://u@10.0.0.5/verge", noPassword, nil},
		{"postgres://u@10.0.0.5/verge", noPassword, private},
		{"postgres://u:p@10.0.0.5/verge", "", nil},
		{"postgres://u:p@10.0.0.5/verge?sslmode=verify-ca", "", nil},
		{"postgres://u@10.0.0.5/verge?sslcert=c&sslkey=k", "", nil},
		{"postgres://u@10.0.0.5/verge", "", certified},
		{"rediss+sentinel://10.0.0.5/?master_name=m&password=p", "", nil},
		{"rediss://:p@10.0.0.5", "", nil},
		{"rediss://10.0.0.5", "", certified},
	} {
		at, err := ParseAddress(c.kv)
		if err != nil {
			t.Fatal(err)
		}
		if c.change != nil {
			c.change(&at)
		}
		if got := at.Exposed(); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("contract 19: %s: %q, want %q", c.kv, got, c.want)
		}
	}
}

// Valid finds these mistakes without a server.
func TestValid(t *testing.T) {
	private := func(a *Address) { a.TLS = new(tls.Config) }
	for _, c := range []struct {
		name, kv, err string
		change        func(*Address)
	}{
		{"a good Redis URL", "redis://h", "", nil},
		{"certificates without TLS", "redis://h", "write rediss://", private},
		{"certificates without TLS, Cluster", "redis+cluster://h", "write rediss://", private},
		{"certificates with TLS", "rediss+cluster://h", "", private},
		{"an unknown kind", "redis+clster://h", "want redis, redis+cluster or redis+sentinel", nil},
		{"an unknown option", "redis://h?fo=1", "unexpected option: fo", nil},
		{"a database that is not a number", "redis://h/abc", "invalid database number", nil},
		{"a prefix with a space", "redis://h", "can begin a key", func(a *Address) { a.Prefix = "a b" }},
		{"a wait that Redis treats as unlimited", "redis://h", "at least 1ms",
			func(a *Address) { a.Replicas, a.Wait = 1, 500*time.Microsecond }},
		{"a good Postgres URL", "postgres://h/verge", "", nil},
		{"certificates and Postgres, which then uses TLS", "postgres://h/verge", "", private},
		{"no database", "postgres://h", "names no database", nil},
	} {
		at, err := ParseAddress(c.kv)
		if err != nil {
			t.Fatal(err)
		}
		if c.change != nil {
			c.change(&at)
		}
		err = at.Valid()
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v, want %q", c.name, err, c.err)
		}
	}
}
