package redis

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/verge-id/verge/core/kv"
)

// Open connects to the server of the URL and checks that it is fit (see
// Check). The URL is one of
//
//	redis://[user[:password]@]host[:6379][/db]
//	redis+cluster://[user[:password]@]host[:6379][?addr=host:port&addr=...]
//	redis+sentinel://[user[:password]@]sentinel[:26379]/[db]?master_name=name[&addr=sentinel:port...]
//	unix://[user[:password]@]/path/to/socket[?db=n]
//
// and rediss, rediss+cluster and rediss+sentinel for TLS. User and password
// of a Sentinel URL are the Sentinels'; the servers' own are its options
// username and password. go-redis' options may follow, among them
// dial_timeout, read_timeout, write_timeout, pool_size, pool_timeout and
// min_idle_conns, as in ?read_timeout=2s&pool_size=50. No error repeats the
// URL. Open turns go-redis' own log off.
func Open(ctx context.Context, rawURL string, c Config) (*Store, error) {
	silence()
	client, err := connect(rawURL, c)
	if err != nil {
		return nil, err
	}
	s, err := New(client, c)
	if err == nil {
		s.owned = true
		err = s.Check(ctx)
	}
	if err != nil {
		client.Close()
		if strings.HasPrefix(rawURL, "rediss") && (errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, io.EOF)) {
			// Its reason comes after the handshake, and gets lost where we write sooner.
			err = fmt.Errorf("%w: so closes a server with a client's certificate required, where none is sent: see Config.TLS", err)
		}
		return nil, err
	}
	return s, nil
}

// Valid finds what is wrong with a URL and a Config as far as that can be told
// without a server.
func Valid(rawURL string, c Config) error {
	client, err := connect(rawURL, c)
	if err != nil {
		return err
	}
	defer client.Close()
	_, err = New(client, c)
	return err
}

// connections in a pool where the URL says nothing: a request that does not
// travel with others (see batcher) waits for its reply on one of its own.
const connections = 64

// readTimeout is how long a reply may take where the URL says nothing; the
// wait for replicas comes on top.
const (
	readTimeout = 3 * time.Second
	defaultWait = time.Second
)

// connect makes a client; it talks to nobody yet.
func connect(rawURL string, c Config) (redis.UniversalClient, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		var detail *url.Error // says the whole URL, with its password
		if errors.As(err, &detail) {
			err = detail.Err
		}
		if strings.Contains(err.Error(), "port") || strings.Contains(err.Error(), "userinfo") || strings.Contains(err.Error(), "escape") {
			err = errors.New("what stands between // and / is not user:password@host:port; escape special characters of the password")
		}
		return nil, fmt.Errorf("redis: the URL cannot be read: %w", err)
	}
	scheme, kind, _ := strings.Cut(u.Scheme, "+")
	if scheme != "redis" && scheme != "rediss" && (scheme != "unix" || kind != "") {
		return nil, fmt.Errorf("redis: scheme %q: want redis, rediss or unix, or with +cluster or +sentinel", u.Scheme)
	}
	u.Scheme = scheme
	for _, fixed := range []string{"max_retries", "protocol", "read_only", "route_by_latency", "route_randomly", "replica_only"} {
		if u.Query().Has(fixed) {
			return nil, fmt.Errorf("redis: option %s of the URL is not the operator's: no other value keeps this store's promises", fixed)
		}
	}
	switch kind {
	case "":
		o, err := redis.ParseURL(u.String())
		if err != nil {
			return nil, unreadable(err, u)
		}
		o.MaintNotificationsConfig = quiet
		common{&o.TLSConfig, &o.ReadTimeout, &o.PoolSize, &o.DialerRetries, &o.MaxRetries, &o.Protocol,
			&o.ContextTimeoutEnabled, &o.DisableIdentity}.set(u, c)
		return redis.NewClient(o), nil
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
			return nil, errors.New("redis: the URL names no master; add ?master_name=, as in the Sentinels' \"sentinel monitor\"")
		}
		common{&o.TLSConfig, &o.ReadTimeout, &o.PoolSize, &o.DialerRetries, &o.MaxRetries, &o.Protocol,
			&o.ContextTimeoutEnabled, &o.DisableIdentity}.set(u, c)
		return redis.NewFailoverClient(o), nil
	}
	return nil, fmt.Errorf("redis: scheme %s+%s: want %s, %s+cluster or %s+sentinel", scheme, kind, scheme, scheme, scheme)
}

// common are the options that all kinds of clients have, in a type for each kind.
type common struct {
	tls                          **tls.Config
	readTimeout                  *time.Duration
	poolSize, dials              *int
	retries, protocol            *int
	contextTimeout, withoutAName *bool
}

// set puts in what the Config says, then a default of ours wherever the URL says
// nothing, and last what no URL may change. u is the server's URL.
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

// go-redis reports every failed dial to a log of its own, as often as somebody
// calls. Every call's error says it too, to whoever called.
var silence = sync.OnceFunc(func() { redis.SetLogger(silent{}) })

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// quiet: no notices about maintenance, which only some vendors' servers send.
var quiet = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}

// unreadable is the parser's error unless that repeats a secret.
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

// Check reports what makes the servers unfit: a replica, an old version, a
// policy that evicts, a missing permission, a Cluster taken for a single
// server. Its errors wrap kv.ErrUnavailable.
func (s *Store) Check(ctx context.Context) error {
	probe := request{base: "{" + s.config.Prefix + ":}"}
	inspect := func(ctx context.Context, node *redis.Client) error {
		info, err := node.Info(ctx).Result()
		if err != nil {
			var refusal redis.Error
			if errors.As(err, &refusal) && (strings.HasPrefix(err.Error(), "NOPERM") || strings.HasPrefix(err.Error(), "ERR")) {
				return nil // not every operator lets a client ask
			}
			return s.refused(probe, err)
		}
		if err := unfit(info, s.cluster() != nil); err != nil {
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
			return s.refused(probe, err)
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
	// The commands that no script makes.
	if _, err := s.List(ctx, kv.Key{}, "", 1); err != nil {
		return err
	}
	if _, err := s.do(ctx, request{base: probe.base, repeatable: true, args: []any{"mget", probe.base + "i:"}}); err != nil {
		return err
	}
	if s.config.Replicas > 0 {
		_, err := s.do(ctx, request{base: probe.base, repeatable: true, args: []any{"wait", "0", "1"}})
		return err
	}
	return nil
}

// unfit reads what INFO says.
func unfit(info string, cluster bool) error {
	said := make(map[string]string)
	for lines := bufio.NewScanner(strings.NewReader(info)); lines.Scan(); {
		if name, value, ok := strings.Cut(strings.TrimSpace(lines.Text()), ":"); ok {
			said[name] = value
		}
	}
	if v, ok := said["redis_version"]; ok {
		major, rest, _ := strings.Cut(v, ".")
		minor, _, _ := strings.Cut(rest, ".")
		a, errA := strconv.Atoi(major)
		b, errB := strconv.Atoi(minor)
		if errA == nil && errB == nil && (a < 6 || a == 6 && b < 2) {
			return fmt.Errorf("the server is Redis %s: it takes 6.2", v)
		}
	}
	if said["role"] == "slave" {
		return errors.New("the server is a replica: point the URL at the primary, or at Sentinel")
	}
	if !cluster && said["cluster_enabled"] == "1" {
		return errors.New("the server belongs to a Cluster: " + clusterHint)
	}
	if policy, ok := said["maxmemory_policy"]; ok && policy != "noeviction" && said["maxmemory"] != "0" {
		return fmt.Errorf("maxmemory-policy is %s, which removes used marks when memory runs out: set it to noeviction", policy)
	}
	return nil
}
