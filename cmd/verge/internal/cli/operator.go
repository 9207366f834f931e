package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/verge-id/verge/cmd/verge/internal/config"
	"github.com/verge-id/verge/core/operate"
)

// operatorCommands are the commands of `verge operator`.
type operatorCommands struct {
	List   operatorListCmd   `cmd:"" does:"listOperators" help:"List operator tokens by their last four characters."`
	Create operatorCreateCmd `cmd:"" does:"createOperator" help:"Create an operator token. It is shown once."`
	Revoke operatorRevokeCmd `cmd:"" does:"revokeOperator" help:"Revoke an operator token and its console sessions."`
}

type operatorListCmd struct {
	asking
}

func (c *operatorListCmd) Run(ctx context.Context, p *program) error {
	return list(ctx, p, c, operate.ListOperators, func(all []operate.OperatorToken) error {
		return printTable(p, operatorHeads, operatorRows(all, p.Now()))
	})
}

const operatorHeads = "TOKEN|NAME|ROLE|LAST 4|STATE"

func operatorRows(all []operate.OperatorToken, now time.Time) (rows [][]string) {
	for _, o := range all {
		last4 := "-"
		if o.Last4 != "" {
			last4 = "…" + o.Last4
		}
		rows = append(rows, []string{o.ID, cut(o.Name, 24), string(o.Role), last4,
			end(o.Revoked, o.Expires, now)})
	}
	return rows
}

type operatorCreateCmd struct {
	Name    string          `required:"" help:"Name of the operator, as in the audit."`
	Role    string          `default:"operator" enum:"operator,viewer" placeholder:"ROLE" help:"operator can make changes, viewer can only read."`
	Expires config.Duration `placeholder:"90d" help:"Time until the token expires. Default: it never expires."`
	asking
}

// Help is shown by `verge operator create --help`.
func (operatorCreateCmd) Help() string {
	return `The token is printed once. It signs in to the console and to the operators' API. The
server stores only its hash. Give each operator a separate token, so that the audit
shows who made each change.

Examples:

    verge operator create --name "Ada Lovelace" --expires 90d
    verge operator create --name "monitoring" --role viewer`
}

func (c *operatorCreateCmd) Run(ctx context.Context, p *program) error {
	return call(ctx, p, c, operate.CreateOperator, func(made *operate.CreatedOperatorToken) error {
		// Print only the token to stdout, so that a script can use it.
		fmt.Fprintln(p.stdout, made.Token)
		fmt.Fprintf(p.stderr, "%s, %s. The token is shown only once.\n", made.Info.ID,
			end(made.Info.Revoked, made.Info.Expires, p.Now()))
		return nil
	})
}

type operatorRevokeCmd struct {
	ID string `arg:"" help:"The token's id, op_…, as \"verge operator list\" shows it."`
	asking
}

// Help is shown by `verge operator revoke --help`.
func (operatorRevokeCmd) Help() string {
	return `Revokes the token and ends all console sessions that were opened with it. To change
the token of the server's configuration, edit the configuration.

Example:

    verge operator revoke OPERATOR_ID`
}

func (c *operatorRevokeCmd) Run(ctx context.Context, p *program) error {
	return call(ctx, p, c, operate.RevokeOperator, func(o *operate.OperatorToken) error {
		fmt.Fprintf(p.stdout, "%s (%s) is %s.\n", o.ID, oneLine(o.Name), end(o.Revoked, o.Expires, p.Now()))
		return nil
	})
}
