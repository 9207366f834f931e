package cli

import (
	"cmp"
	"errors"
	"net/netip"
	"time"

	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/problem"
	"github.com/verge-id/verge/core/ratelimit"
	"github.com/verge-id/verge/edge/modules"
	"github.com/verge-id/verge/edge/server"
	wasmsettings "github.com/verge-id/verge/wasm/settings"
)

// plan is a checked configuration: what the server serves, and where.
type plan struct {
	settings
	listen   struct{ public, admin, ops string } // "" admin or ops: none
	site     integration.Site
	warnings problems // about what is allowed but may be a mistake

	trustsNobody bool // the system has no certificates of authorities

	certificate *certificate // of the listeners; nil: they speak plain HTTP, or an authority makes it
	authority   *authority   // makes the certificate of the listeners; nil: none does
}

// off in place of an address means that there is no such listener.
const off = "off"

// check turns a configuration into a plan. It adds to ps everything that is wrong or not safe. It
// changes nothing in the world.
//
// The packages that use a value judge it, in a method Validate or a function Check. This file judges
// only how a value is written, and which files and addresses it names.
func (c *config) check(p *program, ps *problems) plan {
	var pl plan
	pl.now, pl.random = p.now, p.random
	c.checkMode(&pl, ps)
	c.checkListeners(p, &pl, ps)
	c.checkConsole(&pl, ps)
	token := c.readOperatorToken(p, &pl, ps)
	c.checkKeyring(p, &pl, ps)
	c.checkStore(p, &pl, ps)
	pl.engine = c.checkEngine(p, ps)
	if at := pl.engine; at.module != "" && at.trust.SHA256 == "" && at.trust.Key == nil {
		pl.warnings = append(pl.warnings, "engine.module: it is not pinned, so whoever can write "+at.module+
			" or has the operator token decides what runs; set engine.module_sha256 or engine.module_key")
	}
	c.checkAuthorities(p, &pl)
	c.checkProxies(&pl, ps)
	c.checkTraces(&pl, ps)
	c.checkNumbers(&pl, ps)
	c.checkWebhooks(&pl, ps)
	c.checkMethods(p, &pl, ps)
	c.checkSite(p, &pl, ps)
	pl.judge(token, ps)
	return pl
}

// judge calls the checks of the packages that use the settings. token is the name that the
// configuration has for the operator token.
func (pl *plan) judge(token string, ps *problems) {
	keys := map[string]string{"OperatorToken": token, "BaseURL": "base_url", "Methods": "methods",
		"Console":    "console.listener",
		"Partitions": "store.partitions", "Attempts": "attempts", "OutcomeLife": "outcome_life",
		"PasskeyDays": "passkey_days", "SecurityContact": "security_contact",
		"Schedule.Delays": "webhooks.retries", "Schedule.JitterPercent": "webhooks.jitter_percent",
		"AttemptTime": "webhooks.timeout", "Lease": "webhooks.timeout"}
	ps.take(pl.core.Validate(), keys)
	if pl.engine.name == wasmEngine {
		var unsayable problem.List
		if _, err := wasmsettings.Pack(pl.core); errors.As(err, &unsayable) {
			ps.take(unsayable, keys)
		}
	}
	ps.take(pl.egress.Validate(), map[string]string{"ConnectTimeout": "webhooks.connect_timeout",
		"Timeout": "webhooks.timeout", "MaxBody": "webhooks.max_answer"})
	ps.take(pl.server.Validate(), map[string]string{
		"TrustedProxies": "trusted_proxies", "ProxyHeader": "proxy_header",
		"MaxConns": "limits.connections", "MaxConnsPerIP": "limits.connections_per_ip",
		"DrainDelay": "drain.delay", "DrainTimeout": "drain.timeout"})
}

func (c *config) checkMode(pl *plan, ps *problems) {
	pl.core.BaseURL, pl.core.SecurityContact = c.BaseURL, c.SecurityContact
	switch c.Mode {
	case "", "production":
	case "test":
		pl.core.Test = true
	case "dev":
		pl.core.Dev, pl.egress.Dev = true, true
	default:
		ps.add("mode: %q is none of production, test, dev", c.Mode)
		pl.core.Test = true // so that the other settings can be judged
	}
}

func (c *config) checkConsole(pl *plan, ps *problems) {
	pl.core.Console = c.Console.Listener
	if pl.core.Console == core.ConsoleOperators && pl.listen.admin == "" {
		ps.add("console.listener: %s has no listener, since listen.admin is %q; choose %s or %s",
			core.ConsoleOperators, off, core.ConsolePublic, core.ConsoleOff)
	}
}

const operatorTokenVariable = "VERGE_OPERATOR_TOKEN"

// readOperatorToken reads the operator token. source is the name that the configuration has for it.
func (c *config) readOperatorToken(p *program, pl *plan, ps *problems) (source string) {
	if pl.listen.admin == "" {
		return ""
	}
	const how = "`openssl rand -hex 32` makes a good one"
	source = operatorTokenVariable
	token, isSet, err := p.secretIn(source)
	switch {
	case isSet:
	case c.OperatorTokenFile != "":
		source = "operator_token_file"
		token, err = p.secretFrom(c.OperatorTokenFile)
	default:
		ps.add("operator token: not set; put it into VERGE_OPERATOR_TOKEN or a file named by "+
			"operator_token_file (%s), or set listen.admin = \"off\"", how)
		return source
	}
	if pl.core.OperatorToken = token; err != nil {
		ps.add("%s: %v (%s)", source, err, how)
	}
	return source
}

// keyringVariable names the file of the key ring, or holds the ring itself.
const keyringVariable = "VERGE_KEYRING"

func (c *config) checkKeyring(p *program, pl *plan, ps *problems) {
	if c.Keyring == "" {
		ps.add("keyring: not set; `verge keyring generate FILE` makes one")
		return
	}
	b, path, err := p.readFileOr(keyringVariable, c.Keyring)
	ring, err := parseKeyring(b, path, err)
	if err != nil {
		ps.add("keyring: %v", err)
		return
	}
	pl.keyring = ring
	if path != keyringVariable { // the environment of a process does not change
		pl.keyringFile = func() ([]byte, error) { return p.readSecretFile(c.Keyring) }
	}
}

// checkEngine checks the engine's settings and reads its module.
func (c *config) checkEngine(p *program, ps *problems) engineAt {
	e := c.Engine
	at := engineAt{
		name:          cmp.Or(e.Name, nativeEngine),
		module:        e.Module,
		cache:         e.ModuleCache,
		interruptible: e.Interruptible,
	}
	switch at.name {
	case wasmEngine:
	case nativeEngine:
		if e.Module != "" || e.ModuleSHA256 != "" || e.ModuleKey != "" || e.MinVersion != 0 ||
			e.ModuleCache != "" || e.Interruptible {
			ps.add("engine: module, module_sha256, module_key, module_min_version, "+
				"module_cache and interruptible are for name = %q; it is %s", wasmEngine, at.name)
		}
		return at
	default:
		ps.add("engine.name: %q is neither %s nor %s", at.name, nativeEngine, wasmEngine)
		return at
	}
	before := len(*ps)
	at.trust = parseTrust(e.ModuleSHA256, e.ModuleKey, e.MinVersion, ps)
	at.trust.Pinned = c.Mode != "dev"
	if len(*ps) == before { // otherwise the pins are not known
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

// parseTrust reads the pins of a module. Each of them may be empty.
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

func (c *config) checkProxies(pl *plan, ps *problems) {
	for _, s := range c.TrustedProxies {
		prefix, err := netip.ParsePrefix(s)
		if addr, addrErr := netip.ParseAddr(s); addrErr == nil {
			prefix, err = netip.PrefixFrom(addr, addr.BitLen()), nil
		}
		if err != nil {
			ps.add("trusted_proxies: %q is neither an address nor a prefix like 10.0.0.0/8", s)
			continue
		}
		pl.server.TrustedProxies = append(pl.server.TrustedProxies, prefix.Masked())
	}
	pl.server.ProxyHeader = c.ProxyHeader
	switch c.LogLevel {
	case "", "debug", "info", "warn", "error":
	default:
		ps.add("log_level: %q is none of debug, info, warn, error", c.LogLevel)
	}
	switch c.LogClient {
	case "", server.ClientWhole, server.ClientCut, server.ClientOff:
		pl.server.LogClient = c.LogClient
	default:
		ps.add("log_client: %q is none of whole, cut, off", c.LogClient)
	}
}

// checkNumbers reads the numbers that may be left out. One that is left out stays zero: the default
// is the core's or, where a module runs, the module's own.
func (c *config) checkNumbers(pl *plan, ps *problems) {
	pl.core.Attempts = given(ps, "attempts", c.Attempts)
	pl.core.OutcomeLife = givenSpan(ps, "outcome_life", c.OutcomeLife)
	pl.core.PasskeyDays = given(ps, "passkey_days", c.PasskeyDays)
	limits := &pl.core.Limits
	for _, l := range []struct {
		name    string
		written *int
		limit   *ratelimit.Limit
	}{
		{"limits.public_per_ip", c.Limits.PublicPerIP, &limits.PublicPerIP},
		{"limits.public_per_key", c.Limits.PublicPerKey, &limits.PublicPerKey},
		{"limits.public_per_network", c.Limits.PublicPerNetwork, &limits.PublicPerNetwork},
		{"limits.starts_per_publisher", c.Limits.StartsPerPublisher, &limits.StartsPerPublisher},
		{"limits.secret_per_ip", c.Limits.SecretPerIP, &limits.SecretPerIP},
		{"limits.reconcile_per_key", c.Limits.ReconcilePerKey, &limits.ReconcilePerKey},
		{"limits.preflights_per_ip", c.Limits.PreflightsPerIP, &limits.PreflightsPerIP},
		{"limits.pages_per_ip", c.Limits.PagesPerIP, &limits.PagesPerIP},
		{"limits.boxes_per_ip", c.Limits.BoxesPerIP, &limits.BoxesPerIP},
		{"limits.boxes_per_handle", c.Limits.BoxesPerHandle, &limits.BoxesPerHandle},
		{"limits.failed_operators_per_ip", c.Limits.FailedOperatorsPerIP, &limits.FailedOperatorsPerIP},
	} {
		if n := given(ps, l.name, l.written); n > 0 {
			*l.limit = ratelimit.PerMinute(n)
		}
	}
	pl.server.MaxConns = given(ps, "limits.connections", c.Limits.Connections)
	pl.server.MaxConnsPerIP = given(ps, "limits.connections_per_ip", c.Limits.ConnectionsPerIP)
	if c.Drain.Delay != "" {
		pl.server.DrainDelay, _ = readSpan(ps, "drain.delay", c.Drain.Delay)
	}
	pl.server.DrainTimeout = givenSpan(ps, "drain.timeout", c.Drain.Timeout)
}

func (c *config) checkWebhooks(pl *plan, ps *problems) {
	w := c.Webhooks
	if w.Retries != nil {
		pl.core.Schedule.Delays = make([]time.Duration, len(w.Retries))
		for n, r := range w.Retries {
			pl.core.Schedule.Delays[n], _ = readSpan(ps, "webhooks.retries", r)
		}
	}
	if j := w.JitterPercent; j != nil {
		pl.core.Schedule.JitterPercent = *j
		if notNegative(ps, "webhooks.jitter_percent", *j) && *j == 0 {
			pl.core.Schedule.JitterPercent = -1 // there, 0 means the standard and negative means none
		}
	}
	pl.egress.MaxBody = given(ps, "webhooks.max_answer", w.MaxAnswer)
	pl.egress.ConnectTimeout = givenSpan(ps, "webhooks.connect_timeout", w.ConnectTimeout)
	pl.egress.Timeout = givenSpan(ps, "webhooks.timeout", w.Timeout)
	if t := pl.egress.Timeout; t > 0 {
		pl.core.FetchesWithin(t)
		pl.server.AdminTimeout = server.AdminTimeoutFor(t)
	}
}
