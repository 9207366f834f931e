package cli

import (
	"context"
	"fmt"
	"strconv"

	"github.com/verge-id/verge/cmd/verge/internal/adminclient"
	"github.com/verge-id/verge/cmd/verge/internal/words"
	"github.com/verge-id/verge/core/operate"
)

// memberCommands are the commands of `verge member`.
type memberCommands struct {
	List     memberListCmd     `cmd:"" does:"listMembers,listInvitations" help:"List the members of a publisher, and who is invited."`
	Invite   memberInviteCmd   `cmd:"" does:"invite" help:"Make an invitation. Its link is shown once."`
	Uninvite memberUninviteCmd `cmd:"" does:"withdrawInvitation" help:"Withdraw an invitation that is not used yet."`
	Role     memberRoleCmd     `cmd:"" does:"changeRole" help:"Give a member another role."`
	SignOut  memberSignOutCmd  `cmd:"" does:"signOutMember" name:"sign-out" help:"End all sessions of a member."`
	Remove   memberRemoveCmd   `cmd:"" does:"removeMember" help:"Remove a member."`
	Link     memberLinkCmd     `cmd:"" does:"createLink" help:"Create a link that signs in to the console once."`
}

type memberListCmd struct {
	Publisher string `required:"" placeholder:"PUB_ID" help:"Whose members they are."`
	asking
}

// Help is shown by `verge member list --help`.
func (memberListCmd) Help() string {
	return `Lists the people who work for a publisher in the console, and the invitations that
nobody has used yet. SESSIONS is in how many browsers each is signed in: "verge
member sign-out" ends them. A dash is for who may not end them. --json also has
the passkeys.

Example:

    verge member list --publisher pub_example`
}

// listedMembers is what `verge member list --json` prints.
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
		fmt.Fprintf(p.stdout, "%s has no members. `verge member invite` invites the first.\n", c.Publisher)
	} else {
		if err := printTable(p, memberHeads, memberRows(all.Members)); err != nil {
			return err
		}
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
		rows = append(rows, []string{m.ID, cut(m.Name, 22), string(m.Role), sessions, dash(whenever(seen))})
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
	Role      string `required:"" enum:"admin,developer,viewer" placeholder:"ROLE" help:"What they may do: ${enum}."`
	Name      string `help:"Who is invited, for the list."`
	asking
}

// Help is shown by `verge member invite --help`.
func (memberInviteCmd) Help() string {
	return `Prints a link for one person. It works once, for 24 hours. Whoever opens it makes a
passkey and is a member from then on, so send it to that person alone.

An admin does everything. A developer neither manages members nor archives. A
viewer changes nothing.

Example:

    verge member invite --publisher pub_example --role admin --name "Ada Lovelace"`
}

func (c *memberInviteCmd) Run(ctx context.Context, p *program) error {
	return call(ctx, p, c, operate.Invite, func(made *operate.Invitation) error {
		// The link is alone on stdout, so that a script can take it from there.
		fmt.Fprintln(p.stdout, made.Link)
		fmt.Fprintf(p.stderr, "This link is shown only this time. It works once, until %s.\n",
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
		fmt.Fprintln(p.stdout, "The invitation is withdrawn. Its link does not work any more.")
		return nil
	})
}

type memberRoleCmd struct {
	ID   string `arg:"" help:"The member, mem_…, as \"verge member list\" shows it."`
	Role string `arg:"" enum:"admin,developer,viewer" help:"The role from now on: ${enum}."`
	asking
}

func (c *memberRoleCmd) Run(ctx context.Context, p *program) error {
	return call(ctx, p, c, operate.ChangeRole, func(m *operate.Member) error {
		fmt.Fprintf(p.stdout, "%s (%s) has the role %s from now on.\n", m.ID, oneLine(m.Name), m.Role)
		return nil
	})
}

type memberSignOutCmd struct {
	ID string `arg:"" help:"The member, mem_…"`
	asking
}

// Help is shown by `verge member sign-out --help`.
func (memberSignOutCmd) Help() string {
	return `Ends all of the member's sessions in the console, on every device. The passkeys
stay, so the member can sign in again. "verge member remove" ends that, too.

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
	Publisher string `placeholder:"PUB_ID" help:"The publisher that the console shows. Without it: all of them, for an operator."`
	Role      string `enum:"admin,developer,viewer,operator" placeholder:"ROLE" required:"" help:"What the link allows: admin, developer or viewer of a publisher; operator or viewer of all."`
	Name      string `help:"Who it is for, for the audit."`
	asking
}

// Help is shown by `verge member link --help`.
func (memberLinkCmd) Help() string {
	return `Prints a link that signs one browser in to the console: once, within 5 minutes. A
dashboard of your own can send its users there. Nobody becomes a member by it.

Examples:

    verge member link --publisher pub_example --role developer --name "Ada Lovelace"
    verge member link --role operator`
}

func (c *memberLinkCmd) Run(ctx context.Context, p *program) error {
	if c.Publisher == "" && c.Role != string(operate.RoleOperator) && c.Role != string(operate.RoleViewer) {
		return usagef("--role %s is a role of a publisher's members: give --publisher as well", c.Role)
	}
	if c.Publisher != "" && c.Role == string(operate.RoleOperator) {
		return usagef("--role operator sees all publishers: leave --publisher out")
	}
	return call(ctx, p, c, operate.CreateLink, func(made *operate.SignInLink) error {
		// The link is alone on stdout, so that a script can take it from there.
		fmt.Fprintln(p.stdout, made.Link)
		fmt.Fprintf(p.stderr, "This link is shown only this time. It works once, until %s.\n",
			words.When(made.Expires))
		return nil
	})
}
