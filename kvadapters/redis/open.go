package redis

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/verge-id/verge/core/kv"
)

// Open connects to the server of the URL and runs Check on it. The URL is one of
//
//	redis://[user[:password]@]host[:6379][/db]
//	redis+cluster://[user[:password]@]host[:6379][?addr=host:port&addr=...]
//	redis+sentinel://[user[:password]@]sentinel[:26379]/[db]?master_name=name[&addr=sentinel:port...]
//	unix://[user[:password]@]/path/to/socket[?db=n]
//
// and rediss, rediss+cluster and rediss+sentinel for TLS. In a Sentinel URL, user and password are the
// Sentinels'; the options username and password are the servers'. Options of go-redis may follow, among
// them dial_timeout, read_timeout, write_timeout, pool_size, pool_timeout and min_idle_conns, as in
// ?read_timeout=2s&pool_size=50. Errors do not contain the URL. Open turns go-redis' own log off.
func Open(ctx context.Context, rawURL string, c Config) (*Store, error) {
	silence()
	s, err := newOwned(rawURL, c)
	if err != nil {
		return nil, err
	}
	if err := s.Check(ctx); err != nil {
		s.Close()
		closed := errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) ||
			errors.Is(err, io.EOF)
		if strings.HasPrefix(rawURL, "rediss") && closed {
			// The server's reason comes after the handshake. It is lost if we write before we read it.
			err = fmt.Errorf("%w: a server closes the connection like this if it requires a "+
				"client's certificate and gets none: see Config.TLS", err)
		}
		return nil, err
	}
	return s, nil
}

// Valid checks a URL and a Config without connecting to a server.
func (c Config) Valid(rawURL string) error {
	s, err := newOwned(rawURL, c)
	if err == nil {
		s.Close()
	}
	return err
}

// newOwned returns a store with a new client for the URL, which Close closes.
func newOwned(rawURL string, c Config) (*Store, error) {
	client, err := connect(rawURL, c)
	if err != nil {
		return nil, err
	}
	s, err := New(client, c)
	if err != nil {
		client.Close()
		return nil, err
	}
	s.owned = true
	return s, nil
}

// connections is the default size of a pool. A request that is not sent in a batch (see batcher) uses a
// connection alone while it waits for its reply.
const connections = 64

// readTimeout is the default time limit for a reply. The wait for replicas is added to it.
const (
	readTimeout = 3 * time.Second
	defaultWait = time.Second
)

// parseURL returns the URL of a store for the client, and the kind of client: "", "cluster" or "sentinel".
func parseURL(text string) (u *url.URL, kind string, err error) {
	if u, err = url.Parse(text); err != nil {
		if detail, ok := errors.AsType[*url.Error](err); ok { // contains the whole URL, with its password
			err = detail.Err
		}
		reason := err.Error()
		inAddress := func(part string) bool { return strings.Contains(reason, part) }
		if inAddress("port") || inAddress("userinfo") || inAddress("escape") {
			err = errors.New("the part between // and / is not user:password@host:port; " +
				"escape special characters of the password")
		}
		return nil, "", fmt.Errorf("redis: the URL cannot be read: %w", err)
	}
	scheme, kind, _ := strings.Cut(u.Scheme, "+")
	switch {
	case scheme != "redis" && scheme != "rediss" && (scheme != "unix" || kind != ""):
		return nil, "", fmt.Errorf("redis: scheme %q: want redis or rediss, "+
			"alone or with +cluster or +sentinel, or unix", u.Scheme)
	case !slices.Contains([]string{"", "cluster", "sentinel"}, kind):
		return nil, "", fmt.Errorf("redis: scheme %s: want %s, %s+cluster or %s+sentinel",
			u.Scheme, scheme, scheme, scheme)
	}
	u.Scheme = scheme
	for _, fixed := range []string{
		"max_retries",
		"protocol",
		"read_only",
		"route_by_latency",
		"route_randomly",
		"replica_only",
	} {
		if u.Query().Has(fixed) {
			return nil, "", fmt.Errorf("redis: remove option %s from the URL: with another value "+
				"the store cannot keep its promises", fixed)
		}
	}
	return u, kind, nil
}

// connect creates a client. It does not connect yet.
func connect(rawURL string, c Config) (redis.UniversalClient, error) {
	u, kind, err := parseURL(rawURL)
	if err != nil {
		return nil, err
	}
	switch kind {
	case "cluster":
		o, err := redis.ParseClusterURL(u.String())
		if err != nil {
			return nil, unreadable(err, u)
		}
		o.MaintNotificationsConfig = quiet
		common{&o.TLSConfig, &o.ReadTimeout, &o.PoolSize, &o.DialerRetries, &o.MaxRetries, &o.Protocol,
			&o.ContextTimeoutEnabled, &o.DisableIdentity}.set(u, c)
		return redis.NewClusterClient(o), nil
	case "sentinel":
		if u.Port() == "" {
			u.Host += ":26379"
		}
		o, err := redis.ParseFailoverURL(u.String())
		if err != nil {
			return nil, unreadable(err, u)
		}
		if o.MasterName == "" {
			return nil, errors.New("redis: the URL names no master; " +
				"add ?master_name=, as in the Sentinels' \"sentinel monitor\"")
		}
		common{&o.TLSConfig, &o.ReadTimeout, &o.PoolSize, &o.DialerRetries, &o.MaxRetries, &o.Protocol,
			&o.ContextTimeoutEnabled, &o.DisableIdentity}.set(u, c)
		return redis.NewFailoverClient(o), nil
	default:
		o, err := redis.ParseURL(u.String())
		if err != nil {
			return nil, unreadable(err, u)
		}
		o.MaintNotificationsConfig = quiet
		common{&o.TLSConfig, &o.ReadTimeout, &o.PoolSize, &o.DialerRetries, &o.MaxRetries, &o.Protocol,
			&o.ContextTimeoutEnabled, &o.DisableIdentity}.set(u, c)
		return redis.NewClient(o), nil
	}
}

// common has the options of all kinds of clients, which have a type per kind.
type common struct {
	tls                          **tls.Config
	readTimeout                  *time.Duration
	poolSize, dials              *int
	retries, protocol            *int
	contextTimeout, withoutAName *bool
}

// set applies the Config, then our defaults for options that the URL does not set, and last the options
// that no URL may change. u is the server's URL.
func (o common) set(u *url.URL, c Config) {
	if u.Scheme == "rediss" && c.TLS != nil {
		private := c.TLS.Clone()
		private.ServerName = cmp.Or(private.ServerName, u.Hostname())
		*o.tls = private
	}
	wait := c.WaitTimeout
	if c.Replicas > 0 {
		wait = cmp.Or(wait, defaultWait)
	}
	*o.readTimeout = cmp.Or(*o.readTimeout, readTimeout) + wait
	*o.poolSize = cmp.Or(*o.poolSize, connections)
	*o.dials = cmp.Or(*o.dials, 1)
	*o.retries, *o.protocol = -1, 2
	*o.contextTimeout, *o.withoutAName = true, true
}

// go-redis logs every failed dial, at each call. The error of each call reports the same, to its caller.
var silence = sync.OnceFunc(func() { redis.SetLogger(silent{}) })

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// quiet turns off maintenance notices, which only some vendors' servers send.
var quiet = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}

// unreadable returns the parser's error, unless it contains a secret.
func unreadable(err error, u *url.URL) error {
	words := err.Error()
	secrets := []string{u.Query().Get("password"), u.Query().Get("sentinel_password")}
	if password, ok := u.User.Password(); ok {
		secrets = append(secrets, password, url.QueryEscape(password))
	}
	for _, secret := range secrets {
		if secret != "" && strings.Contains(words, secret) {
			return errors.New("redis: the URL cannot be read")
		}
	}
	return fmt.Errorf("redis: the URL cannot be read: %s", strings.TrimPrefix(words, "redis: "))
}

// Check returns an error if the servers are unsuitable: a replica, an old version, a policy that evicts, a
// missing permission, or a Cluster instead of a single server. Its errors wrap kv.ErrUnavailable.
func (s *Store) Check(ctx context.Context) error {
	probe := request{base: "{" + s.config.Prefix + ":}"}
	inspect := func(ctx context.Context, node *redis.Client) error {
		info, err := node.Info(ctx).Result()
		if err != nil {
			if isForbidden(err) {
				return nil
			}
			return s.rejected(probe, err)
		}
		if err := unfit(fieldsOf(info), s.cluster() != nil); err != nil {
			return fmt.Errorf("redis: %s: %w: %w", node.Options().Addr, kv.ErrUnavailable, err)
		}
		return nil
	}
	if cluster := s.cluster(); cluster != nil {
		var mu sync.Mutex
		var errs []error
		err := cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
			if err := inspect(ctx, node); err != nil {
				mu.Lock()
				errs = append(errs, err)
				mu.Unlock()
			}
			return nil
		})
		if err != nil {
			return s.rejected(probe, err)
		}
		if err := errors.Join(errs...); err != nil {
			return err
		}
	} else if err := inspect(ctx, s.client.(*redis.Client)); err != nil {
		return err
	}

	probe.script, probe.args = probeScript, []any{""}
	probe.keys = []string{probe.base + "i:", probe.base + "n", probe.base + "t"}
	if _, err := s.do(ctx, probe); err != nil {
		return err
	}
	// These commands are not part of any script.
	if _, err := s.List(ctx, kv.Key{}, "", 1); err != nil {
		return err
	}
	mget := request{base: probe.base, repeatable: true, args: []any{"mget", probe.base + "i:"}}
	if _, err := s.do(ctx, mget); err != nil {
		return err
	}
	if s.config.Replicas > 0 {
		_, err := s.do(ctx, request{base: probe.base, repeatable: true, args: []any{"wait", "0", "1"}})
		return err
	}
	return nil
}

// isForbidden reports whether the server rejects a command, as an operator may forbid INFO.
func isForbidden(err error) bool {
	var rejection redis.Error
	return errors.As(err, &rejection) && (strings.HasPrefix(err.Error(), "NOPERM") ||
		strings.HasPrefix(err.Error(), "ERR"))
}

// fieldsOf returns the fields of a server's INFO.
func fieldsOf(info string) map[string]string {
	fields := make(map[string]string)
	for line := range strings.Lines(info) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	return fields
}

// unfit returns the reason why a server with these fields of INFO is unsuitable.
func unfit(fields map[string]string, cluster bool) error {
	if v, ok := fields["redis_version"]; ok {
		major, rest, _ := strings.Cut(v, ".")
		minor, _, _ := strings.Cut(rest, ".")
		a, errA := strconv.Atoi(major)
		b, errB := strconv.Atoi(minor)
		if errA == nil && errB == nil && (a < 6 || a == 6 && b < 2) {
			return fmt.Errorf("the server is Redis %s: Verge needs 6.2 or later", v)
		}
	}
	if fields["role"] == "slave" {
		return errors.New("the server is a replica: point the URL at the primary, or at Sentinel")
	}
	if !cluster && fields["cluster_enabled"] == "1" {
		return errors.New("the server belongs to a Cluster: " + clusterHint)
	}
	if policy, ok := fields["maxmemory_policy"]; ok && policy != "noeviction" && fields["maxmemory"] != "0" {
		return fmt.Errorf("maxmemory-policy is %s, which removes the marks of used tokens when memory runs "+
			"out: set it to noeviction", policy)
	}
	return nil
}
