package cli

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/verge-id/verge/cmd/verge/internal/adminclient"
	"github.com/verge-id/verge/cmd/verge/internal/words"
	"github.com/verge-id/verge/core/operate"
	"github.com/verge-id/verge/core/web"
)

// ofIntegration lists one page of the events of an integration.
func (c *deliveryListCmd) ofIntegration(ctx context.Context, p *program) error {
	in := filled[operate.DeliveryQuery](p, c)
	in.Type = eventType(c.Type)
	return page(ctx, p, c, operate.ListDeliveries, in, "No such event in the last 7 days.",
		func(all []operate.Delivery) error { return printTable(p, deliveryHeads, deliveryRows(all)) })
}

const deliveryHeads = "EVENT|TYPE|STATE|TRIES|CREATED"

func deliveryRows(all []operate.Delivery) (rows [][]string) {
	for _, d := range all {
		state := strings.TrimSpace(stateWord(d.State) + " " + lastAttempt(d))
		rows = append(rows, []string{d.Event, shortType(d), cut(state, 22),
			strconv.Itoa(d.Unrecorded + len(d.Attempts)), words.When(d.Created)})
	}
	return rows
}

// typePrefix is the prefix of every event type of a session.
const typePrefix = "verification."

// eventType adds the prefix to a short type.
func eventType(given string) string {
	if given == "" || strings.Contains(given, ".") {
		return given
	}
	return typePrefix + given
}

// shortType returns the type of an event for a table.
func shortType(d operate.Delivery) string {
	short := strings.TrimPrefix(d.Type, typePrefix)
	if d.Test {
		return "test " + short
	}
	return short
}

// stateWord returns the contract's word for the state of an event.
func stateWord(state string) string {
	if state == operate.DeliveryDead {
		return "failed"
	}
	return state
}

// lastAttempt returns the last response in words.
func lastAttempt(d operate.Delivery) string {
	if len(d.Attempts) == 0 {
		return ""
	}
	return cameBack(d.Attempts[len(d.Attempts)-1])
}

func cameBack(a operate.Attempt) string {
	if a.Status != 0 {
		return strconv.Itoa(a.Status)
	}
	return a.Cause
}

type deliveryShowCmd struct {
	Event       string `arg:"" help:"The event, evt_…, or its place in \"verge delivery list --json\"."`
	Integration string `required:"" placeholder:"UUID" help:"The integration of the event."`
	asking
}

// Help is shown by `verge delivery show --help`.
func (deliveryShowCmd) Help() string {
	return `Shows every attempt to deliver an event: its time, the response and how long it
took. The body is shown without publisher_state and external_user_id.

Example:

    verge delivery show evt_0b6c4c5e-4d0e-4f56-9c3e-0e1f2a3b4c5d \
        --integration 711bb7bd-4165-465f-a5bb-ec37600c13c9`
}

func (c *deliveryShowCmd) Run(ctx context.Context, p *program) error {
	client, err := c.client(p)
	if err != nil {
		return err
	}
	d, err := findDelivery(ctx, client, c.Integration, c.Event)
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(p, d)
	}
	var f facts
	f.add("event", d.Event)
	f.add("type", d.Type)
	if d.Test {
		f.add("test", "yes")
	}
	f.add("session", d.Session)
	f.add("integration", d.Integration)
	f.add("state", stateWord(d.State))
	f.add("reason", d.Reason)
	f.add("created", words.When(d.Created))
	f.add("next attempt", whenever(d.Due))
	if d.Unrecorded > 0 {
		f.add("earlier", strconv.Itoa(d.Unrecorded)+" attempts without records")
	}
	if err := f.print(p); err != nil {
		return err
	}
	if len(d.Attempts) > 0 {
		fmt.Fprintln(p.stdout)
		var rows [][]string
		for _, a := range d.Attempts {
			rows = append(rows, []string{words.When(a.At), cameBack(a), took(a.TookMS)})
		}
		if err := printTable(p, attemptHeads, rows); err != nil {
			return err
		}
	}
	if d.Body != "" {
		fmt.Fprintf(p.stdout, "\n%s\n", oneLine(d.Body))
	}
	return nil
}

const attemptHeads = "ATTEMPT AT|CAME BACK|TOOK"

func took(ms int64) string { return (time.Duration(ms) * time.Millisecond).String() }

// pagesToSearch is the number of pages that findDelivery reads: 2,000 events.
const pagesToSearch = 2000 / operate.MaxLimit

// findDelivery finds an event of an integration by its place or by its id. By its id it finds only the latest
// events, because the store has no index of ids.
func findDelivery(ctx context.Context, client *adminclient.Client, integration, id string) (
	*operate.Delivery, error) {
	if !strings.HasPrefix(id, "evt_") {
		return adminclient.Do(ctx, client, operate.ReadDelivery,
			operate.EventAt{Integration: integration, Place: id})
	}
	in := operate.DeliveryQuery{Integration: integration, Cursor: operate.Cursor{Limit: operate.MaxLimit}}
	for range pagesToSearch {
		events, next, err := adminclient.Page(ctx, client, operate.ListDeliveries, in)
		if err != nil {
			return nil, err
		}
		for _, d := range events {
			if d.Event == id {
				return adminclient.Do(ctx, client, operate.ReadDelivery,
					operate.EventAt{Integration: integration, Place: d.Place})
			}
		}
		if next == "" {
			return nil, notFound("%s has no event %s of the last 7 days", integration, id)
		}
		in.After = next
	}
	return nil, notFound("%s is not among the latest %d events: find it with `verge delivery list --json` "+
		"and give its place", id, pagesToSearch*operate.MaxLimit)
}

// notFound returns the error of an event that is not found, like that of a server.
func notFound(format string, args ...any) error {
	return &adminclient.Error{Status: http.StatusNotFound, Code: string(web.NotFound),
		Message: fmt.Sprintf(format, args...)}
}
