package admin

import (
	"github.com/verge-id/verge/core/operate"
	"github.com/verge-id/verge/core/passkey"
	"github.com/verge-id/verge/core/web"
)

func (a *Admin) publishers(c *call) (*web.Response, error) {
	cursor, err := c.cursor()
	if err != nil {
		return nil, err
	}
	cursor.Name = c.query.Get("name")
	page, err := a.Operations.Publishers(c.ctx, c.who, cursor)
	return list("publishers", page, err)
}

func (a *Admin) publisher(c *call) (*web.Response, error) {
	p, err := a.Operations.Publisher(c.ctx, c.who, c.id)
	return answerPublisher(p, err)
}

func answerPublisher(p operate.Publisher, err error) (*web.Response, error) {
	if err != nil {
		return nil, err
	}
	return versioned(p, p.Version), nil
}

func (a *Admin) createPublisher(c *call) (*web.Response, error) {
	in, err := c.body()
	if err != nil {
		return nil, err
	}
	input := operate.PublisherInput{ID: in.given("id"), Name: in.text("name")}
	p, err := a.operations(in).CreatePublisher(c.ctx, c.who, input)
	return answerPublisher(p, err)
}

func (a *Admin) changePublisher(c *call) (*web.Response, error) {
	version, in, err := c.change()
	if err != nil {
		return nil, err
	}
	input := operate.PublisherInput{Name: in.text("name")}
	p, err := a.operations(in).ChangePublisher(c.ctx, c.who, c.id, version, input)
	return answerPublisher(p, err)
}

func (a *Admin) archivePublisher(c *call) (*web.Response, error) {
	version, err := c.version()
	if err != nil {
		return nil, err
	}
	p, err := a.Operations.ArchivePublisher(c.ctx, c.who, c.id, version)
	return answerPublisher(p, err)
}

func (a *Admin) overview(c *call) (*web.Response, error) {
	return answer(a.Operations.Overview(c.ctx, c.who, c.id))
}

func (a *Admin) passkeys(c *call) (*web.Response, error) {
	return answer(a.Operations.Passkeys(c.ctx, c.who, c.query.Get("publisher_id"), passkey.MaxTally))
}

func (a *Admin) endPasskeys(c *call) (*web.Response, error) {
	in, err := c.body()
	if err != nil {
		return nil, err
	}
	publisher := in.needed("publisher_id", "It says whose users' passkeys are ended.")
	return answer(a.operations(in).EndPasskeys(c.ctx, c.who, publisher))
}
