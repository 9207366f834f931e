package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/verge-id/verge/cmd/verge/internal/adminclient"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/operate"
)

// integrationCommands are the commands of `verge integration`.
type integrationCommands struct {
	List    integrationListCmd    `cmd:"" does:"listIntegrations" help:"List integrations and whether they are ready."`
	Show    integrationShowCmd    `cmd:"" does:"readIntegration" help:"Show one integration."`
	Create  integrationCreateCmd  `cmd:"" does:"createIntegration" help:"Create an integration."`
	Change  integrationChangeCmd  `cmd:"" does:"changeIntegration" help:"Change an integration. The change takes effect immediately."`
	Archive integrationArchiveCmd `cmd:"" does:"archiveIntegration" help:"Archive an integration. It can start no more sessions."`
	Stage   integrationStageCmd   `cmd:"" does:"stageWebhook" help:"Stage a second webhook, which replaces the current one after its test."`
	Drop    integrationDropCmd    `cmd:"" does:"dropStaged" help:"Discard the staged webhook."`
	Rotate  integrationRotateCmd  `cmd:"" does:"rotateSecret" help:"Create a new webhook secret. It is shown once."`
	Test    integrationTestCmd    `cmd:"" does:"testWebhook" help:"Run the signed webhook test of an integration and record its result."`
}

type integrationListCmd struct {
	Publisher string `placeholder:"PUB_ID" help:"Only integrations of this publisher."`
	Name      string `placeholder:"TEXT" help:"Only integrations with this text in their name or id."`
	asking
}

func (c *integrationListCmd) Run(ctx context.Context, p *program) error {
	return list(ctx, p, c, operate.ListIntegrations, func(all []operate.Integration) error {
		if len(all) == 0 {
			fmt.Fprintln(p.stdout,
				"No integrations. Create one with `verge integration create`, or with "+
					"[[integrations]] in the server's configuration.")
			return nil
		}
		return printTable(p, integrationHeads, integrationRows(all))
	})
}

// integrationHeads are the columns that identify an integration. `verge integration show` has the rest.
const integrationHeads = "INTEGRATION|NAME|LEVEL|READY|PUBLISHER"

func integrationRows(all []operate.Integration) (rows [][]string) {
	for _, i := range all {
		rows = append(rows, []string{i.ID, cut(i.Name, 18), i.Level, readyOf(i.Integration, i.Ready),
			i.PublisherID})
	}
	return rows
}

// readyOf reports whether an integration is ready, and if it is archived or no longer in the file.
func readyOf(i integration.Integration, ready bool) string {
	switch {
	case i.Archived != nil:
		return "archived"
	case i.Removed:
		return yesNo(ready) + ", no longer in the file"
	}
	return yesNo(ready)
}

func webhookOf(i integration.Integration) string {
	switch {
	case i.Webhook.Off:
		return "switched off"
	case i.Webhook.URL == "":
		return "none"
	}
	return i.Webhook.URL
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

type integrationTestCmd struct {
	ID     string `arg:"" help:"The integration, as \"verge integration list\" shows it."`
	Staged bool   `help:"Test the staged webhook. If it passes, it replaces the current webhook."`
	asking
}

// Help is shown by `verge integration test --help`.
func (integrationTestCmd) Help() string {
	return `The server sends a correctly signed event that is marked as a test and must be
accepted, and then four requests that the receiver must reject with 401: a bad
signature, a stale timestamp, a different X-Service-Timestamp, an altered body. If
there is no response to the first, the others are not sent. The server records the
result: in production, an integration that is not ready starts no sessions. The exit
code is 0 if it is ready, 1 if not.

With --staged, the requests go to the staged webhook, with its secret. If it is
ready, it replaces the current webhook.

Examples:

    verge integration test 711bb7bd-4165-465f-a5bb-ec37600c13c9
    verge integration test 711bb7bd-4165-465f-a5bb-ec37600c13c9 --staged`
}

func (c *integrationTestCmd) Run(ctx context.Context, p *program) error {
	client, err := c.client(p)
	if err != nil {
		return err
	}
	report, err := adminclient.Do(ctx, client, operate.TestWebhook, filled[operate.WebhookTestInput](p, c))
	if err != nil {
		return err
	}
	return failUnless(report.Ready, show(p, c.JSON, report, func() error { return printReport(p, report) }))
}

const probeHeads = "PROBE|WANTED|CAME BACK"

func printReport(p *program, report *operate.TestReport) error {
	if len(report.Probes) == 1 { // the receiver was not reached; the reasons explain it
		fmt.Fprintf(p.stdout, "NOT_READY:\n  %s\nThe other probes were not sent.\n",
			strings.Join(report.Reasons, "\n  "))
		return nil
	}
	var rows [][]string
	for _, probe := range report.Probes {
		rows = append(rows, []string{probe.Name, probe.Want, cmp.Or(probe.Reason, fmt.Sprint(probe.Status))})
	}
	if err := printTable(p, probeHeads, rows); err != nil {
		return err
	}
	if report.Ready {
		fmt.Fprintln(p.stdout, "\nReady.")
		if report.Promoted {
			fmt.Fprintln(p.stdout, "The staged webhook has replaced the earlier one.")
		}
		return nil
	}
	fmt.Fprintln(p.stdout, "\nNOT_READY:")
	for _, reason := range report.Reasons {
		fmt.Fprintln(p.stdout, "  "+reason)
	}
	fmt.Fprintln(p.stdout, "Use --json to see each request and response.")
	return nil
}
