package main

import (
	"cmp"
	"errors"
	"net/netip"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/afero"

	"github.com/verge-id/verge/core/admin"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/provider/sandbox"
	"github.com/verge-id/verge/core/ratelimit"
	"github.com/verge-id/verge/edge/egress"
	"github.com/verge-id/verge/edge/modules"
	"github.com/verge-id/verge/edge/server"
	"github.com/verge-id/verge/kvadapters"
)

// plan is a configuration that was found good: what is served, and where.
type plan struct {
	settings
	listen       struct{ public, admin, ops string } // "" admin or ops: none
	publishers   []integration.Publisher
	integrations []plannedIntegration
	warnings     problems // of what is allowed, and yet may not be meant
}

type plannedIntegration struct {
	integration.Integration
	secret string
}

// off is what an address says to have no such listener.
const off = "off"

// check turns a configuration into a plan and adds everything that keeps it
// from being a safe one to ps. It changes nothing in the world.
func (c *config) check(p *program, ps *problems) plan {
	var pl plan
	pl.now, pl.random = p.now, p.random
	c.checkMode(&pl, ps)
	c.checkListeners(p, &pl, ps)
	c.checkFiles(p, &pl, ps)
	pl.engine = c.checkEngine(p, ps)
	if at := pl.engine; at.module != "" && at.trust.SHA256 == "" && at.trust.Key == nil {
		pl.warnings = append(pl.warnings, "engine.module: it is not pinned, so whoever can write "+at.module+
			" or has the operator token decides what runs; set engine.module_sha256 or engine.module_key")
	}
	c.checkProxies(&pl, ps)
	c.checkNumbers(&pl, ps)
	c.checkDirectory(p, &pl, ps)
	return pl
}

func (c *config) checkMode(pl *plan, ps *problems) {
	switch c.Mode {
	case "", "production":
		ps.add("mode: production has no verification method in this release: the sandbox is the only one, and it verifies nobody. " +
			"Set mode = \"test\" for a deployment against which publishers try their code")
	case "test":
		pl.core.Test = true
	case "dev":
		pl.core.Dev, pl.egress.Dev = true, true
	default:
		ps.add("mode: %q is none of production, test, dev", c.Mode)
	}
	pl.core.BaseURL = c.BaseURL
	u, err := url.Parse(c.BaseURL)
	switch {
	case c.BaseURL == "":
		ps.add("base_url: not set; it is where users and publishers reach the service, like https://verify.example.com")
	case err != nil || u.Host == "" || u.Scheme+"://"+u.Host != c.BaseURL:
		ps.add("base_url: %q must be https://host or https://host:port, nothing behind it", c.BaseURL)
	case u.Scheme != "https" && !(pl.core.Dev && u.Scheme == "http"):
		ps.add("base_url: %q must be https; http is for mode = \"dev\"", c.BaseURL)
	}
}

func (c *config) checkListeners(p *program, pl *plan, ps *problems) {
	taken := map[string]string{}
	for _, l := range []struct {
		name, given, standard string
		planned               *string
	}{
		{"listen.public", c.Listen.Public, "127.0.0.1:8080", &pl.listen.public},
		{"listen.admin", c.Listen.Admin, "127.0.0.1:8081", &pl.listen.admin},
		{"listen.ops", c.Listen.Ops, "127.0.0.1:8082", &pl.listen.ops},
	} {
		addr := l.given
		if addr == "" {
			addr = l.standard
		}
		if addr == off && l.name != "listen.public" {
			continue
		}
		if err := checkAddr(addr); err != nil {
			ps.add("%s: %v", l.name, err)
			continue
		}
		if other := taken[addr]; other != "" && !strings.HasSuffix(addr, ":0") {
			ps.add("%s: %s is already %s; give it another port", l.name, addr, other)
		}
		taken[addr], *l.planned = l.name, addr
	}
	if addr := pl.listen.ops; addr != "" && isPublic(addr) {
		pl.warnings = append(pl.warnings, "listen.ops: "+addr+" may be reached from the Internet, and metrics and health ask for no credential; "+
			"use a loopback or private address, or see that a firewall is in front")
	}
	switch cert, key := c.TLS.Cert, c.TLS.Key; {
	case (cert == "") != (key == ""):
		ps.add("tls: cert and key go together; set both, or neither if a proxy in front does TLS")
	case cert != "":
		c.checkTLS(p, pl, ps)
	case pl.listen.admin != "" && !isLoopback(pl.listen.admin):
		ps.add("listen.admin: %s can be reached from other machines, and without [tls] the operator token would go there in the clear; "+
			"use a loopback address, or set tls.cert and tls.key", pl.listen.admin)
	}
	if pl.listen.admin != "" {
		c.checkOperatorToken(p, pl, ps)
	}
}

func (c *config) checkOperatorToken(p *program, pl *plan, ps *problems) {
	const how = "`openssl rand -hex 32` makes a good one"
	token, source := "", "VERGE_OPERATOR_TOKEN"
	if v, _ := p.getenv("VERGE_OPERATOR_TOKEN"); v != "" {
		token = v
	} else if c.OperatorTokenFile != "" {
		source = "operator_token_file"
		b, err := readPrivate(p.fs, c.OperatorTokenFile)
		if err != nil {
			ps.add("operator_token_file: %v", err)
			return
		}
		token = string(b)
	} else {
		ps.add("operator token: not set; put it into VERGE_OPERATOR_TOKEN or a file named by operator_token_file (%s), or set listen.admin = \"off\"", how)
		return
	}
	token = strings.TrimSpace(token)
	if token == "" {
		ps.add("%s: there is no operator token in it (%s)", source, how)
	} else if err := admin.CheckToken(token); err != nil {
		ps.add("%s: %v (%s)", source, err, how)
	}
	pl.core.OperatorToken = token
}

func (c *config) checkFiles(p *program, pl *plan, ps *problems) {
	if c.Keyring == "" {
		ps.add("keyring: not set; `verge keyring generate FILE` makes one")
	} else if ring, err := readKeyring(p, c.Keyring); err != nil {
		ps.add("keyring: %v", err)
	} else {
		pl.keyring = ring
		pl.keyringFile = func() ([]byte, error) { return readPrivate(p.fs, c.Keyring) }
	}
	c.checkStore(p, pl, ps)
}

func (c *config) checkStore(p *program, pl *plan, ps *problems) {
	if c.KV == "" {
		ps.add("kv: not set; for example \"bolt:/var/lib/verge/verge.db\"")
		return
	}
	at, err := kvadapters.ParseAddress(c.KV)
	if err != nil {
		ps.add("%v", err)
		return
	}
	switch at.Kind {
	case kvadapters.Miniredis:
		ps.add("kv: miniredis is for `verge dev`; %s", kvadapters.Choices)
	case kvadapters.Memory:
		if !pl.core.Dev && !pl.core.Test {
			ps.add("kv: memory forgets at every restart which result tokens were used, so they could be used again; take bolt:FILE in production")
		}
	case kvadapters.Bolt:
		if err := writable(p.fs, filepath.Dir(at.Path)); err != nil {
			ps.add("kv: %s cannot be written: %v; let the user that verge runs as own it", filepath.Dir(at.Path), err)
		}
	}

	s := c.Store
	if !at.Shared() && (s.PasswordFile != "" || s.CA != "" || s.Cert != "" || s.Key != "") {
		ps.add("store: password_file, ca, cert and key are for redis:// and etcd:// URLs; kv is %s", at)
	}
	if at.Kind != kvadapters.Redis && (s.Prefix != "" || s.Replicas != 0 || s.Wait != nil) {
		ps.add("store: prefix, replicas and wait are for redis:// URLs; kv is %s", at)
	}
	if s.PasswordFile != "" && at.Shared() {
		password, err := readPrivate(p.fs, s.PasswordFile)
		if err == nil {
			at, err = at.WithPassword(strings.TrimSpace(string(password)))
		}
		if err != nil {
			ps.add("store.password_file: %v", err)
		}
	}
	at.TLS, err = clientTLS(p, s.CA, s.Cert, s.Key)
	ps.addLines("store", err)
	at.Prefix, at.Replicas, at.Wait = s.Prefix, s.Replicas, time.Duration(given(ps, "store.wait", s.Wait))
	if s.Replicas < 0 {
		ps.add("store.replicas: %d is less than nothing", s.Replicas)
	} else if err := at.Valid(); err != nil {
		ps.add("kv: %v", err)
	} else if open := at.Exposed(); open != "" && !s.TrustedNetwork {
		ps.add("kv: %s: %s; take %s with a password or a client's certificate, or, if nobody else can reach that network, set store.trusted_network = true",
			at, open, at.SchemeWithTLS())
	}
	if at.Kind == kvadapters.Redis && s.Wait != nil && s.Replicas == 0 {
		ps.add("store.wait: there is nothing to wait for; set store.replicas as well, or neither")
	}
	pl.core.Partitions = at.Partitions()
	if n := given(ps, "store.partitions", s.Partitions); n > maxPartitions {
		ps.add("store.partitions: %d is not from 1 to %d", n, maxPartitions)
	} else if n > 0 {
		pl.core.Partitions = n
	}
	pl.store = at
	if b := s.Budget; b != nil {
		pl.budget = time.Duration(*b)
		if pl.budget < minStoreBudget || pl.budget > maxStoreBudget {
			ps.add("store.budget: %s is not from %s to %s", pl.budget, minStoreBudget, maxStoreBudget)
		}
	}
}

// Bounds of what a request may wait for the store: a slow commit takes longer
// than the one, and a request has no more time than 15 s as a whole.
const (
	minStoreBudget = 100 * time.Millisecond
	maxStoreBudget = 12 * time.Second
)

// checkEngine reads the module, too.
func (c *config) checkEngine(p *program, ps *problems) engineAt {
	e := c.Engine
	at := engineAt{name: cmp.Or(e.Name, nativeEngine), module: e.Module, cache: e.ModuleCache, interruptible: e.Interruptible}
	switch at.name {
	case wasmEngine:
	case nativeEngine:
		if e.Module != "" || e.ModuleSHA256 != "" || e.ModuleKey != "" || e.MinVersion != 0 || e.ModuleCache != "" || e.Interruptible {
			ps.add("engine: module, module_sha256, module_key, module_min_version, module_cache and interruptible are for name = %q; it is %s", wasmEngine, at.name)
		}
		return at
	default:
		ps.add("engine.name: %q is neither %s nor %s", at.name, nativeEngine, wasmEngine)
		return at
	}
	before := len(*ps)
	at.trust = parseTrust(e.ModuleSHA256, e.ModuleKey, e.MinVersion, ps)
	at.trust.Pinned = c.Mode != "dev"
	if len(*ps) == before { // else it is not known what the module has to be
		if err := at.load(p.fs); err != nil {
			ps.add("engine.module: %v", err)
		}
	}
	switch at.cache {
	case off:
		at.cache = ""
	case "":
		at.cache = defaultModuleCache(p.getenv)
	default:
		err := modules.CheckCache(p.fs, at.cache)
		if _, none := p.fs.Stat(at.cache); isMissing(none) {
			err = errors.Join(writable(p.fs, at.cache), err)
		}
		if err != nil {
			ps.add("engine.module_cache: %v", err)
		}
	}
	return at
}

// parseTrust reads the pins, each of which may be left out.
func parseTrust(sha256, key string, minVersion int64, ps *problems) (t modules.Trust) {
	var err error
	if sha256 != "" {
		if t.SHA256, err = modules.ParseDigest(sha256); err != nil {
			ps.add("module_sha256: %v", err)
		}
	}
	if key != "" {
		if t.Key, err = modules.ParsePublicKey(key); err != nil {
			ps.add("module_key: %v", err)
		}
	}
	switch {
	case minVersion < 0 || minVersion > modules.MaxVersion:
		ps.add("module_min_version: %d is not from 1 to %d", minVersion, int64(modules.MaxVersion))
	case minVersion > 0 && key == "":
		ps.add("module_min_version: a version is what a signature says; set module_key as well, or neither")
	}
	t.MinVersion = minVersion
	return t
}

// maxPartitions bounds what an idle instance asks its store for.
const maxPartitions = 256

// writable tries to write into dir or, as the store makes missing directories
// itself, into the nearest one above it that is there.
func writable(fsys afero.Fs, dir string) error {
	for {
		info, err := fsys.Stat(dir)
		if err == nil && !info.IsDir() {
			return errors.New("it is not a directory")
		}
		if err == nil {
			break
		}
		if !isMissing(err) || dir == filepath.Dir(dir) {
			return err
		}
		dir = filepath.Dir(dir)
	}
	f, err := afero.TempFile(fsys, dir, ".verge-check-*")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), fsys.Remove(f.Name()))
}

func (c *config) checkProxies(pl *plan, ps *problems) {
	for _, s := range c.TrustedProxies {
		prefix, err := netip.ParsePrefix(s)
		if addr, addrErr := netip.ParseAddr(s); addrErr == nil {
			prefix, err = netip.PrefixFrom(addr, addr.BitLen()), nil
		}
		switch {
		case err != nil:
			ps.add("trusted_proxies: %q is neither an address nor a prefix like 10.0.0.0/8", s)
		case prefix.Bits() == 0:
			ps.add("trusted_proxies: %s is everybody, so every client could choose its own address and escape the rate limits; name the proxies", s)
		default:
			pl.server.TrustedProxies = append(pl.server.TrustedProxies, prefix.Masked())
		}
	}
	switch c.ProxyHeader {
	case "", "X-Forwarded-For", "Forwarded":
		pl.server.ProxyHeader = c.ProxyHeader
	default:
		ps.add("proxy_header: %q is neither X-Forwarded-For nor Forwarded", c.ProxyHeader)
	}
	switch c.LogLevel {
	case "", "debug", "info", "warn", "error":
	default:
		ps.add("log_level: %q is none of debug, info, warn, error", c.LogLevel)
	}
}

func (c *config) checkNumbers(pl *plan, ps *problems) {
	pl.core.Attempts = given(ps, "attempts", c.Attempts)
	pl.core.OutcomeLife = time.Duration(given(ps, "outcome_life", c.OutcomeLife))
	if pl.core.OutcomeLife != 0 && pl.core.OutcomeLife < time.Hour {
		ps.add("outcome_life: %s is less than the shortest, 1h: a session and its result token live 15 minutes, and publishers ask later", pl.core.OutcomeLife)
	}

	limits := &pl.core.Limits // what is left out stays zero: the core has the defaults, a module's own
	for _, l := range []struct {
		name    string
		written *int
		limit   *ratelimit.Limit
	}{
		{"limits.public_per_ip", c.Limits.PublicPerIP, &limits.PublicPerIP},
		{"limits.public_per_key", c.Limits.PublicPerKey, &limits.PublicPerKey},
		{"limits.secret_per_ip", c.Limits.SecretPerIP, &limits.SecretPerIP},
		{"limits.reconcile_per_key", c.Limits.ReconcilePerKey, &limits.ReconcilePerKey},
		{"limits.preflights_per_ip", c.Limits.PreflightsPerIP, &limits.PreflightsPerIP},
		{"limits.pages_per_ip", c.Limits.PagesPerIP, &limits.PagesPerIP},
		{"limits.failed_operators_per_ip", c.Limits.FailedOperatorsPerIP, &limits.FailedOperatorsPerIP},
	} {
		if n := given(ps, l.name, l.written); n > 0 {
			*l.limit = ratelimit.PerMinute(n)
		}
	}
	pl.server.MaxConns = given(ps, "limits.connections", c.Limits.Connections)
	pl.server.MaxConnsPerIP = given(ps, "limits.connections_per_ip", c.Limits.ConnectionsPerIP)
	if files := server.OpenFiles(); files > 0 && uint64(max(pl.server.MaxConns, 0)) > files/4*3 {
		ps.add("limits.connections: %d is more than three quarters of the %d files that this process may open, "+
			"and the store and webhooks need some, too; raise that limit (LimitNOFILE= of systemd, ulimit -n) "+
			"or lower this one", pl.server.MaxConns, files)
	}
	c.checkWebhooks(pl, ps)
	pl.server.DrainDelay = time.Duration(c.Drain.Delay)
	pl.server.DrainTimeout = time.Duration(given(ps, "drain.timeout", c.Drain.Timeout))
}

// maxWebhookTime keeps a lease, which has to outlast two attempts, within
// what an operator would wait for after a crash.
const maxWebhookTime = 2 * time.Minute

func (c *config) checkWebhooks(pl *plan, ps *problems) {
	w := c.Webhooks
	if w.Retries != nil {
		pl.core.Schedule.Delays = make([]time.Duration, len(w.Retries))
		for n, r := range w.Retries {
			pl.core.Schedule.Delays[n] = time.Duration(r)
		}
	}
	if j := w.JitterPercent; j != nil {
		if *j < 0 || *j > 100 {
			ps.add("webhooks.jitter_percent: %d is not from 0 to 100", *j)
		}
		pl.core.Schedule.JitterPercent = *j
		if *j == 0 {
			pl.core.Schedule.JitterPercent = -1 // there, 0 means the standard and negative means none
		}
	}
	pl.egress.MaxBody = given(ps, "webhooks.max_answer", w.MaxAnswer)
	pl.egress.ConnectTimeout = time.Duration(given(ps, "webhooks.connect_timeout", w.ConnectTimeout))
	pl.egress.Timeout = time.Duration(given(ps, "webhooks.timeout", w.Timeout))
	if t := pl.egress.Timeout; t > maxWebhookTime {
		ps.add("webhooks.timeout: %s is more than %s", t, maxWebhookTime)
	} else if t > 0 {
		pl.core.AttemptTime = t + 4*time.Second // and room for the record
		pl.core.Lease = 2*pl.core.AttemptTime + time.Second
		pl.server.AdminTimeout = 5*t + 10*time.Second // five probes of a webhook test
	}
}

func (c *config) checkDirectory(p *program, pl *plan, ps *problems) {
	publishers, integrations := map[string]bool{}, map[string]bool{}
	for _, given := range c.Publishers {
		pub := integration.Publisher{ID: given.ID, Name: given.Name}
		if err := pub.Validate(); err != nil {
			ps.add("%v", err)
		} else if publishers[pub.ID] {
			ps.add("publisher %q: it is there twice", pub.ID)
		}
		publishers[pub.ID] = true
		pl.publishers = append(pl.publishers, pub)
	}
	for _, given := range c.Integrations {
		i := integration.Integration{ID: given.ID, PublisherID: given.Publisher, Name: given.Name, Level: given.Level,
			ChallengeAge: given.ChallengeAge, Method: given.Method,
			CallbackOrigins: given.CallbackOrigins, BrowserOrigins: given.BrowserOrigins,
			Webhook: integration.Webhook{URL: given.WebhookURL, Off: given.WebhookOff}}
		// Production has no method at all, which is said once and not here too.
		if err := i.Validate([]string{sandbox.Method}, pl.core.Dev); err != nil {
			ps.addLines("", err)
		}
		checkWebhookURL(pl, i, ps)
		if integrations[i.ID] {
			ps.add("integration %q: it is there twice", i.ID)
		}
		integrations[i.ID] = true
		if !publishers[i.PublisherID] {
			ps.add("integration %q: there is no publisher %q; add it to [[publishers]]", i.ID, i.PublisherID)
		}
		secret := given.secret(p, pl.core.Dev, ps)
		pl.integrations = append(pl.integrations, plannedIntegration{i, secret})
	}
}

// checkWebhookURL refuses a destination that no event would ever reach. What
// is no https URL has been refused already, but in dev mode, which has http.
func checkWebhookURL(pl *plan, i integration.Integration, ps *problems) {
	if u, err := url.Parse(i.Webhook.URL); err != nil || u.Host == "" || u.Scheme != "https" && !pl.core.Dev {
		return
	}
	if err := egress.New(pl.egress).Check(i.Webhook.URL); err != nil {
		ps.add("integration %q: no event would ever reach its webhook_url: %v", i.ID, err)
	}
}

// secret reads the webhook secret and checks that there is one just where there has to be.
func (i integrationConfig) secret(p *program, dev bool, ps *problems) (secret string) {
	bad := func(format string, args ...any) { ps.add("integration %q: "+format, append([]any{i.ID}, args...)...) }
	switch given := i.SecretFile != "" || i.SecretEnv != ""; {
	case i.SecretFile != "" && i.SecretEnv != "":
		bad("secret_file and secret_env are both set; choose one")
		return ""
	case i.WebhookURL == "" && !i.WebhookOff:
		bad("it has no webhook_url, so it would never be ready; set one, or webhook_off = true for no events")
		return ""
	case i.WebhookURL == "" && given:
		bad("there is a webhook secret but no webhook_url")
		return ""
	case i.WebhookURL == "":
		return ""
	case !given:
		bad("its webhook has no secret; set secret_file or secret_env (`verge webhook secret` makes one)")
		return ""
	case i.SecretEnv != "":
		secret, _ = p.getenv(i.SecretEnv)
		if secret == "" {
			bad("secret_env: the environment has no %s", i.SecretEnv)
			return ""
		}
	default:
		b, err := readPrivate(p.fs, i.SecretFile)
		if err != nil {
			bad("secret_file: %v", err)
			return ""
		}
		secret = strings.TrimSpace(string(b))
	}
	if why := integration.WeakSecret(secret, dev, i.Publisher, i.Name); why != "" {
		bad("its webhook secret: %s", why)
	}
	return secret
}
