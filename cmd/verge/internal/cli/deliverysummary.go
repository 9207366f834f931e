package cli

import (
	"cmp"
	"context"
	"fmt"
	"strconv"

	"github.com/verge-id/verge/core/operate"
)

type deliverySummaryCmd struct {
	asking
}

// Help is shown by `verge delivery summary --help`.
func (deliverySummaryCmd) Help() string {
	return `Counts the events of each integration that wait for a retry and that have failed. The
publisher with the oldest waiting event comes first. A "+" means that there are
more.

Example:

    verge delivery summary`
}

func (c *deliverySummaryCmd) Run(ctx context.Context, p *program) error {
	return call(ctx, p, c, operate.ListUndelivered, func(all *operate.Undelivered) error {
		if len(all.Publishers) == 0 {
			fmt.Fprintln(p.stdout, "No failed events, and none waiting for a retry.")
			return nil
		}
		if err := printTable(p, summaryHeads, summaryRows(all.Publishers)); err != nil {
			return err
		}
		if all.More {
			fmt.Fprintln(p.stdout, "There may be more publishers: not every event was counted.")
		}
		return nil
	})
}

const summaryHeads = "PUBLISHER|INTEGRATION|WAITING|FAILED|OLDEST WAITING|NEWEST FAILED"

// summaryRows returns one row for each integration.
func summaryRows(all []operate.PublisherUndelivered) (rows [][]string) {
	for _, p := range all {
		for _, i := range p.Integrations {
			rows = append(rows, []string{p.Publisher, i.Integration, leastCount(i.Waiting, i.More),
				leastCount(i.Dead, i.More), cmp.Or(whenever(i.Oldest), "-"), cmp.Or(whenever(i.Newest), "-")})
		}
	}
	return rows
}

// leastCount writes a count that may be a minimum.
func leastCount(n int, more bool) string {
	if more && n > 0 {
		return strconv.Itoa(n) + "+"
	}
	return strconv.Itoa(n)
}
