package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/verge-id/verge/cmd/verge/internal/words"
	"github.com/verge-id/verge/core/operate"
)

type auditCmd struct {
	List   auditListCmd   `cmd:"" does:"listAudit" default:"withargs" help:"List changes and their authors. This is the default."`
	Verify auditVerifyCmd `cmd:"" help:"Check the audit lines of log files for gaps and changes."`
}

type auditListCmd struct {
	Publisher string `placeholder:"PUB_ID" help:"Only entries of this publisher."`
	After     string `placeholder:"CURSOR" help:"Continue after the end of an earlier list."`
	asking
}

// Help is shown by `verge audit list --help`.
func (auditListCmd) Help() string {
	return `Lists the changes of the last year and their authors, the latest first, 100 at a time.

Examples:

    verge audit
    verge audit --publisher pub_example`
}

func (c *auditListCmd) Run(ctx context.Context, p *program) error {
	in := filled[operate.PublisherQuery](p, c)
	in.Limit = 100
	return page(ctx, p, c, operate.ListAudit, in, "No changes.", func(all []operate.AuditEntry) error {
		for _, e := range all {
			fmt.Fprintf(p.stdout, "%s  %s  %s\n", words.When(e.At), e.Operation, oneLine(cut(actorOf(e), 44)))
			if about := aboutOf(e); about != "" {
				fmt.Fprintf(p.stdout, "    %s\n", oneLine(about))
			}
			for _, change := range e.Changes {
				fmt.Fprintf(p.stdout, "    %s: %s\n", oneLine(change.Field), oneLine(changeWords(change)))
			}
		}
		return nil
	})
}

func actorOf(e operate.AuditEntry) string {
	return strings.TrimSpace(e.ActorKind + " " + cmp.Or(e.ActorName, e.ActorID))
}

// aboutOf returns the name of the changed record.
func aboutOf(e operate.AuditEntry) string {
	switch {
	case e.Target == "" || e.Target == e.Publisher:
		return e.Publisher
	case e.Publisher == "":
		return e.Target
	}
	return e.Target + " of " + e.Publisher
}

// changeWords returns the old and the new value of a field, in one line that fits.
func changeWords(c operate.AuditChange) string {
	const most = 38
	return cmp.Or(cut(c.From, most), "-") + " → " + cmp.Or(cut(c.To, most), "-")
}
