package cli

import (
	"context"
	"fmt"

	"github.com/verge-id/verge/kvadapters/bolt"
)

type kvCompactCmd struct {
	boltStore

	JSON bool `name:"json" help:"Print JSON."`
}

// Help is shown by "verge kv compact --help".
func (kvCompactCmd) Help() string {
	return `Makes the file of a bolt store as small as its content. A server reuses the space of
expired data, but its file never shrinks. Stop the server first: the command fails
if the store is in use. Run it as the server's user or as root.

The command writes a copy without unused space next to the file, checks it, and then
gives it the file's name, owner and permissions. The disk needs room for the copy.
If the command is interrupted, the store is complete in either case. The next run
removes an unfinished copy (.verge.db-compact).

It takes about a second for each 100 MB of content. The metric
verge_store_unused_bytes shows how much it would free.

Example:

    systemctl stop verge
    runuser -u verge -- verge kv compact --config /etc/verge/verge.toml
    systemctl start verge`
}

func (c *kvCompactCmd) Run(ctx context.Context, p *program) error {
	path, err := c.path(p, "verge kv compact bolt:/var/lib/verge/verge.db",
		"its server manages its own space")
	if err != nil {
		return err
	}
	done, err := bolt.Compact(ctx, path)
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(p, struct {
			Path   string `json:"path"`
			Before int64  `json:"bytes_before"`
			After  int64  `json:"bytes_after"`
			Items  int    `json:"items"`
			Tasks  int    `json:"tasks"`
		}{path, done.Before, done.Bytes, done.Items, done.Tasks})
	}
	fmt.Fprintf(p.stdout, "%s has %d bytes now, %d before: %s.\n", path, done.Bytes, done.Before,
		rows(done.Items, done.Tasks))
	return nil
}
