package member

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"time"

	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/problem"
	"github.com/verge-id/verge/core/web"
)

// operatorPrefix is the prefix of every operator token that a Registry creates. The token has the form of an
// API key, so that a mistyped token fails without a look-up and scanners recognise a leaked one.
const operatorPrefix = "vrg_op_"

// Configured is the id and the name of the operator token in the configuration.
const Configured = "configuration"

// Operator is the record of an operator token.
type Operator struct {
	ID      string     `json:"id"` // op_ and 16 hexadecimal digits of the token's hash, or Configured
	Name    string     `json:"name"`
	Role    Role       `json:"role"` // RoleOperator or RoleViewer
	Last4   string     `json:"last4,omitempty"`
	Created time.Time  `json:"created"` // zero for the configured token
	Expires *time.Time `json:"expires,omitempty"`
	Revoked *time.Time `json:"revoked,omitempty"`
}

// Active reports whether the token is valid at now.
func (o Operator) Active(now time.Time) bool {
	return o.Revoked == nil && (o.Expires == nil || now.Before(*o.Expires))
}

// Actor returns the actor for requests with the token.
func (o Operator) Actor() Actor {
	return Actor{Kind: KindOperator, ID: o.ID, Name: o.Name, Role: o.Role}
}

const operatorIDs = "op_"

var configured = Operator{ID: Configured, Name: Configured, Role: RoleOperator}

// CreateOperator creates an operator token and returns its text, which is shown once. If expires is nil, it
// does not expire. The error is a problem.List if a value is invalid.
func (r *Registry) CreateOperator(
	ctx context.Context, name string, role Role, expires *time.Time, audit AuditOf[Operator],
) (text string, o Operator, err error) {
	var wrong problem.List
	checkName(&wrong, name)
	if name == Configured {
		wrong.Add("name", "%s is the name of the token in the configuration; choose another", Configured)
	}
	checkRole(&wrong, role, operatorRoles)
	if expires != nil && !expires.After(r.now()) {
		wrong.Add("expires", "expires is in the past")
	}
	if err := wrong.Err(); err != nil {
		return "", Operator{}, err
	}
	if text, err = integration.GenerateKey(operatorPrefix, r.random); err != nil {
		return "", Operator{}, err
	}
	hash := hashOf(text)
	o = Operator{ID: hashID(operatorIDs, hash), Name: name, Role: role, Last4: text[len(text)-4:],
		Created: r.now().UTC(), Expires: expires}
	if err := create(ctx, r, operatorItems+hash, o, time.Time{}, kv.Tx{}, audit); err != nil {
		return "", Operator{}, err
	}
	return text, o, nil
}

// FindOperator returns the active operator token with that text, or web.ErrNotFound. A text that is neither
// the configured token nor well formed is not looked up.
func (r *Registry) FindOperator(ctx context.Context, text string) (Operator, error) {
	if r.isConfigured(text) {
		return configured, nil
	}
	if !integration.WellFormed(operatorPrefix, text) {
		return Operator{}, web.ErrNotFound
	}
	o, _, err := read[Operator](ctx, r, operatorItems+hashOf(text))
	if err == nil && !o.Active(r.now()) {
		err = web.ErrNotFound
	}
	if err != nil {
		return Operator{}, err
	}
	return o, nil
}

// isConfigured compares hashes, so that its duration reveals neither the content nor the length of the token.
func (r *Registry) isConfigured(text string) bool {
	want, got := sha256.Sum256([]byte(r.OperatorToken)), sha256.Sum256([]byte(text))
	return subtle.ConstantTimeCompare(want[:], got[:]) == 1 && r.OperatorToken != ""
}

// Operators lists operator tokens, including revoked ones: the configured token first, then up to n others.
// next is the cursor of the next page, or "" on the last page.
func (r *Registry) Operators(
	ctx context.Context, after string, n int,
) (all []Operator, next string, err error) {
	if after == "" && r.OperatorToken != "" {
		all = append(all, configured)
	}
	start, err := behind(operatorItems, operatorIDs, after)
	if err != nil {
		return nil, "", err
	}
	last, err := page(ctx, r, operatorItems, start, n, func(it kv.Item) error {
		o, err := decode[Operator](r, it)
		if err == nil {
			all = append(all, o)
		}
		return err
	})
	if err != nil || last == "" {
		return all, "", err
	}
	return all, hashID(operatorIDs, last[len(operatorItems):]), nil
}

// RevokeOperator revokes an operator token by its id, and ends the sessions, links and invitations that
// depend on it. The effect is immediate. Revoking a token again does not change its record.
func (r *Registry) RevokeOperator(ctx context.Context, id string, audit ...kv.Put) (o Operator, err error) {
	if id == Configured {
		return Operator{}, ErrConfigured
	}
	err = retry("the token "+id, func() error {
		var name, version string
		if o, name, version, err = r.operator(ctx, id); err != nil || o.Revoked != nil {
			return err
		}
		now := r.now().UTC()
		o.Revoked = &now
		p, err := put(r, name, o, time.Time{})
		if err != nil {
			return err
		}
		return r.commitOnce(ctx, kv.Tx{
			Checks: []kv.Check{{Name: name, Tx: version}},
			Puts:   append([]kv.Put{p}, audit...),
		})
	})
	if err != nil {
		return Operator{}, err
	}
	return o, nil
}

// operator returns a token's record by its id, active or not.
func (r *Registry) operator(ctx context.Context, id string) (o Operator, name, version string, err error) {
	digits, ok := hashPrefix(operatorIDs, id)
	if !ok {
		return o, "", "", web.ErrNotFound
	}
	it, err := r.only(ctx, operatorItems+digits)
	if err != nil {
		return o, "", "", err
	}
	o, err = decode[Operator](r, it)
	return o, it.Key.Name, it.Tx, err
}
