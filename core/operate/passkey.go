package operate

import "context"

// Passkeys counts the passkeys of users that were made at a publisher's sites and have not ended.
func (d *Desk) Passkeys(ctx context.Context, who Actor, publisher string) (UserPasskeys, error) {
	if err := who.may(PasskeysCount, publisher); err != nil {
		return UserPasskeys{}, err
	}
	if _, err := d.Directory.ReadPublisher(ctx, publisher); err != nil {
		return UserPasskeys{}, told(err)
	}
	return d.countPasskeys(ctx, publisher)
}

func (d *Desk) countPasskeys(ctx context.Context, publisher string) (UserPasskeys, error) {
	u := UserPasskeys{Publisher: publisher}
	ended, err := d.UserPasskeys.Ended(ctx, publisher)
	if err != nil {
		return u, err
	}
	if !ended.IsZero() {
		u.Ended = &ended
	}
	u.Count, u.More, err = d.UserPasskeys.Tally(ctx, publisher)
	return u, err
}

// EndPasskeys ends all passkeys of users that were made at a publisher's sites until now. Their users are
// verified again. It is there for a publisher that is archived or managed by the configuration, too.
func (d *Desk) EndPasskeys(ctx context.Context, who Actor, publisher string) (UserPasskeys, error) {
	if err := who.may(PasskeysEnd, publisher); err != nil {
		return UserPasskeys{}, err
	}
	if err := d.readable(); err != nil {
		return UserPasskeys{}, err
	}
	if _, err := d.Directory.ReadPublisher(ctx, publisher); err != nil {
		return UserPasskeys{}, told(err)
	}
	entry, err := d.along(who, PasskeysEnd, publisher, publisher)
	if err != nil {
		return UserPasskeys{}, err
	}
	if err := d.UserPasskeys.End(ctx, publisher, entry...); err != nil {
		return UserPasskeys{}, err
	}
	return d.countPasskeys(ctx, publisher)
}
