package member

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"

	"github.com/verge-id/verge/core/web"
)

// granter is the actor that created a grant: an invitation, a sign-in link or a session. The grant ends when
// the actor loses the right to create it.
type granter struct {
	Kind string `json:"kind"` // of the actor
	ID   string `json:"id"`

	// Mark, for the operator token of the configuration, is a MAC of the token under the secret of the grant,
	// so another token ends the grant. The store lacks the secret, so a reader of the store cannot test
	// guesses of the token.
	Mark []byte `json:"mark,omitempty"`
}

// granterOf returns the granter for a grant with this secret. A grant from the session of a link depends on
// the operator token that created the link: no record names the person who used the link.
func (r *Registry) granterOf(by Actor, secret string) granter {
	if by.Kind == KindLink {
		by = Actor{Kind: KindOperator, ID: by.Token}
	}
	v := granter{Kind: by.Kind, ID: by.ID}
	if by.Kind == KindOperator && by.ID == Configured {
		v.Mark = r.markOf(secret)
	}
	return v
}

func (r *Registry) markOf(secret string) []byte {
	h := hmac.New(sha256.New, []byte(secret))
	h.Write([]byte("operator\x00" + r.OperatorToken))
	return h.Sum(nil)
}

// findGranter returns the current actor of a grant with this secret. It returns ErrSpent if the actor may no
// longer create grants.
func (r *Registry) findGranter(ctx context.Context, v granter, secret string) (Actor, error) {
	switch v.Kind {
	case KindOperator:
		o := configured
		if v.ID == Configured {
			if r.OperatorToken == "" || !hmac.Equal(v.Mark, r.markOf(secret)) {
				return Actor{}, ErrSpent
			}
			return o.Actor(), nil
		}
		o, _, _, err := r.operator(ctx, v.ID)
		if errors.Is(err, web.ErrNotFound) || err == nil && !o.Active(r.now()) {
			err = ErrSpent
		}
		return o.Actor(), err
	case KindMember:
		m, err := r.Member(ctx, "", v.ID)
		if errors.Is(err, web.ErrNotFound) {
			err = ErrSpent
		}
		return m.Actor(), err
	}
	return Actor{}, ErrSpent
}
