package api

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"time"

	"github.com/verge-id/verge/core/internal/outbox"
	"github.com/verge-id/verge/core/internal/router"
	"github.com/verge-id/verge/core/internal/timestamp"
	"github.com/verge-id/verge/core/internal/uuid"
	"github.com/verge-id/verge/core/web"
)

// testEventsResponse is the body of a 200.
type testEventsResponse struct {
	Events []json.RawMessage `json:"events"`
	Now    string            `json:"now"`
	More   bool              `json:"more"`
}

// TestEvents is GET /api/v1/verify/test-events (contract 49). It counts as reconcile does. A host may delay a
// 304 response to wait for events.
func (a *API) TestEvents(ctx context.Context, r *router.Call) (*web.Response, error) {
	return a.serve(ctx, r, (*call).testEvents)
}

func (c *call) testEvents() (*web.Response, error) {
	key, err := c.secretCaller(c.reconcileKey)
	if err != nil {
		return nil, err
	}
	id, since, err := testQuery(c.Query)
	if err != nil {
		return nil, err
	}
	i, err := c.ownIntegration(key, id)
	if err != nil {
		return nil, err
	}
	if i == nil {
		return nil, &web.Error{Code: web.NotFound, Message: "There is no such integration."}
	}
	c.about.Integration = i.ID
	found, more, err := c.Outbox.Tests(c.ctx, id, since)
	if err != nil {
		return nil, err
	}
	tag := testsTag(found, more)
	if c.Header.Matches(tag) {
		return router.NotModified(tag), nil
	}
	response := testEventsResponse{Events: []json.RawMessage{}, Now: timestamp.Text(c.Now), More: more}
	for _, d := range found {
		response.Events = append(response.Events, d.Body)
	}
	text, err := json.Marshal(response)
	if err != nil {
		return nil, err
	}
	resp := web.JSONBytes(200, text)
	resp.Header.Set("Etag", tag)
	return resp, nil
}

// testsTag returns the entity tag of a list of test events. Events never change, so the tag is computed from
// their ids. It is weak, since it does not include the response's time.
func testsTag(found []outbox.Delivery, more bool) string {
	h := sha256.New()
	fmt.Fprintln(h, more)
	for _, d := range found {
		fmt.Fprintln(h, d.Event)
	}
	return `W/"` + hex.EncodeToString(h.Sum(nil)[:16]) + `"`
}

// testQuery reads the parameters. Both are required.
func testQuery(query string) (id string, since time.Time, err error) {
	var f fields
	values, err := url.ParseQuery(query)
	if err != nil {
		f.fail("query", detailFormat, "The query cannot be read.")
	}
	given, err := uuid.Parse(values.Get("integration_id"))
	switch {
	case !values.Has("integration_id"):
		f.fail("integration_id", detailRequired, "Is missing.")
	case err != nil || len(values["integration_id"]) > 1:
		f.fail("integration_id", detailFormat, "Must be the UUID of an integration.")
	}
	since, err = time.Parse(time.RFC3339, values.Get("since"))
	switch {
	case !values.Has("since"):
		f.fail("since", detailRequired, "Is missing.")
	case err != nil || len(values["since"]) > 1:
		f.fail("since", detailFormat, "Must be a time such as 2026-11-20T22:10:00.000Z.")
	}
	if err := f.err(); err != nil {
		return "", since, err
	}
	return uuid.Format(given), since, nil
}
