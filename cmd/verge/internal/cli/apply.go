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
	DryRun bool   `help:"Say what would change, and change nothing."`
	asking
}

// Help is shown by `verge apply --help`.
func (applyCmd) Help() string {
	return `Puts the [[publishers]] and [[integrations]] of the file into a running server and
says what has changed. What the file names is managed by the file from then on:
the console and the other commands show it and do not change it. What an earlier
file named and this one does not is archived, as is what has archived = true. Look
at --dry-run first. Everything else stays as it is.

Webhook secrets are read here, from secret_file and secret_env. The other
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
	return callWith(ctx, p, c, operate.ApplySite, in, func(answer *operate.Applied) error {
		printDifferences(p, answer.Differences)
		switch {
		case len(answer.Differences) == 0:
			fmt.Fprintf(p.stdout, "The server has all of %s already.\n", c.File)
		case c.DryRun:
			fmt.Fprintln(p.stdout, "This is what would change. Nothing was changed.")
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
