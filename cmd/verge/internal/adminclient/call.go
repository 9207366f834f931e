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
		items, next, err := part[T](ctx, c, e.List, path+"?"+r.Query.Encode())
		if err != nil {
			return nil, err
		}
		all = append(all, items...)
		if next == "" {
			return all, nil
		}
		r.Query.Set("after", next)
	}
}

// Page reads one page of a list. next is the cursor of the next page, "" on the last one.
func Page[In, T any](ctx context.Context, c *Client, e *operate.Endpoint[In, operate.Page[T]], in In) (
	items []T, next string, err error) {
	_, target, err := e.Request(in)
	if err != nil {
		return nil, "", err
	}
	return part[T](ctx, c, e.List, target)
}

func part[T any](ctx context.Context, c *Client, list, target string) (items []T, next string, err error) {
	var page map[string]json.RawMessage
	if err := c.send(ctx, "GET", target, jsonHeader(), nil, &page); err != nil {
		return nil, "", err
	}
	if err = json.Unmarshal(page[list], &items); err == nil && len(page["next"]) > 0 {
		err = json.Unmarshal(page["next"], &next)
	}
	if err != nil {
		err = fmt.Errorf("the response of %s is not the expected JSON, does it run another release? %w",
			c.base, err)
	}
	return items, next, err
}

// DeadLetters lists the dead letters of all publishers: events that were not delivered.
func (c *Client) DeadLetters(ctx context.Context) ([]operate.UndeliveredEvent, error) {
	return All(ctx, c, operate.ListAllDeliveries, ofAll(operate.DeliveryDead))
}

// WaitingDeliveries lists the events of all publishers that wait for a retry.
func (c *Client) WaitingDeliveries(ctx context.Context) ([]operate.UndeliveredEvent, error) {
	return All(ctx, c, operate.ListAllDeliveries, ofAll(operate.DeliveryWaiting))
}

func ofAll(state string) operate.DeliveryQuery {
	return operate.DeliveryQuery{State: state}
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
