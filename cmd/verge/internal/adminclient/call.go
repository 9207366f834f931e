package adminclient

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/verge-id/verge/core/operate"
)

// Do makes the request of an endpoint.
func Do[In, Out any](ctx context.Context, c *Client, e *operate.Endpoint[In, Out], in In) (*Out, error) {
	return doAs[Out](ctx, c, e, in)
}

// doAs is Do with another type for the response.
func doAs[T, In, Out any](ctx context.Context, c *Client, e *operate.Endpoint[In, Out], in In) (*T, error) {
	r, target, err := e.Request(in)
	if err != nil {
		return nil, err
	}
	header := jsonHeader()
	if r.Match != "" {
		header.Set("If-Match", r.Match)
	}
	var out T
	if err := c.send(ctx, e.Method, target, header, r.Body, &out); err != nil {
		return nil, err
	}
	return &out, nil
}

// All reads all pages of a list.
func All[In, T any](ctx context.Context, c *Client, e *operate.Endpoint[In, operate.Page[T]], in In) (
	[]T, error) {
	r, target, err := e.Request(in)
	if err != nil {
		return nil, err
	}
	path, _, _ := strings.Cut(target, "?")
	all := []T{}
	r.Query.Set("limit", strconv.Itoa(operate.MaxLimit))
	for {
		var page map[string]json.RawMessage
		if err := c.send(ctx, e.Method, path+"?"+r.Query.Encode(), jsonHeader(), nil, &page); err != nil {
			return nil, err
		}
		var items []T
		if err := json.Unmarshal(page[e.List], &items); err != nil {
			return nil, fmt.Errorf(
				"the response of %s is not the expected JSON, does it run another release? %w", c.base, err)
		}
		all = append(all, items...)
		var next string
		if len(page["next"]) == 0 || json.Unmarshal(page["next"], &next) != nil || next == "" {
			return all, nil
		}
		r.Query.Set("after", next)
	}
}

// DeadLetters lists the dead letters of all publishers: events that were not delivered.
func (c *Client) DeadLetters(ctx context.Context) ([]operate.DeadEvent, error) {
	return All(ctx, c, operate.ListDead, ofAll(operate.DeliveryDead))
}

// WaitingDeliveries lists the events of all publishers that wait for a retry.
func (c *Client) WaitingDeliveries(ctx context.Context) ([]operate.WaitingEvent, error) {
	return All(ctx, c, operate.ListWaiting, ofAll(operate.DeliveryWaiting))
}

func ofAll(state string) operate.DeliveryQuery {
	return operate.DeliveryQuery{State: state}
}

// DeliveryPage is one page of the deliveries of an integration.
type DeliveryPage struct {
	Deliveries []operate.Delivery `json:"deliveries"`
	Next       string             `json:"next"` // the cursor of the next page
}

// Deliveries returns one page of the deliveries of an integration, the latest first. after is the Next of the
// previous page.
func (c *Client) Deliveries(ctx context.Context, q operate.DeliveryQuery, after string) (*DeliveryPage,
	error) {
	q.Cursor = operate.Cursor{After: after, Limit: 50}
	return doAs[DeliveryPage](ctx, c, operate.ListDeliveries, q)
}

// UsageCSV returns the usage of an integration as CSV.
func (c *Client) UsageCSV(ctx context.Context, q operate.UsageQuery) ([]byte, error) {
	q.Format = "csv"
	text, err := doAs[[]byte](ctx, c, operate.ReadUsage, q)
	if err != nil {
		return nil, err
	}
	return *text, nil
}

// AuditPage is one page of the audit.
type AuditPage struct {
	Entries []operate.AuditEntry `json:"audit"`
	Next    string               `json:"next"` // the cursor of the next page
}

// Audit returns one page of the audit, the latest first: of one publisher, or of all if publisher is "".
func (c *Client) Audit(ctx context.Context, publisher, after string) (*AuditPage, error) {
	return doAs[AuditPage](ctx, c, operate.ListAudit,
		operate.PublisherQuery{Publisher: publisher, Cursor: operate.Cursor{After: after, Limit: 100}})
}
