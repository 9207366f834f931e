package admin

import (
	"strings"

	"github.com/verge-id/verge/core/operate"
	"github.com/verge-id/verge/core/uuid"
	"github.com/verge-id/verge/core/web"
)

// deliveries lists the deliveries of an integration. Without one it lists the events of all that are dead or
// wait, and has no attempts.
func (a *Admin) deliveries(c *call) (*web.Response, error) {
	cursor, err := c.cursor()
	if err != nil {
		return nil, err
	}
	state, integration := c.query.Get("state"), c.query.Get("integration_id")
	if integration != "" {
		page, err := a.Operations.Deliveries(c.ctx, c.who,
			operate.DeliveryFilter{Integration: integration, State: state, Type: c.query.Get("type")}, cursor)
		return list("deliveries", page, err)
	}
	if cursor.Limit == 0 {
		cursor.Limit = operate.MaxLimit
	}
	switch state {
	case "", operate.DeliveryDead:
		page, err := a.Operations.Dead(c.ctx, c.who, cursor)
		return list("deliveries", page, err)
	case operate.DeliveryWaiting:
		page, err := a.Operations.Waiting(c.ctx, c.who, cursor)
		return list("deliveries", page, err)
	}
	return nil, &web.Error{Code: web.InvalidRequest,
		Message: "state is neither dead nor waiting; any other list needs integration_id."}
}

// undelivered tells whose events have not arrived, of all publishers.
func (a *Admin) undelivered(c *call) (*web.Response, error) {
	return answer(a.Operations.Undelivered(c.ctx, c.who))
}

// delivery shows one event by its place, which a list tells.
func (a *Admin) delivery(c *call) (*web.Response, error) {
	return answer(a.Operations.Delivery(c.ctx, c.who, c.query.Get("integration_id"), c.id))
}

// resend sends an event again: by its place if the query names the integration, else by its id.
func (a *Admin) resend(c *call) (*web.Response, error) {
	event := c.id
	if integration := c.query.Get("integration_id"); integration != "" {
		d, err := a.Operations.Resend(c.ctx, c.who, integration, c.id)
		if err != nil {
			return nil, err
		}
		event = d.Event
	} else {
		rest, ok := strings.CutPrefix(event, "evt_")
		if _, err := uuid.Parse(rest); !ok || err != nil {
			return nil, &web.Error{Code: web.InvalidRequest, Message: "An event id is evt_ and a UUID."}
		}
		if err := a.Operations.ResendEvent(c.ctx, c.who, event); err != nil {
			return nil, named(err, "dead event")
		}
	}
	return web.JSON(200, struct {
		Event string `json:"event"`
		Sent  string `json:"status"`
	}{event, "scheduled"}), nil
}

func (a *Admin) session(c *call) (*web.Response, error) {
	return answer(a.Operations.Session(c.ctx, c.who, c.id))
}
