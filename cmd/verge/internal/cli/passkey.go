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
	return `After a verification, users can create a passkey and use it the next time. It is
accepted at the publisher at whose site it was created, and at publishers that
accept all passkeys of the service.

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
	return `Ends all existing passkeys that users created at the publisher's sites, everywhere.
These users are verified again, and can create new ones. It cannot be undone.

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
	fmt.Fprintf(p.stdout, "Users have %s%d passkeys that were created at sites of %s.\n", atLeast, u.Count,
		u.Publisher)
	if u.Ended != nil {
		fmt.Fprintf(p.stdout, "Passkeys created until %s have ended.\n", words.When(*u.Ended))
	}
	return nil
}
