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

// linkPrefix is the prefix of every sign-in link's secret.
const linkPrefix = "vrg_in_"

// linkLife is the time for which a sign-in link is valid.
const linkLife = 5 * time.Minute

// Link opens the console once. With a publisher, it grants a member's role there. Without one, it grants an
// operator's role, and its session depends on the operator token that created the link.
type Link struct {
	ID        string    `json:"id"` // link_ and 16 hexadecimal digits of the secret's hash
	Publisher string    `json:"publisher_id,omitempty"`
	Name      string    `json:"name,omitempty"` // of the person, for the audit log; may be empty
	Role      Role      `json:"role"`
	Expires   time.Time `json:"expires"`
}

// link is the stored record.
type link struct {
	Link
	By granter `json:"by"`
}

const linkIDs = "link_"

// MakeLink creates a sign-in link and returns its secret, which is shown once. The caller has checked that
// the actor, an operator, may create links. audit is called if all values are valid, and returns an error if
// there is no such publisher. The error is a problem.List if a value is invalid.
func (r *Registry) MakeLink(
	ctx context.Context, by Actor, publisher, name string, role Role, audit AuditOf[Link],
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
		func(l link) ([]kv.Put, error) { return audit.puts(l.Link) })
	if err != nil {
		return "", Link{}, err
	}
	return secret, made, nil
}

// ReadLink returns the link for a secret. It does not use the link up, so a page may show it. It returns
// ErrSpent if the secret is not valid or no longer valid.
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
		err = ErrSpent // only operators create links
	}
	if err != nil {
		return link{}, Actor{}, "", err
	}
	return l, by, version, nil
}

// UseLink uses a sign-in link and opens a session. It returns ErrSpent like ReadLink.
func (r *Registry) UseLink(
	ctx context.Context, secret string, audit AuditOf[Session],
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
	}, audit)
	if _, overtaken := beaten(err); overtaken {
		err = ErrSpent // another request was faster
	}
	return cookie, s, err
}
