package admin

import (
	"errors"

	"github.com/verge-id/verge/core/operate"
	"github.com/verge-id/verge/core/web"
)

// keys lists keys. Without a limit it lists all of them in one answer, as earlier releases of the command
// line expect.
func (a *Admin) keys(c *call) (*web.Response, error) {
	cursor, err := c.cursor()
	if err != nil {
		return nil, err
	}
	publisher := c.query.Get("publisher_id")
	if cursor.Limit > 0 || cursor.After != "" {
		page, err := a.Operations.Keys(c.ctx, c.who, publisher, cursor)
		return list("keys", page, err)
	}
	page, err := all(func(cursor operate.Cursor) (operate.Page[operate.Key], error) {
		return a.Operations.Keys(c.ctx, c.who, publisher, cursor)
	})
	return list("keys", page, err)
}

// createKey makes a key. A member of another type does not count as absent. Otherwise a request for a public
// key could get a secret one, or one that never expires.
func (a *Admin) createKey(c *call) (*web.Response, error) {
	in, err := c.body()
	if err != nil {
		return nil, err
	}
	input := operate.KeyInput{Publisher: in.needed("publisher_id", "It says whose key it is."),
		Integration: in.given("integration_id"), Expires: in.moment("expires")}
	k, err := a.operations(in).CreateKey(c.ctx, c.who, input)
	if errors.Is(err, web.ErrNotFound) {
		return nil, &web.Error{Code: web.NotFound,
			Message: "There is no such publisher, or it has no such integration."}
	}
	return answer(k, err)
}

func (a *Admin) revokeKey(c *call) (*web.Response, error) {
	return answer(a.Operations.RevokeKey(c.ctx, c.who, c.id))
}
