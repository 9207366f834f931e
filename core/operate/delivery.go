package operate

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"

	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/outbox"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/core/webhook"
)

// Deliveries lists events and the attempts to deliver them, the latest first (contract 27).
func (o *Operations) Deliveries(ctx context.Context, who Actor, f DeliveryQuery) (Page[Delivery], error) {
	if _, err := o.integration(ctx, who, deliveryList, f.Integration); err != nil {
		return Page[Delivery]{}, err
	}
	var wrong invalid
	if !slices.Contains([]string{"", DeliveryDelivered, DeliveryWaiting, DeliveryDead}, f.State) {
		wrong.add("state", "value", "It must be delivered, waiting or dead.")
	}
	if f.Type != "" && !slices.Contains(append(webhook.Types(), webhook.TypeFailing), f.Type) {
		wrong.add("type", "value", "There is no such event type.")
	}
	if err := wrong.err(); err != nil {
		return Page[Delivery]{}, err
	}
	found, err := o.Outbox.Deliveries(ctx, outbox.Query{Integrations: []string{f.Integration}, State: f.State,
		Type: f.Type, After: f.After, Limit: f.limit()})
	if errors.Is(err, outbox.ErrCursor) {
		return Page[Delivery]{}, badCursor
	}
	if err != nil {
		return Page[Delivery]{}, err
	}
	page := Page[Delivery]{Next: found.Next}
	for _, each := range found.Deliveries {
		page.Items = append(page.Items, shownDelivery(each))
	}
	return page, nil
}

// badCursor is the error for a cursor that is no Page.Next.
var badCursor = errInvalid(web.FieldError{Field: "after", Code: "value",
	Message: "It is not the cursor of a page. Begin without one."})

// Delivery returns one event by its integration and its place.
func (o *Operations) Delivery(ctx context.Context, who Actor, integration, place string) (Delivery, error) {
	if _, err := o.integration(ctx, who, deliveryList, integration); err != nil {
		return Delivery{}, err
	}
	found, err := o.logged(ctx, integration, place)
	if err != nil {
		return Delivery{}, err
	}
	return shownDelivery(found), nil
}

// logged returns an event of an integration by its place in the log.
func (o *Operations) logged(ctx context.Context, integration, place string) (outbox.Delivery, error) {
	found, err := o.Outbox.Find(ctx, integration, place)
	if errors.Is(err, outbox.ErrNoEntry) {
		err = web.ErrNotFound
	}
	return found, err
}

// Resend sends a dead event again, and a waiting event immediately. A delivered event cannot be sent again:
// its data about the user is not kept (contract 27).
func (o *Operations) Resend(ctx context.Context, who Actor, integration, place string) (Delivery, error) {
	i, err := o.integration(ctx, who, deliveryResend, integration)
	if err != nil {
		return Delivery{}, err
	}
	found, err := o.logged(ctx, integration, place)
	if err != nil {
		return Delivery{}, err
	}
	switch {
	case found.Test:
		return shownDelivery(found), errConflict("This was a test event. Send another test event instead.")
	case found.State == outbox.StateDelivered:
		return shownDelivery(found),
			errConflict("This event was delivered. Its state and user id are not kept, so " +
				"it cannot be sent again; ask for the session's outcome instead.")
	case found.State == outbox.StateWaiting:
		err = o.Outbox.SendNow(ctx, found.Partition, found.Event, integration)
	default:
		_, err = o.Outbox.Resend(ctx, found.Partition, found.Event, integration)
	}
	if errors.Is(err, outbox.ErrNotDead) || errors.Is(err, outbox.ErrNotWaiting) {
		return shownDelivery(found), errConflict("The event has changed: " +
			"it has just been sent. Read it again.")
	}
	if err != nil {
		return Delivery{}, err
	}
	o.tell(ctx, who, deliveryResend, i.Value.PublisherID, found.Event)
	return shownDelivery(found), nil
}

// ResendEvent sends a dead event again, which it finds by its id alone. It looks into every partition.
func (o *Operations) ResendEvent(ctx context.Context, who Actor, event string) error {
	if !who.Operator() {
		return web.ErrNotFound
	}
	if err := who.may(deliveryResend, ""); err != nil {
		return err
	}
	for _, p := range o.Partitions {
		integration, err := o.Outbox.Resend(ctx, p, event, "")
		if err == nil {
			var publisher string // empty if the event cannot be opened
			if i, err := o.Directory.Integration(ctx, integration); err == nil {
				publisher = i.PublisherID
			}
			o.tell(ctx, who, deliveryResend, publisher, event)
			return nil
		}
		if !errors.Is(err, outbox.ErrNotDead) {
			return err
		}
	}
	return web.ErrNotFound
}

// tell enters an operation into the audit whose commit is in another partition, or that has none. If that
// fails, the operation has happened all the same, and the log has it.
func (o *Operations) tell(
	ctx context.Context, who Actor, op Operation, publisher, target string, changes ...change,
) {
	entry, err := o.auditEntry(who, op, publisher, target, changes...)
	if err == nil {
		err = o.enter(ctx, entry)
	}
	if err != nil {
		o.Log.Error("audit entry not written", "operation", string(op), "actor", who.ID, "target", target,
			"error", err.Error())
	}
}

// enter commits an audit entry alone.
func (o *Operations) enter(ctx context.Context, entry []kv.Put) error {
	id, err := kv.NewTxID(o.Random)
	if err != nil {
		return err
	}
	return kv.CommitSurely(ctx, o.KV, kv.Tx{ID: id, Partition: auditPartition, Puts: entry})
}

func shownDelivery(of outbox.Delivery) Delivery {
	v := Delivery{Event: of.Event, Place: of.Place, Test: of.Test, Type: of.Type, Session: of.Session,
		Integration: of.Integration, State: of.State, Reason: of.Reason, Created: of.Created,
		Unrecorded: of.Unrecorded, Body: string(of.Body), Attempts: []Attempt{}}
	if !of.Due.IsZero() {
		v.Due = &of.Due
	}
	for _, a := range of.Attempts {
		v.Attempts = append(v.Attempts, Attempt{At: a.At, Status: a.Status, Cause: a.Cause,
			TookMS: a.Took.Milliseconds()})
	}
	return v
}

// UndeliveredEvent is an event of a list without an integration: it waits for a retry, or it is dead.
type UndeliveredEvent = outbox.UndeliveredEvent

// Dead lists the dead events of all publishers, partition by partition.
func (o *Operations) Dead(ctx context.Context, who Actor, c Cursor) (Page[UndeliveredEvent], error) {
	return eventPage(ctx, o, who, c, o.Outbox.Dead)
}

// Waiting lists the events of all publishers that wait for a retry, partition by partition.
func (o *Operations) Waiting(ctx context.Context, who Actor, c Cursor) (Page[UndeliveredEvent], error) {
	return eventPage(ctx, o, who, c, o.Outbox.Waiting)
}

// eventPage lists the events of one partition after the other. The cursor is the partition and the last event
// that was shown.
func eventPage(ctx context.Context, o *Operations, who Actor, c Cursor,
	list func(context.Context, kv.Partition, string, int) ([]UndeliveredEvent, error)) (
	Page[UndeliveredEvent], error) {
	page := Page[UndeliveredEvent]{}
	if err := who.may(deliveryList, ""); err != nil {
		return page, err
	}
	first, after, _ := strings.Cut(c.After, ":")
	if c.After != "" && (after == "" || !slices.Contains(o.Partitions, kv.Partition(first))) {
		return page, badCursor
	}
	for _, p := range o.Partitions {
		if first != "" && string(p) != first {
			continue
		}
		first = ""
		room := c.limit() - len(page.Items)
		found, err := list(ctx, p, after, room)
		if err != nil {
			return Page[UndeliveredEvent]{}, err
		}
		after = ""
		page.Items = append(page.Items, found...)
		if len(found) == room {
			page.Next = string(p) + ":" + found[room-1].Event
			break
		}
	}
	return page, nil
}

// mostUndelivered is how many integrations Undelivered looks up.
const mostUndelivered = 200

// Undelivered counts the waiting and dead events of each publisher. It counts up to a limit, so that its cost
// is bounded. Deliveries lists the events of one integration.
func (o *Operations) Undelivered(ctx context.Context, who Actor) (Undelivered, error) {
	if err := who.may(deliveryList, ""); err != nil {
		return Undelivered{}, err
	}
	counts, more, err := o.Outbox.Undelivered(ctx)
	if err != nil {
		return Undelivered{}, err
	}
	if len(counts) > mostUndelivered {
		counts, more = counts[:mostUndelivered], true
	}
	all := Undelivered{Publishers: []PublisherUndelivered{}, More: more}
	for _, c := range counts {
		i, err := o.Directory.Integration(ctx, c.Integration)
		if errors.Is(err, integration.ErrNotFound) {
			continue // no page could show its events
		}
		if err != nil {
			return Undelivered{}, err
		}
		of, err := all.of(ctx, o, i.PublisherID)
		if err != nil {
			return Undelivered{}, err
		}
		of.add(c, i.Name)
	}
	return all, nil
}

// of returns the part of a publisher, and adds it if it is missing.
func (u *Undelivered) of(ctx context.Context, o *Operations, publisher string) (
	*PublisherUndelivered, error) {
	for n := range u.Publishers {
		if u.Publishers[n].Publisher == publisher {
			return &u.Publishers[n], nil
		}
	}
	p, err := o.Directory.Publisher(ctx, publisher)
	if err != nil {
		return nil, o.apiError(err)
	}
	u.Publishers = append(u.Publishers, PublisherUndelivered{Publisher: publisher, Name: p.Name})
	return &u.Publishers[len(u.Publishers)-1], nil
}

// add adds the counts of one of the publisher's integrations.
func (p *PublisherUndelivered) add(c outbox.Undelivered, name string) {
	p.Waiting += c.Waiting
	p.Dead += c.Dead
	p.More = p.More || c.More
	i := IntegrationUndelivered{Integration: c.Integration, Name: name, Waiting: c.Waiting, Dead: c.Dead,
		More: c.More}
	if !c.Oldest.IsZero() {
		i.Oldest = &c.Oldest
		if p.Oldest == nil || c.Oldest.Before(*p.Oldest) {
			p.Oldest = &c.Oldest
		}
	}
	if !c.Newest.IsZero() {
		i.Newest = &c.Newest
		if p.Newest == nil || c.Newest.After(*p.Newest) {
			p.Newest = &c.Newest
		}
	}
	p.Integrations = append(p.Integrations, i)
}

// TellDone enters into the audit that the core's host has carried out an operation, for a caller who may
// (Authorize). There is no commit of the store that it could be entered with.
func (o *Operations) TellDone(ctx context.Context, who Actor, op Operation, target string) {
	o.tell(ctx, who, op, "", target)
}

// TellWrongToken enters into the audit that a wrong operator token came from an address.
func (o *Operations) TellWrongToken(ctx context.Context, from netip.Addr) {
	o.tell(ctx, Actor{Kind: KindOperator, Name: "unknown"}, operatorRejected, "", "",
		change{Field: "address", To: from.String()})
}

// TellUse enters into the audit that an operator token was used from an address.
func (o *Operations) TellUse(ctx context.Context, who Actor, from netip.Addr) {
	o.tell(ctx, who, operatorUse, "", who.ID, change{Field: "address", To: from.String()})
}
