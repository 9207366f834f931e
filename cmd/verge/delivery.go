package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"text/tabwriter"

	"github.com/verge-id/verge/core/admin"
	"github.com/verge-id/verge/core/outbox"
)

type deliveryListCmd struct {
	JSON bool `help:"Print JSON."`
	serverFlags
}

// Help is shown by `verge delivery list --help`.
func (deliveryListCmd) Help() string {
	return `An event is listed for 30 days after its receiver refused it (4xx) or every
attempt failed. What is still being tried is not here.`
}

func (c *deliveryListCmd) Run(ctx context.Context, p *program) error {
	client, err := c.client(p)
	if err != nil {
		return err
	}
	dead, err := deadEvents(ctx, client)
	if err != nil {
		return err
	}
	if c.JSON {
		return json.NewEncoder(p.stdout).Encode(dead)
	}
	if len(dead) == 0 {
		fmt.Fprintln(p.stdout, "No event has been given up.")
		return nil
	}
	table := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "EVENT\tTYPE\tINTEGRATION\tREASON\tLAST\tATTEMPTS\tAT\tSESSION")
	for _, d := range dead {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\n", d.Event, d.Type, d.Integration, d.Reason, d.Last, d.Attempts, when(d.At), d.Session)
	}
	return table.Flush()
}

// deadEvents reads all pages.
func deadEvents(ctx context.Context, c *adminClient) ([]outbox.Dead, error) {
	all := []outbox.Dead{}
	for after := ""; ; {
		var page admin.DeliveryPage
		if err := c.call(ctx, "GET", admin.DeliveriesPath+"?after="+url.QueryEscape(after), nil, &page); err != nil {
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
	All    bool     `help:"All that \"verge delivery list\" shows."`
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
		dead, err := deadEvents(ctx, client)
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
