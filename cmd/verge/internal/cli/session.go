package cli

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/verge-id/verge/cmd/verge/internal/words"
	"github.com/verge-id/verge/core/operate"
)

// sessionCommands are the commands of `verge session`.
type sessionCommands struct {
	List sessionListCmd `cmd:"" does:"listSessions" help:"List the finished sessions of a publisher."`
	Show sessionShowCmd `cmd:"" does:"readSession" help:"Show the outcome of a session, and its events."`
	Test sessionTestCmd `cmd:"" does:"startTestSession" help:"Start a sandbox session to test an integration."`
}

type sessionListCmd struct {
	Publisher   string `required:"" placeholder:"PUB_ID" help:"The publisher of the sessions."`
	Integration string `placeholder:"UUID" help:"Only sessions of this integration."`
	Outcome     string `enum:",completed,failed_provider_rejected,failed_max_attempts,failed_unknown,cancelled,expired" default:"" placeholder:"OUTCOME" help:"Only sessions with this outcome: completed, failed_provider_rejected, failed_max_attempts, failed_unknown, cancelled or expired."`
	Method      string `placeholder:"METHOD" help:"Only sessions whose user tried this method last."`
	From        string `placeholder:"DAY" help:"Only sessions that ended on this day or later, such as 2026-11-20 (UTC)."`
	To          string `placeholder:"DAY" help:"Only sessions that ended on this day or earlier."`
	After       string `placeholder:"CURSOR" help:"Continue after the end of an earlier list."`
	asking
}

// Help is shown by `verge session list --help`.
func (sessionListCmd) Help() string {
	return `Lists the finished sessions of a publisher, the latest end first, 50 at a time, for as
long as their outcomes are kept. Expired sessions of an integration without events are
not listed. "verge usage" counts them.

Examples:

    verge session list --publisher pub_example
    verge session list --publisher pub_example --outcome cancelled --from 2026-11-01`
}

func (c *sessionListCmd) Run(ctx context.Context, p *program) error {
	return page(ctx, p, c, operate.ListSessions, filled[operate.FinishedQuery](p, c),
		"No finished sessions in this part of the list.", func(all []operate.FinishedSession) error {
			return printTable(p, sessionHeads, sessionRows(all))
		})
}

const sessionHeads = "ENDED|OUTCOME|METHOD|TOOK|SESSION"

func sessionRows(all []operate.FinishedSession) (rows [][]string) {
	for _, s := range all {
		rows = append(rows, []string{words.When(s.Ended), s.Outcome, cmp.Or(s.Method, "none"),
			s.Ended.Sub(s.Started).Round(time.Second).String(), s.ID})
	}
	return rows
}

type sessionShowCmd struct {
	ID string `arg:"" help:"The session_id, svc_sess_…, from the response to the publisher's start."`
	asking
}

// Help is shown by `verge session show --help`.
func (sessionShowCmd) Help() string {
	return `Shows the outcome of a session, its last unsuccessful steps (method, reason and
setting), and its events. It never shows the publisher's state, the user's id or any
personal data.

Example:

    verge session show SESSION_ID`
}

func (c *sessionShowCmd) Run(ctx context.Context, p *program) error {
	return call(ctx, p, c, operate.ReadSession, func(s *operate.Session) error {
		var f facts
		f.add("session", s.ID)
		f.add("publisher", s.Publisher)
		f.add("integration", s.Integration)
		f.add("status", s.Status)
		f.add("failure code", s.FailureCode)
		f.add("level", s.Level)
		f.add("challenge age", strconv.Itoa(s.ChallengeAge))
		f.add("failed attempts", strconv.Itoa(s.Attempts))
		f.add("started", words.When(s.Started))
		f.add("expires", words.When(s.Expires))
		f.add("ended", whenever(s.Ended))
		if s.ResultUsed != nil {
			f.add("result fetched", yesNo(*s.ResultUsed))
		}
		if err := f.print(p); err != nil {
			return err
		}
		if err := printSteps(p, s.Steps); err != nil {
			return err
		}
		if len(s.Events) == 0 {
			fmt.Fprintln(p.stdout, "\nNo events in the last 7 days.")
			return nil
		}
		fmt.Fprintln(p.stdout)
		return printTable(p, deliveryHeads, deliveryRows(s.Events))
	})
}

// printSteps prints the last unsuccessful steps.
func printSteps(p *program, steps []operate.SessionStep) error {
	if len(steps) == 0 {
		return nil
	}
	fmt.Fprintln(p.stdout)
	return printTable(p, stepHeads, stepRows(steps))
}

func stepRows(steps []operate.SessionStep) (rows [][]string) {
	for _, s := range steps {
		rows = append(rows, []string{words.When(s.At), s.Method, s.Result, s.Reason,
			strings.TrimSpace(s.Setting + " " + s.Detail)})
	}
	return rows
}

type sessionTestCmd struct {
	Integration string `required:"" placeholder:"UUID" help:"The integration. Its methods must all be sandbox methods."`
	CallbackURL string `required:"" name:"callback-url" placeholder:"URL" help:"Address for the browser after the session."`
	asking
}

// Help is shown by `verge session test --help`.
func (sessionTestCmd) Help() string {
	return `Starts a session in the sandbox, whose outcome you choose in the browser, and prints
its address. The sandbox verifies no user and does not exist in production.

Example:

    verge session test --integration 711bb7bd-4165-465f-a5bb-ec37600c13c9 \
        --callback-url https://shop.example.com/verified`
}

func (c *sessionTestCmd) Run(ctx context.Context, p *program) error {
	return call(ctx, p, c, operate.StartTestSession, func(s *operate.TestSession) error {
		// Print only the address to stdout, so that a script can use it.
		fmt.Fprintln(p.stdout, s.RedirectURL)
		fmt.Fprintf(p.stderr, "Open this address in a browser before %s. To see the outcome, run\n"+
			"    verge session show %s\n", words.When(s.Expires), s.ID)
		return nil
	})
}

const stepHeads = "AT|METHOD|RESULT|REASON|SETTING"
