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

// AttemptTime is the default time limit of one webhook attempt.
const AttemptTime = outbox.AttemptTime

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

// Parse reads a session id and checks its MAC.
func Parse(sealer host.Sealer, text string) (ID, error) { return session.ParseID(sealer, text) }

// Partition returns the name of the nth partition of sessions.
func Partition(n int) kv.Partition { return session.Partition(n).Name() }

// Completed returns the record of a completed session, without its MAC.
func Completed(at time.Time) []byte {
	return session.Record{State: session.Completed, At: at}.Marshal()
}

// Begin writes a new session with its started event and its timer, as a start does.
func Begin(ctx context.Context, h host.Host, id ID, i *integration.Integration) error {
	text, err := id.Format(h.Sealer)
	if err != nil {
		return err
	}
	l := &lifecycle.Lifecycle{Host: host.WithDefaults(h), Attempts: 3, OutcomeLife: 30 * 24 * time.Hour}
	return l.Begin(ctx, lifecycle.Session{ID: id, Text: text, Integration: i}, nil, nil, nil)
}

// Issue completes a session in the store, as if its user had been verified at that time, and returns its
// result token. It is for tests that need many tokens and no pages.
func Issue(ctx context.Context, h host.Host, id ID, at time.Time) (string, error) {
	text, err := id.Format(h.Sealer)
	if err != nil {
		return "", err
	}
	tx, err := kv.NewTxID(h.Random)
	if err != nil {
		return "", err
	}
	key := id.Key()
	value, err := token.SignRecord(h.Sealer, key.String(), Completed(at))
	if err != nil {
		return "", err
	}
	err = h.KV.Commit(ctx, kv.Tx{ID: tx, Partition: key.Partition, Checks: []kv.Check{{Name: key.Name}},
		Puts: []kv.Put{{Name: key.Name, Value: value}}})
	if err != nil {
		return "", err
	}
	return token.SealResult(h.Sealer, token.ResultClaims{Session: text, Completed: token.At(at), Outcome: tx})
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

// EventTask returns the task that delivers an event to its integration, due at now.
func EventTask(sealer host.Sealer, e webhook.Event, integration string, now time.Time) (kv.Task, error) {
	return outbox.Event(sealer, e, integration, now)
}

// SendTestEvent sends the integration a test event of the type, signed with the secret, and logs the delivery
// in one of the partitions.
func SendTestEvent(ctx context.Context, h host.Host, partitions []kv.Partition, i *integration.Integration,
	secret, typ string) error {
	h = host.WithDefaults(h)
	o := outbox.Outbox{Host: h, Directory: integration.NewDirectory(h), AttemptTime: AttemptTime,
		Partitions: partitions}
	_, err := o.SendTest(ctx, i, secret, typ)
	return err
}

// DeadEvents returns up to n events of a partition with the status dead.
func DeadEvents(ctx context.Context, h host.Host, p kv.Partition, n int) (
	[]outbox.UndeliveredEvent, error) {
	return (&outbox.Outbox{Host: h}).Dead(ctx, p, "", n)
}

// EndPasskeys ends all passkeys of a publisher that were created until now.
func EndPasskeys(ctx context.Context, h host.Host, publisher string) error {
	return (&passkey.Store{Host: host.WithDefaults(h)}).End(ctx, publisher)
}
