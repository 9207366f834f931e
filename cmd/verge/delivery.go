package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"text/tabwriter"
	"time"

	"github.com/verge-id/verge/core/admin"
	"github.com/verge-id/verge/core/outbox"
)

type deliveryListCmd struct {
	JSON bool `help:"Print JSON."`
	serverFlags
}

// Help is shown by `verge delivery list --help`.
func (deliveryListCmd) Help() string {
	return `Shows the events that were not delivered yet, and why: what came back last.

An event waits after an attempt that failed, for as long as the schedule has
more. One whose receiver refused it (4xx), or for which every attempt failed, is
given up and stays here for 30 days; "verge delivery resend" sends it again. An
event that nobody has tried to deliver is not here.`
}

// listedDelivery is one line of --json.
type listedDelivery struct {
	State  string `json:"state"`            // admin.StateDead or admin.StateWaiting
	Reason string `json:"reason,omitempty"` // of a dead one
	outbox.Waiting
	Due *time.Time `json:"due,omitempty"` // of one that waits
}

func (c *deliveryListCmd) Run(ctx context.Context, p *program) error {
	client, err := c.client(p)
	if err != nil {
		return err
	}
	dead, err := deliveries[outbox.Dead](ctx, client, admin.StateDead)
	if err != nil {
		return err
	}
	waiting, err := deliveries[outbox.Waiting](ctx, client, admin.StateWaiting)
	if err != nil {
		return err
	}
	if c.JSON {
		return json.NewEncoder(p.stdout).Encode(allDeliveries(dead, waiting))
	}
	if len(dead)+len(waiting) == 0 {
		fmt.Fprintln(p.stdout, "No event has been given up, and none waits for a retry.")
		return nil
	}
	table := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
	if len(waiting) > 0 {
		fmt.Fprintln(table, "Waiting for a retry:\nEVENT\tTYPE\tINTEGRATION\tLAST\tATTEMPTS\tNEXT\tSESSION")
		for _, w := range waiting {
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d\t%s\t%s\n", w.Event, w.Type, w.Integration, w.Last, w.Attempts, when(w.Due), w.Session)
		}
		fmt.Fprintln(table)
	}
	if len(dead) == 0 {
		fmt.Fprintln(table, "No event has been given up.")
		return table.Flush()
	}
	fmt.Fprintln(table, "Given up:\nEVENT\tTYPE\tINTEGRATION\tREASON\tLAST\tATTEMPTS\tAT\tSESSION")
	for _, d := range dead {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\n", d.Event, d.Type, d.Integration, d.Reason, d.Last, d.Attempts, when(d.At), d.Session)
	}
	return table.Flush()
}

func allDeliveries(dead []outbox.Dead, waiting []outbox.Waiting) []listedDelivery {
	all := []listedDelivery{}
	for _, d := range dead {
		all = append(all, listedDelivery{State: admin.StateDead, Reason: d.Reason, Waiting: outbox.Waiting{Event: d.Event, Type: d.Type,
			Session: d.Session, Integration: d.Integration, Last: d.Last, Attempts: d.Attempts, At: d.At}})
	}
	for _, w := range waiting {
		all = append(all, listedDelivery{State: admin.StateWaiting, Waiting: w, Due: &w.Due})
	}
	return all
}

// deliveries reads all pages of the events of a state.
func deliveries[T any](ctx context.Context, c *adminClient, state string) ([]T, error) {
	all := []T{}
	for after := ""; ; {
		query := url.Values{"state": {state}, "after": {after}}
		var page admin.DeliveryPage[T]
		if err := c.call(ctx, "GET", admin.DeliveriesPath+"?"+query.Encode(), nil, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Deliveries...)
		if after = page.Next; after == "" {
			return all, nil
		}
	}
}

type deliveryResendCmd struct {
	Events []string `arg:"" optional:"" name:"event" help:"Ids of events, evt_…"`
	All    bool     `help:"All that \"verge delivery list\" shows as given up."`
	serverFlags
}

// Help is shown by `verge delivery resend --help`.
func (deliveryResendCmd) Help() string {
	return `Each event goes back on the schedule from its beginning, with the same id and
the same bytes; receivers deduplicate by idempotency_key.

Examples:

    verge delivery resend evt_0b6c4c5e-4d0e-4f56-9c3e-0e1f2a3b4c5d
    verge delivery resend --all`
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
		dead, err := deliveries[outbox.Dead](ctx, client, admin.StateDead)
		if err != nil {
			return err
		}
		for _, d := range dead {
			c.Events = append(c.Events, d.Event)
		}
	}
	var failed error
	for _, id := range c.Events {
		var done struct{}
		err := client.call(ctx, "POST", fill(admin.ResendPath, id), struct{}{}, &done)
		var refused *adminError
		switch {
		case err == nil:
			fmt.Fprintf(p.stdout, "%s  scheduled\n", id)
		case errors.As(err, &refused) && refused.Status < 500 && refused.Status != 401:
			// Of that event alone: the others can still go.
			fmt.Fprintf(p.stdout, "%s  %s\n", id, refused)
			failed = saidError{}
		default:
			return err
		}
	}
	if len(c.Events) == 0 {
		fmt.Fprintln(p.stdout, "No event has been given up.")
	}
	return failed
}
