package kvadapters

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/verge-id/verge/kvadapters/internal/network"
	"github.com/verge-id/verge/kvadapters/postgres"
	"github.com/verge-id/verge/kvadapters/redis"
)

// Kind is a kind of store.
type Kind string

// The kinds of stores. Miniredis is a small Redis inside this process, for tests and `verge dev`.
const (
	Memory    Kind = "memory"
	Miniredis Kind = "miniredis"
	Bolt      Kind = "bolt"
	Redis     Kind = "redis"
	Postgres  Kind = "postgres"
)

// Choices lists the stores and the forms of their addresses, for operators.
const Choices = "want bolt:FILE (one process), " +
	"a redis://, redis+cluster://, redis+sentinel:// or postgres:// URL " +
	"(any number of processes; rediss for TLS), or memory (forgets everything when it ends)"

// Address names a store and how to reach it. ParseAddress parses one from text.
type Address struct {
	Kind Kind
	Path string // the file of Bolt
	URL  string // the servers of Redis or Postgres; it may contain a password

	// TLS is for Redis and Postgres. Nil: the system's CAs, if the URL requires TLS.
	TLS *tls.Config

	// Prefix, Replicas and Wait are for Redis: see redis.Config, where Wait is called WaitTimeout.
	Prefix   string
	Replicas int
	Wait     time.Duration
}

// ParseAddress parses "memory", "miniredis", "bolt:FILE", or a URL that redis.Open or postgres.Open
// accepts. It checks only the scheme; Valid checks the rest. Its errors contain no password.
func ParseAddress(s string) (Address, error) {
	kind, path, _ := strings.Cut(s, ":")
	switch {
	case s == string(Memory) || s == string(Miniredis):
		return Address{Kind: Kind(s)}, nil
	case kind == string(Bolt) && path != "":
		return Address{Kind: Bolt, Path: path}, nil
	case kind == string(Bolt):
		return Address{}, fmt.Errorf("kv %q: it needs a file, as in bolt:/var/lib/verge/verge.db", s)
	}
	scheme, _, found := strings.Cut(s, "://")
	base, _, _ := strings.Cut(scheme, "+")
	switch {
	case found && (base == "redis" || base == "rediss" || base == "unix"):
		return Address{Kind: Redis, URL: s}, nil
	case found && (scheme == "postgres" || scheme == "postgresql"):
		return Address{Kind: Postgres, URL: s}, nil
	case found && (base == "etcd" || base == "etcds"):
		return Address{}, errors.New("kv: etcd is no longer supported: use PostgreSQL with a synchronous " +
			"standby, whose failover loses no used token either")
	case found: // the rest may contain a password
		return Address{}, fmt.Errorf("kv: there is no store for %s:// URLs: %s", scheme, Choices)
	}
	if strings.ContainsAny(s, "@/") { // a mistyped URL, any part of which may be a password
		return Address{}, fmt.Errorf("kv: it is neither a store nor the URL of one: %s", Choices)
	}
	return Address{}, fmt.Errorf("kv %q: %s", s, Choices)
}

// Shared reports whether other processes may use the same store.
func (a Address) Shared() bool { return a.Kind == Redis || a.Kind == Postgres }

// Partitions returns the default number of partitions for sessions: 16 for a Cluster, which spreads them
// over its nodes, else 1.
func (a Address) Partitions() int {
	if a.Kind == Redis && strings.HasSuffix(a.parts().scheme, "+cluster") {
		return 16
	}
	return 1
}

// String returns the scheme, the hosts and the path of a URL, and the kind of another store: no user, no
// password and no options.
func (a Address) String() string {
	if a.URL == "" {
		return string(a.Kind)
	}
	u := a.parts()
	// A password with one of the characters /?# that are not escaped ends the hosts early.
	if strings.Contains(u.path(), "@") ||
		u.user == "" && strings.Contains(u.rest, "@") && !namesHosts(u.hosts) {
		return u.scheme + "://"
	}
	return u.scheme + "://" + u.hosts + u.path()
}

// parts are the parts of a URL, without the characters between them.
type parts struct {
	scheme, user, hosts string // user may contain a password
	rest                string // from the path on
}

func (a Address) parts() (u parts) {
	scheme, rest, _ := strings.Cut(a.URL, "://")
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	u = parts{scheme: scheme, hosts: rest[:end], rest: rest[end:]}
	if at := strings.LastIndexByte(u.hosts, '@'); at >= 0 {
		u.user, u.hosts = u.hosts[:at], u.hosts[at+1:]
	}
	return u
}

func (u parts) path() string {
	path, _, _ := strings.Cut(u.rest, "?")
	return path
}

// namesHosts reports whether each host in a list has a name, and a number for its port if it has one.
func namesHosts(list string) bool {
	return !slices.ContainsFunc(strings.Split(list, ","), func(host string) bool {
		if name, port, err := net.SplitHostPort(host); err == nil {
			_, err = strconv.ParseUint(port, 10, 16)
			return name == "" || err != nil
		}
		return host == "" || strings.HasSuffix(host, ":")
	})
}

// WithPassword adds a password to the URL, for the user in the URL. A Sentinel URL has the Sentinels' own
// password at this place, so the servers' password becomes an option.
func (a Address) WithPassword(password string) (Address, error) {
	u := a.parts()
	sentinel := strings.HasSuffix(u.scheme, "+sentinel")
	if a.hasServersPassword() || !sentinel && a.HasPassword() {
		return a, errors.New("the kv URL has a password already")
	}
	if sentinel {
		separator := "?"
		if strings.Contains(u.rest, "?") {
			separator = "&"
		}
		a.URL += separator + "password=" + url.QueryEscape(password)
		return a, nil
	}
	a.URL = u.scheme + "://" + u.user + url.UserPassword("", password).String() + "@" + u.hosts + u.rest
	return a, nil
}

// HasPassword reports whether the URL contains a password. In a Sentinel URL it may be the Sentinels' own.
func (a Address) HasPassword() bool {
	return strings.Contains(a.parts().user, ":") || a.hasServersPassword()
}

func (a Address) hasServersPassword() bool { return a.options().Has("password") }

func (a Address) options() url.Values {
	_, text, _ := strings.Cut(a.URL, "?")
	options, _ := url.ParseQuery(text)
	return options
}

// Exposed returns a warning if others on the network could read or change the store, or "" if it is
// protected. Write access to the store can undo its promises. An eavesdropper reads the data and the
// password. A URL whose hosts are all this machine uses no network. Exposed does not know the servers that
// a Cluster or a Sentinel names later.
func (a Address) Exposed() string {
	scheme := a.parts().scheme
	if !a.Shared() || scheme == "unix" || !slices.ContainsFunc(a.hosts(), network.IsRemote) {
		return ""
	}
	base, kind, _ := strings.Cut(scheme, "+")
	secure := a.TLS != nil || base == "rediss"
	if a.Kind == Postgres {
		mode := a.options().Get("sslmode") // its default in package postgres is verify-full
		secure = a.TLS != nil || mode == "" || strings.HasPrefix(mode, "verify-")
	}
	if !secure || a.options().Has("skip_verify") {
		return "it is another machine, and without TLS " +
			"anyone on the network in between can read and change all data"
	}
	certified := a.TLS != nil && len(a.TLS.Certificates) > 0 ||
		a.Kind == Postgres && a.options().Has("sslcert")
	if !certified && (kind == "sentinel" && !a.hasServersPassword() || !a.HasPassword()) {
		return "it is another machine, and without a password " +
			"anyone who reaches it can read and change all data"
	}
	return ""
}

// AskForTLS returns the part of a URL that requires TLS, such as "rediss+cluster://".
func (a Address) AskForTLS() string {
	if a.Kind == Postgres {
		return "sslmode=verify-full"
	}
	base := "rediss"
	if _, kind, found := strings.Cut(a.parts().scheme, "+"); found {
		base += "+" + kind
	}
	return base + "://"
}

// hosts returns the hosts in the URL.
func (a Address) hosts() []string {
	return append(strings.Split(a.parts().hosts, ","), a.options()["addr"]...)
}

// Valid checks an address without connecting to a server.
func (a Address) Valid() error {
	switch a.Kind {
	case Redis:
		if a.TLS != nil && !strings.HasPrefix(a.parts().scheme, "rediss") {
			return errors.New("there are certificates, but the URL is without TLS: " +
				"write rediss:// instead of redis://")
		}
		return a.RedisConfig().Valid(a.URL)
	case Postgres:
		return postgres.Config{TLS: a.TLS}.Valid(a.URL)
	}
	return nil
}

// RedisConfig returns the settings of Redis that are not in the URL.
func (a Address) RedisConfig() redis.Config {
	return redis.Config{Prefix: a.Prefix, Replicas: a.Replicas, WaitTimeout: a.Wait, TLS: a.TLS}
}

// ForOwner returns an address on the same servers with separate data for one owner. So services with
// different key rings can share servers.
func (a Address) ForOwner(owner string) Address {
	switch a.Kind {
	case Redis, Miniredis:
		a.Prefix = "verge-" + owner
	case Postgres:
		options := a.options()
		options.Set("schema", "verge-"+owner)
		before, _, _ := strings.Cut(a.URL, "?")
		a.URL = before + "?" + options.Encode()
	}
	return a
}
