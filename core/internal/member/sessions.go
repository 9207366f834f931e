package member

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/web"
)

// OpenSession is a session in a member's list of sessions.
type OpenSession struct {
	ID      string // con_ and 16 hexadecimal digits of the cookie's hash
	Opened  time.Time
	Seen    time.Time // time of the last request, or up to 5 minutes earlier
	Passkey Passkey   // used to sign in
	Current bool      // the session of this request
}

const sessionIDs = "con_"

// mostSessions is the maximum number of listed sessions per member. A session lasts 12 hours, so people have
// few.
const mostSessions = 100

// Sessions lists the sessions of the member of s, the latest first. Sessions that an earlier release opened
// are not included.
func (r *Registry) Sessions(ctx context.Context, s Session) ([]OpenSession, error) {
	if s.Kind != KindMember {
		return nil, web.ErrNotFound
	}
	m, err := r.Member(ctx, s.Publisher, s.ID)
	if err != nil {
		return nil, err
	}
	all, _, err := r.sessionsOf(ctx, m, s.name)
	return all, err
}

// SessionsOf lists the sessions of a member for an administrator. None of the sessions is Current. reads is
// the number of reads of the store: none if the member's last sign-in is older than a session can be.
func (r *Registry) SessionsOf(ctx context.Context, m Member) (all []OpenSession, reads int, err error) {
	if !r.now().Before(m.lastOpened().Add(sessionLife)) {
		return nil, 0, nil
	}
	return r.sessionsOf(ctx, m, "")
}

// lastOpened returns the time at which the member's latest session was opened, if its passkey still exists. A
// session is opened by the enrolment of a passkey or by its use, and the same commit records the time in m.
func (m Member) lastOpened() time.Time {
	last := m.LastSeen()
	for _, p := range m.Passkeys {
		if p.Created.After(last) {
			last = p.Created
		}
	}
	return last
}

// sessionsOf lists the sessions of m. current is the name of the session of this request.
func (r *Registry) sessionsOf(
	ctx context.Context, m Member, current string,
) (all []OpenSession, reads int, err error) {
	prefix := ofSession(m.ID, "")
	reads = 1
	_, err = page(ctx, r, prefix, "", mostSessions, func(it kv.Item) error {
		reads++
		hash := it.Key.Name[len(prefix):]
		open, _, err := read[session](ctx, r, sessionItems+hash)
		if errors.Is(err, web.ErrNotFound) {
			return nil // signed out since the list was read
		}
		if err != nil || !open.isOpen(r.now(), m) {
			return err
		}
		at := slices.IndexFunc(m.Passkeys, func(p Passkey) bool { return p.ID == open.Passkey })
		all = append(all, OpenSession{ID: hashID(sessionIDs, hash), Opened: open.Opened, Seen: open.Seen,
			Passkey: m.Passkeys[at], Current: sessionItems+hash == current})
		return nil
	})
	slices.SortStableFunc(all, func(a, b OpenSession) int { return b.Opened.Compare(a.Opened) })
	return all, reads, err
}

// isOpen reports whether the session belongs to m and has not ended.
func (s session) isOpen(now time.Time, m Member) bool {
	return s.Kind == KindMember && s.ID == m.ID && now.Before(s.ends()) &&
		Session{passkey: s.Passkey, epoch: s.Epoch}.of(m)
}

// EndSession ends one session of the member of s. It returns web.ErrNotFound if the member has no such
// session.
func (r *Registry) EndSession(ctx context.Context, s Session, id string, audit ...kv.Put) error {
	digits, ok := hashPrefix(sessionIDs, id)
	if s.Kind != KindMember || !ok {
		return web.ErrNotFound
	}
	prefix := ofSession(s.ID, "")
	listed, err := r.only(ctx, prefix+digits)
	if err != nil {
		return err
	}
	name := sessionItems + listed.Key.Name[len(prefix):]
	open, _, err := read[session](ctx, r, name)
	if err == nil && (open.Kind != KindMember || open.ID != s.ID) {
		err = web.ErrNotFound
	}
	if err != nil {
		return err
	}
	return r.commit(ctx, kv.Tx{Deletes: []string{name, listed.Key.Name}, Puts: audit})
}
