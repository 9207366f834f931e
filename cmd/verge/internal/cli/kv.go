package cli

import (
	"context"
	"errors"
	"time"

	"github.com/verge-id/verge/cmd/verge/internal/config"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters"
	"github.com/verge-id/verge/kvadapters/kvcheck"
)

// kvCommands are the commands of `verge kv`.
type kvCommands struct {
	Check   kvCheckCmd   `cmd:"" help:"Test on your own store the guarantees that Verge needs, and clean up."`
	Backup  kvBackupCmd  `cmd:"" does:"backup.make" help:"Create a backup of a running server's bolt store."`
	Restore kvRestoreCmd `cmd:"" help:"Restore a backup of a bolt store, while no server runs."`
	Compact kvCompactCmd `cmd:"" help:"Make the file of a bolt store as small as its content, while no server runs."`
	Export  kvExportCmd  `cmd:"" help:"Write the store of a Cloudflare Worker to a backup file."`
	Import  kvImportCmd  `cmd:"" help:"Replace the store of a Cloudflare Worker with a backup."`
	Unlock  kvUnlockCmd  `cmd:"" help:"End the lock of a Cloudflare Worker's store."`
}

// boltStore selects the file of a bolt store that no server uses.
type boltStore struct {
	Store string `arg:"" optional:"" name:"url" env:"VERGE_KV" help:"bolt:FILE, the store of a server. Default: the configuration's kv."`

	Config string `type:"path" placeholder:"FILE" env:"VERGE_CONFIG" help:"A server's configuration file; its kv is used."`
}

// path returns the path of the store's file. example is a command line with a store. instead is the advice
// for a store of another kind.
func (b *boltStore) path(p *program, example, instead string) (string, error) {
	at, err := (&config.StoreFlags{URL: b.Store, Config: b.Config}).Read(&p.System, example)
	if err != nil {
		return "", usageError{err}
	}
	if at.Kind != kvadapters.Bolt {
		return "", usagef("the store is %s, not bolt: %s", at.Kind, instead)
	}
	return at.Path, nil
}

type kvCheckCmd struct {
	config.StoreFlags

	Timeout config.Duration `default:"3m" help:"Stop, and clean up, after this time."`
	JSON    bool            `name:"json" help:"Print JSON, at the end."`
}

// Help is shown by `verge kv check --help`.
func (kvCheckCmd) Help() string {
	return `Tests on your own store the guarantees that Verge needs: atomic writes, one winner
among concurrent writers, reads that see all earlier writes, order, expiry, leases
and rate counters. It measures round trips, expiry and clocks. It lists the
guarantees that it could not test, and the related settings of the servers. It takes
about five seconds, or longer if the store is far away.

The store may be in use. The check writes only to a separate scratch area, next to
Verge's data and with the same permissions, and removes it at the end, even after a
failure or Ctrl-C. If the process is killed, remove the area: all its names contain
"verge-check-". The check sends some thousand small requests. With bolt:FILE, it does
not open the file: it creates a directory next to it to test the disk.

Exit codes: 0 all guarantees hold, 1 one does not or the store cannot be reached, 2
the command line is wrong or names no store that can be checked.

Examples:

    verge kv check redis://10.0.0.5:6379
    verge kv check --config /etc/verge/verge.toml
    VERGE_KV=rediss://verge:$(cat password)@redis.internal verge kv check --ca ca.crt --json`
}

func (c *kvCheckCmd) Run(ctx context.Context, p *program) error {
	at, err := c.Read(&p.System, "verge kv check redis://10.0.0.5:6379")
	if err != nil {
		return usageError{err}
	}
	config := kvcheck.Config{Now: p.Now, Random: p.Random, Timeout: time.Duration(c.Timeout)}
	if !c.JSON {
		config.Progress = p.stdout
	}
	r, err := kvcheck.Run(ctx, at, config)
	unusable, ok := errors.AsType[*kvcheck.UnusableError](err)
	if ok && at.Shared() && !errors.Is(err, kv.ErrUnavailable) {
		return usageError{unusable.Err} // no server was asked
	}
	if err != nil {
		return err
	}
	if c.JSON {
		err = printJSON(p, r)
	}
	return failUnless(r.OK, err)
}
