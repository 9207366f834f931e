package api

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/reply"
	"github.com/verge-id/verge/core/session"
	"github.com/verge-id/verge/core/token"
	"github.com/verge-id/verge/core/web"
)

// validateResponse is the body of a 200.
type validateResponse struct {
	Valid         bool   `json:"valid"`
	Verified      bool   `json:"verified"`
	Level         string `json:"level"`
	ChallengeAge  int    `json:"challenge_age"`
	SessionID     string `json:"session_id"`
	IntegrationID string `json:"integration_id"`
	ValidatedAt   string `json:"validated_at"`
}

func (r validateResponse) marshal() []byte {
	w := web.NewObjectWriter(320)
	w.Bool("valid", r.Valid)
	w.Bool("verified", r.Verified)
	w.Text("level", r.Level)
	w.Number("challenge_age", int64(r.ChallengeAge))
	w.Text("session_id", r.SessionID)
	w.Text("integration_id", r.IntegrationID)
	w.Text("validated_at", r.ValidatedAt)
	return w.End()
}

var errInvalidToken = &reply.Error{Code: reply.InvalidToken, Message: "The result token was not issued here for this publisher, or it was altered."}

// Validate is POST /api/v1/verify/validate: it consumes a result token.
func Validate(c *call) (*web.Response, error) {
	key, err := c.requireSecret(nil)
	if err != nil {
		return nil, c.publicInBody(err)
	}
	f, err := c.body()
	if err != nil {
		return nil, err
	}
	text := f.required("result_token")
	idempotency := c.idempotencyKey(f, false)
	if err := f.err(); err != nil {
		return nil, err
	}
	claims, id, err := c.openResult(key, *text)
	if err != nil {
		return nil, err
	}
	if !c.now.Before(claims.Expires()) {
		return nil, &reply.Error{Code: reply.TokenExpired, Message: "The result token is older than 5 minutes."}
	}
	at, err := c.consume(key, claims, id, idempotency)
	if err != nil {
		return nil, err
	}
	return reply.Written(200, validateResponse{
		Valid: true, Verified: true, Level: id.Level.String(), ChallengeAge: id.ChallengeAge,
		SessionID: claims.Session, IntegrationID: id.Integration, ValidatedAt: timestamp(at),
	}.marshal()), nil
}

// publicInBody tells a caller who sends a public key where only a secret key
// goes that the key is known and may not do this (contract 5, 403).
func (c *call) publicInBody(refusal error) error {
	var e *reply.Error
	if _, present := c.bearer(); present || !errors.As(refusal, &e) || e.Code != reply.Unauthorized {
		return refusal
	}
	f, err := c.body()
	if err != nil {
		return refusal
	}
	public, _, _ := f.object.String("public_key")
	_, err = c.activeKey(integration.Present(integration.PublicPrefix, public))
	switch {
	case errors.As(err, &e):
		return refusal
	case err != nil:
		return err
	}
	return &reply.Error{Code: reply.Forbidden, Message: "A public key cannot validate. Use the secret key, from a server."}
}

// openResult returns the claims of an authentic result token of the key's
// publisher, expired or not. Everything else gets the one same answer.
func (c *call) openResult(key *integration.Key, text string) (token.ResultClaims, session.ID, error) {
	claims, err := token.OpenResult(c.Sealer, text)
	var id session.ID
	if err == nil {
		id, err = session.ParseID(c.Sealer, claims.Session)
	}
	if errors.Is(err, host.ErrKeyAwaited) {
		return token.ResultClaims{}, session.ID{}, err
	}
	if err != nil {
		return token.ResultClaims{}, session.ID{}, errInvalidToken
	}
	i, err := c.ownIntegration(key, id.Integration)
	if err != nil {
		return token.ResultClaims{}, session.ID{}, err
	}
	if i == nil {
		return token.ResultClaims{}, session.ID{}, errInvalidToken
	}
	return claims, id, nil
}

// used is what is kept of a consumed token.
type used struct {
	At    int64  `json:"t"`           // milliseconds since 1970
	Owner []byte `json:"o,omitempty"` // hash of publisher and Idempotency-Key
}

func (u used) marshal() []byte {
	w := web.NewObjectWriter(64)
	w.Number("t", u.At)
	if len(u.Owner) > 0 {
		w.Base64("o", u.Owner)
	}
	return w.End()
}

// usedMargin outlives the token by more than clocks differ, so that no
// instance takes a token for good that another has seen used and forgotten;
// and the link that led to it, which can then say that it was used.
const usedMargin = session.Life

// consume marks the token used, once, and returns when that was. The commit
// demands that the outcome which the token was issued for is in the store: a
// token alone, however well sealed, proves nothing (contract 17).
func (c *call) consume(key *integration.Key, claims token.ResultClaims, id session.ID, idempotency string) (time.Time, error) {
	mark := used{At: c.now.UnixMilli()}
	if idempotency != "" {
		h := sha256.Sum256([]byte(key.PublisherID + "\x00" + idempotency))
		mark.Owner = h[:16]
	}
	outcome, err := c.outcome(claims, id)
	if err != nil {
		return time.Time{}, err
	}
	txID, err := kv.NewTxID(c.Random)
	if err != nil {
		return time.Time{}, err
	}
	mine := id.UsedKey()
	name := mine.Name
	err = kv.CommitSurely(c.ctx, c.KV, kv.Tx{
		ID: txID, Partition: mine.Partition,
		Checks: []kv.Check{{Name: name}, {Name: id.Key().Name, Tx: outcome}},
		Puts:   []kv.Put{{Name: name, Value: mark.marshal(), Expires: claims.Expires().Add(usedMargin)}},
	})
	var conflict *kv.Conflict
	if !errors.As(err, &conflict) {
		return c.now, err
	}
	item, wasUsed := conflict.Item(name)
	if !wasUsed {
		return time.Time{}, errInvalidToken
	}
	var first used
	if err := json.Unmarshal(item.Value, &first); err != nil {
		return time.Time{}, fmt.Errorf("api: damaged mark %s: %w", name, err)
	}
	if idempotency != "" && string(first.Owner) == string(mark.Owner) {
		return time.UnixMilli(first.At), nil // the same call again: its first answer
	}
	return time.Time{}, &reply.Error{Code: reply.AlreadyUsed, Message: "The result token has been used."}
}

// outcome returns the transaction that wrote the outcome for which the token was
// issued. A token of an earlier release does not name it, and is held against
// the store's record here.
func (c *call) outcome(claims token.ResultClaims, id session.ID) (string, error) {
	if claims.Outcome != "" {
		return claims.Outcome, nil
	}
	r, version, err := c.Lifecycle.Load(c.ctx, id)
	if err != nil {
		return "", err
	}
	if r.State != session.Completed || token.At(r.At) != claims.Completed {
		return "", errInvalidToken
	}
	return version, nil
}
