package config

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/verge-id/verge/kvadapters"
)

// Flags have the name of the configuration file, and override its settings. Each command that reads a
// configuration embeds them, with the parser's tags.
type Flags struct {
	Config string `type:"path" placeholder:"FILE" env:"VERGE_CONFIG" help:"Configuration file (TOML)."`

	Mode              string     `group:"over" placeholder:"MODE" env:"VERGE_MODE" help:"production, test or dev."`
	BaseURL           string     `group:"over" name:"base-url" placeholder:"URL" env:"VERGE_BASE_URL" help:"Public address of the service."`
	KV                string     `group:"over" name:"kv" placeholder:"KV" env:"VERGE_KV" help:"bolt:FILE, a redis:// or postgres:// URL, or memory. The URL in $$VERGE_KV may have a password."`
	Keyring           SecretFile `group:"over" placeholder:"FILE" env:"VERGE_KEYRING" help:"Key ring. The variable may have the ring itself."`
	OperatorTokenFile SecretFile `group:"over" placeholder:"FILE" env:"VERGE_OPERATOR_TOKEN_FILE" help:"File with the operator token. $$VERGE_OPERATOR_TOKEN, the token itself, overrides it."`
	Listen            string     `group:"over" placeholder:"HOST:PORT" env:"VERGE_LISTEN" help:"Public listener."`
	AdminListen       string     `group:"over" placeholder:"HOST:PORT" env:"VERGE_ADMIN_LISTEN" help:"Operators' listener, or off."`
	OpsListen         string     `group:"over" placeholder:"HOST:PORT" env:"VERGE_OPS_LISTEN" help:"Listener of metrics and health, or off."`
	TLSCert           SecretFile `group:"over" name:"tls-cert" placeholder:"FILE" env:"VERGE_TLS_CERT" help:"Certificate chain, PEM."`
	TLSKey            SecretFile `group:"over" name:"tls-key" placeholder:"FILE" env:"VERGE_TLS_KEY" help:"Key of the certificate, PEM. The variable may have the key itself."`
	TrustedProxies    []string   `group:"over" placeholder:"PREFIX" env:"VERGE_TRUSTED_PROXIES" help:"Trusted proxies: addresses or prefixes, separated by commas."`
	ProxyHeader       string     `group:"over" placeholder:"NAME" env:"VERGE_PROXY_HEADER" help:"X-Forwarded-For or Forwarded."`
	Engine            string     `group:"over" placeholder:"ENGINE" env:"VERGE_ENGINE" help:"Engine that runs the core: native, or wasm (a WebAssembly guest)."`
	Module            string     `group:"over" type:"path" placeholder:"FILE" env:"VERGE_MODULE" help:"Module for --engine wasm. Default: the built-in one."`
	ModuleSHA256      string     `group:"over" name:"module-sha256" placeholder:"HEX" env:"VERGE_MODULE_SHA256" help:"Required SHA-256 of the module."`
	ModuleKey         string     `group:"over" placeholder:"BASE64" env:"VERGE_MODULE_KEY" help:"Public key of the required signature."`
	ModuleMinVersion  int64      `group:"over" placeholder:"N" env:"VERGE_MODULE_MIN_VERSION" help:"Minimum version of the signature."`
	ModuleCache       string     `group:"over" placeholder:"DIR" env:"VERGE_MODULE_CACHE" help:"Directory for compiled modules, or off."`
	LogLevel          string     `group:"over" placeholder:"LEVEL" env:"VERGE_LOG_LEVEL" help:"debug, info, warn or error."`
}

// ReadEngine reads only the settings of the engine, and its module, for a running server.
func (c *Flags) ReadEngine(sys *System) (Engine, error) {
	var conf File
	var ps problems
	if err := readConfig(sys.FS, c.Config, &conf, &ps); err != nil {
		return Engine{}, err
	}
	c.overlay(&conf)
	at := conf.checkEngine(sys, &ps)
	if len(ps) > 0 {
		return at, fmt.Errorf("%s: %s", c.Source(), strings.Join(ps, "; "))
	}
	return at, nil
}

// Source returns the name of the configuration for messages: its file, or a text that there is no file.
func (c *Flags) Source() string {
	return cmp.Or(c.Config, "configuration (no --config file)")
}

// Plan reads and checks the configuration. It also returns the settings as written. The error lists all
// mistakes.
func (c *Flags) Plan(sys *System) (Plan, File, error) {
	var conf File
	var ps problems
	if err := readConfig(sys.FS, c.Config, &conf, &ps); err != nil {
		return Plan{}, conf, fmt.Errorf("configuration: %w", err)
	}
	if at, err := kvadapters.ParseAddress(conf.KV); err == nil && at.HasPassword() {
		ps.add("kv: the URL has a password, which must not be in this file; " +
			"save the password in a file and set store.password_file, or set VERGE_KV to the URL")
	}
	c.overlay(&conf)
	conf.KV = sys.readKV(c.KV, conf.KV, &ps)
	checkVariables(sys, conf.variables(), &ps)
	pl := conf.check(sys, &ps)
	pl.KeyringAway = pl.KeyringAway && len(ps) == 1
	return pl, conf, ps.err(c.Source())
}

// overlay replaces the values of the file with the values of flags and environment variables.
func (c *Flags) overlay(conf *File) {
	for _, o := range []struct {
		given string
		value *string
	}{
		{c.Mode, &conf.Mode}, {c.BaseURL, &conf.BaseURL}, {c.KV, &conf.KV},
		{string(c.Keyring), &conf.Keyring},
		{string(c.OperatorTokenFile), &conf.OperatorTokenFile},
		{c.Listen, &conf.Listen.Public}, {c.AdminListen, &conf.Listen.Admin}, {c.OpsListen, &conf.Listen.Ops},
		{string(c.TLSCert), &conf.TLS.Cert}, {string(c.TLSKey), &conf.TLS.Key},
		{c.Engine, &conf.Engine.Name}, {c.Module, &conf.Engine.Module},
		{c.ModuleSHA256, &conf.Engine.ModuleSHA256},
		{c.ModuleKey, &conf.Engine.ModuleKey}, {c.ModuleCache, &conf.Engine.ModuleCache},
		{c.ProxyHeader, &conf.ProxyHeader}, {c.LogLevel, &conf.LogLevel},
	} {
		*o.value = cmp.Or(o.given, *o.value)
	}
	conf.Engine.MinVersion = cmp.Or(c.ModuleMinVersion, conf.Engine.MinVersion)
	if len(c.TrustedProxies) > 0 {
		conf.TrustedProxies = c.TrustedProxies
	}
}
