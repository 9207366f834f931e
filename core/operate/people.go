package operate

import (
	"context"
	"time"

	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/member"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/problem"
)

// Paths of the console that a secret is put behind. Package console serves them.
const (
	invitationPath = "/console/invitation?invitation="
	linkPath       = "/console/link?link="
)

// Members lists the members of a publisher. Actors who may sign them out also see their console sessions; the
// list can then be shorter than c asks for and still have a Next.
func (o *Operations) Members(ctx context.Context, who Actor, publisher string, c Cursor) (
	Page[Member], error) {
	if err := who.may(memberList, publisher); err != nil {
		return Page[Member]{}, err
	}
	found, next, err := o.People.Members(ctx, publisher, c.After, c.limit())
	if err != nil {
		return Page[Member]{}, o.apiError(err)
	}
	page, reads := Page[Member]{Next: next}, 0
	for _, m := range found {
		if reads >= mostSessionReads {
			page.Next = page.Items[len(page.Items)-1].ID
			break
		}
		v := shownMember(m)
		if who.May(memberChange) {
			sessions, n, err := o.sessionsOf(ctx, m)
			if err != nil {
				return Page[Member]{}, o.apiError(err)
			}
			v.Sessions = sessions
			reads += n
		}
		page.Items = append(page.Items, v)
	}
	return page, nil
}

// mostSessionReads is the maximum number of reads of sessions for one list of members, plus up to a hundred
// for the last member. The list then ends early, and Next continues. Without a bound, a list of 200 members
// could take 20,000 reads.
const mostSessionReads = 200

// sessionsOf returns the number of browsers in which a member is signed in, for actors who may sign the
// member out.
func (o *Operations) sessionsOf(ctx context.Context, m member.Member) (
	v *MemberSessions, reads int, err error) {
	all, reads, err := o.People.SessionsOf(ctx, m)
	if err != nil {
		return nil, 0, err
	}
	v = &MemberSessions{Count: len(all)}
	for _, s := range all {
		if v.LastUsed == nil || s.Seen.After(*v.LastUsed) {
			v.LastUsed = &s.Seen
		}
	}
	return v, reads, nil
}

// Invite invites a person to be a member of a publisher. Only this response contains the link.
func (o *Operations) Invite(ctx context.Context, who Actor, publisher, name string, role Role) (
	Invitation, error) {
	if err := who.may(memberInvite, publisher); err != nil {
		return Invitation{}, err
	}
	secret, made, err := o.People.Invite(ctx, member.Actor(who), publisher, name, role,
		func(i member.Invitation) ([]kv.Put, error) {
			return o.auditEntryIn(ctx, who, memberInvite, publisher, i.ID, name, role)
		})
	if err != nil {
		return Invitation{}, o.apiError(err)
	}
	v := shownInvitation(made)
	v.Link = o.BaseURL + invitationPath + secret
	return v, nil
}

// auditEntryIn is auditEntry for a new role at a publisher, which must be in use. Package member calls it
// after it has checked the values, so that invalid values are reported before a missing publisher.
func (o *Operations) auditEntryIn(ctx context.Context, who Actor, op Operation, publisher, target,
	name string, role Role) ([]kv.Put, error) {
	entry, err := o.auditEntry(who, op, publisher, target, change{Field: "name", To: name},
		change{Field: "role", To: string(role)})
	if err == nil && publisher != "" {
		err = o.inUse(ctx, publisher)
	}
	return entry, err
}

// inUse rejects a publisher that is archived or missing.
func (o *Operations) inUse(ctx context.Context, publisher string) error {
	p, err := o.Directory.ReadPublisher(ctx, publisher)
	if err == nil && p.Value.Archived != nil {
		return ErrArchived
	}
	return o.apiError(err)
}

// Invitations lists the open invitations to a publisher.
func (o *Operations) Invitations(ctx context.Context, who Actor, publisher string, c Cursor) (
	Page[Invitation], error) {
	if err := who.may(memberList, publisher); err != nil {
		return Page[Invitation]{}, err
	}
	found, next, err := o.People.Invitations(ctx, publisher, c.After, c.limit())
	if err != nil {
		return Page[Invitation]{}, o.apiError(err)
	}
	page := Page[Invitation]{Next: next}
	for _, i := range found {
		page.Items = append(page.Items, shownInvitation(i))
	}
	return page, nil
}

// WithdrawInvitation ends an unused invitation.
func (o *Operations) WithdrawInvitation(ctx context.Context, who Actor, publisher, id string) error {
	if err := who.may(memberInvite, publisher); err != nil {
		return err
	}
	entry, err := o.auditEntry(who, memberInvite, publisher, id, change{Field: "withdrawn", To: "yes"})
	if err != nil {
		return err
	}
	return o.apiError(o.People.Withdraw(ctx, publisher, id, entry...))
}

// member returns a member, if who may perform op on it.
func (o *Operations) member(ctx context.Context, who Actor, op Operation, id string) (member.Member, error) {
	m, err := o.People.Member(ctx, who.Publisher, id)
	if err != nil {
		return member.Member{}, o.apiError(err)
	}
	return m, who.may(op, m.Publisher)
}

// ChangeRole changes a member's role, with immediate effect.
func (o *Operations) ChangeRole(ctx context.Context, who Actor, id string, role Role) (Member, error) {
	if err := o.readable(); err != nil {
		return Member{}, err
	}
	was, err := o.member(ctx, who, memberChange, id)
	if err != nil {
		return Member{}, err
	}
	if was.Role == role {
		return shownMember(was), nil
	}
	m, err := o.People.ChangeRole(ctx, member.Actor(who), id, role, func(is member.Member) ([]kv.Put, error) {
		return o.auditEntry(who, memberChange, is.Publisher, id,
			change{Field: "role", From: string(was.Role), To: string(role)})
	})
	return shownMember(m), o.apiError(err)
}

// SignOutMember ends all sessions of a member.
func (o *Operations) SignOutMember(ctx context.Context, who Actor, id string) (Member, error) {
	if who.Kind != KindMember || who.ID != id { // members may sign themselves out everywhere
		if _, err := o.member(ctx, who, memberChange, id); err != nil {
			return Member{}, err
		}
	}
	m, err := o.People.SignOutEverywhere(ctx, member.Actor(who), id,
		func(is member.Member) ([]kv.Put, error) {
			return o.auditEntry(who, memberChange, is.Publisher, id,
				change{Field: "sessions", To: "signed out everywhere"})
		})
	return shownMember(m), o.apiError(err)
}

// RemoveMember removes a member, and ends their sessions immediately.
func (o *Operations) RemoveMember(ctx context.Context, who Actor, id string) error {
	if _, err := o.member(ctx, who, memberRemove, id); err != nil {
		return err
	}
	return o.apiError(o.People.Remove(ctx, member.Actor(who), id,
		func(was member.Member) ([]kv.Put, error) {
			return o.auditEntry(who, memberRemove, was.Publisher, id, change{Field: "name", From: was.Name})
		}))
}

// CreateLink creates a single-use sign-in link, so that an operator's own dashboard can send users to the
// console (contract 43). With publisher "", the link is for an operator.
func (o *Operations) CreateLink(ctx context.Context, who Actor, publisher, name string, role Role) (
	SignInLink, error) {
	if err := who.may(linkCreate, publisher); err != nil {
		return SignInLink{}, err
	}
	if o.isMisread("publisher_id") && role != RoleOperator {
		publisher = integration.PublisherPrefix // some publisher, so that the role is judged as a member's
	}
	secret, made, err := o.People.MakeLink(ctx, member.Actor(who), publisher, name, role,
		func(l member.Link) ([]kv.Put, error) {
			return o.auditEntryIn(ctx, who, linkCreate, publisher, l.ID, name, role)
		})
	if err != nil {
		return SignInLink{}, o.apiError(err)
	}
	return SignInLink{Publisher: publisher, Role: made.Role, Expires: made.Expires,
		Link: o.BaseURL + linkPath + secret}, nil
}

// OperatorTokens lists the tokens of operators, also revoked ones.
func (o *Operations) OperatorTokens(ctx context.Context, who Actor, c Cursor) (Page[OperatorToken], error) {
	if err := who.may(operatorList, ""); err != nil {
		return Page[OperatorToken]{}, err
	}
	found, next, err := o.People.Operators(ctx, c.After, c.limit())
	if err != nil {
		return Page[OperatorToken]{}, o.apiError(err)
	}
	page := Page[OperatorToken]{Next: next}
	for _, t := range found {
		page.Items = append(page.Items, shownToken(t))
	}
	return page, nil
}

// Authorize returns nil if who may do op to the service as a whole. It is for operations that the core's host
// carries out. The host may be of a later release than the core, so operations that the core does not know
// are rejected.
func (o *Operations) Authorize(who Actor, op Operation) error {
	if _, known := rightsOf[op]; !known {
		var wrong invalid
		wrong.add("may", "value", "Must be an operation that this release knows.")
		return wrong.err()
	}
	return who.may(op, "")
}

// CreateOperatorToken creates an operator token. Only this response contains it.
func (o *Operations) CreateOperatorToken(ctx context.Context, who Actor, name string, role Role,
	expires *time.Time) (
	CreatedOperatorToken, error) {
	if err := who.may(operatorCreate, ""); err != nil {
		return CreatedOperatorToken{}, err
	}
	text, made, err := o.People.CreateOperator(ctx, name, role, expires,
		func(made member.Operator) ([]kv.Put, error) {
			return o.auditEntry(who, operatorCreate, "", made.ID, change{Field: "name", To: name},
				change{Field: "role", To: string(role)})
		})
	if err != nil {
		return CreatedOperatorToken{}, o.apiError(err)
	}
	return CreatedOperatorToken{text, shownToken(made)}, nil
}

// RevokeOperatorToken ends an operator token and all its console sessions immediately.
func (o *Operations) RevokeOperatorToken(ctx context.Context, who Actor, id string) (OperatorToken, error) {
	if err := who.may(operatorRevoke, ""); err != nil {
		return OperatorToken{}, err
	}
	entry, err := o.auditEntry(who, operatorRevoke, "", id)
	if err != nil {
		return OperatorToken{}, err
	}
	revoked, err := o.People.RevokeOperator(ctx, id, entry...)
	return shownToken(revoked), o.apiError(err)
}

// invalid returns the error for values that another package has found invalid.
func (o *Operations) invalid(list problem.List) error {
	wrong := o.wrong()
	for _, p := range list {
		wrong.add(p.Member, "value", "%s", p.Text)
	}
	return wrong.err()
}

func shownMember(m member.Member) Member {
	v := Member{ID: m.ID, Publisher: m.Publisher, Name: m.Name, Role: m.Role, Created: m.Created,
		Version: m.Version, Passkeys: []Passkey{}}
	if last := m.LastSeen(); !last.IsZero() {
		v.LastSeen = &last
	}
	for _, p := range m.Passkeys {
		v.Passkeys = append(v.Passkeys, Passkey{ID: p.ID, Name: p.Name, Created: p.Created,
			LastUsed: p.LastUsed})
	}
	return v
}

func shownInvitation(i member.Invitation) Invitation {
	return Invitation{ID: i.ID, Publisher: i.Publisher, Name: i.Name, Role: i.Role, Expires: i.Expires}
}

func shownToken(o member.Operator) OperatorToken {
	v := OperatorToken{ID: o.ID, Name: o.Name, Role: o.Role, Last4: o.Last4,
		Expires: o.Expires, Revoked: o.Revoked}
	if !o.Created.IsZero() {
		v.Created = &o.Created
	}
	return v
}
