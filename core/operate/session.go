package operate

import (
	"context"
	"errors"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/internal/session"
	"github.com/verge-id/verge/core/internal/token"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/web"
)

// Session returns a session by its id: the facts in the id, the outcome, the last steps without success, and
// the events.
func (o *Operations) Session(ctx context.Context, who Actor, text string) (Session, error) {
	id, err := session.ParseID(o.Sealer, text)
	if errors.Is(err, host.ErrKeyAwaited) {
		return Session{}, err
	}
	if err != nil {
		return Session{}, web.ErrNotFound
	}
	i, err := o.integration(ctx, who, sessionRead, id.Integration)
	if err != nil {
		return Session{}, err
	}
	now := o.Now()
	if !now.Before(id.Expires().Add(o.Lifecycle.OutcomeLife)) {
		return Session{}, web.ErrNotFound
	}
	r, _, err := o.Lifecycle.Load(ctx, id)
	if err != nil {
		return Session{}, err
	}
	r = r.As(now, id.Expires())
	v := Session{ID: text, Publisher: i.Value.PublisherID, Integration: id.Integration,
		Level:        id.Level.String(),
		ChallengeAge: id.ChallengeAge, Status: r.State.Status(), FailureCode: r.FailureCode,
		Attempts: r.Attempts,
		Started:  id.Created, Expires: id.Expires(), Events: []Delivery{},
		Steps: []SessionStep{}}
	for _, step := range r.Steps.All() {
		v.Steps = append(v.Steps, SessionStep(step))
	}
	var ended time.Time
	if r.Terminal() {
		ended = r.At
		v.Ended = &ended
	}
	if r.State == session.Completed {
		if v.ResultUsed, err = o.resultUsed(ctx, id, r.At); err != nil {
			return Session{}, err
		}
	}
	events, err := o.Outbox.OfSession(ctx, id, ended)
	if err != nil {
		return Session{}, err
	}
	for _, e := range events {
		v.Events = append(v.Events, shownDelivery(e))
	}
	return v, nil
}

// resultUsed reports whether the publisher has fetched the result of a completed session. The store keeps
// this for the life of the result token; after that, the value is nil unless the result was used.
func (o *Operations) resultUsed(ctx context.Context, id session.ID, completed time.Time) (*bool, error) {
	_, err := o.KV.Get(ctx, id.UsedKey())
	if err != nil && !errors.Is(err, kv.ErrNotFound) {
		return nil, err
	}
	used := err == nil
	if !used && !o.Now().Before(completed.Add(token.ResultLife)) {
		return nil, nil
	}
	return &used, nil
}
