package member

import (
	"context"
	"errors"
	"time"

	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/problem"
	"github.com/verge-id/verge/core/web"
)

// invitationPrefix is the prefix of every invitation's secret.
const invitationPrefix = "vrg_inv_"

// invitationLife is the time for which an invitation is valid.
const invitationLife = 24 * time.Hour

// Invitation lets one person become a member of a publisher.
type Invitation struct {
	ID        string    `json:"id"` // inv_ and 16 hexadecimal digits of the secret's hash
	Publisher string    `json:"publisher_id"`
	Name      string    `json:"name"` // of the person, by the inviter; may be empty
	Role      Role      `json:"role"`
	Created   time.Time `json:"created"`
	Expires   time.Time `json:"expires"`
}

// invitation is the stored record.
type invitation struct {
	Invitation
	By granter `json:"by"`
}

const invitationIDs = "inv_"

// Invite creates an invitation and returns its secret, which is shown once. The caller has checked that the
// actor may invite. audit is called if all values are valid, and returns an error if there is no such
// publisher. The error is a problem.List if a value is invalid.
func (r *Registry) Invite(
	ctx context.Context, by Actor, publisher, name string, role Role, audit AuditOf[Invitation],
) (secret string, made Invitation, err error) {
	var wrong problem.List
	if name != "" {
		checkName(&wrong, name)
	}
	checkRole(&wrong, role, memberRoles)
	if err := wrong.Err(); err != nil {
		return "", Invitation{}, err
	}
	if secret, err = integration.GenerateKey(invitationPrefix, r.random); err != nil {
		return "", Invitation{}, err
	}
	hash, now := hashOf(secret), r.now().UTC()
	made = Invitation{ID: hashID(invitationIDs, hash), Publisher: publisher, Name: name, Role: role,
		Created: now, Expires: now.Add(invitationLife)}
	tx := kv.Tx{Puts: []kv.Put{{Name: ofInvitation(publisher, hash), Value: mark, Expires: made.Expires}}}
	err = create(ctx, r, invitationItems+hash, invitation{made, r.granterOf(by, secret)}, made.Expires, tx,
		func(i invitation) ([]kv.Put, error) { return audit.puts(i.Invitation) })
	if err != nil {
		return "", Invitation{}, err
	}
	return secret, made, nil
}

// ReadInvitation returns the invitation for a secret. It does not use the invitation up, so a page may show
// it. It returns ErrSpent if the secret is not valid or no longer valid.
func (r *Registry) ReadInvitation(ctx context.Context, secret string) (Invitation, error) {
	i, _, err := r.invitation(ctx, secret)
	return i.Invitation, err
}

func (r *Registry) invitation(ctx context.Context, secret string) (i invitation, version string, err error) {
	if !integration.WellFormed(invitationPrefix, secret) {
		return invitation{}, "", ErrSpent
	}
	i, version, err = read[invitation](ctx, r, invitationItems+hashOf(secret))
	if errors.Is(err, web.ErrNotFound) || err == nil && !r.now().Before(i.Expires) {
		err = ErrSpent
	}
	if err != nil {
		return invitation{}, "", err
	}
	by, err := r.findGranter(ctx, i.By, secret)
	if err == nil && !mayInvite(by, i.Publisher) {
		err = ErrSpent
	}
	if err != nil {
		return invitation{}, "", err
	}
	return i, version, nil
}

// mayInvite reports whether the creator of an invitation still has the right to create it.
func mayInvite(by Actor, publisher string) bool {
	switch by.Kind {
	case KindOperator:
		return by.Role == RoleOperator
	case KindMember:
		return by.Role == RoleAdmin && by.Publisher == publisher
	}
	return true
}

// Invitations lists the open invitations to a publisher. next is the cursor of the next page, or "" on the
// last page.
func (r *Registry) Invitations(
	ctx context.Context, publisher, after string, n int,
) (all []Invitation, next string, err error) {
	prefix := ofInvitation(publisher, "")
	start, err := behind(prefix, invitationIDs, after)
	if err != nil {
		return nil, "", err
	}
	last, err := page(ctx, r, prefix, start, n, func(it kv.Item) error {
		i, _, err := read[invitation](ctx, r, invitationItems+it.Key.Name[len(prefix):])
		if err == nil && i.Publisher == publisher && r.now().Before(i.Expires) {
			all = append(all, i.Invitation)
		}
		return err
	})
	if err != nil || last == "" {
		return all, "", err
	}
	return all, hashID(invitationIDs, last[len(prefix):]), nil
}

// Withdraw ends an invitation to the publisher by its id. It returns web.ErrNotFound if no such invitation is
// open.
func (r *Registry) Withdraw(ctx context.Context, publisher, id string, audit ...kv.Put) error {
	digits, ok := hashPrefix(invitationIDs, id)
	if !ok {
		return web.ErrNotFound
	}
	it, err := r.only(ctx, invitationItems+digits)
	if err != nil {
		return err
	}
	i, err := decode[invitation](r, it)
	if err != nil {
		return err
	}
	if i.Publisher != publisher || !r.now().Before(i.Expires) {
		return web.ErrNotFound
	}
	tx := i.spend(it.Key.Name, it.Tx)
	tx.Puts = append(tx.Puts, audit...)
	err = r.commitOnce(ctx, tx)
	if _, overtaken := beaten(err); overtaken {
		return web.ErrNotFound // it was used or withdrawn at the same time
	}
	return err
}

// spend returns a transaction that removes the invitation with that name and version.
func (i invitation) spend(name, version string) kv.Tx {
	return kv.Tx{
		Checks:  []kv.Check{{Name: name, Tx: version}},
		Deletes: []string{name, ofInvitation(i.Publisher, name[len(invitationItems):])},
	}
}
