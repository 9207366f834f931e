package config

import (
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"strings"
	"time"

	"github.com/verge-id/verge/cmd/verge/internal/certs"
	"github.com/verge-id/verge/cmd/verge/internal/modules"
	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/keyring"
	"github.com/verge-id/verge/core/problem"
	"github.com/verge-id/verge/core/ratelimit"
	"github.com/verge-id/verge/core/setting"
	"github.com/verge-id/verge/edge"
	"github.com/verge-id/verge/edge/egress"
	"github.com/verge-id/verge/edge/engine"
	"github.com/verge-id/verge/edge/otlp"
	"github.com/verge-id/verge/edge/signing"
	"github.com/verge-id/verge/kvadapters"
)

// Plan is a checked configuration: the services of the server, their addresses and settings.
type Plan struct {
	Core    core.Config
	Egress  egress.Config
	Server  edge.ServerConfig // limits, TLS and proxies
	Store   kvadapters.Address
	Engine  Engine
	Keyring keyring.File
	Budget  time.Duration   // of a request with the store; zero: edge's default
	Signer  *signing.Signer // has the private keys of methods; nil: no keys
	Traces  otlp.Config     // an empty endpoint: no traces

	// KeyringFile reads the file of Keyring again, or runs the program that prints it. Nil: it never changes.
	// KeyringEach is the interval; zero: edge's default.
	KeyringFile func() ([]byte, error)
	KeyringEach time.Duration

	// KeyringAway reports that keyring_command failed, and that the configuration has no other problem. The
	// program may succeed later, for example if it asks a vault.
	KeyringAway bool

	Listen   struct{ Public, Admin, Ops string } // "" admin or ops: none
	Site     integration.Site
	Warnings []string // about allowed settings that may be mistakes

	TrustsNobody bool // the system has no certificates of authorities

	// Expiries has the expiry of each certificate of this service that is not of the listeners, by its
	// setting: those of wallet methods, and the client certificate of the store. The earliest one of a
	// chain counts.
	Expiries map[string]time.Time
	begins   map[string]time.Time           // the latest beginning of a chain, by the settings of Expiries
	anchors  map[string][]*x509.Certificate // of methods without trusted lists, by their settings

	Certificate *certs.Files     // of the listeners; nil: they use plain HTTP, or ACME
	Authority   *certs.Authority // obtains the certificate of the listeners; nil: none
}

// warn adds a warning.
func (pl *Plan) warn(format string, args ...any) {
	pl.Warnings = append(pl.Warnings, fmt.Sprintf(format, args...))
}

// Off is the address of a listener that is switched off.
const Off = "off"

// check turns a configuration into a plan. It adds all errors and unsafe settings to ps. It has no side
// effects.
//
// The packages that use a value check it, in a method Validate or a function Check. This file checks only the
// notation, and the files and addresses.
func (c *File) check(sys *System, ps *problems) Plan {
	var pl Plan
	c.checkMode(&pl, ps)
	c.checkListeners(sys, &pl, ps)
	c.checkConsole(&pl, ps)
	token := c.readOperatorToken(sys, &pl, ps)
	c.checkKeyring(sys, &pl, ps)
	c.checkStore(sys, &StoreFlags{}, &pl, ps)
	pl.Engine = c.checkEngine(sys, ps)
	if at := pl.Engine; at.Module != "" && at.Trust.SHA256 == "" && at.Trust.Key == nil {
		pl.warn("engine.module: not pinned, so anyone who can write %s or has the operator token decides "+
			"what runs; set engine.module_sha256 or engine.module_key", at.Module)
	}
	c.checkAuthorities(sys, &pl)
	c.checkProxies(&pl, ps)
	c.checkTraces(sys, &pl, ps)
	c.checkNumbers(&pl, ps)
	c.checkWebhooks(&pl, ps)
	c.checkMethods(sys, &pl, ps)
	c.checkSite(sys, &pl, ps)
	pl.judge(token, ps)
	pl.Warnings = append(pl.Warnings, pl.ExpiryWarnings(sys.Now())...)
	return pl
}

// judge calls the checks of the packages that use the settings. token is the setting's name of the operator
// token.
func (pl *Plan) judge(token string, ps *problems) {
	keys := map[string]string{"OperatorToken": token, "Methods": "methods",
		"ProviderKeys": "oidc_provider.private_key_files", "ReportKey": "report.private_key_file",
		"Partitions":      "store.partitions",
		"Schedule.Delays": "webhooks.retries", "Schedule.JitterPercent": "webhooks.jitter_percent",
		"AttemptTime": "webhooks.timeout", "Lease": "webhooks.timeout"}
	for _, s := range setting.Of(&pl.Core) {
		if s.Key != "" {
			keys[s.Field] = s.Key
		}
	}
	ps.take(pl.Core.Validate(), keys)
	if pl.Engine.Name == engine.WASM {
		var unsayable problem.List
		if _, err := setting.Marshal(&pl.Core); errors.As(err, &unsayable) {
			ps.take(unsayable, keys)
		}
	}
	ps.take(pl.Egress.Validate(), map[string]string{"ConnectTimeout": "webhooks.connect_timeout",
		"Timeout": "webhooks.timeout", "MaxBody": "webhooks.max_answer"})
	ps.take(pl.Server.Validate(), map[string]string{
		"TrustedProxies": "trusted_proxies", "ProxyHeader": "proxy_header",
		"MaxConns": "limits.connections", "MaxConnsPerIP": "limits.connections_per_ip",
		"DrainDelay": "drain.delay", "DrainTimeout": "drain.timeout"})
}

func (c *File) checkMode(pl *Plan, ps *problems) {
	for _, s := range setting.Of(&pl.Core) {
		if text, ok := s.Value.(*string); ok && s.Key != "" {
			*text = c.value(s.Key).(string)
		}
	}
	switch c.Mode {
	case "", "production":
	case "test":
		pl.Core.Test = true
	case "dev":
		pl.Core.Dev, pl.Egress.Dev = true, true
	default:
		ps.add("mode: %q is not production, test or dev", c.Mode)
		pl.Core.Test = true // so that the other settings can be checked
	}
}

func (c *File) checkConsole(pl *Plan, ps *problems) {
	if pl.Core.Console == core.ConsoleOperators && pl.Listen.Admin == "" {
		ps.add("console.listener: %s has no listener, since listen.admin is %q; choose %s or %s",
			core.ConsoleOperators, Off, core.ConsolePublic, core.ConsoleOff)
	}
}

// OperatorTokenVariable is the environment variable with the operator token.
const OperatorTokenVariable = "VERGE_OPERATOR_TOKEN"

// readOperatorToken reads the operator token. source is the name of its setting.
func (c *File) readOperatorToken(sys *System, pl *Plan, ps *problems) (source string) {
	if pl.Listen.Admin == "" {
		return ""
	}
	const how = "`openssl rand -hex 32` creates one"
	source = OperatorTokenVariable
	token, isSet, err := sys.SecretIn(source)
	switch {
	case isSet:
	case c.OperatorTokenFile != "":
		source = "operator_token_file"
		token, err = sys.secretFrom(c.OperatorTokenFile)
	default:
		ps.add("operator token: not set; set VERGE_OPERATOR_TOKEN, or save it in a file and set "+
			"operator_token_file (%s), or set listen.admin = \"off\"", how)
		return source
	}
	if pl.Core.OperatorToken = token; err != nil {
		ps.add("%s: %v (%s)", source, err, how)
	}
	return source
}

// keyringVariable has the file of the key ring, or the ring itself.
const keyringVariable = "VERGE_KEYRING"

func (c *File) checkKeyring(sys *System, pl *Plan, ps *problems) {
	if len(c.KeyringCommand) > 0 {
		c.checkKeyringCommand(sys, pl, ps)
		return
	}
	if c.Keyring == "" {
		ps.add("keyring: not set; `verge keyring generate FILE` creates one")
		return
	}
	b, path, err := sys.readFileOr(keyringVariable, c.Keyring)
	ring, err := parseKeyring(b, path, err)
	if err != nil {
		ps.add("keyring: %v", err)
		return
	}
	pl.Keyring = ring
	if path != keyringVariable { // the environment of a process does not change
		pl.KeyringFile = func() ([]byte, error) { return readRing(sys, c.Keyring) }
	}
}

// checkEngine checks the engine's settings and reads its module.
func (c *File) checkEngine(sys *System, ps *problems) Engine {
	e := c.Engine
	at := Engine{
		Name:          cmp.Or(e.Name, engine.Native),
		Module:        e.Module,
		Cache:         e.ModuleCache,
		interruptible: e.Interruptible,
	}
	switch at.Name {
	case engine.WASM:
	case engine.Native:
		if e.Module != "" || e.ModuleSHA256 != "" || e.ModuleKey != "" || e.MinVersion != 0 ||
			e.ModuleCache != "" || e.Interruptible {
			ps.add("engine: module, module_sha256, module_key, module_min_version, "+
				"module_cache and interruptible are for name = %q; it is %s", engine.WASM, at.Name)
		}
		return at
	default:
		ps.add("engine.name: %q is neither %s nor %s", at.Name, engine.Native, engine.WASM)
		return at
	}
	before := len(*ps)
	at.Trust = parseTrust(e.ModuleSHA256, e.ModuleKey, e.MinVersion, ps)
	at.Trust.Pinned = c.Mode != "dev"
	if len(*ps) == before { // otherwise the pins are unknown
		if err := at.Load(sys); err != nil {
			ps.add("engine.module: %v", err)
		}
	}
	switch at.Cache {
	case Off:
		at.Cache = ""
	case "":
		at.Cache = defaultModuleCache(sys.Getenv)
	default:
		err := modules.CheckCache(sys.FS, at.Cache)
		if _, none := sys.FS.Stat(at.Cache); errors.Is(none, fs.ErrNotExist) {
			err = errors.Join(writable(sys.FS, at.Cache), err)
		}
		if err != nil {
			ps.add("engine.module_cache: %v", err)
		}
	}
	return at
}

// ReadTrust reads the pins of a module from flags, each of which may be empty. command is the name of the
// command for errors.
func ReadTrust(command, sha256, key string, minVersion int64) (modules.Trust, error) {
	var ps problems
	t := parseTrust(sha256, key, minVersion, &ps)
	return t, ps.err(command)
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
		ps.add("module_min_version: it needs a signature; also set module_key, or neither")
	}
	t.MinVersion = minVersion
	return t
}

func (c *File) checkProxies(pl *Plan, ps *problems) {
	for _, s := range c.TrustedProxies {
		prefix, err := netip.ParsePrefix(s)
		if addr, addrErr := netip.ParseAddr(s); addrErr == nil {
			prefix, err = netip.PrefixFrom(addr, addr.BitLen()), nil
		}
		if err != nil {
			ps.add("trusted_proxies: %q is neither an address nor a prefix like 10.0.0.0/8", s)
			continue
		}
		pl.Server.TrustedProxies = append(pl.Server.TrustedProxies, prefix.Masked())
	}
	if https := strings.HasPrefix(c.BaseURL, "https://"); https && len(c.TrustedProxies) == 0 &&
		c.TLS.Cert == "" && !c.TLS.ACME {
		pl.warn("trusted_proxies: not set. Without [tls], a proxy terminates TLS, so all users have its " +
			"address and share the rate limits of one; name the proxy")
	}
	pl.Server.ProxyHeader = c.ProxyHeader
	switch c.LogLevel {
	case "", "debug", "info", "warn", "error":
	default:
		ps.add("log_level: %q is not debug, info, warn or error", c.LogLevel)
	}
	switch c.LogClient {
	case "", "whole", "cut", "off":
		pl.Server.LogClient = c.LogClient
	default:
		ps.add("log_client: %q is not whole, cut or off", c.LogClient)
	}
}

// checkNumbers reads the optional numbers. An omitted number stays zero: the core's default applies or, with
// a module, the module's default.
func (c *File) checkNumbers(pl *Plan, ps *problems) {
	for _, s := range setting.Of(&pl.Core) {
		if s.Key == "" {
			continue
		}
		switch v := s.Value.(type) {
		case *int:
			*v = given(ps, s.Key, c.value(s.Key).(*int))
		case *time.Duration:
			*v = givenSpan(ps, s.Key, c.value(s.Key).(*span))
		case *ratelimit.Limit:
			if n := given(ps, s.Key, c.value(s.Key).(*int)); n > 0 {
				*v = ratelimit.PerMinute(n)
			}
		}
	}
	pl.Server.MaxConns = given(ps, "limits.connections", c.Limits.Connections)
	pl.Server.MaxConnsPerIP = given(ps, "limits.connections_per_ip", c.Limits.ConnectionsPerIP)
	if c.Drain.Delay != "" {
		pl.Server.DrainDelay, _ = readSpan(ps, "drain.delay", c.Drain.Delay)
	}
	pl.Server.DrainTimeout = givenSpan(ps, "drain.timeout", c.Drain.Timeout)
}

func (c *File) checkWebhooks(pl *Plan, ps *problems) {
	w := c.Webhooks
	if w.Retries != nil {
		pl.Core.Schedule.Delays = make([]time.Duration, len(w.Retries))
		for n, r := range w.Retries {
			pl.Core.Schedule.Delays[n], _ = readSpan(ps, "webhooks.retries", r)
		}
	}
	if j := w.JitterPercent; j != nil {
		pl.Core.Schedule.JitterPercent = *j
		if notNegative(ps, "webhooks.jitter_percent", *j) && *j == 0 {
			pl.Core.Schedule.JitterPercent = -1 // there, 0 means the default, and negative means no jitter
		}
	}
	pl.Egress.MaxBody = given(ps, "webhooks.max_answer", w.MaxResponse)
	pl.Egress.ConnectTimeout = givenSpan(ps, "webhooks.connect_timeout", w.ConnectTimeout)
	pl.Egress.Timeout = givenSpan(ps, "webhooks.timeout", w.Timeout)
	if t := pl.Egress.Timeout; t > 0 {
		pl.Core.FetchesWithin(t)
	}
}
