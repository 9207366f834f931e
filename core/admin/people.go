package admin

import (
	"github.com/verge-id/verge/core/operate"
	"github.com/verge-id/verge/core/web"
)

func (a *Admin) members(c *call) (*web.Response, error) {
	cursor, err := c.cursor()
	if err != nil {
		return nil, err
	}
	page, err := a.Operations.Members(c.ctx, c.who, c.query.Get("publisher_id"), cursor)
	return list("members", page, err)
}

func (a *Admin) changeRole(c *call) (*web.Response, error) {
	in, err := c.body()
	if err != nil {
		return nil, err
	}
	role := in.needed("role", "It is admin, developer or viewer.")
	return answer(a.operations(in).ChangeRole(c.ctx, c.who, c.id, operate.Role(role)))
}

func (a *Admin) signOutMember(c *call) (*web.Response, error) {
	return answer(a.Operations.SignOutMember(c.ctx, c.who, c.id))
}

func (a *Admin) removeMember(c *call) (*web.Response, error) {
	return done(a.Operations.RemoveMember(c.ctx, c.who, c.id))
}

func (a *Admin) invitations(c *call) (*web.Response, error) {
	cursor, err := c.cursor()
	if err != nil {
		return nil, err
	}
	page, err := a.Operations.Invitations(c.ctx, c.who, c.query.Get("publisher_id"), cursor)
	return list("invitations", page, err)
}

func (a *Admin) invite(c *call) (*web.Response, error) {
	in, err := c.body()
	if err != nil {
		return nil, err
	}
	publisher := in.needed("publisher_id", "It says whose member the person becomes.")
	name, role := in.given("name"), in.needed("role", "It is admin, developer or viewer.")
	i, err := a.operations(in).Invite(c.ctx, c.who, publisher, name, operate.Role(role))
	return answer(i, named(err, "publisher"))
}

func (a *Admin) withdraw(c *call) (*web.Response, error) {
	return done(a.Operations.WithdrawInvitation(c.ctx, c.who, c.query.Get("publisher_id"), c.id))
}

// createLink makes a single-use sign-in link. Without a publisher it is one for an operator.
func (a *Admin) createLink(c *call) (*web.Response, error) {
	in, err := c.body()
	if err != nil {
		return nil, err
	}
	publisher, name := in.given("publisher_id"), in.given("name")
	role := in.needed("role", "It says what the link's holder may do.")
	l, err := a.operations(in).CreateLink(c.ctx, c.who, publisher, name, operate.Role(role))
	return answer(l, named(err, "publisher"))
}

func (a *Admin) operators(c *call) (*web.Response, error) {
	cursor, err := c.cursor()
	if err != nil {
		return nil, err
	}
	page, err := a.Operations.OperatorTokens(c.ctx, c.who, cursor)
	return list("operators", page, err)
}

// self tells whose token the request has. With MayParameter it refuses as that operation would. So the core's
// host lets callers in to its own paths, such as ModulePath, by the same rules and the same count of wrong
// tokens.
func (a *Admin) self(c *call) (*web.Response, error) {
	if op := c.query.Get(MayParameter); op != "" {
		if err := a.Operations.Authorize(c.who, operate.Operation(op)); err != nil {
			return nil, err
		}
	}
	return answer(operate.OperatorToken{ID: c.who.ID, Name: c.who.Name, Role: c.who.Role}, nil)
}

func (a *Admin) createOperator(c *call) (*web.Response, error) {
	in, err := c.body()
	if err != nil {
		return nil, err
	}
	name := in.needed("name", "It says in the audit whose token it is.")
	role, expires := in.needed("role", "It is operator or viewer."), in.moment("expires")
	return answer(a.operations(in).CreateOperatorToken(c.ctx, c.who, name, operate.Role(role), expires))
}

func (a *Admin) revokeOperator(c *call) (*web.Response, error) {
	return answer(a.Operations.RevokeOperatorToken(c.ctx, c.who, c.id))
}
