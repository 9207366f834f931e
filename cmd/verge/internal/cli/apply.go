package cli

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/verge-id/verge/cmd/verge/internal/config"
	"github.com/verge-id/verge/core/operate"
)

type applyCmd struct {
	File   string `arg:"" type:"path" help:"Configuration file (TOML), as \"verge serve\" reads it."`
	DryRun bool   `help:"Show the changes without applying them."`
	asking
}

// Help is shown by `verge apply --help`.
func (applyCmd) Help() string {
	return `Applies the [[publishers]] and [[integrations]] of the file to a running server and
prints the changes. After that, the file manages them: the console and the other
commands show them but cannot change them. Publishers and integrations that an
earlier file contained and this one does not are archived, and so are those with
archived = true. Check --dry-run first. All others stay unchanged. An empty file is
rejected.

Webhook secrets are read on this machine, from secret_file and secret_env. The other
settings of the file are not used.

Examples:

    verge apply verge.toml --dry-run
    verge apply verge.toml`
}

func (c *applyCmd) Run(ctx context.Context, p *program) error {
	site, err := config.ReadSite(&p.System, c.File)
	if err != nil {
		return usageError{err}
	}
	text, err := json.Marshal(site)
	if err != nil {
		return err
	}
	in := operate.SiteInput{Text: text, DryRun: c.DryRun}
	return callWith(ctx, p, c, operate.ApplySite, in, func(response *operate.Applied) error {
		printDifferences(p, response.Differences)
		switch {
		case len(response.Differences) == 0:
			fmt.Fprintf(p.stdout, "No changes: the server already matches %s.\n", c.File)
		case c.DryRun:
			fmt.Fprintln(p.stdout, "Dry run: no changes were applied.")
		default:
			fmt.Fprintln(p.stdout, "Applied.")
		}
		return nil
	})
}

func printDifferences(p *program, all []operate.Difference) {
	for _, d := range all {
		fmt.Fprintf(p.stdout, "%s %s %s\n", d.Action, d.Kind, d.ID)
		for _, change := range d.Changes {
			fmt.Fprintf(p.stdout, "    %s: %s\n", oneLine(change.Field), oneLine(changeWords(change)))
		}
	}
}
