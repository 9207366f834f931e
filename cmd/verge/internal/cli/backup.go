package cli

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/verge-id/verge/cmd/verge/internal/config"
	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/admin"
	"github.com/verge-id/verge/core/operate"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/edge"
	"github.com/verge-id/verge/kvadapters"
	"github.com/verge-id/verge/kvadapters/bolt"
)

// backups makes backups of a bolt store for operators, while the server uses it.
type backups struct {
	store *bolt.Store // nil: the store is another
	at    kvadapters.Address
	log   *slog.Logger
	now   func() time.Time
	one   sync.Mutex // held by the backup that is being made
}

// own makes a backup at admin.BackupPath.
func (b *backups) adminEndpoint() edge.AdminEndpoint {
	return edge.AdminEndpoint{Answer: b.answer,
		Operations: map[string]operate.Operation{"POST": operate.BackupMake}}
}

func (b *backups) answer(ctx context.Context, c *edge.Call) (any, *web.Error) {
	switch {
	case b.store == nil:
		return nil, &web.Error{Code: web.BackupRefused, Message: "The store is " + string(b.at.Kind) +
			" and not bolt: it has ways of its own to make a backup. OPERATING.md names them, " +
			"under \"Backup\"."}
	case !b.one.TryLock():
		return nil, &web.Error{Code: web.Unavailable, RetryAfter: 5,
			Message: "Another backup is being made; try again when that is over."}
	}
	defer b.one.Unlock()
	path := b.at.Path + ".backup-" + b.now().UTC().Format("20060102T150405Z")
	made, err := b.store.Backup(ctx, path)
	if err != nil {
		b.log.Error("there is no backup", "error", err.Error(), "request_id", c.ID)
		return nil, &web.Error{Code: web.Unavailable, RetryAfter: 60,
			Message: "The backup could not be made. The server's log says why."}
	}
	c.Changed = path
	b.log.Info("a backup was made", "path", path, "items", made.Items, "tasks", made.Tasks, "bytes",
		made.Bytes, "operator", c.Operator, "request_id", c.ID)
	return admin.BackupMade{Path: path, Taken: made.Taken, Items: made.Items, Tasks: made.Tasks,
		Bytes: made.Bytes}, nil
}

type kvBackupCmd struct {
	JSON bool `name:"json" help:"Print JSON."`
	serverFlags
}

// Help is shown by "verge kv backup --help".
func (kvBackupCmd) Help() string {
	return `Has a running server write what its bolt store holds, at one instant, to a new
file beside the store. The server goes on meanwhile. The file is whole and
checked, has the mode 0600, and holds nothing that was deleted. Its name is
printed. Move it to another machine, apart from the key ring: both together open
everything.

A shared store (Redis, PostgreSQL) has its own means; OPERATING.md names
them, under "Backup". "verge kv restore" puts a backup back.

Example, as root on the server's machine:

    mv "$(verge kv backup)" /mnt/backups/`
}

func (c *kvBackupCmd) Run(ctx context.Context, p *program) error {
	client, err := c.client(p)
	if err != nil {
		return err
	}
	made, err := client.Backup(ctx)
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(p, made)
	}
	// The name is alone on stdout, so that a script can take it from there.
	fmt.Fprintln(p.stdout, made.Path)
	fmt.Fprintf(p.stderr, "%d items and %d tasks, %d bytes, as of %s.\n", made.Items, made.Tasks, made.Bytes,
		made.Taken.UTC().Format(time.RFC3339))
	return nil
}

type kvRestoreCmd struct {
	Backup string `arg:"" type:"path" help:"The backup's file. It stays as it is."`
	Store  string `arg:"" optional:"" name:"url" env:"VERGE_KV" help:"bolt:FILE, the store to replace. Default: the configuration's kv."`

	Config string `type:"path" placeholder:"FILE" env:"VERGE_CONFIG" help:"A server's configuration file, whose kv is taken."`
}

// Help is shown by "verge kv restore --help".
func (kvRestoreCmd) Help() string {
	return `Puts a backup of a bolt store in the place of the store's file. Stop the server
first: the command refuses a store that is in use. Run it as the server's user,
who must be able to read the file. It checks the backup before it changes
anything, and keeps the file that is there under another name.

The store forgets what happened since the backup. The command says until when the
server must stay stopped, so that nothing from before can be used twice, and what
to look at. OPERATING.md explains it, under "Backup".

Example:

    runuser -u verge -- verge kv restore /mnt/backups/verge.db.backup-20261123T030000Z \
        --config /etc/verge/verge.toml`
}

func (c *kvRestoreCmd) Run(ctx context.Context, p *program) error {
	if c.Store == "" && c.Config == "" {
		return usagef("name the store to replace, as in bolt:/var/lib/verge/verge.db, or a --config file")
	}
	at, err := (&config.StoreFlags{URL: c.Store, Config: c.Config}).Read(&p.System)
	if err != nil {
		return usageError{err}
	}
	if at.Kind != kvadapters.Bolt {
		return usagef("the store is %s and not bolt: restore it with its own means", at.Kind)
	}
	now := p.Now()
	r, err := bolt.Restore(ctx, c.Backup, at.Path, now)
	if err != nil {
		return err
	}
	fmt.Fprintf(p.stdout, "%s holds what %s has: %d items and %d tasks", at.Path, c.Backup, r.Items, r.Tasks)
	if !r.Taken.IsZero() {
		fmt.Fprintf(p.stdout, ", as of %s, %s ago", r.Taken.UTC().Format(time.RFC3339),
			now.Sub(r.Taken).Round(time.Second))
	}
	fmt.Fprintln(p.stdout, ".")
	if r.Replaced != "" {
		fmt.Fprintf(p.stdout, "The file that was there is %s now.\n", r.Replaced)
	}
	fmt.Fprintf(p.stdout, `
Start the server not before %s. By then every session and result
token from before has ended; earlier, one that was used since the backup could be
used again. Then undo again what was undone since the backup: keys, operator
tokens and members that were revoked or removed, invitations that were used.
edge/deploy/BACKUP.md has the whole list.
`, now.Add(core.SessionLife).UTC().Format(time.RFC3339))
	return nil
}
