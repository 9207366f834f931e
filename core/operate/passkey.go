package operate

import (
	"context"

	"github.com/verge-id/verge/core/internal/passkey"
)

// Passkeys counts the passkeys of users that were made at a publisher's sites and have not ended. It reads no
// more than about most records.
func (o *Operations) Passkeys(ctx context.Context, who Actor, publisher string, most int) (
	UserPasskeys, error) {
	if err := who.may(passkeysCount, publisher); err != nil {
		return UserPasskeys{}, err
	}
	if _, err := o.Directory.ReadPublisher(ctx, publisher); err != nil {
		return UserPasskeys{}, o.apiError(err)
	}
	return o.countPasskeys(ctx, publisher, most)
}

func (o *Operations) countPasskeys(ctx context.Context, publisher string, most int) (UserPasskeys, error) {
	u := UserPasskeys{Publisher: publisher}
	ended, err := o.UserPasskeys.Ended(ctx, publisher)
	if err != nil {
		return u, err
	}
	if !ended.IsZero() {
		u.Ended = &ended
	}
	u.Count, u.More, err = o.UserPasskeys.CountOf(ctx, publisher, most)
	return u, err
}

// EndPasskeys ends all existing passkeys of users that were created at a publisher's sites. Their users are
// verified again. It also works for a publisher that is archived or managed by the configuration.
func (o *Operations) EndPasskeys(ctx context.Context, who Actor, publisher string) (UserPasskeys, error) {
	if err := who.may(passkeysEnd, publisher); err != nil {
		return UserPasskeys{}, err
	}
	if err := o.readable(); err != nil {
		return UserPasskeys{}, err
	}
	if _, err := o.Directory.ReadPublisher(ctx, publisher); err != nil {
		return UserPasskeys{}, o.apiError(err)
	}
	entry, err := o.auditEntry(who, passkeysEnd, publisher, publisher)
	if err != nil {
		return UserPasskeys{}, err
	}
	if err := o.UserPasskeys.End(ctx, publisher, entry...); err != nil {
		return UserPasskeys{}, err
	}
	return o.countPasskeys(ctx, publisher, passkey.CountPage)
}
