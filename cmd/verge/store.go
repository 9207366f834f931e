package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/spf13/afero"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters/bolt"
	"github.com/verge-id/verge/kvadapters/etcd"
	"github.com/verge-id/verge/kvadapters/memory"
	"github.com/verge-id/verge/kvadapters/redis"
)

// storeAt names a KV and what is needed to open it.
type storeAt struct {
	kind string // bolt, memory, miniredis, redis or etcd
	path string // of the bolt file
	url  string // of a server; it may hold a password
	tls  *tls.Config

	// Of Redis alone.
	prefix   string
	replicas int
	wait     time.Duration
}

// knownStores is said to whoever asks for another one.
const knownStores = "want bolt:FILE (one process), a redis://, redis+cluster://, redis+sentinel:// or etcd:// URL " +
	"(any number of processes; rediss and etcds for TLS), or memory (forgets everything when it ends)"

func parseStore(s string) (storeAt, error) {
	kind, path, _ := strings.Cut(s, ":")
	switch {
	case s == "memory" || s == "miniredis":
		return storeAt{kind: s}, nil
	case kind == "bolt" && path != "":
		return storeAt{kind: "bolt", path: path}, nil
	case kind == "bolt":
		return storeAt{}, fmt.Errorf("kv %q: it needs a file, as in bolt:/var/lib/verge/verge.db", s)
	}
	scheme, _, found := strings.Cut(s, "://")
	base, _, _ := strings.Cut(scheme, "+")
	switch {
	case found && (base == "redis" || base == "rediss" || base == "unix"):
		return storeAt{kind: "redis", url: s}, nil
	case found && (base == "etcd" || base == "etcds"):
		return storeAt{kind: "etcd", url: s}, nil
	case found: // the rest may be a password
		return storeAt{}, fmt.Errorf("kv: there is no store for %s:// URLs: %s", scheme, knownStores)
	}
	if strings.ContainsAny(s, "@/") { // a URL gone wrong, and what is wrong with it may be a password
		return storeAt{}, fmt.Errorf("kv: it is neither a store nor the URL of one: %s", knownStores)
	}
	return storeAt{}, fmt.Errorf("kv %q: %s", s, knownStores)
}

// shared reports whether other processes may work on the same store.
func (a storeAt) shared() bool { return a.kind == "redis" || a.kind == "etcd" }

// partitions is over how many sessions are spread where nobody says: one,
// unless there are nodes to spread them over.
func (a storeAt) partitions() int {
	if strings.HasPrefix(a.url, "redis+cluster:") || strings.HasPrefix(a.url, "rediss+cluster:") {
		return 16
	}
	return 1
}

// String is the store without secrets.
func (a storeAt) String() string {
	if a.url == "" {
		return a.kind
	}
	before, rest, _ := strings.Cut(a.url, "://")
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		rest = rest[i+1:]
	}
	rest, _, _ = strings.Cut(rest, "?") // options hold passwords too
	return before + "://" + rest
}

// withPassword puts a password into the URL: with Sentinel the servers', else
// beside the user that it names.
func (a storeAt) withPassword(password string) (storeAt, error) {
	scheme, rest, _ := strings.Cut(a.url, "://")
	sentinel := strings.HasSuffix(scheme, "+sentinel")
	if a.hasServersPassword() || !sentinel && a.hasPassword() {
		return a, errors.New("the kv URL has a password already")
	}
	if sentinel {
		separator := "?"
		if strings.Contains(rest, "?") {
			separator = "&"
		}
		a.url += separator + "password=" + url.QueryEscape(password)
		return a, nil
	}
	end := strings.IndexAny(rest, "/?")
	if end < 0 {
		end = len(rest)
	}
	user, hosts, found := strings.Cut(rest[:end], "@")
	if !found {
		user, hosts = "", rest[:end]
	}
	a.url = scheme + "://" + user + url.UserPassword("", password).String() + "@" + hosts + rest[end:]
	return a, nil
}

// hasPassword reports whether the URL holds one, as far as can be seen. With
// Sentinel that may be the Sentinels' own, beside which there is the servers'.
func (a storeAt) hasPassword() bool {
	_, rest, _ := strings.Cut(a.url, "://")
	userinfo, _, found := strings.Cut(rest, "@")
	return found && strings.Contains(userinfo, ":") || a.hasServersPassword()
}

func (a storeAt) hasServersPassword() bool {
	_, options, _ := strings.Cut(a.url, "?")
	q, _ := url.ParseQuery(options)
	return q.Has("password")
}

// exposed says what everybody on the network to the store could do, "" if it is
// nothing: whoever can write there undoes what is kept, and whoever listens
// reads it and learns the password. Where the URL names this machine alone,
// there is no network. The servers that a Cluster or a Sentinel names itself
// are not known here.
func (a storeAt) exposed() string {
	if !a.shared() || strings.HasPrefix(a.url, "unix:") || !slices.ContainsFunc(a.hosts(), isElsewhere) {
		return ""
	}
	scheme, _, _ := strings.Cut(a.url, "://")
	base, kind, _ := strings.Cut(scheme, "+")
	_, options, _ := strings.Cut(a.url, "?")
	unchecked, _ := url.ParseQuery(options)
	if a.tls == nil && base != "rediss" && base != "etcds" || unchecked.Has("skip_verify") {
		return "it is another machine, and without TLS whoever is on the network between reads and changes everything"
	}
	certified := a.tls != nil && len(a.tls.Certificates) > 0
	if !certified && (kind == "sentinel" && !a.hasServersPassword() || !a.hasPassword()) {
		return "it is another machine, and without a password whoever reaches it reads and changes everything"
	}
	return ""
}

// withTLS is the URL's scheme with TLS.
func (a storeAt) withTLS() string {
	scheme, _, _ := strings.Cut(a.url, "://")
	base := "etcds"
	if a.kind == "redis" {
		base = "rediss"
	}
	if _, kind, found := strings.Cut(scheme, "+"); found {
		base += "+" + kind
	}
	return base + "://"
}

// hosts are those that the URL names.
func (a storeAt) hosts() []string {
	_, rest, _ := strings.Cut(a.url, "://")
	rest, options, _ := strings.Cut(rest, "?")
	q, _ := url.ParseQuery(options)
	rest = rest[strings.LastIndexByte(rest, '@')+1:]
	rest, _, _ = strings.Cut(rest, "/")
	return append(strings.Split(rest, ","), q["addr"]...)
}

// isElsewhere reports whether a host, with or without port, is not this machine for certain.
func isElsewhere(host string) bool {
	if _, _, err := net.SplitHostPort(host); err != nil {
		host = net.JoinHostPort(strings.Trim(host, "[]"), "0")
	}
	return !isLoopback(host)
}

// check finds what is wrong with the store's settings, as far as that can be
// told without asking anybody.
func (a storeAt) check() error {
	switch a.kind {
	case "redis":
		if scheme, _, _ := strings.Cut(a.url, "://"); a.tls != nil && !strings.HasPrefix(scheme, "rediss") {
			return errors.New("there are certificates, but the URL is without TLS: write rediss:// in place of redis://")
		}
		return redis.Valid(a.url, a.redis())
	case "etcd":
		return etcd.Valid(a.url)
	}
	return nil
}

func (a storeAt) redis() redis.Config {
	return redis.Config{Prefix: a.prefix, Replicas: a.replicas, WaitTimeout: a.wait, TLS: a.tls}
}

// of is the same store with a place in it for one owner, so that data
// directories with key rings of their own do not meet on one server.
func (a storeAt) of(owner string) storeAt {
	switch a.kind {
	case "redis", "miniredis":
		a.prefix = "verge-" + owner
	case "etcd":
		a.url = strings.TrimSuffix(a.url, "/") + "/verge-" + owner
	}
	return a
}

// openTimeout bounds how long a server is looked for at the start.
const openTimeout = 10 * time.Second

// boltDisk is a good one, but in tests of a disk that fails.
var boltDisk bolt.Disk

// open opens the store. Its errors repeat no password.
func (a storeAt) open(ctx context.Context, now func() time.Time) (store kv.KV, shut func() error, err error) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	switch a.kind {
	case "memory":
		return memory.New(memory.Config{Now: now}), func() error { return nil }, nil
	case "bolt":
		b, err := bolt.Open(a.path, bolt.Config{Now: now, Disk: boltDisk})
		if err != nil {
			return nil, nil, err
		}
		return b, b.Close, nil
	case "miniredis":
		m := miniredis.NewMiniRedis()
		m.ClockTTL(true)
		if err := m.Start(); err != nil {
			return nil, nil, err
		}
		r, err := redis.Open(ctx, "redis://"+m.Addr(), a.redis())
		if err != nil {
			m.Close()
			return nil, nil, err
		}
		return r, func() error { defer m.Close(); return r.Close() }, nil
	case "redis":
		r, err := redis.Open(ctx, a.url, a.redis())
		if err != nil {
			return nil, nil, err
		}
		return r, r.Close, nil
	case "etcd":
		e, err := etcd.Open(ctx, a.url, etcd.Config{Now: now, TLS: a.tls})
		if err != nil {
			return nil, nil, err
		}
		return e, e.Close, nil
	}
	panic("no such store: " + a.kind)
}

// clientTLS is what a store's servers are trusted by, and how they know us.
// Empty names are left out; with none, the result is nil: the system's CAs.
func clientTLS(p *program, ca, cert, key string) (*tls.Config, error) {
	if ca == "" && cert == "" && key == "" {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		pem, err := afero.ReadFile(p.fs, ca)
		if err != nil {
			return nil, err
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s holds no PEM certificate", ca)
		}
	}
	if (cert == "") != (key == "") {
		return nil, errors.New("a client certificate and its key go together; set both or neither")
	}
	if cert != "" {
		pair, err := loadPair(p, cert, key)
		if err != nil {
			return nil, err
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}
