package cli

import (
	"context"
	"fmt"

	"github.com/verge-id/verge/cmd/verge/internal/words"
	"github.com/verge-id/verge/core/operate"
)

// passkeyCommands are the commands of `verge passkey`.
type passkeyCommands struct {
	Count passkeyCountCmd `cmd:"" does:"countPasskeys" help:"Count the passkeys of a publisher's users."`
	End   passkeyEndCmd   `cmd:"" does:"endPasskeys" help:"End all passkeys of a publisher's users."`
}

type passkeyCountCmd struct {
	Publisher string `required:"" placeholder:"ID" help:"The publisher, pub_…, as \"verge publisher list\" shows it."`
	asking
}

// Help is shown by `verge passkey count --help`.
func (passkeyCountCmd) Help() string {
	return `A user who was verified can make a passkey, and goes on with it the next time. It
counts at the publisher at whose site it was made, and at others that accept the
passkeys of the whole service.

Example:

    verge passkey count --publisher pub_example`
}

func (c *passkeyCountCmd) Run(ctx context.Context, p *program) error {
	return call(ctx, p, c, operate.CountPasskeys, p.printPasskeys)
}

type passkeyEndCmd struct {
	Publisher string `required:"" placeholder:"ID" help:"The publisher, pub_…, as \"verge publisher list\" shows it."`
	asking
}

// Help is shown by `verge passkey end --help`.
func (passkeyEndCmd) Help() string {
	return `Ends all passkeys that users have made at the publisher's sites until now, everywhere.
These users are verified again, and can make new ones. It cannot be undone.

Example:

    verge passkey end --publisher pub_example`
}

func (c *passkeyEndCmd) Run(ctx context.Context, p *program) error {
	return call(ctx, p, c, operate.EndPasskeys, p.printPasskeys)
}

func (p *program) printPasskeys(u *operate.UserPasskeys) error {
	atLeast := ""
	if u.More {
		atLeast = "at least "
	}
	fmt.Fprintf(p.stdout, "Users have %s%d passkeys that they made at sites of %s.\n", atLeast, u.Count,
		u.Publisher)
	if u.Ended != nil {
		fmt.Fprintf(p.stdout, "Those that were made until %s have ended.\n", words.When(*u.Ended))
	}
	return nil
}
