package cli

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/edge/modules"
	"github.com/verge-id/verge/edge/server"
	"github.com/verge-id/verge/kvadapters"
)

type serveCmd struct {
	Check   bool `help:"Check the configuration, all of it, and exit."`
	Example bool `help:"Print an annotated configuration and exit."`
	configFlags
}

// configFlags name the configuration file and replace what it says. Each command that reads it embeds them.
type configFlags struct {
	Config string `type:"path" placeholder:"FILE" env:"VERGE_CONFIG" help:"Configuration file (TOML)."`

	Mode              string     `group:"over" placeholder:"MODE" env:"VERGE_MODE" help:"production, test or dev."`
	BaseURL           string     `group:"over" name:"base-url" placeholder:"URL" env:"VERGE_BASE_URL" help:"Where users and publishers reach the service."`
	KV                string     `group:"over" name:"kv" placeholder:"KV" env:"VERGE_KV" help:"bolt:FILE, a redis:// or postgres:// URL, or memory. The URL in $$VERGE_KV may hold a password."`
	Keyring           secretFile `group:"over" placeholder:"FILE" env:"VERGE_KEYRING" help:"Key ring. The variable may hold the ring itself."`
	OperatorTokenFile secretFile `group:"over" placeholder:"FILE" env:"VERGE_OPERATOR_TOKEN_FILE" help:"File with the operator token. $$VERGE_OPERATOR_TOKEN, the token itself, overrides it."`
	Listen            string     `group:"over" placeholder:"HOST:PORT" env:"VERGE_LISTEN" help:"Public listener."`
	AdminListen       string     `group:"over" placeholder:"HOST:PORT" env:"VERGE_ADMIN_LISTEN" help:"Operators' listener, or off."`
	OpsListen         string     `group:"over" placeholder:"HOST:PORT" env:"VERGE_OPS_LISTEN" help:"Listener of metrics and health, or off."`
	TLSCert           secretFile `group:"over" name:"tls-cert" placeholder:"FILE" env:"VERGE_TLS_CERT" help:"Certificate chain, PEM."`
	TLSKey            secretFile `group:"over" name:"tls-key" placeholder:"FILE" env:"VERGE_TLS_KEY" help:"Its key, PEM. The variable may hold the key itself."`
	TrustedProxies    []string   `group:"over" placeholder:"PREFIX" env:"VERGE_TRUSTED_PROXIES" help:"Proxies in front, addresses or prefixes, separated by commas."`
	ProxyHeader       string     `group:"over" placeholder:"NAME" env:"VERGE_PROXY_HEADER" help:"X-Forwarded-For or Forwarded."`
	Engine            string     `group:"over" placeholder:"ENGINE" env:"VERGE_ENGINE" help:"What runs the core: native, or wasm, as a WebAssembly guest."`
	Module            string     `group:"over" type:"path" placeholder:"FILE" env:"VERGE_MODULE" help:"The guest of --engine wasm. Default: the one built in."`
	ModuleSHA256      string     `group:"over" name:"module-sha256" placeholder:"HEX" env:"VERGE_MODULE_SHA256" help:"The SHA-256 that it must have."`
	ModuleKey         string     `group:"over" placeholder:"BASE64" env:"VERGE_MODULE_KEY" help:"The public key that must have signed it."`
	ModuleMinVersion  int64      `group:"over" placeholder:"N" env:"VERGE_MODULE_MIN_VERSION" help:"The least version that the signature may say."`
	ModuleCache       string     `group:"over" placeholder:"DIR" env:"VERGE_MODULE_CACHE" help:"Directory for compiled modules, or off."`
	LogLevel          string     `group:"over" placeholder:"LEVEL" env:"VERGE_LOG_LEVEL" help:"debug, info, warn or error."`
}

// Help is shown by `verge serve --help`.
func (serveCmd) Help() string {
	return `A flag overrides the environment, and the environment overrides the file.
Publishers and integrations are in the file alone. Secrets are in files of their
own or in the environment. They are never in a flag, which every user of the
machine can read.

The command refuses a configuration that is half set or not safe. It says
everything that is wrong with it, and exits with 2.

SIGTERM and SIGINT drain: requests and webhooks in hand finish, the server
closes its store, and the exit code is 0. A second signal ends the process at
once.

SIGHUP reads module, module_sha256, module_key and module_min_version of
[engine] again. From then on the module takes every new request. Requests under
way end in the old one, and none is lost. The server refuses a module that it
does not trust or that fails its tests. Then the module and its pins stay as they
were, and the log and "verge module show" say why. To stop trusting a key that has
leaked, replace module_key and the module with its signature together, then send
the signal, or restart.

SIGHUP also reads publishers and integrations again. Those that the file no longer
contains continue to work: --check lists them, the log warns of them, and "verge
apply FILE" archives them. If anything in the file is wrong, SIGHUP changes nothing.

The server itself notices when the files of the key ring and of the certificate
change. SIGHUP makes it read the certificate at once. Every other change takes a
restart.

Examples:

    verge serve --example > verge.toml
    verge serve --config verge.toml --check
    VERGE_OPERATOR_TOKEN=$(cat token) verge serve --config verge.toml --log-level warn
    verge serve --config verge.toml --engine wasm --module verge.wasm \
        --module-sha256 $(sha256sum < verge.wasm | cut -c-64)`
}

//go:embed example.toml
var exampleConfig string

func (c *serveCmd) Run(ctx context.Context, p *program) error {
	if c.Example {
		fmt.Fprint(p.stdout, exampleConfig)
		return nil
	}
	pl, conf, err := c.plan(p)
	if err != nil {
		return err
	}
	if c.Check {
		for _, w := range pl.warnings {
			fmt.Fprintln(p.stderr, "warning:", w)
		}
		if err := pl.compareStore(ctx, p, c.source()); err != nil {
			return err
		}
		fmt.Fprintln(p.stdout, "methods:", describe(pl.methods()))
		fmt.Fprintf(p.stdout, "%s is good: mode %s, %s, %s, %s, %s\n",
			c.source(), conf.Mode, conf.BaseURL, pl.engine, howMany(len(pl.site.Publishers), "publisher"),
			howMany(len(pl.site.Integrations), "integration"))
		return nil
	}
	hangUps, release := hangUps()
	defer release()
	pl.log = slog.New(slog.NewJSONHandler(p.stderr, &slog.HandlerOptions{Level: logLevel(conf.LogLevel)}))
	pl.server.Metrics = server.NewMetrics()
	endTraces, err := pl.openTraces(ctx)
	if err != nil {
		return err
	}
	defer endTraces()
	if err := pl.open(); err != nil {
		return err
	}
	defer pl.closeListeners()
	in, err := assemble(ctx, pl.settings)
	if err != nil {
		return pl.misplaced(err)
	}
	if err := pl.apply(ctx, in.Directory()); err != nil {
		return errors.Join(err, in.Close())
	}
	for _, w := range pl.warnings {
		pl.log.Warn("the configuration allows what may not be meant", "what", w)
	}
	if !pl.core.AllowsPasskeys() {
		pl.log.Info("there are no passkeys, of users or of publishers' members: the host of base_url "+
			"is an IP address and no name", "base_url", conf.BaseURL)
	}
	pl.log.Info("serving", "mode", conf.Mode, "base_url", conf.BaseURL, "kv", pl.store.String(),
		in.modules.Attr(), "version", thisBuild().Version,
		"public", addrOf(pl.public), "admin", addrOf(pl.admin), "ops", addrOf(pl.ops))
	if pl.authority != nil {
		pl.authority.open(pl.public, pl.log)
		defer pl.authority.close()
		go pl.authority.follow(ctx, pl.server.Metrics)
	}
	if pl.certificate != nil {
		go pl.certificate.follow(ctx, pl.log, pl.server.Metrics)
	}
	go onHangUps(hangUps, time.After, func(first bool) (again bool) {
		if first && pl.certificate != nil {
			pl.certificate.again()
		}
		if first {
			in.modules.Reload(ctx, func() (modules.Config, error) {
				at, err := c.engineAgain(p)
				return at.config(), err
			})
		}
		return c.applyAgain(ctx, p, pl, in.Directory())
	})
	return in.Run(ctx)
}

// The pauses between attempts to carry out a SIGHUP while the store is away.
const (
	hangUpFirst = time.Second
	hangUpMost  = 30 * time.Second
)

// onHangUps carries out each SIGHUP, until hangUps is closed. act is called again, with first false, as long
// as it returns true. A newer SIGHUP replaces a waiting one.
func onHangUps(hangUps <-chan os.Signal, after func(time.Duration) <-chan time.Time,
	act func(first bool) (again bool)) {
	for range hangUps {
		pause := hangUpFirst
		for again := act(true); again; {
			select {
			case _, open := <-hangUps:
				if !open {
					return
				}
				pause, again = hangUpFirst, act(true)
			case <-after(pause):
				pause, again = min(2*pause, hangUpMost), act(false)
			}
		}
	}
}

// applyAgain reads the publishers and integrations of the configuration once more, and puts them into the
// store. If anything is wrong with the configuration, or an integration names a method that the running
// server does not have, nothing changes, and the log has the reason. It returns true if the store was away.
func (c *configFlags) applyAgain(ctx context.Context, p *program, running plan, d *integration.Directory,
) (again bool) {
	next, _, err := c.plan(p)
	if err == nil {
		methods, _ := running.core.Catalog() // it was checked before it began to run
		err = next.site.Validate(methods, running.core.Dev)
	}
	var changes []integration.Difference
	if err == nil {
		changes, err = d.Plan(ctx, next.site, integration.KeepRemoved)
	}
	if err == nil {
		next.log = running.log
		err = next.apply(ctx, d)
	}
	if err != nil && ctx.Err() != nil {
		return false // the server stops, and reads them when it starts again
	}
	if kv.Failed(err) {
		running.log.Warn(
			"SIGHUP: the store is away; publishers and integrations are read again once it is back",
			"error",
			err.Error(),
		)
		return true
	}
	if err != nil {
		running.log.Error("SIGHUP: publishers and integrations were not read again", "error", err.Error())
		return false
	}
	changes = slices.DeleteFunc(changes, func(of integration.Difference) bool { return len(of.Changes) == 0 })
	for _, change := range changes {
		running.log.Info("the configuration changed", "what", change.Kind, "id", change.ID, "action",
			change.Action)
	}
	running.log.Info("SIGHUP: publishers and integrations were read again", "changes", len(changes))
	return false
}

// engineAgain reads the engine's configuration once more.
func (c *configFlags) engineAgain(p *program) (engineAt, error) {
	var conf config
	var ps problems
	if c.Config != "" {
		if err := readConfig(p.fs, c.Config, &conf, &ps); err != nil {
			return engineAt{}, err
		}
	}
	c.overlay(&conf)
	at := conf.checkEngine(p, &ps)
	if len(ps) > 0 {
		return at, fmt.Errorf("%s: %s", c.source(), strings.Join(ps, "; "))
	}
	return at, nil
}

// source says in messages where the configuration comes from.
func (c *configFlags) source() string {
	if c.Config == "" {
		return "configuration (no --config file)"
	}
	return c.Config
}

// plan reads, overlays and checks the configuration.
func (c *configFlags) plan(p *program) (plan, config, error) {
	var conf config
	var ps problems
	if c.Config != "" {
		if err := readConfig(p.fs, c.Config, &conf, &ps); err != nil {
			return plan{}, conf, usagef("configuration: %w", err)
		}
	}
	if at, err := kvadapters.ParseAddress(conf.KV); err == nil && at.HasPassword() {
		ps.add("kv: it has a password, and this file is no place for one; " +
			"put the password into a file named by store.password_file, or the URL into VERGE_KV")
	}
	c.overlay(&conf)
	checkVariables(p, conf.variables(), &ps)
	pl := conf.check(p, &ps)
	return pl, conf, ps.err(c.source())
}

// overlay replaces the file's values by those that flags and the environment give.
func (c *configFlags) overlay(conf *config) {
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
		if o.given != "" {
			*o.value = o.given
		}
	}
	if c.ModuleMinVersion != 0 {
		conf.Engine.MinVersion = c.ModuleMinVersion
	}
	if len(c.TrustedProxies) > 0 {
		conf.TrustedProxies = c.TrustedProxies
	}
}

// open binds the planned addresses.
func (pl *plan) open() (err error) {
	for _, open := range []struct {
		l             *net.Listener
		addr, setting string
	}{
		{&pl.public, pl.listen.public, "listen.public (--listen)"},
		{&pl.admin, pl.listen.admin, "listen.admin (--admin-listen)"},
		{&pl.ops, pl.listen.ops, "listen.ops (--ops-listen)"},
	} {
		if open.addr == "" {
			continue
		}
		if *open.l, err = listen(open.addr, open.setting); err != nil {
			pl.closeListeners()
			return err
		}
	}
	return nil
}

func (pl *plan) closeListeners() {
	for _, l := range []net.Listener{pl.public, pl.admin, pl.ops} {
		if l != nil {
			l.Close()
		}
	}
}

func addrOf(l net.Listener) string {
	if l == nil {
		return off
	}
	return l.Addr().String()
}
