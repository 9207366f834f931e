package operate

import (
	"context"
	"errors"

	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/delivery"
	"github.com/verge-id/verge/core/internal/outbox"
	"github.com/verge-id/verge/core/web"
)

func (o *Operations) sendTest(ctx context.Context, i *integration.Integration, eventType string) (
	Exchange, error) {
	if !i.Webhook.Sends() {
		return Exchange{}, errConflict("The integration has no webhook to try: set a URL first.")
	}
	secret, err := o.Directory.WebhookSecret(i)
	if err != nil {
		o.Log.Warn("test event not sent", "integration", i.ID, "publisher", i.PublisherID,
			"error", err.Error())
		return Exchange{}, errConflict(noSecret)
	}
	x, err := o.Outbox.SendTest(ctx, i, secret, eventType)
	if errors.Is(err, outbox.ErrNoType) {
		return Exchange{}, errInvalid(web.FieldError{Field: "type", Code: "value",
			Message: "There is no such event type."})
	}
	if err != nil {
		return Exchange{}, err
	}
	return Exchange{Type: eventType, URL: i.Webhook.URL, RequestHeader: x.Header, RequestBody: string(x.Body),
		Status: x.Status, Cause: x.Cause, Body: x.ResponseBody, Cut: x.Cut, TookMS: x.Took.Milliseconds(),
		Delivered: x.Verdict == delivery.Delivered, Words: x.Words}, nil
}
