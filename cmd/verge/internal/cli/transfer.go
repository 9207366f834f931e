package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/verge-id/verge/cmd/verge/internal/adminclient"
	"github.com/verge-id/verge/cmd/verge/internal/config"
	"github.com/verge-id/verge/cmd/verge/internal/words"
	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/keyset"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/operate"
	"github.com/verge-id/verge/kvadapters/bolt"
)

type kvExportCmd struct {
	File string `arg:"" type:"path" help:"The new file. It has the form of a backup of a bolt store."`

	Lock bool `help:"Stop the service before, for a move. It stays locked until \"verge kv unlock\"."`
	JSON bool `name:"json" help:"Print JSON."`
	serverFlags
}

// Help is shown by "verge kv export --help".
func (kvExportCmd) Help() string {
	return `Writes the store of a Cloudflare Worker to a new file on this machine, while the Worker
serves requests. The file is a backup of a bolt store, like the one of "verge kv
backup": "verge kv import" loads it into a Worker, and "verge kv restore" into the
store of a native server. It is complete and checked, and has mode 0600. Keep it
apart from the key ring: both together open all data.

Each partition is consistent: it has the rows of one moment. The partitions are read
in turn, so their moments differ by the time that the export takes.
"Durable Objects" in edge/deploy/BACKUP.md explains what that means after a restore.

With --lock, the Worker first stops: it returns 503 to all requests that need the
store, and delivers no events. Use it to move to another deployment, so that no
change is lost. This needs the operator token of the secret VERGE_OPERATOR_TOKEN.

Examples:

    verge kv export /mnt/backups/verge-20261126.db
    verge kv export --lock move.db                 # then start the other deployment`
}

func (c *kvExportCmd) Run(ctx context.Context, p *program) error {
	if err := p.checkNew(c.File); err != nil {
		return err
	}
	if err := config.CheckWritable(p.FS, filepath.Dir(c.File)); err != nil {
		return err
	}
	client, _, partitions, err := c.store(ctx, p)
	if err != nil {
		return err
	}
	if c.Lock {
		for _, partition := range partitions {
			if _, err := client.ChangeStore(ctx, partition, adminclient.StoreLock); err != nil {
				return fmt.Errorf("%w\nThe Worker is partly locked; `verge kv unlock` ends that", err)
			}
		}
	}
	made, err := c.export(ctx, p, client, partitions)
	if err != nil && c.Lock {
		return fmt.Errorf("%w\nThe Worker is locked; `verge kv unlock` ends that", err)
	}
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(p, struct {
			Path  string    `json:"path"`
			Taken time.Time `json:"taken_at"`
			Items int       `json:"items"`
			Tasks int       `json:"tasks"`
			Bytes int64     `json:"bytes"`
		}{c.File, made.Taken, made.Items, made.Tasks, made.Bytes})
	}
	fmt.Fprintf(p.stdout, "%s has %s, %d bytes, as of %s.\n", c.File, rows(made.Items, made.Tasks),
		made.Bytes, made.Taken.UTC().Format(time.RFC3339))
	if c.Lock {
		fmt.Fprintln(p.stdout, "The Worker is locked. `verge kv unlock` lets it continue.")
	}
	return nil
}

// rows returns the number of items and tasks of a store.
func rows(items, tasks int) string {
	return words.HowMany(items, "item") + " and " + words.HowMany(tasks, "task")
}

// export writes the rows of the partitions to the file.
func (c *kvExportCmd) export(ctx context.Context, p *program, client *adminclient.Client,
	partitions []kv.Partition) (bolt.Copy, error) {
	after := ""
	next := func() (*bolt.Records, error) {
		if len(partitions) == 0 {
			return nil, nil
		}
		of := partitions[0]
		page, err := client.ReadStore(ctx, of, after)
		if err != nil {
			return nil, fmt.Errorf("partition %s: %w", of, err)
		}
		if after = page.Next; after == "" {
			partitions = partitions[1:]
		}
		return &bolt.Records{Partition: of, Items: page.KVItems(of), Tasks: page.KVTasks(),
			RemovedItems: page.RemovedItems, RemovedTasks: page.RemovedTasks}, nil
	}
	return bolt.WriteBackup(ctx, c.File, next, p.Now)
}

type kvImportCmd struct {
	File string `arg:"" type:"existingfile" help:"A backup of a bolt store, or a file of verge kv export."`

	Replace bool `help:"Replace the data of a Worker that is in use, such as sessions, members and keys."`
	serverFlags
}

// Help is shown by "verge kv import --help".
func (kvImportCmd) Help() string {
	return `Replaces the store of a Cloudflare Worker with a backup: a file of "verge kv export",
of "verge kv backup", or the file of a bolt store that is not in use. The Worker needs
the key ring of the backup's time, or a later one, and at least as many partitions. It
needs the operator token of the secret VERGE_OPERATOR_TOKEN. A Worker that has more
than the publishers and integrations of its configuration needs --replace. Export it
first, so that you can go back.

The Worker is locked during the import: it returns 503 to all requests that need the
store. If the import is interrupted, the Worker stays locked: run the command again.
Afterwards run "npx wrangler deploy", so that no part of the Worker remembers the
previous store. For a backup that is not the last state of its store, follow "After a
restore" in edge/deploy/BACKUP.md: sessions and results could be used twice for ten
minutes.

Examples:

    verge kv import verge.db.backup-20261123T030000Z
    verge kv import --replace /mnt/backups/verge-20261126.db`
}

func (c *kvImportCmd) Run(ctx context.Context, p *program) error {
	client, n, partitions, err := c.store(ctx, p)
	if err != nil {
		return err
	}
	counts, err := c.count(ctx, p.Now(), partitions, n)
	if err != nil {
		return err
	}
	if err := c.checkFirst(ctx, client, partitions[0]); err != nil {
		return err
	}
	if err := c.lock(ctx, client, partitions); err != nil {
		return err
	}
	if err := c.load(ctx, p, client, partitions, counts); err != nil {
		return fmt.Errorf("%w\nThe Worker stays locked: its store is incomplete. Run the command again", err)
	}
	items, tasks := 0, 0
	for _, of := range partitions {
		if _, err := client.ChangeStore(ctx, of, adminclient.StoreFinish); err != nil {
			return fmt.Errorf("%w\nA part of the Worker stays locked. Run the command again with --replace",
				err)
		}
		items, tasks = items+counts[of].Items, tasks+counts[of].Tasks
	}
	fmt.Fprintf(p.stdout, `The Worker's store has %s of %s.

Now run "npx wrangler deploy", so that no part of the Worker remembers the previous
store. If the backup is not the last state of its store, follow "After a restore" in
edge/deploy/BACKUP.md.
`, rows(items, tasks), c.File)
	return serves(ctx, sleep, func() error {
		_, err := adminclient.Do(ctx, client, operate.ListPublishers, operate.Search{})
		return err
	})
}

// serves waits until the Worker uses its new store, and returns an error if it cannot, since its key ring is
// another one. A Worker compares its ring with the store every few seconds, and after a request: until then,
// requests can have results of the previous store.
func serves(ctx context.Context, sleep func(context.Context, time.Duration), read func() error) (err error) {
	const tries, pause = 10, 2 * time.Second
	var rejected *adminclient.Error
	_ = read()
	sleep(ctx, keyset.Settle)
	for range tries {
		err = read()
		if err == nil || errors.As(err, &rejected) && rejected.Status < http.StatusInternalServerError {
			return nil // a limit, for example, shows that the store works
		}
		sleep(ctx, pause)
	}
	return fmt.Errorf("the import is complete, but the Worker cannot use its store: %w\nIf its secret "+
		"VERGE_KEYRING is not the key ring of the backup, put that ring (`npx wrangler secret put "+
		"VERGE_KEYRING`), or import the last export of this Worker. Its log has the line \"key ring\"", err)
}

// count reads the whole backup before anything changes.
func (c *kvImportCmd) count(ctx context.Context, now time.Time, partitions []kv.Partition, n int) (
	map[kv.Partition]adminclient.StoreState, error) {
	counts := map[kv.Partition]adminclient.StoreState{}
	_, err := bolt.ReadBackup(ctx, c.File, now, func(r bolt.Records) error {
		if !slices.Contains(partitions, r.Partition) {
			return fmt.Errorf(
				"the backup has a partition %s, and the Worker's VERGE_CONFIG has partitions = %d: "+
					"increase it to the number of the backup's server, and deploy", r.Partition, n)
		}
		of := counts[r.Partition]
		counts[r.Partition] = adminclient.StoreState{
			Items: of.Items + len(r.Items),
			Tasks: of.Tasks + len(r.Tasks),
		}
		return nil
	})
	if err == nil && len(counts) == 0 {
		err = fmt.Errorf("%s has no items", c.File)
	}
	return counts, err
}

// checkFirst returns an error if the first partition has records that neither the configuration nor the
// service writes, such as API keys, and the user has not allowed that they are lost.
func (c *kvImportCmd) checkFirst(ctx context.Context, client *adminclient.Client, first kv.Partition) error {
	for after := ""; !c.Replace; {
		page, err := client.ReadStore(ctx, first, after)
		var rejected *adminclient.Error
		if errors.As(err, &rejected) && rejected.Status == http.StatusConflict {
			return nil // an import of it was interrupted; lock decides
		}
		if err != nil {
			return fmt.Errorf("%w\nNothing was replaced, and the Worker is not locked", err)
		}
		for _, it := range page.Items {
			if what := madeByHand(it.Name, it.Value); what != "" {
				return usagef("the Worker's store is in use: it has %s. "+
					"Export it first, and then add --replace", what)
			}
		}
		if after = page.Next; after == "" {
			return nil
		}
	}
	return nil
}

// madeByHand returns the kind of a record that an operator or a member has made, or "".
func madeByHand(name string, value []byte) string {
	kinds := map[string]string{"key": "API keys", "mem": "members", "inv": "invitations",
		"op": "operator tokens", "pub": "publishers", "int": "integrations"}
	parts := strings.SplitN(name, "/", 3)
	if len(parts) < 3 || parts[0] != "c" {
		return ""
	}
	var record struct{ Managed bool }
	if isSite := parts[1] == "pub" || parts[1] == "int"; isSite && json.Unmarshal(value, &record) == nil &&
		record.Managed {
		return ""
	}
	return kinds[parts[1]]
}

// lock stops the Worker. If it has data that an import would lose, and the user has not allowed that, lock
// ends the lock again.
func (c *kvImportCmd) lock(ctx context.Context, client *adminclient.Client, partitions []kv.Partition) error {
	var used kv.Partition
	var serve []kv.Partition // before this command
	for _, of := range partitions {
		state, err := client.ChangeStore(ctx, of, adminclient.StoreLock)
		if err != nil {
			return fmt.Errorf("%w\nNothing was replaced. `verge kv unlock` ends the lock", err)
		}
		if state.Interrupted {
			continue
		}
		serve = append(serve, of)
		// The Worker's configuration writes publishers into the first partition.
		if !state.Empty && of != partitions[0] {
			used = of
		}
	}
	if len(serve) < len(partitions) && slices.Contains(serve, partitions[0]) {
		used = partitions[0] // an earlier import has finished it
	}
	if used == "" || c.Replace {
		return nil
	}
	if err := unlock(ctx, client, serve); err != nil {
		return err
	}
	if len(serve) < len(partitions) {
		return usagef("an earlier import has finished only a part of the Worker, and the partition %s "+
			"serves. Add --replace to import again: this removes its new rows", used)
	}
	return usagef(
		"the Worker's store is in use: its partition %s has rows. Export it first, and then add --replace",
		used)
}

func unlock(ctx context.Context, client *adminclient.Client, partitions []kv.Partition) (err error) {
	for _, of := range partitions {
		_, failed := client.ChangeStore(ctx, of, adminclient.StoreUnlock)
		err = errors.Join(err, failed)
	}
	return err
}

func (c *kvImportCmd) load(ctx context.Context, p *program, client *adminclient.Client,
	partitions []kv.Partition, counts map[kv.Partition]adminclient.StoreState) error {
	for _, of := range partitions {
		if _, err := client.ChangeStore(ctx, of, adminclient.StoreClear); err != nil {
			return err
		}
	}
	now := p.Now()
	_, err := bolt.ReadBackup(ctx, c.File, now, func(r bolt.Records) error {
		return client.LoadStore(ctx, r.Partition, r.Items, r.Tasks)
	})
	if err != nil {
		return err
	}
	for _, of := range partitions {
		has, err := client.ChangeStore(ctx, of, adminclient.StoreCount)
		if err != nil {
			return err
		}
		// Items that expired since they were counted were not sent.
		if want := counts[of]; has.Tasks != want.Tasks || has.Items > want.Items {
			return fmt.Errorf("partition %s has %d items and %d tasks, the backup %d and %d", of,
				has.Items, has.Tasks, want.Items, want.Tasks)
		}
	}
	return nil
}

type kvUnlockCmd struct {
	serverFlags
}

// Help is shown by "verge kv unlock --help".
func (kvUnlockCmd) Help() string {
	return `Lets a Cloudflare Worker continue that "verge kv export --lock" has locked. After an
interrupted import, it fails: the store is incomplete. Run the import again instead.

Example:

    verge kv unlock`
}

func (c *kvUnlockCmd) Run(ctx context.Context, p *program) error {
	client, _, partitions, err := c.store(ctx, p)
	if err != nil {
		return err
	}
	if err := unlock(ctx, client, partitions); err != nil {
		return err
	}
	fmt.Fprintln(p.stdout, "The Worker is not locked.")
	return nil
}

// store returns a client of the Worker, the number of its partitions of sessions, and all its partitions.
func (f serverFlags) store(ctx context.Context, p *program) (
	client *adminclient.Client, n int, all []kv.Partition, err error) {
	if client, err = f.client(p); err != nil {
		return nil, 0, nil, err
	}
	if n, err = client.StorePartitions(ctx); err != nil {
		return nil, 0, nil, err
	}
	return client, n, core.StorePartitions(n), nil
}
