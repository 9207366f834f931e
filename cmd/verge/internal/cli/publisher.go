package cli

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/spf13/afero"

	"github.com/verge-id/verge/cmd/verge/internal/adminclient"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/operate"
)

// publisherCommands are the commands of `verge publisher`.
type publisherCommands struct {
	List    publisherListCmd    `cmd:"" does:"listPublishers" help:"List publishers."`
	Show    publisherShowCmd    `cmd:"" does:"readPublisher,readOverview" help:"Show a publisher and its remaining steps to go live."`
	Create  publisherCreateCmd  `cmd:"" does:"createPublisher" help:"Create a publisher."`
	Change  publisherChangeCmd  `cmd:"" does:"changePublisher" help:"Change a publisher's name, accent colour or logo."`
	Archive publisherArchiveCmd `cmd:"" does:"archivePublisher" help:"Archive a publisher. After that, its keys are rejected."`
}

type publisherListCmd struct {
	Name string `placeholder:"TEXT" help:"Only publishers with this text in their name or id."`
	asking
}

func (c *publisherListCmd) Run(ctx context.Context, p *program) error {
	return list(ctx, p, c, operate.ListPublishers, func(all []operate.Publisher) error {
		if len(all) == 0 {
			fmt.Fprintln(p.stdout, "No publishers. Create one with `verge publisher create --name NAME`.")
			return nil
		}
		return printTable(p, publisherHeads, publisherRows(all))
	})
}

const publisherHeads = "PUBLISHER|NAME|CREATED|STATE"

func publisherRows(all []operate.Publisher) (rows [][]string) {
	for _, each := range all {
		rows = append(rows, []string{each.ID, cut(each.Name, 30), cmp.Or(whenever(each.Created), "-"),
			stateOf(each.Archived, each.Managed, each.Removed)})
	}
	return rows
}

type publisherShowCmd struct {
	ID string `arg:"" help:"The publisher, pub_…, as \"verge publisher list\" shows it."`
	asking
}

// Help is shown by `verge publisher show --help`.
func (publisherShowCmd) Help() string {
	return `Shows the setup steps that the publisher has completed and those that are left, and
how many sessions and undelivered events it has.

Example:

    verge publisher show pub_example`
}

// shownPublisher is the output of `verge publisher show --json`.
type shownPublisher struct {
	*operate.Publisher
	Overview *operate.Overview `json:"overview"`
}

func (c *publisherShowCmd) Run(ctx context.Context, p *program) error {
	client, err := c.client(p)
	if err != nil {
		return err
	}
	found, err := adminclient.Do(ctx, client, operate.ReadPublisher, c.ID)
	if err != nil {
		return err
	}
	overview, err := adminclient.Do(ctx, client, operate.ReadOverview, c.ID)
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(p, shownPublisher{found, overview})
	}
	if err := publisherFacts(found).print(p); err != nil {
		return err
	}
	fmt.Fprintln(p.stdout, "\nTo go live:")
	for _, step := range overview.Steps {
		mark := "to do"
		if step.Done {
			mark = "done"
		}
		fmt.Fprintf(p.stdout, "  %-6s %s\n", mark, stepWords(step))
	}
	atLeast := ""
	if overview.More {
		atLeast = "at least "
	}
	fmt.Fprintf(p.stdout, "\nEvents: %s%d waiting for a retry, %s%d failed.\n", atLeast, overview.Waiting,
		atLeast, overview.Dead)
	fmt.Fprintf(p.stdout, "Sessions today: %s.\n", counted(overview.Today))
	return nil
}

// stepWords returns the description of a step and its command.
func stepWords(s operate.Step) string {
	switch s.Name {
	case operate.StepIntegration:
		return "The publisher has an integration (verge integration create)."
	case operate.StepWebhook:
		command := "(" + strings.TrimSpace("verge integration test "+s.Integration) + ")."
		if s.Done {
			return "The webhook of an integration is ready, or switched off\n         " + command
		}
		return "The webhook of an integration passes its test, or is switched off\n         " + command
	case operate.StepKey:
		return "The publisher has a secret key (verge key create)."
	case operate.StepSession:
		return "A session was completed (verge session test, or start one with the secret key)."
	case operate.StepMethod:
		return "A ready integration has a method that verifies people, not only the sandbox\n         " +
			"(verge integration change --methods)."
	}
	return s.Name
}

func publisherFacts(of *operate.Publisher) *facts {
	var f facts
	f.add("publisher", of.ID)
	f.add("name", of.Name)
	f.add("accent", of.Accent)
	f.add("logo", logoOf(of.Logo))
	f.add("created", whenever(of.Created))
	f.add("state", stateOf(of.Archived, of.Managed, of.Removed))
	f.add("version", of.Version)
	return &f
}

// brandFlags are the brand of a publisher.
type brandFlags struct {
	Accent *string `placeholder:"#RRGGBB" help:"The accent colour of its hosted pages. Empty: the colours of the service."`
	Logo   *string `placeholder:"FILE" help:"Its logo: a PNG, JPEG or WebP file, at most 64 KiB. Empty: no logo."`
}

// addLogo adds the file of the logo to an input.
func (b brandFlags) addLogo(p *program, in *operate.PublisherInput) error {
	if b.Logo == nil || *b.Logo == "" {
		return nil
	}
	info, err := p.FS.Stat(*b.Logo)
	if err == nil && info.Size() > integration.MaxLogo {
		return usagef("--logo: %s is larger than %d KiB", *b.Logo, integration.MaxLogo>>10)
	}
	file, err := afero.ReadFile(p.FS, *b.Logo)
	if err != nil {
		return usagef("--logo: %w", err)
	}
	if len(file) == 0 {
		return usagef("--logo: %s is empty", *b.Logo)
	}
	text := base64.StdEncoding.EncodeToString(file)
	in.Logo = &text
	return nil
}

type publisherCreateCmd struct {
	Name string `required:"" help:"Its name, 1 to 100 characters."`
	ID   string `placeholder:"PUB_ID" help:"Id: pub_ and letters, digits, _ or -. Default: generated."`
	brandFlags
	asking
}

// Help is shown by `verge publisher create --help`.
func (publisherCreateCmd) Help() string {
	return `A publisher is a business that has its users verified. Next, create an integration,
or invite a member who creates one in the console.

Examples:

    verge publisher create --name "Example Shop"
    verge publisher create --name "Example Shop" --id pub_example
    verge member invite --publisher pub_example --role admin --name "Ada Lovelace"`
}

func (c *publisherCreateCmd) Run(ctx context.Context, p *program) error {
	in := filled[operate.PublisherInput](p, c)
	if err := c.addLogo(p, &in); err != nil {
		return err
	}
	return callWith(ctx, p, c, operate.CreatePublisher, in, func(made *operate.Publisher) error {
		// Print only the id to stdout, so that a script can use it.
		fmt.Fprintln(p.stdout, made.ID)
		fmt.Fprintf(p.stderr, "Created the publisher %s.\n", oneLine(made.Name))
		return nil
	})
}

type publisherChangeCmd struct {
	ID   string  `arg:"" help:"The publisher, pub_…"`
	Name *string `help:"New name."`
	brandFlags
	changing
}

// Help is shown by `verge publisher change --help`.
func (publisherChangeCmd) Help() string {
	return `Users see the name, the colour and the logo on the hosted pages within 5 seconds.
All other colours are computed from the accent, with enough contrast in light and
dark.

Examples:

    verge publisher change pub_example --name "Example Shop Ltd"
    verge publisher change pub_example --accent '#1f5c4d' --logo logo.png
    verge publisher change pub_example --logo ''`
}

func (c *publisherChangeCmd) Run(ctx context.Context, p *program) error {
	in := filled[operate.PublisherUpdate](p, c)
	if empty(in) {
		return usagef("nothing to change; give --name, --accent or --logo")
	}
	if err := c.addLogo(p, &in.PublisherInput); err != nil {
		return err
	}
	return callWith(ctx, p, c, operate.ChangePublisher, in, func(changed *operate.Publisher) error {
		return publisherFacts(changed).print(p)
	})
}

func logoOf(l *integration.Logo) string {
	if l == nil {
		return ""
	}
	return fmt.Sprintf("%s, %d x %d pixels", l.Name, l.Width, l.Height)
}

type publisherArchiveCmd struct {
	ID string `arg:"" help:"The publisher, pub_…"`
	changing
}

// Help is shown by `verge publisher archive --help`.
func (publisherArchiveCmd) Help() string {
	return `The keys of an archived publisher are rejected, so no new sessions start. Active
sessions continue, and their events are delivered. This cannot be undone.

Example:

    verge publisher archive pub_example`
}

func (c *publisherArchiveCmd) Run(ctx context.Context, p *program) error {
	return call(ctx, p, c, operate.ArchivePublisher, func(gone *operate.Publisher) error {
		fmt.Fprintf(p.stdout, "%s (%s) is archived. Its keys are now rejected.\n", gone.ID,
			oneLine(gone.Name))
		return nil
	})
}
