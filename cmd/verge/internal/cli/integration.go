package cli

import (
	"context"
	"fmt"
	"strconv"
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
	Archive integrationArchiveCmd `cmd:"" does:"archiveIntegration" help:"Archive an integration. It starts no further session."`
	Stage   integrationStageCmd   `cmd:"" does:"stageWebhook" help:"Add a second webhook, which replaces the present one after its test."`
	Drop    integrationDropCmd    `cmd:"" does:"dropStaged" help:"Forget the staged webhook."`
	Rotate  integrationRotateCmd  `cmd:"" does:"rotateSecret" help:"Make a new webhook secret. It is shown once."`
	Test    integrationTestCmd    `cmd:"" does:"testWebhook" help:"Run the signed webhook test of an integration and record its result."`
}

type integrationListCmd struct {
	Publisher string `placeholder:"PUB_ID" help:"Only those of this publisher."`
	Name      string `placeholder:"TEXT" help:"Only those with this text in their name or id."`
	asking
}

func (c *integrationListCmd) Run(ctx context.Context, p *program) error {
	return list(ctx, p, c, operate.ListIntegrations, func(all []operate.Integration) error {
		if len(all) == 0 {
			fmt.Fprintln(p.stdout,
				"There are no integrations. `verge integration create` makes one, and so does "+
					"[[integrations]] in the server's configuration.")
			return nil
		}
		return printTable(p, integrationHeads, integrationRows(all))
	})
}

// integrationHeads has what identifies an integration. `verge integration show` has the rest.
const integrationHeads = "INTEGRATION|NAME|LEVEL|READY|PUBLISHER"

func integrationRows(all []operate.Integration) (rows [][]string) {
	for _, i := range all {
		rows = append(rows, []string{i.ID, cut(i.Name, 18), i.Level, readyOf(i.Integration, i.Ready),
			i.PublisherID})
	}
	return rows
}

// readyOf reports whether an integration is ready, with the exceptions that a reader of a list has to know.
func readyOf(i integration.Integration, ready bool) string {
	switch {
	case i.Archived != nil:
		return "archived"
	case i.Removed:
		return yesNo(ready) + ", no longer in the file"
	}
	return yesNo(ready)
}

// attemptsOf says how many failed attempts a user has. The service's setting is not known here.
func attemptsOf(i integration.Integration) string {
	if i.Attempts == 0 {
		return "the service's"
	}
	return strconv.Itoa(i.Attempts)
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
	Staged bool   `help:"Test what is staged. If it passes, it takes the place of the present webhook."`
	asking
}

// Help is shown by `verge integration test --help`.
func (integrationTestCmd) Help() string {
	return `The server sends a correctly signed event marked as a test, which the receiver
must accept, and then four requests that it must refuse with 401: a bad
signature, a stale timestamp, a differing X-Service-Timestamp, an altered body.
If the first gets no answer, the others are not sent. The server records the
result: in production an integration that is not ready starts no session. The
exit code is 0 if it is ready, 1 if not.

With --staged the requests go to the staged webhook, with its secret. If it is
ready, it takes the place of the present one.

Examples:

    verge integration test 711bb7bd-4165-465f-a5bb-ec37600c13c9
    verge integration test 711bb7bd-4165-465f-a5bb-ec37600c13c9 --staged`
}

func (c *integrationTestCmd) Run(ctx context.Context, p *program) error {
	client, err := c.client(p)
	if err != nil {
		return err
	}
	report, err := adminclient.Do(ctx, client, operate.TestWebhook,
		operate.WebhookTestInput{Integration: c.ID, Staged: c.Staged})
	if err != nil {
		return err
	}
	if c.JSON {
		if err := printJSON(p, report); err != nil {
			return err
		}
	} else if err := printReport(p, report); err != nil {
		return err
	}
	if !report.Ready {
		return saidError{}
	}
	return nil
}

const probeHeads = "PROBE|WANTED|CAME BACK"

func printReport(p *program, report *operate.TestReport) error {
	if len(report.Probes) == 1 { // the receiver was not reached, and the reasons say it all
		fmt.Fprintf(p.stdout, "NOT_READY:\n  %s\nThe other probes were not sent.\n",
			strings.Join(report.Reasons, "\n  "))
		return nil
	}
	var rows [][]string
	for _, probe := range report.Probes {
		got := fmt.Sprint(probe.Status)
		if probe.Reason != "" {
			got = probe.Reason
		}
		rows = append(rows, []string{probe.Name, probe.Want, got})
	}
	if err := printTable(p, probeHeads, rows); err != nil {
		return err
	}
	if report.Ready {
		fmt.Fprintln(p.stdout, "\nReady.")
		if report.Promoted {
			fmt.Fprintln(p.stdout, "The staged webhook has taken the place of the earlier one.")
		}
		return nil
	}
	fmt.Fprintln(p.stdout, "\nNOT_READY:")
	for _, reason := range report.Reasons {
		fmt.Fprintln(p.stdout, "  "+reason)
	}
	fmt.Fprintln(p.stdout, "With --json you see each request and answer.")
	return nil
}
