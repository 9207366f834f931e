package admin

import (
	"github.com/verge-id/verge/core/operate"
	"github.com/verge-id/verge/core/web"
)

// integrations lists integrations. Without a limit it lists all of them in one answer, as earlier releases of
// the command line expect.
func (a *Admin) integrations(c *call) (*web.Response, error) {
	cursor, err := c.cursor()
	if err != nil {
		return nil, err
	}
	publisher := c.query.Get("publisher_id")
	cursor.Name = c.query.Get("name")
	if cursor.Limit > 0 || cursor.After != "" {
		page, err := a.Operations.Integrations(c.ctx, c.who, publisher, cursor)
		return list("integrations", page, err)
	}
	page, err := all(func(part operate.Cursor) (operate.Page[operate.Integration], error) {
		part.Name = cursor.Name
		return a.Operations.Integrations(c.ctx, c.who, publisher, part)
	})
	return list("integrations", page, err)
}

// all puts the parts of a list together.
func all[T any](part func(operate.Cursor) (operate.Page[T], error)) (operate.Page[T], error) {
	var whole operate.Page[T]
	cursor := operate.Cursor{Limit: operate.MaxLimit}
	for {
		page, err := part(cursor)
		if err != nil {
			return operate.Page[T]{}, err
		}
		whole.Items = append(whole.Items, page.Items...)
		if page.Next == "" {
			return whole, nil
		}
		cursor.After = page.Next
	}
}

func (a *Admin) integration(c *call) (*web.Response, error) {
	i, err := a.Operations.Integration(c.ctx, c.who, c.id)
	return answerIntegration(i, err)
}

func answerIntegration(i operate.Integration, err error) (*web.Response, error) {
	if err != nil {
		return nil, err
	}
	return versioned(i, i.Version), nil
}

func answerChanged(changed operate.Changed, err error) (*web.Response, error) {
	if err != nil {
		return nil, err
	}
	return versioned(changed, changed.Version), nil
}

// integrationInput reads what the members of a body say of an integration.
func (in *input) integrationInput() operate.IntegrationInput {
	out := operate.IntegrationInput{
		Name: in.text("name"), Level: in.text("level"), ChallengeAge: in.integer("challenge_age"),
		MinimumAge: in.integer("minimum_age"), Attempts: in.integer("attempts"), Methods: in.texts("methods"),
		MethodSettings: in.objects("method_settings"), Passkeys: in.text("passkeys"),
		CallbackOrigins: in.texts("callback_origins"), BrowserOrigins: in.texts("browser_origins"),
	}
	if hook := in.webhookInput(); hook != (operate.WebhookInput{}) {
		out.Webhook = &hook
	}
	return out
}

func (in *input) webhookInput() operate.WebhookInput {
	return operate.WebhookInput{Off: in.flag("webhook_off"), URL: in.text("webhook_url"),
		Secret: in.text("webhook_secret"), NewSecret: in.isTrue("new_webhook_secret")}
}

func (a *Admin) createIntegration(c *call) (*web.Response, error) {
	in, err := c.body()
	if err != nil {
		return nil, err
	}
	input := in.integrationInput()
	input.Publisher = in.needed("publisher_id", "It says whose integration it is.")
	i, err := a.operations(in).CreateIntegration(c.ctx, c.who, input)
	return answerChanged(i, named(err, "publisher"))
}

func (a *Admin) changeIntegration(c *call) (*web.Response, error) {
	version, in, err := c.change()
	if err != nil {
		return nil, err
	}
	input := in.integrationInput()
	return answerChanged(a.operations(in).ChangeIntegration(c.ctx, c.who, c.id, version, input))
}

func (a *Admin) archiveIntegration(c *call) (*web.Response, error) {
	version, err := c.version()
	if err != nil {
		return nil, err
	}
	return answerIntegration(a.Operations.ArchiveIntegration(c.ctx, c.who, c.id, version))
}

// stage stages another webhook address or secret beside the present ones (contract 25).
func (a *Admin) stage(c *call) (*web.Response, error) {
	version, in, err := c.change()
	if err != nil {
		return nil, err
	}
	input := in.webhookInput()
	return answerChanged(a.operations(in).StageWebhook(c.ctx, c.who, c.id, version, input))
}

func (a *Admin) drop(c *call) (*web.Response, error) {
	version, err := c.version()
	if err != nil {
		return nil, err
	}
	return answerIntegration(a.Operations.DropStaged(c.ctx, c.who, c.id, version))
}

func (a *Admin) rotate(c *call) (*web.Response, error) {
	version, in, err := c.change()
	if err != nil {
		return nil, err
	}
	staged := in.isTrue("staged")
	return answerChanged(a.operations(in).RotateSecret(c.ctx, c.who, c.id, version, staged))
}

// test makes the signed webhook test, of the staged webhook with ?staged=1.
func (a *Admin) test(c *call) (*web.Response, error) {
	return answer(a.Operations.TestWebhook(c.ctx, c.who, c.id, c.flag("staged")))
}

func (a *Admin) testEvent(c *call) (*web.Response, error) {
	in, err := c.body()
	if err != nil {
		return nil, err
	}
	eventType := in.needed("type", "It says which event to send, such as verification.completed.")
	return answer(a.operations(in).SendTestEvent(c.ctx, c.who, c.id, eventType))
}

func (a *Admin) testSession(c *call) (*web.Response, error) {
	in, err := c.body()
	if err != nil {
		return nil, err
	}
	callback := in.needed("callback_url", "It says where the browser goes when the session has ended.")
	return answer(a.operations(in).StartTestSession(c.ctx, c.who, c.id, callback))
}
