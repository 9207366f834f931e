package postgres

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/verge-id/verge/kvadapters/internal/network"
)

// address is a parsed URL.
type address struct {
	config  *pgxpool.Config
	schema  string
	pooled  bool // through a PgBouncer in transaction mode
	signals bool
}

const (
	defaultSchema = "verge"
	defaultConns  = "16"
)

// options are the valid options of a URL.
var options = []string{
	"sslmode", "sslrootcert", "sslcert", "sslkey", "schema", "pool_max_conns", "pooler", "signals",
	"host",
}

// parseURL parses the URL of Open. Its errors do not contain the URL, because it may include a password.
func parseURL(s string, certificates *tls.Config) (*address, error) {
	u, query, err := readURL(s)
	if err != nil {
		return nil, err
	}
	a, err := readOptions(query)
	if err != nil {
		return nil, err
	}
	if certificates != nil { // they replace it
		query.Set("sslmode", "disable")
	} else {
		elsewhere := slices.ContainsFunc(strings.Split(u.Host, ","), network.IsRemote)
		if err := readTLS(query, elsewhere); err != nil {
			return nil, err
		}
	}
	u.RawQuery = query.Encode()
	if a.config, err = pgxpool.ParseConfig(u.String()); err != nil {
		// Its own text repeats the URL.
		if why, ok := errors.AsType[*pgconn.ParseConfigError](err); ok && why.Unwrap() != nil {
			return nil, badURL("cannot be used: %v", why.Unwrap())
		}
		return nil, badURL("cannot be used")
	}
	if certificates != nil {
		a.config.ConnConfig.TLSConfig = forHost(certificates, a.config.ConnConfig.Host)
		for _, f := range a.config.ConnConfig.Fallbacks {
			f.TLSConfig = forHost(certificates, f.Host)
		}
	}
	return a, nil
}

func badURL(format string, args ...any) error {
	return fmt.Errorf("postgres: the store's URL %s; want "+
		"postgres://[user[:password]@]host[:port][,host[:port]...]/database[?options]",
		fmt.Sprintf(format, args...))
}

// readURL returns the parts of a URL. Each option is a known one, and has one value.
func readURL(s string) (*url.URL, url.Values, error) {
	u, err := url.Parse(withPorts(s))
	if err != nil {
		return nil, nil, badURL("cannot be read")
	}
	query, err := url.ParseQuery(u.RawQuery)
	switch {
	case err != nil:
		return nil, nil, badURL("has options that cannot be read")
	case u.Scheme != "postgres" && u.Scheme != "postgresql":
		return nil, nil, badURL("does not begin with postgres://")
	case u.Fragment != "":
		return nil, nil, badURL("has a fragment; write a # in a password as %%23")
	case strings.Trim(u.Path, "/") == "" || strings.Contains(strings.Trim(u.Path, "/"), "/"):
		return nil, nil, badURL("names no database, or more than one")
	case u.Host == "" && query.Get("host") == "":
		return nil, nil, badURL("names no host")
	case query.Has("host") && (u.Host != "" || !strings.HasPrefix(query.Get("host"), "/")):
		return nil, nil,
			badURL("has the option host, which is for the directory of a socket alone: host=/run/postgresql")
	}
	for name, values := range query {
		if !slices.Contains(options, name) {
			return nil, nil, badURL("has the option %q; there are %s", name, strings.Join(options, ", "))
		}
		if len(values) != 1 || values[0] == "" {
			return nil, nil, badURL("must give the option %s one value", name)
		}
	}
	return u, query, nil
}

// readOptions removes the options that PostgreSQL does not know from query, and sets the number of
// connections.
func readOptions(query url.Values) (*address, error) {
	a := &address{schema: cmp.Or(query.Get("schema"), defaultSchema)}
	if !validSchema(a.schema) {
		return nil, badURL("names the schema %q; want up to 48 lower-case letters, digits, _ and -", a.schema)
	}
	switch query.Get("pooler") {
	case "":
	case "transaction":
		a.pooled = true
	default:
		return nil, badURL("has a pooler other than \"transaction\"")
	}
	switch query.Get("signals") {
	case "":
		a.signals = !a.pooled
	case "off":
	default:
		return nil, badURL("has signals other than \"off\"")
	}
	if n := query.Get("pool_max_conns"); n == "" {
		query.Set("pool_max_conns", defaultConns)
	} else if conns, err := strconv.ParseUint(n, 10, 16); err != nil || conns < 2 {
		return nil, badURL("has a pool_max_conns that is no number from 2 on")
	}
	for _, name := range []string{"schema", "pooler", "signals"} {
		query.Del(name)
	}
	return a, nil
}

// readTLS sets the default of sslmode.
func readTLS(query url.Values, elsewhere bool) error {
	switch mode := query.Get("sslmode"); {
	case mode == "" && !elsewhere:
		query.Set("sslmode", "disable")
	case mode == "":
		query.Set("sslmode", "verify-full")
	case !slices.Contains([]string{"disable", "require", "verify-ca", "verify-full"}, mode):
		// allow and prefer would continue without TLS if an attacker on the network forces it.
		return badURL("has a sslmode other than disable, require, verify-ca and verify-full")
	}
	return nil
}

// settings sets the parameters of all connections.
func (a *address) settings(timeout time.Duration) {
	c := a.config.ConnConfig
	c.ConnectTimeout = timeout
	c.OnNotice = noticed
	c.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	a.config.MaxConnLifetime = time.Hour
	a.config.MaxConnLifetimeJitter = 10 * time.Minute
	if a.pooled {
		c.DefaultQueryExecMode = pgx.QueryExecModeExec
		c.RuntimeParams = map[string]string{}
		return
	}
	limit := strconv.FormatInt(max(timeout.Milliseconds(), 1), 10)
	c.RuntimeParams = map[string]string{
		"application_name":                    "verge",
		"statement_timeout":                   limit,
		"lock_timeout":                        limit,
		"idle_in_transaction_session_timeout": "10000",
		"default_transaction_isolation":       "read committed",
		"jit":                                 "off",
		// Every statement finds its rows by an index. For a table without statistics, the server could
		// prefer a sequential scan, and keep that plan while the table grows.
		"enable_seqscan": "off",
	}
}

// withPorts adds the default port to hosts without one if there are several, because url.Parse takes the
// text after the last colon for a port.
func withPorts(s string) string {
	scheme, rest, _ := strings.Cut(s, "://")
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	begin := strings.LastIndexByte(rest[:end], '@') + 1
	hosts := strings.Split(rest[begin:end], ",")
	if len(hosts) == 1 {
		return s
	}
	for i, host := range hosts {
		if !strings.Contains(host, ":") {
			hosts[i] = host + ":5432"
		}
	}
	return scheme + "://" + rest[:begin] + strings.Join(hosts, ",") + rest[end:]
}

func forHost(c *tls.Config, host string) *tls.Config {
	c = c.Clone()
	c.ServerName = cmp.Or(c.ServerName, host)
	return c
}

func validSchema(s string) bool {
	return len(s) <= 48 && !strings.HasPrefix(s, "pg_") && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '_' && r != '-'
	})
}
