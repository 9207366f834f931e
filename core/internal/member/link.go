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

// linkPrefix begins the secret of every sign-in link.
const linkPrefix = "vrg_in_"

// linkLife is how long a sign-in link can be used.
const linkLife = 5 * time.Minute

// Link opens the console once. With a publisher it has a member's role in that publisher. Without one it
// has an operator's role, and its session is one of the operator token with which it was made.
type Link struct {
	ID        string    `json:"id"` // link_ and 16 hexadecimal digits of the secret's hash
	Publisher string    `json:"publisher_id,omitempty"`
	Name      string    `json:"name,omitempty"` // of the person, for the audit; may be empty
	Role      Role      `json:"role"`
	Expires   time.Time `json:"expires"`
}

// link is what the store has of it.
type link struct {
	Link
	By granter `json:"by"`
}

const linkIDs = "link_"

// MakeLink makes a sign-in link and returns its secret, which is shown once. The caller has checked that the
// actor, an operator, may make links. along, which is asked if every value is good, refuses if there is no
// such publisher. The error is a problem.List if a value is wrong.
func (r *Registry) MakeLink(
	ctx context.Context, by Actor, publisher, name string, role Role, along WriteWith[Link],
) (secret string, made Link, err error) {
	var wrong problem.List
	if name != "" {
		checkName(&wrong, name)
	}
	roles := memberRoles
	if publisher == "" {
		roles = operatorRoles
	}
	checkRole(&wrong, role, roles)
	if err := wrong.Err(); err != nil {
		return "", Link{}, err
	}
	if secret, err = integration.GenerateKey(linkPrefix, r.random); err != nil {
		return "", Link{}, err
	}
	hash := hashOf(secret)
	made = Link{ID: hashID(linkIDs, hash), Publisher: publisher, Name: name, Role: role,
		Expires: r.now().UTC().Add(linkLife)}
	err = create(ctx, r, linkItems+hash, link{made, r.granterOf(by, secret)}, made.Expires, kv.Tx{},
		func(l link) ([]kv.Put, error) { return along.puts(l.Link) })
	if err != nil {
		return "", Link{}, err
	}
	return secret, made, nil
}

// ReadLink returns the link that a secret opens. It uses nothing up, so a page may show it. The error is
// ErrSpent if nobody can use the secret, or use it any more.
func (r *Registry) ReadLink(ctx context.Context, secret string) (Link, error) {
	l, _, _, err := r.link(ctx, secret)
	return l.Link, err
}

func (r *Registry) link(ctx context.Context, secret string) (l link, by Actor, version string, err error) {
	if !integration.WellFormed(linkPrefix, secret) {
		return link{}, Actor{}, "", ErrSpent
	}
	l, version, err = read[link](ctx, r, linkItems+hashOf(secret))
	if errors.Is(err, web.ErrNotFound) || err == nil && !r.now().Before(l.Expires) {
		err = ErrSpent
	}
	if err == nil {
		by, err = r.findGranter(ctx, l.By, secret)
	}
	if err == nil && (by.Kind != KindOperator || by.Role != RoleOperator) {
		err = ErrSpent // only an operator makes links
	}
	if err != nil {
		return link{}, Actor{}, "", err
	}
	return l, by, version, nil
}

// UseLink uses a sign-in link up and opens a session. The error is ErrSpent as in ReadLink.
func (r *Registry) UseLink(
	ctx context.Context, secret string, along WriteWith[Session],
) (cookie string, s Session, err error) {
	l, by, version, err := r.link(ctx, secret)
	if err != nil {
		return "", Session{}, err
	}
	opened := session{Kind: KindLink, ID: l.ID, Name: l.Name, Role: l.Role, Publisher: l.Publisher}
	if l.Publisher == "" {
		opened.Kind, opened.ID, opened.Name = KindOperator, by.ID, ""
	}
	name := linkItems + hashOf(secret)
	cookie, s, err = r.open(ctx, opened, &by, kv.Tx{
		Checks:  []kv.Check{{Name: name, Tx: version}},
		Deletes: []string{name},
	}, along)
	if _, overtaken := beaten(err); overtaken {
		err = ErrSpent // somebody else was faster
	}
	return cookie, s, err
}
