package member

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"

	"github.com/verge-id/verge/core/web"
)

// voucher names the actor who made an invitation, a link or a session. What they made ends when they lose the
// right to make it.
type voucher struct {
	Kind string `json:"kind"` // of the actor
	ID   string `json:"id"`

	// Mark is a MAC of the configured operator token, if that token made it. Its key is the secret of what
	// was made. So another token in the configuration ends it. The store does not have that secret, so who
	// reads the store cannot check a guess at the token.
	Mark []byte `json:"mark,omitempty"`
}

// vouch returns the voucher of an actor for something that has the secret. What is made in the session of a
// link stands on the operator token that made the link. Nothing else ends it, since no record says who used
// the link.
func (r *Registry) vouch(by Actor, secret string) voucher {
	if by.Kind == KindLink {
		by = Actor{Kind: KindOperator, ID: by.Token}
	}
	v := voucher{Kind: by.Kind, ID: by.ID}
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

// voucher returns the actor who made something that has the secret, as they are now. The error is ErrSpent if
// they may make nothing any more.
func (r *Registry) voucher(ctx context.Context, v voucher, secret string) (Actor, error) {
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
