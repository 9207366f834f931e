package member

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/problem"
	"github.com/verge-id/verge/core/web"
)

// Actor returns the actor for the member.
func (m Member) Actor() Actor {
	return Actor{Kind: KindMember, ID: m.ID, Name: m.Name, Role: m.Role, Publisher: m.Publisher}
}

// Member returns a member of the publisher; "" means any publisher. For a member of another publisher it
// returns web.ErrNotFound.
func (r *Registry) Member(ctx context.Context, publisher, id string) (Member, error) {
	if _, ok := handleOf(id); !ok {
		return Member{}, web.ErrNotFound
	}
	m, version, err := read[Member](ctx, r, memberItems+id)
	if err == nil && publisher != "" && m.Publisher != publisher {
		err = web.ErrNotFound
	}
	if err != nil {
		return Member{}, err
	}
	m.Version = version
	return m, nil
}

// Members lists the members of a publisher; "" means all publishers. after is the next of the previous page,
// or "" for the first page. next is "" on the last page.
func (r *Registry) Members(
	ctx context.Context, publisher, after string, n int,
) (all []Member, next string, err error) {
	prefix := memberItems
	if publisher != "" {
		prefix = ofMember(publisher, "")
	}
	start := ""
	if after != "" {
		if _, ok := handleOf(after); !ok {
			return nil, "", badCursor()
		}
		start = prefix + after
	}
	last, err := page(ctx, r, prefix, start, n, func(it kv.Item) error {
		m, err := r.Member(ctx, publisher, it.Key.Name[len(prefix):])
		if err == nil {
			all = append(all, m)
		}
		return err
	})
	if err != nil || last == "" {
		return all, "", err
	}
	return all, last[len(prefix):], nil
}

// ChangeRole changes the role of a member. It returns web.ErrNotFound if the actor cannot see the member,
// ErrLastAdmin if the actor is no operator and the publisher would have no admin left, and a problem.List if
// the role is unknown.
func (r *Registry) ChangeRole(
	ctx context.Context, by Actor, id string, role Role, audit AuditOf[Member],
) (Member, error) {
	var wrong problem.List
	checkRole(&wrong, role, memberRoles)
	if err := wrong.Err(); err != nil {
		return Member{}, err
	}
	return r.change(ctx, by.Publisher, id, audit, func(m *Member, tx *kv.Tx) error {
		was := m.Role
		m.Role = role
		if was != RoleAdmin || role == RoleAdmin {
			return nil
		}
		return r.loseAdmin(ctx, by, *m, tx)
	})
}

// SignOutEverywhere ends all sessions of a member immediately.
func (r *Registry) SignOutEverywhere(
	ctx context.Context, by Actor, id string, audit AuditOf[Member],
) (Member, error) {
	return r.change(ctx, by.Publisher, id, audit, func(m *Member, _ *kv.Tx) error {
		m.Epoch++
		return nil
	})
}

// change reads a member, calls edit to change it and to extend the commit, and commits. It retries if another
// commit came first.
func (r *Registry) change(
	ctx context.Context, publisher, id string, audit AuditOf[Member], edit func(*Member, *kv.Tx) error,
) (m Member, err error) {
	err = retry("the member "+id, func() error {
		if m, err = r.Member(ctx, publisher, id); err != nil {
			return err
		}
		tx := kv.Tx{}
		if err := edit(&m, &tx); err != nil {
			return err
		}
		if err := r.replace(&tx, m); err != nil {
			return err
		}
		return r.commitWith(ctx, tx, m, audit)
	})
	if err != nil {
		return Member{}, err
	}
	return m, nil
}

// replace adds to tx that m replaces the version that was read.
func (r *Registry) replace(tx *kv.Tx, m Member) error {
	p, err := put(r, memberItems+m.ID, m, time.Time{})
	if err != nil {
		return err
	}
	tx.Checks = append(tx.Checks, kv.Check{Name: p.Name, Tx: m.Version})
	tx.Puts = append(tx.Puts, p)
	return nil
}

// Remove removes a member and ends their sessions immediately. It returns the same errors as ChangeRole.
func (r *Registry) Remove(ctx context.Context, by Actor, id string, audit AuditOf[Member]) error {
	return retry("the member "+id, func() error {
		m, err := r.Member(ctx, by.Publisher, id)
		if err != nil {
			return err
		}
		name := memberItems + m.ID
		tx := kv.Tx{
			Checks:  []kv.Check{{Name: name, Tx: m.Version}},
			Deletes: []string{name, ofMember(m.Publisher, m.ID)},
		}
		for _, p := range m.Passkeys {
			tx.Deletes = append(tx.Deletes, p.item())
		}
		if m.Role == RoleAdmin {
			if err := r.loseAdmin(ctx, by, m, &tx); err != nil {
				return err
			}
		}
		return r.commitWith(ctx, tx, m, audit)
	})
}

// commitWith commits tx, which changes m, together with the records of audit.
func (r *Registry) commitWith(ctx context.Context, tx kv.Tx, m Member, audit AuditOf[Member]) error {
	more, err := audit.puts(m)
	if err != nil {
		return err
	}
	tx.Puts = append(tx.Puts, more...)
	return r.commitOnce(ctx, tx)
}

// loseAdmin adds to tx that m is no longer an admin. Each such commit of a publisher writes the same item, so
// two admins cannot remove each other concurrently. Read that item before the members.
func (r *Registry) loseAdmin(ctx context.Context, by Actor, m Member, tx *kv.Tx) error {
	name := adminsOf(m.Publisher)
	guard, err := r.kv.Get(ctx, key(name))
	if err != nil && !errors.Is(err, kv.ErrNotFound) {
		return err
	}
	if !by.operator() {
		others, err := r.otherAdmin(ctx, m)
		if err != nil {
			return err
		}
		if !others {
			return ErrLastAdmin
		}
	}
	tx.Checks = append(tx.Checks, kv.Check{Name: name, Tx: guard.Tx})
	tx.Puts = append(tx.Puts, kv.Put{Name: name, Value: mark})
	return nil
}

// memberPage is the number of members per read.
const memberPage = 100

// otherAdmin reports whether the publisher of m has an admin besides m.
func (r *Registry) otherAdmin(ctx context.Context, m Member) (bool, error) {
	for after := ""; ; {
		all, next, err := r.Members(ctx, m.Publisher, after, memberPage)
		if err != nil {
			return false, err
		}
		isOther := func(other Member) bool { return other.Role == RoleAdmin && other.ID != m.ID }
		if slices.ContainsFunc(all, isOther) {
			return true, nil
		}
		if next == "" {
			return false, nil
		}
		after = next
	}
}
