package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/verge-id/verge/cmd/verge/internal/words"
	"github.com/verge-id/verge/core/operate"
)

// sessionCommands are the commands of `verge session`.
type sessionCommands struct {
	Show sessionShowCmd `cmd:"" does:"readSession" help:"Show the outcome of a session, and its events."`
	Test sessionTestCmd `cmd:"" does:"startTestSession" help:"Start a sandbox session to test an integration."`
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
