// Package result issues result tokens and redeems each of them once (contract 17).
//
// A sealed result token alone is no proof. Redeem commits a mark under the session's id if the store has no
// such mark and still contains the exact outcome for which the token was issued. So a token is redeemed at
// most once.
package result

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/internal/lifecycle"
	"github.com/verge-id/verge/core/internal/session"
	"github.com/verge-id/verge/core/internal/strictjson"
	"github.com/verge-id/verge/core/internal/token"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/web"
)

// Tokens issues result tokens and redeems them. All fields are needed.
type Tokens struct {
	host.Host

	Lifecycle *lifecycle.Lifecycle
}

// Errors for the publisher that sends a token.
var (
	// ErrInvalid is also the error for a token whose outcome the store does not hold, and for one of another
	// publisher.
	ErrInvalid = &web.Error{Code: web.InvalidToken,
		Message: "The result token was not issued here for this publisher, or it was altered."}
	ErrExpired = &web.Error{Code: web.TokenExpired, Message: "The result token is older than 5 minutes."}
	ErrUsed    = &web.Error{Code: web.AlreadyUsed, Message: "The result token has been used."}
)

// Claims returns the claims of the result token of a session that r, as the store holds it in that version,
// shows as completed. However often it is called, the token has the same identity and the same expiry. The
// error is ErrUsed, ErrExpired, or one of the store's.
func (t *Tokens) Claims(ctx context.Context, s lifecycle.Session, r session.Record, version string,
	now time.Time) (token.ResultClaims, error) {
	_, err := t.KV.Get(ctx, s.ID.UsedKey())
	if err == nil {
		return token.ResultClaims{}, ErrUsed
	}
	if !errors.Is(err, kv.ErrNotFound) {
		return token.ResultClaims{}, err
	}
	claims := token.ResultClaims{Session: s.Text, Completed: token.At(r.At), Outcome: version}
	if !now.Before(claims.Expires()) {
		return token.ResultClaims{}, ErrExpired
	}
	return claims, nil
}

// Token is an authentic result token, expired or not.
type Token struct {
	Session session.ID
	Text    string // of the session's id
	claims  token.ResultClaims
}

// Open reads a result token. The error is ErrInvalid or host.ErrKeyAwaited.
func (t *Tokens) Open(text string) (Token, error) {
	claims, err := token.OpenResult(t.Sealer, text)
	return t.Of(claims, err)
}

// Of is Open for claims that are already opened; err is the error of opening them.
func (t *Tokens) Of(claims token.ResultClaims, err error) (Token, error) {
	var id session.ID
	if err == nil {
		id, err = session.ParseID(t.Sealer, claims.Session)
	}
	if errors.Is(err, host.ErrKeyAwaited) {
		return Token{}, err
	}
	if err != nil {
		return Token{}, ErrInvalid
	}
	return Token{Session: id, Text: claims.Session, claims: claims}, nil
}

// mark is the stored record of a redeemed token.
type mark struct {
	At int64  `json:"t"`           // milliseconds since 1970
	By []byte `json:"o,omitempty"` // MAC of the caller's name, which can be guessed (contract 19)
}

func (m mark) marshal() []byte {
	w := strictjson.NewWriter(64)
	w.Number("t", m.At)
	if len(m.By) > 0 {
		w.Base64("o", m.By)
	}
	return w.End()
}

// markMargin is the time for which a mark outlives its token. It is longer than the difference of clocks, so
// that no instance accepts a token whose mark another instance has already deleted. It is also the life of
// the session's link, so that the link can show that the result was used.
const markMargin = session.Life

// Redeem redeems the token at now, and returns when it was redeemed. by names the caller. A caller that calls
// again with the same name gets the first result again. "" names no caller. The error is ErrInvalid,
// ErrExpired, ErrUsed, or one of the store's.
func (t *Tokens) Redeem(ctx context.Context, tok Token, by string, now time.Time) (time.Time, error) {
	if !now.Before(tok.claims.Expires()) {
		return time.Time{}, ErrExpired
	}
	mine, used := mark{At: now.UnixMilli()}, tok.Session.UsedKey()
	caller := []byte("redeemed\x00" + used.Name + "\x00" + by)
	if by != "" {
		mac, err := t.Sealer.MAC(token.Secret, caller)
		if err != nil {
			return time.Time{}, err
		}
		mine.By = mac
	}
	outcome, err := t.outcome(ctx, tok)
	if err != nil {
		return time.Time{}, err
	}
	txID, err := kv.NewTxID(t.Random)
	if err != nil {
		return time.Time{}, err
	}
	err = kv.CommitSurely(ctx, t.KV, kv.Tx{
		ID: txID, Partition: used.Partition,
		Checks: []kv.Check{{Name: used.Name}, {Name: tok.Session.Key().Name, Tx: outcome}},
		Puts: []kv.Put{{Name: used.Name, Value: mine.marshal(),
			Expires: tok.claims.Expires().Add(markMargin)}},
	})
	conflict, ok := errors.AsType[*kv.Conflict](err)
	if !ok {
		return now, err
	}
	item, wasUsed := conflict.Item(used.Name)
	if !wasUsed {
		return time.Time{}, ErrInvalid
	}
	var first mark
	if err := json.Unmarshal(item.Value, &first); err != nil {
		return time.Time{}, fmt.Errorf("result: damaged mark %s: %w", used.Name, err)
	}
	if by == "" || len(first.By) == 0 {
		return time.Time{}, ErrUsed
	}
	switch _, err := t.Sealer.CheckMAC(token.Secret, caller, first.By); {
	case err == nil:
		return time.UnixMilli(first.At), nil
	case errors.Is(err, host.ErrKeyAwaited):
		return time.Time{}, err
	}
	return time.Time{}, ErrUsed
}

// outcome returns the transaction that wrote the outcome for which the token was issued. A token of an
// earlier release does not name it. Such a token must agree with the record that the store holds.
func (t *Tokens) outcome(ctx context.Context, tok Token) (string, error) {
	if tok.claims.Outcome != "" {
		return tok.claims.Outcome, nil
	}
	r, version, err := t.Lifecycle.Load(ctx, tok.Session)
	if err != nil {
		return "", err
	}
	if r.State != session.Completed || token.At(r.At) != tok.claims.Completed {
		return "", ErrInvalid
	}
	return version, nil
}
