package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/verge-id/verge/cmd/verge/internal/config"
	"github.com/verge-id/verge/cmd/verge/internal/words"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/operate"
)

// keyCommands are the commands of `verge key`.
type keyCommands struct {
	Create keyCreateCmd `cmd:"" does:"createKey" help:"Create an API key. It is shown once."`
	List   keyListCmd   `cmd:"" does:"listKeys" help:"List API keys by their last four characters."`
	Revoke keyRevokeCmd `cmd:"" does:"revokeKey" help:"Revoke an API key permanently, on all instances within 5 seconds."`
}

type keyCreateCmd struct {
	Publisher   string          `required:"" placeholder:"PUB_ID" help:"The publisher of the key."`
	Integration string          `placeholder:"UUID" help:"Create a public key of this integration, for browsers. Without it: a secret key, for servers."`
	Expires     config.Duration `placeholder:"90d" help:"Time until the key expires. Default: it never expires."`
	asking
}

// Help is shown by `verge key create --help`.
func (keyCreateCmd) Help() string {
	return `The key is printed once. The server stores only its hash. A publisher can have
several keys. To rotate a key, create another one, deploy it, and revoke the old
one.

Examples:

    verge key create --publisher pub_example --expires 90d
    verge key create --publisher pub_example --integration 711bb7bd-4165-465f-a5bb-ec37600c13c9`
}

func (c *keyCreateCmd) Run(ctx context.Context, p *program) error {
	return call(ctx, p, c, operate.CreateKey, func(created *operate.CreatedKey) error {
		// Print only the key to stdout, so that a script can use it.
		fmt.Fprintln(p.stdout, created.Key)
		fmt.Fprintf(p.stderr, "%s, %s. The key is shown only once.\n",
			created.Info.ID, end(created.Info.Revoked, created.Info.Expires, p.Now()))
		return nil
	})
}

type keyListCmd struct {
	Publisher string `placeholder:"PUB_ID" help:"Only keys of this publisher."`
	asking
}

func (c *keyListCmd) Run(ctx context.Context, p *program) error {
	return list(ctx, p, c, operate.ListKeys, func(keys []operate.Key) error {
		return printTable(p, keyHeads, keyRows(keys, p.Now()))
	})
}

// keyHeads fits a terminal. OF is the integration of a public key, and the publisher of a secret one.
const keyHeads = "KEY|TEXT|CREATED|STATE|OF"

func keyRows(keys []operate.Key, now time.Time) (rows [][]string) {
	for _, k := range keys {
		prefix, of := integration.SecretPrefix, k.PublisherID
		if k.Public() {
			prefix, of = integration.PublicPrefix, k.IntegrationID
		}
		state := "active"
		if k.Revoked != nil || k.Expires != nil {
			state = end(k.Revoked, k.Expires, now)
		}
		rows = append(rows, []string{k.ID, prefix + "…" + k.Last4, words.When(k.Created), state, of})
	}
	return rows
}

// end returns whether a key or token with these times is valid, and for how long, in words.
func end(revoked, expires *time.Time, now time.Time) string {
	switch {
	case revoked != nil:
		return "revoked " + words.When(*revoked)
	case expires == nil:
		return "never expires"
	case now.Before(*expires):
		return "expires " + words.When(*expires)
	}
	return "expired " + words.When(*expires)
}

type keyRevokeCmd struct {
	ID string `arg:"" help:"Id of the key, key_…, as \"verge key list\" shows it."`
	asking
}

func (c *keyRevokeCmd) Run(ctx context.Context, p *program) error {
	return call(ctx, p, c, operate.RevokeKey, func(k *operate.Key) error {
		fmt.Fprintf(p.stdout, "%s (…%s of %s) is %s.\n", k.ID, k.Last4, k.PublisherID,
			end(k.Revoked, k.Expires, p.Now()))
		return nil
	})
}
