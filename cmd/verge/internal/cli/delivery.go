package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/verge-id/verge/cmd/verge/internal/adminclient"
	"github.com/verge-id/verge/cmd/verge/internal/words"
	"github.com/verge-id/verge/core/operate"
)

// deliveryCommands are the commands of `verge delivery`.
type deliveryCommands struct {
	List    deliveryListCmd    `cmd:"" does:"listDeliveries" help:"List events that wait for a retry or have failed, with the reasons."`
	Summary deliverySummaryCmd `cmd:"" does:"listUndelivered" help:"Count undelivered events by publisher."`
	Show    deliveryShowCmd    `cmd:"" does:"readDelivery" help:"Show every attempt to deliver an event."`
	Resend  deliveryResendCmd  `cmd:"" does:"resend" help:"Send failed events again."`
}

type deliveryListCmd struct {
	Integration string `placeholder:"UUID" help:"All events of this integration, including delivered ones, the latest first."`
	State       string `enum:",delivered,waiting,dead" default:"" placeholder:"STATE" help:"With --integration: only those that are delivered, waiting or dead (failed)."`
	Type        string `placeholder:"TYPE" help:"With --integration: only events of this type, such as verification.completed."`
	After       string `placeholder:"CURSOR" help:"With --integration: continue after the end of an earlier list."`
	asking
}

// Help is shown by `verge delivery list --help`.
func (deliveryListCmd) Help() string {
	return `Lists undelivered events with the last response or error.

After a failed attempt, an event waits for the next attempt on the schedule. It has
failed when the receiver rejects it (4xx) or its last attempt fails. Failed events
stay in this list for 30 days, and "verge delivery resend" sends them again. Their
state in JSON is "dead". Events without an attempt are not listed.

With --integration, all events of the integration with an attempt in the last 7 days
are listed, 50 at a time.

Examples:

    verge delivery list
    verge delivery list --integration 711bb7bd-4165-465f-a5bb-ec37600c13c9 --state delivered`
}

// listedDelivery is one line of --json.
type listedDelivery struct {
	State string `json:"state"` // operate.DeliveryDead or operate.DeliveryWaiting
	operate.UndeliveredEvent
}

func (c *deliveryListCmd) Run(ctx context.Context, p *program) error {
	if c.Integration == "" && (c.State != "" || c.Type != "" || c.After != "") {
		return usagef("--state, --type and --after need --integration")
	}
	if c.Integration != "" {
		return c.ofIntegration(ctx, p)
	}
	client, err := c.client(p)
	if err != nil {
		return err
	}
	dead, err := client.DeadLetters(ctx)
	if err != nil {
		return err
	}
	waiting, err := client.WaitingDeliveries(ctx)
	if err != nil {
		return err
	}
	if c.JSON {
		all := []listedDelivery{}
		for _, d := range dead {
			all = append(all, listedDelivery{operate.DeliveryDead, d})
		}
		for _, w := range waiting {
			all = append(all, listedDelivery{operate.DeliveryWaiting, w})
		}
		return printJSON(p, all)
	}
	if len(dead)+len(waiting) == 0 {
		fmt.Fprintln(p.stdout, "No failed events, and none waiting for a retry.")
		return nil
	}
	if len(waiting) > 0 {
		fmt.Fprintln(p.stdout, "Waiting for a retry:")
		if err := printTable(p, waitingHeads, waitingRows(waiting)); err != nil {
			return err
		}
		fmt.Fprintln(p.stdout)
	}
	if len(dead) == 0 {
		fmt.Fprintln(p.stdout, "No failed events.")
		return nil
	}
	fmt.Fprintln(p.stdout, "Failed:")
	return printTable(p, deadHeads, deadRows(dead))
}

const (
	waitingHeads = "EVENT|TYPE|CAME BACK|INTEGRATION|ATTEMPTS|NEXT|SESSION"
	deadHeads    = "EVENT|TYPE|CAME BACK|INTEGRATION|REASON|ATTEMPTS|LAST|SESSION"
)

func waitingRows(all []operate.UndeliveredEvent) (rows [][]string) {
	for _, w := range all {
		next := ""
		if w.Due != nil {
			next = words.When(*w.Due)
		}
		rows = append(rows, []string{w.Event, w.Type, w.Last, w.Integration, strconv.Itoa(w.Attempts), next,
			w.Session})
	}
	return rows
}

func deadRows(all []operate.UndeliveredEvent) (rows [][]string) {
	for _, d := range all {
		rows = append(rows, []string{d.Event, d.Type, d.Last, d.Integration, d.Reason,
			strconv.Itoa(d.Attempts), words.When(d.At), d.Session})
	}
	return rows
}

type deliveryResendCmd struct {
	Events      []string `arg:"" optional:"" name:"event" help:"Ids of events, evt_…"`
	All         bool     `help:"All failed events, as \"verge delivery list\" shows them."`
	Integration string   `placeholder:"UUID" help:"The integration of the events. With it, a waiting event is sent immediately."`
	JSON        bool     `help:"Print the result for each event as JSON."`
	serverFlags
}

// Help is shown by `verge delivery resend --help`.
func (deliveryResendCmd) Help() string {
	return `Each event restarts its retry schedule, with the same id and the same bytes.
Receivers recognise repeated events by idempotency_key.

Examples:

    verge delivery resend evt_0b6c4c5e-4d0e-4f56-9c3e-0e1f2a3b4c5d
    verge delivery resend --all
    verge delivery resend evt_0b6c4c5e-4d0e-4f56-9c3e-0e1f2a3b4c5d \
        --integration 711bb7bd-4165-465f-a5bb-ec37600c13c9`
}

func (c *deliveryResendCmd) Run(ctx context.Context, p *program) error {
	if c.All == (len(c.Events) > 0) {
		return usagef("name the events to send again, or give --all")
	}
	client, err := c.client(p)
	if err != nil {
		return err
	}
	if c.All {
		dead, err := client.DeadLetters(ctx)
		if err != nil {
			return err
		}
		for _, d := range dead {
			c.Events = append(c.Events, d.Event)
		}
	}
	var failed error
	all := []resent{}
	for _, id := range c.Events {
		err := c.resend(ctx, client, id)
		var rejected *adminclient.Error
		switch {
		case err == nil:
			all = append(all, resent{id, scheduled, ""})
		case errors.As(err, &rejected) && rejected.Status < 500 && rejected.Status != 401:
			// This concerns one event. The others can still be sent.
			all = append(all, resent{id, rejected.Code, rejected.Error()})
			failed = saidError{}
		default:
			return errors.Join(c.tell(p, all), err)
		}
	}
	if len(c.Events) == 0 && !c.JSON {
		fmt.Fprintln(p.stdout, "No failed events.")
	}
	return errors.Join(c.tell(p, all), failed)
}

// resent is the result of resending an event.
type resent struct {
	Event  string `json:"event"`
	Status string `json:"status"`          // scheduled, or the code of the error
	Error  string `json:"error,omitempty"` // the reason why it is not sent
}

const scheduled = "scheduled"

func (c *deliveryResendCmd) tell(p *program, all []resent) error {
	if c.JSON {
		return printJSON(p, all)
	}
	for _, r := range all {
		said := r.Error
		if r.Status == scheduled {
			said = scheduled
		}
		fmt.Fprintf(p.stdout, "%s  %s\n", r.Event, said)
	}
	return nil
}

func (c *deliveryResendCmd) resend(ctx context.Context, client *adminclient.Client, id string) error {
	if c.Integration == "" {
		_, err := adminclient.Do(ctx, client, operate.Resend, operate.EventAt{Place: id})
		return err
	}
	found, err := findDelivery(ctx, client, c.Integration, id)
	if err != nil {
		return err
	}
	_, err = adminclient.Do(ctx, client, operate.Resend,
		operate.EventAt{Integration: c.Integration, Place: found.Place})
	return err
}
