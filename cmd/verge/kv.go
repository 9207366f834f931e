package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/verge-id/verge/core/kv"
)

type kvCheckCmd struct {
	URL string `arg:"" optional:"" name:"url" env:"VERGE_KV" help:"redis://, redis+cluster://, redis+sentinel:// or etcd:// (rediss and etcds for TLS), unix://, or bolt:FILE. Default: the configuration's kv. A password is better kept in the variable."`

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
or not at all and that of many contenders one wins, that a read sees every write
before it, order, expiry, leases, rate counters. It measures round trips, expiry
and clocks, says what it could not prove and what the servers' settings say about
that, and takes some five seconds, longer where the store is far away.

The store may be in use. Everything is written in a scratch place of its own,
beside Verge's data and within the same permissions, and removed at the end,
also after a failure or Ctrl-C. The load is some thousand small requests. With
bolt:FILE the file itself is not opened: a directory beside it is, which shows
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
	name, err := scratchName(p.random)
	if err != nil {
		return err
	}
	opening, cancel := context.WithTimeout(ctx, openTimeout)
	s, err := openScratch(opening, at, name, p.now)
	cancel()
	if err != nil {
		if at.shared() && !errors.Is(err, kv.ErrUnavailable) {
			return usageError{err} // refused before anybody was asked
		}
		return fmt.Errorf("%s cannot be used: %s", at, whyNot(err))
	}
	shown := at.String()
	if at.path != "" {
		shown = "bolt:" + at.path
	}
	return c.check(ctx, p, shown, s)
}

// whyNot is an adapter's reason without the names of keys, which mean nothing
// to an operator yet, and with a guess where servers leave one guessing.
func whyNot(err error) string {
	reason := err.Error()
	before, behind, found := strings.Cut(reason, kv.ErrUnavailable.Error()+": ")
	if found && (strings.HasPrefix(before, "redis: {") || strings.HasPrefix(before, "etcd: ")) {
		reason = behind
	}
	for _, sign := range []string{"EOF", "deadline exceeded", "server preface", "first record does not look like a TLS handshake", "i/o timeout"} {
		if strings.Contains(reason, sign) {
			return reason + " (does a server of this kind listen there, with TLS or without as the URL says?)"
		}
	}
	return reason
}

// check proves what it can in the scratch place, says so, and removes the place.
func (c *kvCheckCmd) check(ctx context.Context, p *program, shown string, s scratch) error {
	defer s.close()
	say := newKVPrinter(p.stdout)
	if c.JSON {
		say = newKVPrinter(io.Discard)
	}
	checking, cancel := context.WithTimeoutCause(ctx, time.Duration(c.Timeout), fmt.Errorf("not done within --timeout %s", time.Duration(c.Timeout)))
	r := checkKV(checking, shown, s, p.now, kvEraseTime, say)
	cancel()
	if c.JSON {
		if err := json.NewEncoder(p.stdout).Encode(r); err != nil {
			return err
		}
	}
	if !r.OK {
		return saidError{}
	}
	return nil
}

// store is what the arguments and the configuration name together.
func (c *kvCheckCmd) store(p *program) (storeAt, error) {
	var conf config
	var ps problems
	source := "kv check"
	if c.Config != "" {
		source = c.Config
		if err := readConfig(p.fs, c.Config, &conf, &ps); err != nil {
			return storeAt{}, usagef("configuration: %w", err)
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
		return storeAt{}, usagef("name the store to check, as in `verge kv check redis://10.0.0.5:6379`, or a --config file")
	case "memory", "miniredis":
		return storeAt{}, usagef("kv %s: it is part of Verge itself and there is nothing of yours to check; name a redis:// or etcd:// URL or bolt:FILE", conf.KV)
	}
	var pl plan
	conf.checkStore(p, &pl, &ps)
	return pl.store, ps.err(source)
}

// scratchName is unique, and says to an operator who finds it where it is from.
func scratchName(random io.Reader) (string, error) {
	var b [8]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return "", fmt.Errorf("reading randomness: %w", err)
	}
	return "verge-check-" + hex.EncodeToString(b[:]), nil
}
