package cli

import (
	"context"
	"errors"
	"time"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters"
	"github.com/verge-id/verge/kvadapters/kvcheck"
)

type kvCheckCmd struct {
	URL string `arg:"" optional:"" name:"url" env:"VERGE_KV" help:"redis://, redis+cluster://, redis+sentinel:// (rediss for TLS), postgres://, unix://, or bolt:FILE. Default: the configuration's kv. Put a URL with a password into the variable."`

	Config       string   `type:"path" placeholder:"FILE" env:"VERGE_CONFIG" help:"A server's configuration file, whose kv and [store] are taken."`
	PasswordFile string   `type:"path" placeholder:"FILE" help:"File with the password, mode 0600."`
	CA           string   `name:"ca" type:"path" placeholder:"FILE" help:"Certificates of a private CA, PEM."`
	Cert         string   `type:"path" placeholder:"FILE" help:"Client certificate, PEM."`
	Key          string   `type:"path" placeholder:"FILE" help:"Its key, PEM."`
	Prefix       string   `placeholder:"NAME" help:"Redis: what begins every key. Default: verge."`
	Replicas     int      `placeholder:"N" help:"Redis: replicas that must have a write before it counts."`
	Timeout      lifeSpan `default:"3m" help:"Give up, and clean up, after this time."`
	JSON         bool     `name:"json" help:"Print JSON, all of it at the end."`
}

// Help is shown by `verge kv check --help`.
func (kvCheckCmd) Help() string {
	return `Proves on your own store what Verge relies on: that a write happens as a whole
or not at all, that one of many contenders wins, that a read sees every write
before it, and order, expiry, leases and rate counters. It measures round trips,
expiry and clocks. It says what it could not prove, and what the servers'
settings say about that. It takes about five seconds, or longer if the store is
far away.

The store may be in use. The check writes only in a scratch place of its own,
beside Verge's data and within the same permissions, and removes it at the end,
also after a failure or Ctrl-C. It sends some thousand small requests. With
bolt:FILE it does not open the file: it makes a directory beside it, which shows
what that disk can do.

Exit codes: 0 all promises hold, 1 one does not or the store cannot be reached,
2 the command line is wrong or names nothing that can be checked.

Examples:

    verge kv check redis://10.0.0.5:6379
    verge kv check --config /etc/verge/verge.toml
    VERGE_KV=rediss://verge:$(cat password)@redis.internal verge kv check --ca ca.crt --json`
}

func (c *kvCheckCmd) Run(ctx context.Context, p *program) error {
	at, err := c.store(p)
	if err != nil {
		return err
	}
	config := kvcheck.Config{Now: p.now, Random: p.random, Timeout: time.Duration(c.Timeout)}
	if !c.JSON {
		config.Progress = kvcheck.NewText(p.stdout)
	}
	r, err := kvcheck.Run(ctx, at, config)
	var unusable *kvcheck.UnusableError
	if errors.As(err, &unusable) && at.Shared() && !errors.Is(err, kv.ErrUnavailable) {
		return usageError{unusable.Err} // no server was asked
	}
	if err != nil {
		return err
	}
	if c.JSON {
		if err := printJSON(p, r); err != nil {
			return err
		}
	}
	if !r.OK {
		return saidError{}
	}
	return nil
}

// store is the store that the arguments and the configuration name together.
func (c *kvCheckCmd) store(p *program) (kvadapters.Address, error) {
	var conf config
	var ps problems
	source := "kv check"
	if c.Config != "" {
		source = c.Config
		if err := readConfig(p.fs, c.Config, &conf, &ps); err != nil {
			return kvadapters.Address{}, usagef("configuration: %w", err)
		}
	}
	for _, o := range []struct {
		given string
		value *string
	}{
		{c.URL, &conf.KV}, {c.PasswordFile, &conf.Store.PasswordFile}, {c.CA, &conf.Store.CA},
		{c.Cert, &conf.Store.Cert}, {c.Key, &conf.Store.Key}, {c.Prefix, &conf.Store.Prefix},
	} {
		if o.given != "" {
			*o.value = o.given
		}
	}
	if c.Replicas != 0 {
		conf.Store.Replicas = c.Replicas
	}
	switch conf.KV {
	case "":
		return kvadapters.Address{}, usagef("name the store to check, " +
			"as in `verge kv check redis://10.0.0.5:6379`, or a --config file")
	case "memory", "miniredis":
		return kvadapters.Address{},
			usagef("kv %s: it is part of Verge itself and there is nothing of yours "+
				"to check; name a redis:// or postgres:// URL or bolt:FILE", conf.KV)
	}
	var pl plan
	conf.checkStore(p, &pl, &ps)
	return pl.store, ps.err(source)
}
