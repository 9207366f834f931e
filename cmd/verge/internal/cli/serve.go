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

	"github.com/verge-id/verge/cmd/verge/internal/config"
	"github.com/verge-id/verge/cmd/verge/internal/modules"
	"github.com/verge-id/verge/cmd/verge/internal/words"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/edge"
	"github.com/verge-id/verge/edge/jsonlog"
)

type serveCmd struct {
	Check   bool `help:"Check the whole configuration and exit."`
	Example bool `help:"Print an annotated configuration and exit."`
	configFlags
}

// configFlags select the configuration, for a command that reads it.
type configFlags struct{ config.Flags }

// plan reads and checks the configuration.
func (c *configFlags) plan(p *program) (plan, config.File, error) {
	checked, conf, err := c.Flags.Plan(&p.System)
	return plan{Plan: checked, now: p.Now, random: p.Random}, conf, misuse(err)
}

// Help is shown by `verge serve --help`.
func (serveCmd) Help() string {
	return `Flags override the environment, and the environment overrides the file. Publishers
and integrations can only be in the file. Secrets are in separate files or in the
environment, never in flags, which every user of the machine can read.

The command rejects an incomplete or insecure configuration, lists all errors, and
exits with code 2.

On SIGTERM and SIGINT, active requests and webhooks finish, the server closes its
store, and the exit code is 0. A second signal ends the process immediately.

SIGHUP reads module, module_sha256, module_key and module_min_version of [engine]
again. New requests then use the new module; active requests finish in the old one,
and none is lost. The server rejects a module that it does not trust or that fails
its tests. The old module and its pins then stay in use, and the log and "verge
module show" give the reason. To stop trusting a leaked key, replace module_key and
the module with its signature together, then send the signal or restart.

SIGHUP also reads publishers and integrations again. Those that were removed from
the file continue to work: --check lists them, the log warns about them, and "verge
apply FILE" archives them. If the file has any error, SIGHUP changes no publisher
and no integration. It also fetches or reads the trusted lists of methods again.

The server notices changes of the key ring file and the certificate files
automatically; SIGHUP reads the certificate immediately, and runs keyring_command
again. All other changes need a restart. On SIGHUP the log warns if the keys of [oidc_provider] have changed.

Examples:

    verge serve --example > verge.toml
    verge serve --config verge.toml --check
    VERGE_OPERATOR_TOKEN=$(cat token) verge serve --config verge.toml --log-level warn
    verge serve --config verge.toml --engine wasm --module verge.wasm \
        --module-sha256 $(sha256sum < verge.wasm | cut -c-64)`
}

func (c *serveCmd) Run(ctx context.Context, p *program) error {
	if c.Example {
		fmt.Fprint(p.stdout, config.Example)
		return nil
	}
	if c.Check {
		pl, conf, err := c.plan(p)
		if err != nil {
			return err
		}
		return c.report(ctx, p, pl, conf)
	}
	// From here on, SIGHUP no longer ends the process: plan can take seconds.
	hangUps, release := hangUps()
	defer release()
	pl, conf, err := c.plan(p)
	if err != nil {
		return err
	}
	pl.log = slog.New(jsonlog.New(p.stderr, logLevel(conf.LogLevel)))
	pl.Server.Metrics = edge.NewMetrics()
	for setting, expires := range pl.Expiries {
		pl.Server.Metrics.SettingCertificate(setting, expires)
	}
	endTraces, err := pl.openTraces(ctx)
	if err != nil {
		return err
	}
	defer endTraces()
	defer func() { closeAll(pl.public, pl.admin, pl.ops) }()
	if err := pl.open(); err != nil {
		return err
	}
	in, err := assemble(ctx, pl)
	if err != nil {
		return p.unlessStopped(ctx, pl.misplaced(err))
	}
	if err := pl.apply(ctx, in.Directory()); err != nil {
		return p.unlessStopped(ctx, errors.Join(err, in.Close()))
	}
	pl.logWarnings(pl.Warnings)
	go pl.warnDaily(ctx, time.After)
	if !pl.Core.AllowsPasskeys() {
		pl.log.Info("passkeys are disabled for users and publishers' members: the host of base_url "+
			"is an IP address, not a name", "base_url", conf.BaseURL)
	}
	pl.log.Info("serving", "mode", conf.Mode, "base_url", conf.BaseURL, "kv", pl.Store.String(),
		in.modules.Attr(), "version", thisBuild().Version,
		"public", addrOf(pl.public), "admin", addrOf(pl.admin), "ops", addrOf(pl.ops))
	if pl.Authority != nil {
		pl.Authority.Open(pl.public, pl.log)
		defer pl.Authority.Close()
		go pl.Authority.Follow(ctx, pl.Server.Metrics)
	}
	if pl.Certificate != nil {
		go pl.Certificate.Follow(ctx, pl.log, pl.Server.Metrics)
	}
	go onHangUps(hangUps, time.After, func(first bool) (again bool) {
		if first {
			c.reload(ctx, p, pl, in)
		}
		return c.applyAgain(ctx, p, pl, conf, in.Directory())
	})
	return in.Run(ctx)
}

func (pl *plan) logWarnings(all []string) {
	for _, w := range all {
		pl.log.Warn("insecure configuration", "what", w)
	}
}

// warnDaily repeats the warnings of certificates each day, until ctx is done. The server reads these
// certificates at start only.
func (pl *plan) warnDaily(ctx context.Context, after func(time.Duration) <-chan time.Time) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-after(24 * time.Hour):
			pl.logWarnings(pl.ExpiryWarnings(pl.now()))
		}
	}
}

// report prints the result of --check for a configuration without errors.
func (c *serveCmd) report(ctx context.Context, p *program, pl plan, conf config.File) error {
	for _, w := range pl.Warnings {
		fmt.Fprintln(p.stderr, "warning:", w)
	}
	if err := pl.compareStore(ctx, p, c.Source()); err != nil {
		return err
	}
	fmt.Fprintln(p.stdout, "methods:", describe(pl.methods()))
	if ids := pl.Core.ProviderKeyIDs(); len(ids) > 0 {
		fmt.Fprintf(p.stdout, "OpenID provider: issuer %s/oidc, ES256, key %s signs\n", conf.BaseURL,
			ids[0])
		for _, id := range ids[1:] {
			fmt.Fprintf(p.stdout, "OpenID provider: key %s is published but does not sign\n", id)
		}
	}
	fmt.Fprintf(p.stdout, "%s is valid: mode %s, %s, %s, %s, %s\n",
		c.Source(), conf.Mode, conf.BaseURL, pl.Engine,
		words.HowMany(len(pl.Site.Publishers), "publisher"),
		words.HowMany(len(pl.Site.Integrations), "integration"))
	return nil
}

// reload reads everything again, after a SIGHUP, that is outside of the configuration's file.
func (c *serveCmd) reload(ctx context.Context, p *program, pl plan, in *instance) {
	if pl.Certificate != nil {
		pl.Certificate.Again()
	}
	in.RefreshTrustLists()
	in.RefreshKeyring(ctx) // it logs its error
	in.modules.Reload(ctx, func() (modules.Config, error) {
		at, err := c.ReadEngine(&p.System)
		return at.Config(), err
	})
}

// The pauses between attempts to handle a SIGHUP while the store or the program of the key ring fails.
const (
	hangUpFirst = time.Second
	hangUpMost  = 30 * time.Second
)

// onHangUps handles each SIGHUP, until hangUps is closed. It repeats act, with first false, while act returns
// true. A newer SIGHUP replaces a waiting one.
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

// applyAgain reads the publishers and integrations of the configuration again, and saves them to the store.
// If the configuration has an error, or an integration uses a method that the running server lacks, it
// changes no publisher or integration, and logs the reason. It returns true if the store was unavailable, or
// if only keyring_command failed.
func (c *configFlags) applyAgain(ctx context.Context, p *program, running plan, started config.File,
	d *integration.Directory) (again bool) {
	next, conf, err := c.plan(p)
	if err == nil {
		methods, _ := running.Core.Catalog() // it was checked at start
		if err = next.Site.Validate(methods, running.Core.Dev); err != nil {
			err = fmt.Errorf("the running server has other methods or another mode than the file, "+
				"which take effect with a restart: %w", err)
		}
	}
	var changes []integration.Difference
	if err == nil {
		changes, err = d.Plan(ctx, next.Site, integration.KeepRemoved)
	}
	if err == nil {
		next.log = running.log
		err = next.apply(ctx, d)
	}
	if err != nil && ctx.Err() != nil {
		return false // the server stops, and reads them at the next start
	}
	if next.KeyringAway {
		running.log.Warn("SIGHUP: keyring_command failed; publishers and integrations will be read again",
			"error", err.Error())
		return true
	}
	if kv.Failed(err) {
		running.log.Warn("SIGHUP: store unavailable; publishers and integrations will be read again", "error",
			err.Error())
		return true
	}
	if err != nil {
		running.log.Error("SIGHUP: publishers and integrations were not read again", "error", err.Error())
		return false
	}
	changes = slices.DeleteFunc(changes, func(of integration.Difference) bool { return len(of.Changes) == 0 })
	for _, change := range changes {
		running.log.Info("configuration changed", "what", change.Kind, "id", change.ID, "action",
			change.Action)
	}
	if !slices.Equal(next.Core.ProviderKeys, running.Core.ProviderKeys) {
		running.log.Warn("SIGHUP: changed keys of the OpenID provider need a restart",
			"setting", "oidc_provider.private_key_files",
			"running", running.Core.ProviderKeyIDs(), "configured", next.Core.ProviderKeyIDs())
	}
	if changed := config.NeedRestart(started, conf); len(changed) > 0 {
		running.log.Warn("SIGHUP: changed settings need a restart", "settings", strings.Join(changed, ", "))
	}
	running.log.Info("SIGHUP: publishers and integrations were read again", "changes", len(changes))
	return false
}

// open binds the planned addresses.
func (pl *plan) open() error {
	return listenAll(
		opening{&pl.public, pl.Listen.Public, "listen.public (--listen)"},
		opening{&pl.admin, pl.Listen.Admin, "listen.admin (--admin-listen)"},
		opening{&pl.ops, pl.Listen.Ops, "listen.ops (--ops-listen)"},
	)
}

func addrOf(l net.Listener) string {
	if l == nil {
		return config.Off
	}
	return l.Addr().String()
}
