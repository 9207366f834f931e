package cli

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/verge-id/verge/cmd/verge/internal/adminclient"
	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/operate"
)

type usageCmd struct {
	Integration string `required:"" xor:"of" placeholder:"UUID" help:"The integration, as \"verge integration list\" shows it."`
	Publisher   string `required:"" xor:"of" placeholder:"PUB_ID" help:"The publisher: its first 200 integrations are added up."`
	From        string `placeholder:"DAY" help:"First day, such as 2026-11-20 (UTC). Default: 29 days before the last."`
	To          string `placeholder:"DAY" help:"Last day. Default: today."`
	CSV         bool   `name:"csv" xor:"form" help:"Print CSV."`
	JSON        bool   `xor:"form" help:"Print JSON."`
	serverFlags
}

// Help is shown by `verge usage --help`.
func (usageCmd) Help() string {
	return `Counts the sessions of an integration, or of all integrations of a publisher, by day:
how many started, and how they ended. Sessions of the last minute may be missing. Days
are kept for 400 days.

Examples:

    verge usage --integration 711bb7bd-4165-465f-a5bb-ec37600c13c9
    verge usage --integration 711bb7bd-4165-465f-a5bb-ec37600c13c9 --from 2026-10-01 --csv
    verge usage --publisher pub_example`
}

func (c *usageCmd) Run(ctx context.Context, p *program) error {
	client, err := c.client(p)
	if err != nil {
		return err
	}
	query := filled[operate.UsageQuery](p, c)
	if c.CSV {
		text, err := client.UsageCSV(ctx, query)
		if err == nil {
			_, err = p.stdout.Write(text)
		}
		return err
	}
	usage, err := adminclient.Do(ctx, client, operate.ReadUsage, query)
	if err != nil {
		return err
	}
	if usage.More {
		fmt.Fprintln(p.stderr, "The publisher has more integrations. They are not included.")
	}
	if c.JSON {
		return printJSON(p, usage.Days)
	}
	total := map[string]uint64{}
	var rows [][]string
	for _, day := range usage.Days {
		row, some := []string{day.Day}, false
		for _, outcome := range host.Outcomes() {
			n := day.Counts[outcome]
			total[outcome] += n
			some = some || n > 0
			row = append(row, strconv.FormatUint(n, 10))
		}
		if some {
			rows = append(rows, row)
		}
	}
	if len(rows) == 0 {
		fmt.Fprintln(p.stdout, "No sessions started or ended in this period.")
		return nil
	}
	sum := []string{"all"}
	for _, outcome := range host.Outcomes() {
		sum = append(sum, strconv.FormatUint(total[outcome], 10))
	}
	return printTable(p, usageHeads(), append(rows, sum))
}

// usageHeads has the outcomes of the API, shortened so that the table is not too wide.
func usageHeads() string {
	heads := "DAY"
	for _, outcome := range host.Outcomes() {
		heads += "|" + strings.ToUpper(strings.TrimPrefix(outcome, "failed_"))
	}
	return heads
}

// counted returns the count of each outcome.
func counted(by map[string]uint64) string {
	var said []string
	for _, outcome := range host.Outcomes() {
		if n := by[outcome]; n > 0 {
			said = append(said, strconv.FormatUint(n, 10)+" "+outcome)
		}
	}
	return cmp.Or(strings.Join(said, ", "), "none")
}
