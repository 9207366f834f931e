// Package sessiontest creates sessions, results and events in a store for tests and benchmarks outside of the
// core. It takes the core's own path to each record, so that a test does not depend on the record's format.
package sessiontest

import (
	"context"
	"io"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/lifecycle"
	"github.com/verge-id/verge/core/internal/outbox"
	"github.com/verge-id/verge/core/internal/passkey"
	"github.com/verge-id/verge/core/internal/session"
	"github.com/verge-id/verge/core/internal/token"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/webhook"
)

// challengeAge is the age that the sessions of New ask for.
const challengeAge = 25

// ID is a session id with its fields.
type ID = session.ID

// New returns the id of a session that a start could have created at now, in the nth partition. The level is
// "L1" or "L2".
func New(random io.Reader, integration, level string, now time.Time, n int) (ID, error) {
	parsed, err := session.ParseLevel(level)
	if err != nil {
		return ID{}, err
	}
	return session.NewID(random, integration, parsed, challengeAge, now, session.Partition(n))
}

// Store writes the records of a service with the environment of its host.
type Store struct{ host.Host }

// Begin writes a new session with its started event and its timer, as a start does.
func (s Store) Begin(ctx context.Context, id ID, i *integration.Integration) error {
	text, err := id.Format(s.Sealer)
	if err != nil {
		return err
	}
	l := &lifecycle.Lifecycle{Host: host.WithDefaults(s.Host), Attempts: 3, OutcomeLife: 30 * 24 * time.Hour}
	return l.Begin(ctx, lifecycle.Session{ID: id, Text: text, Integration: i}, nil, nil, nil)
}

// Issue completes a session in the store, as if its user had been verified at that time, and returns its
// result token. It is for tests that need many tokens and no pages.
func (s Store) Issue(ctx context.Context, id ID, at time.Time) (string, error) {
	text, err := id.Format(s.Sealer)
	if err != nil {
		return "", err
	}
	tx, err := kv.NewTxID(s.Random)
	if err != nil {
		return "", err
	}
	key, f := id.Key(), Forger{s.Sealer}
	value, err := f.Record(key.String(), f.Completed(at))
	if err != nil {
		return "", err
	}
	err = s.KV.Commit(ctx, kv.Tx{ID: tx, Partition: key.Partition, Checks: []kv.Check{{Name: key.Name}},
		Puts: []kv.Put{{Name: key.Name, Value: value}}})
	if err != nil {
		return "", err
	}
	return f.Result(text, at, tx)
}

// SendTestEvent sends the integration a test event of the type, signed with the secret, and logs the delivery
// in one of the partitions.
func (s Store) SendTestEvent(ctx context.Context, partitions []kv.Partition, i *integration.Integration,
	secret, typ string) error {
	h := host.WithDefaults(s.Host)
	o := outbox.Outbox{Host: h, Directory: integration.NewDirectory(h), AttemptTime: outbox.AttemptTime,
		Partitions: partitions}
	_, err := o.SendTest(ctx, i, secret, typ)
	return err
}

// DeadEvents returns up to limit events with the status dead, of sessions in the nth partition.
func (s Store) DeadEvents(ctx context.Context, n, limit int) ([]outbox.UndeliveredEvent, error) {
	return (&outbox.Outbox{Host: s.Host}).Dead(ctx, session.Partition(n).Name(), "", limit)
}

// EndPasskeys ends all passkeys of a publisher that were created until now.
func (s Store) EndPasskeys(ctx context.Context, publisher string) error {
	return (&passkey.Store{Host: host.WithDefaults(s.Host)}).End(ctx, publisher)
}

// Forger writes tokens and records with any sealer, such as a stolen, replaced or foreign key ring's.
type Forger struct{ host.Sealer }

// Flow returns a flow token, as in a session's redirect_url.
func (f Forger) Flow(session, callback string, expires time.Time) (string, error) {
	return token.SealFlow(f, token.FlowClaims{Session: session, Callback: []byte(callback),
		Expires: token.At(expires)})
}

// Result returns a result token. outcome is the transaction that completed the session; "" stands for a token
// of an earlier release.
func (f Forger) Result(session string, completed time.Time, outcome string) (string, error) {
	return token.SealResult(f, token.ResultClaims{Session: session, Completed: token.At(completed),
		Outcome: outcome})
}

// OpenResult returns the values of an authentic result token, as Result takes them.
func (f Forger) OpenResult(text string) (session string, completed time.Time, outcome string, err error) {
	c, err := token.OpenResult(f, text)
	return c.Session, c.Completed.Time(), c.Outcome, err
}

// Record returns a JSON object with its MAC, as the store has it under the name.
func (f Forger) Record(name string, object []byte) ([]byte, error) {
	return token.SignRecord(f, name, object)
}

// OpenSecret returns the webhook secret that an integration's record contains.
func (f Forger) OpenSecret(sealed string) ([]byte, error) {
	b, ok := token.DecodeText("", sealed)
	if !ok {
		return nil, host.ErrNotAuthentic
	}
	secret, _, err := f.Open(token.Secret, b)
	return secret, err
}

// ID reads a session id and checks its MAC.
func (f Forger) ID(text string) (ID, error) { return session.ParseID(f, text) }

// Completed returns the record of a completed session, without its MAC.
func (Forger) Completed(at time.Time) []byte {
	return session.Record{State: session.Completed, At: at}.Marshal()
}

// EventTask returns the task that delivers an event to its integration, due at now.
func (f Forger) EventTask(e webhook.Event, integration string, now time.Time) (kv.Task, error) {
	return outbox.Event(f, e, integration, now)
}
