package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/verge-id/verge/cmd/verge/internal/adminclient"
	"github.com/verge-id/verge/core/operate"
)

// eventCommands are the commands of `verge event`.
type eventCommands struct {
	Trigger eventTriggerCmd `cmd:"" does:"sendTestEvent" help:"Send a receiver a test event and show its response."`
}

type eventTriggerCmd struct {
	Type        string `arg:"" help:"Type of the event: started, completed, failed, expired or cancelled."`
	Integration string `required:"" placeholder:"UUID" help:"The integration whose webhook receives it."`
	asking
}

// Help is shown by `verge event trigger --help`.
func (eventTriggerCmd) Help() string {
	return `Sends the receiver one event that is marked as a test, signed and delivered like a
real one, and shows the request, the response and its meaning. There are no retries.
The exit code is 0 if the receiver accepted the event, 1 if not.

Examples:

    verge event trigger completed --integration 711bb7bd-4165-465f-a5bb-ec37600c13c9
    verge event trigger verification.failed --integration 711bb7bd-4165-465f-a5bb-ec37600c13c9 --json`
}

func (c *eventTriggerCmd) Run(ctx context.Context, p *program) error {
	if err := checkEventType(c.Type); err != nil {
		return err
	}
	client, err := c.client(p)
	if err != nil {
		return err
	}
	sent, err := adminclient.Do(ctx, client, operate.SendTestEvent,
		operate.TestEventInput{Integration: c.Integration, Type: eventType(c.Type)})
	if err != nil {
		return err
	}
	return failUnless(sent.Delivered, show(p, c.JSON, sent, func() error { return printExchange(p, sent) }))
}

// eventTypes are the types of events without their prefix.
var eventTypes = []string{"started", "completed", "failed", "expired", "cancelled"}

// checkEventType returns an error that suggests a similar type.
func checkEventType(given string) error {
	short := strings.TrimPrefix(given, typePrefix)
	if slices.Contains(eventTypes, short) {
		return nil
	}
	hint := ""
	for _, t := range eventTypes {
		if short != "" && near(t, short) {
			hint = fmt.Sprintf("; did you mean %s?", t)
		}
	}
	return usagef("unknown event type %q%s; the types are %s", given, hint,
		strings.Join(eventTypes, ", "))
}

func printExchange(p *program, x *operate.Exchange) error {
	fmt.Fprintf(p.stdout, "POST %s\n", oneLine(x.URL))
	for _, name := range slices.Sorted(maps.Keys(x.RequestHeader)) {
		fmt.Fprintf(p.stdout, "%s: %s\n", name, oneLine(x.RequestHeader[name]))
	}
	fmt.Fprintf(p.stdout, "\n%s\n\n", oneLine(x.RequestBody))
	if x.Status == 0 {
		fmt.Fprintf(p.stdout, "No response after %s: %s.\n", took(x.TookMS), x.Cause)
	} else {
		fmt.Fprintf(p.stdout, "Response after %s: %d\n", took(x.TookMS), x.Status)
	}
	if x.Body != "" {
		more := ""
		if x.Cut {
			more = " …"
		}
		fmt.Fprintf(p.stdout, "%s%s\n", oneLine(x.Body), more)
	}
	fmt.Fprintf(p.stdout, "\n%s\n", x.Words)
	return nil
}
