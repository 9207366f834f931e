package operate

import (
	"context"
	"fmt"

	"github.com/verge-id/verge/core/integration"
)

// applyWebhook applies in to the webhook of i. secret is the one to seal, nil for the present one.
// made is the same if it was made here. A webhook with a new address that has had no secret gets one.
func (o *Operations) applyWebhook(i *integration.Integration, in *WebhookInput, isNew bool, wrong *invalid) (
	secret *string, made string, err error) {
	if in == nil {
		return nil, "", nil
	}
	first := i.Webhook.Sealed == ""
	set(&i.Webhook.Off, in.Off)
	if i.Webhook.Off { // a staged webhook would switch events on again
		i.Webhook.URL, i.Webhook.Hidden, i.Staged = "", false, nil
	}
	if in.URL != nil {
		i.Webhook.URL, i.Webhook.Hidden = *in.URL, false
		if *in.URL != "" && in.Off == nil {
			i.Webhook.Off = false
		}
	}
	return o.secretFor(*i, in, (isNew || first) && i.Webhook.URL != "", wrong)
}

// secretFor returns the secret of in. It returns a generated secret if in asks for one, or if in has none and
// one is needed.
func (o *Operations) secretFor(i integration.Integration, in *WebhookInput, needed bool, wrong *invalid) (
	secret *string, made string, err error) {
	switch {
	case in.Secret != nil && in.NewSecret:
		wrong.add("webhook_secret", "conflict", "Give a secret or generate one, not both.")
		return nil, "", nil
	case in.Secret != nil:
		if why := integration.SecretProblem(*in.Secret, o.Dev, i.PublisherID, i.Name); why != "" {
			wrong.add("webhook_secret", "value", "The webhook secret: %s.", why)
		}
		return in.Secret, "", nil
	case in.NewSecret || needed:
		made, err := integration.GenerateSecret(o.Random)
		if err != nil {
			return nil, "", fmt.Errorf("operate: %w", err)
		}
		return &made, made, nil
	}
	return nil, "", nil
}

// StageWebhook stages another address or secret next to the current ones, which stay in use until the staged
// ones have been tested (contract 25).
func (o *Operations) StageWebhook(ctx context.Context, who Actor, id, version string, in WebhookInput) (
	Changed, error) {
	var made string
	v, err := o.alter(ctx, who, webhookChange, id, version,
		func(i *integration.Integration) (integration.Secrets, error) {
			if !i.Webhook.Sends() {
				return integration.Secrets{},
					errConflict("The integration has no webhook yet, so there is nothing to " +
						"keep up meanwhile: set the webhook itself.")
			}
			if i.Webhook.Hidden {
				return integration.Secrets{}, errConflict(noSecret)
			}
			staged := integration.Webhook{URL: i.Webhook.URL}
			if i.Staged != nil {
				staged = *i.Staged
			}
			set(&staged.URL, in.URL)
			first := i.Staged == nil
			i.Staged = &staged
			wrong := o.wrong()
			if in.Off != nil && *in.Off {
				wrong.add("webhook_off", "value", "A staged webhook has a URL. Switch the webhook off "+
					"without staging that.")
			}
			probe := *i
			probe.Webhook, probe.Staged = staged, nil
			secret, text, err := o.secretFor(probe, &in, false, &wrong)
			if err != nil {
				return integration.Secrets{}, err
			}
			if first && secret == nil { // another address with the same secret
				present, err := o.Directory.WebhookSecret(i)
				if err != nil {
					return integration.Secrets{}, errConflict(noSecret)
				}
				secret = &present
			}
			made = text
			o.judge(probe, &wrong)
			return integration.Secrets{Staged: secret}, wrong.err()
		})
	return Changed{v, made}, err
}

// noSecret is the error of a webhook whose secret does not open.
const noSecret = "The integration has no webhook secret, or one that this key ring does not open: " +
	"set it again."

// DropStaged removes the staged webhook.
func (o *Operations) DropStaged(ctx context.Context, who Actor, id, version string) (Integration, error) {
	return o.alter(ctx, who, webhookChange, id, version,
		func(i *integration.Integration) (integration.Secrets, error) {
			if i.Staged == nil {
				return integration.Secrets{}, errConflict("Nothing is staged.")
			}
			i.Staged = nil
			return integration.Secrets{}, nil
		})
}

// RotateSecret creates a new webhook secret, staged or active immediately. Only this response contains it.
func (o *Operations) RotateSecret(ctx context.Context, who Actor, id, version string, staged bool) (
	Changed, error) {
	if staged {
		return o.StageWebhook(ctx, who, id, version, WebhookInput{NewSecret: true})
	}
	var made string
	v, err := o.alter(ctx, who, webhookChange, id, version,
		func(i *integration.Integration) (integration.Secrets, error) {
			if !i.Webhook.Sends() {
				return integration.Secrets{},
					errConflict("The integration has no webhook, so it needs no secret: " +
						"set the webhook first.")
			}
			if i.Webhook.Hidden {
				return integration.Secrets{},
					errConflict("The webhook's address does not open with this key ring: " +
						"set the webhook again.")
			}
			var err error
			made, err = integration.GenerateSecret(o.Random)
			return integration.Secrets{Set: &made}, err
		})
	return Changed{v, made}, err
}

func set[T any](field *T, given *T) {
	if given != nil {
		*field = *given
	}
}
