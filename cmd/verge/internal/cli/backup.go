package cli

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

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
	store *bolt.Store // nil: the store is of another kind
	at    kvadapters.Address
	log   *slog.Logger
	now   func() time.Time
	one   sync.Mutex // held by the backup in progress
}

// own creates a backup at admin.BackupPath.
func (b *backups) adminEndpoint() edge.AdminEndpoint {
	return edge.AdminEndpoint{Handle: b.handle,
		Operations: map[string]operate.Operation{"POST": operate.BackupMake}}
}

func (b *backups) handle(ctx context.Context, c *edge.Call) (any, *web.Error) {
	switch {
	case b.store == nil:
		return nil, &web.Error{Code: web.BackupRejected, Message: "The store is " + string(b.at.Kind) +
			", not bolt: use its own backup tools. OPERATING.md lists them " +
			"under \"Backup\"."}
	case !b.one.TryLock():
		return nil, &web.Error{Code: web.Unavailable, RetryAfter: 5,
			Message: "Another backup is in progress; try again when it is finished."}
	}
	defer b.one.Unlock()
	path := b.at.Path + ".backup-" + b.now().UTC().Format("20060102T150405Z")
	made, err := b.store.Backup(ctx, path)
	if err != nil {
		b.log.Error("backup failed", "error", err.Error(), "request_id", c.ID)
		return nil, &web.Error{Code: web.Unavailable, RetryAfter: 60,
			Message: "The backup failed. The server's log has the reason."}
	}
	c.Changed = path
	b.log.Info("backup created", "path", path, "items", made.Items, "tasks", made.Tasks, "bytes",
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
	return `Makes a running server write a snapshot of its bolt store to a new file next to the
store, without an interruption. The file is complete and checked, has mode 0600, and
contains no deleted data. The command prints its name. Move it to another machine,
and keep it apart from the key ring: both together open all data.

For a shared store (Redis, PostgreSQL), use the database's own tools; see "Backup"
in OPERATING.md. "verge kv restore" restores a backup.

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
	// Print only the name to stdout, so that a script can use it.
	fmt.Fprintln(p.stdout, made.Path)
	fmt.Fprintf(p.stderr, "%s, %d bytes, as of %s.\n", rows(made.Items, made.Tasks), made.Bytes,
		made.Taken.UTC().Format(time.RFC3339))
	return nil
}

type kvRestoreCmd struct {
	Backup string `arg:"" type:"path" help:"The backup's file. It is not changed."`
	boltStore
}

// Help is shown by "verge kv restore --help".
func (kvRestoreCmd) Help() string {
	return `Replaces the file of a bolt store with a backup. Stop the server first: the command
fails if the store is in use. Run it as the server's user, who must be able to read
the backup. The backup is checked first, and the old file is kept under another
name.

All changes since the backup are lost. The command prints how long the server must
stay stopped so that no result or session can be used twice, and what to check. See
"Backup" in OPERATING.md.

Example:

    runuser -u verge -- verge kv restore /mnt/backups/verge.db.backup-20261123T030000Z \
        --config /etc/verge/verge.toml`
}

func (c *kvRestoreCmd) Run(ctx context.Context, p *program) error {
	path, err := c.path(p, "verge kv restore BACKUP bolt:/var/lib/verge/verge.db",
		"restore it with its own tools")
	if err != nil {
		return err
	}
	now := p.Now()
	r, err := bolt.Restore(ctx, c.Backup, path, now)
	if err != nil {
		return err
	}
	fmt.Fprintf(p.stdout, "%s holds what %s has: %s", path, c.Backup, rows(r.Items, r.Tasks))
	if !r.Taken.IsZero() {
		fmt.Fprintf(p.stdout, ", as of %s, %s ago", r.Taken.UTC().Format(time.RFC3339),
			now.Sub(r.Taken).Round(time.Second))
	}
	fmt.Fprintln(p.stdout, ".")
	if r.Replaced != "" {
		fmt.Fprintf(p.stdout, "The old file is now %s.\n", r.Replaced)
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
