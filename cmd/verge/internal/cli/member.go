package cli

import (
	"cmp"
	"context"
	"fmt"
	"strconv"

	"github.com/verge-id/verge/cmd/verge/internal/adminclient"
	"github.com/verge-id/verge/cmd/verge/internal/words"
	"github.com/verge-id/verge/core/operate"
)

// memberCommands are the commands of `verge member`.
type memberCommands struct {
	List     memberListCmd     `cmd:"" does:"listMembers,listInvitations" help:"List the members of a publisher, and open invitations."`
	Invite   memberInviteCmd   `cmd:"" does:"invite" help:"Create an invitation. Its link is shown once."`
	Uninvite memberUninviteCmd `cmd:"" does:"withdrawInvitation" help:"Withdraw an unused invitation."`
	Role     memberRoleCmd     `cmd:"" does:"changeRole" help:"Change the role of a member."`
	SignOut  memberSignOutCmd  `cmd:"" does:"signOutMember" name:"sign-out" help:"End all sessions of a member."`
	Remove   memberRemoveCmd   `cmd:"" does:"removeMember" help:"Remove a member."`
	Link     memberLinkCmd     `cmd:"" does:"createLink" help:"Create a link that signs in to the console once."`
}

type memberListCmd struct {
	Publisher string `required:"" placeholder:"PUB_ID" help:"The publisher of the members."`
	asking
}

// Help is shown by `verge member list --help`.
func (memberListCmd) Help() string {
	return `Lists the people who work for a publisher in the console, and open invitations.
SESSIONS is the number of browsers in which each member is signed in: "verge member
sign-out" ends these sessions. It is a dash if your role may not end them. --json
also lists the passkeys.

Example:

    verge member list --publisher pub_example`
}

// listedMembers is the output of `verge member list --json`.
type listedMembers struct {
	Members     []operate.Member     `json:"members"`
	Invitations []operate.Invitation `json:"invitations"`
}

func (c *memberListCmd) Run(ctx context.Context, p *program) error {
	client, err := c.client(p)
	if err != nil {
		return err
	}
	var all listedMembers
	if all.Members, err = adminclient.All(ctx, client, operate.ListMembers,
		operate.PublisherQuery{Publisher: c.Publisher}); err != nil {
		return err
	}
	if all.Invitations, err = adminclient.All(ctx, client, operate.ListInvitations,
		operate.PublisherQuery{Publisher: c.Publisher}); err != nil {
		return err
	}
	if c.JSON {
		return printJSON(p, all)
	}
	if len(all.Members) == 0 {
		fmt.Fprintf(p.stdout, "%s has no members. Invite one with `verge member invite`.\n", c.Publisher)
	} else if err := printTable(p, memberHeads, memberRows(all.Members)); err != nil {
		return err
	}
	if len(all.Invitations) == 0 {
		return nil
	}
	fmt.Fprintln(p.stdout, "\nInvited:")
	return printTable(p, invitationHeads, invitationRows(all.Invitations))
}

const (
	memberHeads     = "MEMBER|NAME|ROLE|SESSIONS|LAST SEEN"
	invitationHeads = "INVITATION|NAME|ROLE|EXPIRES"
)

func memberRows(all []operate.Member) (rows [][]string) {
	for _, m := range all {
		sessions, seen := "-", m.LastSeen
		if m.Sessions != nil {
			sessions = strconv.Itoa(m.Sessions.Count)
			if used := m.Sessions.LastUsed; used != nil && (seen == nil || used.After(*seen)) {
				seen = used
			}
		}
		rows = append(rows, []string{m.ID, cut(m.Name, 22), string(m.Role), sessions,
			cmp.Or(whenever(seen), "-")})
	}
	return rows
}

func invitationRows(all []operate.Invitation) (rows [][]string) {
	for _, i := range all {
		rows = append(rows, []string{i.ID, cut(i.Name, 22), string(i.Role), words.When(i.Expires)})
	}
	return rows
}

type memberInviteCmd struct {
	Publisher string `required:"" placeholder:"PUB_ID" help:"The publisher."`
	Role      string `required:"" enum:"admin,developer,viewer" placeholder:"ROLE" help:"Permissions: ${enum}."`
	Name      string `help:"Name of the invited person, for the list."`
	asking
}

// Help is shown by `verge member invite --help`.
func (memberInviteCmd) Help() string {
	return `Prints a link for one person. It works once, within 24 hours. Anyone who opens it
can create a passkey and becomes a member, so send it to that person only.

An admin can do everything. A developer cannot manage members or archive. A viewer
can only read.

Example:

    verge member invite --publisher pub_example --role admin --name "Ada Lovelace"`
}

func (c *memberInviteCmd) Run(ctx context.Context, p *program) error {
	return call(ctx, p, c, operate.Invite, func(made *operate.Invitation) error {
		// Print only the link to stdout, so that a script can use it.
		fmt.Fprintln(p.stdout, made.Link)
		fmt.Fprintf(p.stderr, "This link is shown only once. It works once, until %s.\n",
			words.When(made.Expires))
		return nil
	})
}

type memberUninviteCmd struct {
	Publisher string `required:"" placeholder:"PUB_ID" help:"The publisher."`
	ID        string `arg:"" help:"The invitation, as \"verge member list\" shows it."`
	asking
}

func (c *memberUninviteCmd) Run(ctx context.Context, p *program) error {
	return call(ctx, p, c, operate.WithdrawInvitation, func(*operate.Done) error {
		fmt.Fprintln(p.stdout, "The invitation is withdrawn. Its link no longer works.")
		return nil
	})
}

type memberRoleCmd struct {
	ID   string `arg:"" help:"The member, mem_…, as \"verge member list\" shows it."`
	Role string `arg:"" enum:"admin,developer,viewer" help:"New role: ${enum}."`
	asking
}

func (c *memberRoleCmd) Run(ctx context.Context, p *program) error {
	return call(ctx, p, c, operate.ChangeRole, func(m *operate.Member) error {
		fmt.Fprintf(p.stdout, "%s (%s) now has the role %s.\n", m.ID, oneLine(m.Name), m.Role)
		return nil
	})
}

type memberSignOutCmd struct {
	ID string `arg:"" help:"The member, mem_…"`
	asking
}

// Help is shown by `verge member sign-out --help`.
func (memberSignOutCmd) Help() string {
	return `Ends all console sessions of the member, on every device. The passkeys stay valid,
so the member can sign in again. To prevent that, use "verge member remove".

Example:

    verge member sign-out MEMBER_ID`
}

func (c *memberSignOutCmd) Run(ctx context.Context, p *program) error {
	return call(ctx, p, c, operate.SignOutMember, func(m *operate.Member) error {
		fmt.Fprintf(p.stdout, "%s (%s) is signed out everywhere.\n", m.ID, oneLine(m.Name))
		return nil
	})
}

type memberRemoveCmd struct {
	ID string `arg:"" help:"The member, mem_…"`
	asking
}

func (c *memberRemoveCmd) Run(ctx context.Context, p *program) error {
	return call(ctx, p, c, operate.RemoveMember, func(*operate.Done) error {
		fmt.Fprintln(p.stdout, c.ID+" is removed and signed out everywhere.")
		return nil
	})
}

type memberLinkCmd struct {
	Publisher string `placeholder:"PUB_ID" help:"The publisher that the console shows. Default: all publishers, for an operator."`
	Role      string `enum:"admin,developer,viewer,operator" placeholder:"ROLE" required:"" help:"Role of the browser: admin, developer or viewer of a publisher; operator or viewer of all."`
	Name      string `help:"Name of the user, for the audit."`
	asking
}

// Help is shown by `verge member link --help`.
func (memberLinkCmd) Help() string {
	return `Prints a link that signs one browser in to the console once, within 5 minutes. Use
it to send users of your own dashboard there. The link does not create a member.

Examples:

    verge member link --publisher pub_example --role developer --name "Ada Lovelace"
    verge member link --role operator`
}

func (c *memberLinkCmd) Run(ctx context.Context, p *program) error {
	if c.Publisher == "" && c.Role != string(operate.RoleOperator) && c.Role != string(operate.RoleViewer) {
		return usagef("--role %s is a role of a publisher's members: also give --publisher", c.Role)
	}
	if c.Publisher != "" && c.Role == string(operate.RoleOperator) {
		return usagef("--role operator is for all publishers: omit --publisher")
	}
	return call(ctx, p, c, operate.CreateLink, func(made *operate.SignInLink) error {
		// Print only the link to stdout, so that a script can use it.
		fmt.Fprintln(p.stdout, made.Link)
		fmt.Fprintf(p.stderr, "This link is shown only once. It works once, until %s.\n",
			words.When(made.Expires))
		return nil
	})
}
