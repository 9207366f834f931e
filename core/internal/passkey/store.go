package passkey

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/metric"
	"github.com/verge-id/verge/core/internal/token"
	"github.com/verge-id/verge/core/internal/webauthn"
	"github.com/verge-id/verge/core/kv"
)

var (
	// ErrUnknown: the passkey has no record.
	ErrUnknown = errors.New("passkey: there is no record of it")

	// ErrKnown: another passkey with the same credential id has a record.
	ErrKnown = errors.New("passkey: another one has the same id")
)

// Store stores passkeys. All fields except Count are required.
type Store struct {
	host.Host

	Party webauthn.RelyingParty
	Life  time.Duration // of a new passkey
}

// NewChallenge returns 32 random bytes.
func (s *Store) NewChallenge() ([]byte, error) { return s.random(32) }

func (s *Store) random(n int) ([]byte, error) {
	b := make([]byte, n)
	if _, err := io.ReadFull(s.Random, b); err != nil {
		return nil, fmt.Errorf("passkey: reading randomness: %w", err)
	}
	return b, nil
}

// Creation returns the options for a browser to create a passkey. name is its label on the device. The user
// handle is random, so that two passkeys of one person have no common data.
func (s *Store) Creation(challenge []byte, name string) ([]byte, error) {
	handle, err := s.random(16)
	if err != nil {
		return nil, err
	}
	return webauthn.CreationOptions(s.Party, challenge, webauthn.User{Handle: handle, Name: name,
		DisplayName: name}, nil)
}

// Request returns the options for a browser to use any passkey of the device.
func (s *Store) Request(challenge []byte) ([]byte, error) {
	return webauthn.RequestOptions(s.Party, challenge)
}

// New is a passkey that a browser has created and that is not stored yet.
type New struct{ credential webauthn.Credential }

// ID returns the credential's id.
func (n New) ID() []byte { return n.credential.ID }

// Read checks the response to Creation with that challenge. The error is a *webauthn.Rejection.
func (s *Store) Read(challenge, response []byte) (New, error) {
	c, err := webauthn.VerifyRegistration(s.Party, challenge, response)
	return New{c}, err
}

// Keep stores a passkey with the proof p. If the same passkey is already stored, its record is unchanged. It
// returns ErrKnown or the store's error.
func (s *Store) Keep(ctx context.Context, n New, p Proof) error {
	c, now := n.credential, s.Now().UTC()
	r := Record{Proof: p, Made: now, Until: now.Add(s.Life), hash: hashOf(c.ID), written: now,
		key: c.PublicKey, counter: c.Counter, eligible: c.BackupEligible, backedUp: c.BackedUp}
	tx, err := s.put(r)
	if err != nil {
		return err
	}
	tx.Puts = append(tx.Puts, kv.Put{Name: belongs(r.Publisher, r.hash),
		Value: []byte(r.Proven.Format(time.RFC3339Nano)), Expires: r.Until})
	err = kv.CommitOnce(ctx, s.KV, tx,
		kv.Put{Name: receipts + tx.ID, Value: []byte{1}, Expires: now.Add(2 * host.ClockMargin)})
	if !kv.IsConflict(err) {
		return err
	}
	kept, err := s.find(ctx, r.hash)
	switch {
	case errors.Is(err, ErrUnknown): // just deleted
		return fmt.Errorf("%w: a passkey came and went under one request", kv.ErrUnavailable)
	case err == nil && !kept.isOf(c):
		return ErrKnown
	}
	return err
}

// put returns the commit that replaces the version of the record that was read.
func (s *Store) put(r Record) (kv.Tx, error) {
	key, ok := keyOf(r.hash)
	if !ok {
		return kv.Tx{}, errDamaged
	}
	b, err := r.marshal()
	if err != nil {
		return kv.Tx{}, fmt.Errorf("passkey: %w", err)
	}
	value, err := token.SignRecord(s.Sealer, key.String(), b)
	if err != nil {
		return kv.Tx{}, err
	}
	id, err := kv.NewTxID(s.Random)
	return kv.Tx{ID: id, Partition: key.Partition, Checks: []kv.Check{{Name: key.Name, Tx: r.version}},
		Puts: []kv.Put{{Name: key.Name, Value: value, Expires: r.Until}}}, err
}

// find returns the record of a hash. It returns ErrUnknown, token.ErrRecord, host.ErrKeyAwaited or the
// store's error.
func (s *Store) find(ctx context.Context, hash string) (Record, error) {
	key, ok := keyOf(hash)
	if !ok {
		return Record{}, ErrUnknown
	}
	item, err := s.KV.Get(ctx, key)
	if errors.Is(err, kv.ErrNotFound) {
		return Record{}, ErrUnknown
	}
	if err != nil {
		return Record{}, err
	}
	r, err := s.readRecord(item)
	r.hash, r.version = hash, item.Tx
	return r, err
}

func (s *Store) readRecord(item kv.Item) (r Record, err error) {
	err = s.authentic(item, func() (at time.Time, err error) {
		r, err = parse(item.Value)
		return r.written, err
	})
	return r, err
}

// authentic checks the MAC of an item, and that its key was in use at the date that read returns. No release
// wrote such items without a MAC.
func (s *Store) authentic(item kv.Item, read func() (at time.Time, err error)) error {
	until, err := token.CheckLongLived(s.Sealer, item.Key.String(), item.Value)
	if err == nil {
		at, bad := read()
		if bad != nil || token.RecordedWith(item.Value) == "" || !host.ValidAt(at, until) {
			err = fmt.Errorf("%w: %s", token.ErrRecord, item.Key)
		}
	}
	if errors.Is(err, token.ErrRecord) {
		s.Count(metric.NotAuthentic)
		err = fmt.Errorf("a passkey: %s: %w", token.Rejection(err), err)
	}
	return err
}

// Reseal signs all records with the active key, like integration.Directory.Reseal for its own records.
// Passkeys therefore survive the retirement of a key.
func (s *Store) Reseal(ctx context.Context) error {
	h := host.Host{KV: s.KV, Sealer: s.Sealer, Random: s.Random}
	errs := []error{integration.Resign(ctx, h, kv.Key{Partition: integration.Partition, Name: endItems},
		func(it kv.Item) error {
			_, err := s.readEnd(it)
			return err
		})}
	for n := range partitions {
		errs = append(errs, integration.Resign(ctx, h, kv.Key{Partition: partition(n), Name: items},
			func(it kv.Item) error {
				_, err := s.readRecord(it)
				return err
			}))
	}
	return errors.Join(errs...)
}

// maxRaces is the maximum number of tries of a use that other uses of the same passkey overtake.
const maxRaces = 8

// Use checks the response to Request with that challenge, which was created at that time, and returns the
// record of the passkey. The caller then calls Accept. It returns ErrUnknown, a *webauthn.Rejection, or the
// store's error.
//
// If a counter does not increase, Use blocks the passkey and returns the blocked record. But a response to a
// challenge from before the passkey's last use may only have been overtaken by that use: Use rejects it and
// does not block the passkey.
func (s *Store) Use(ctx context.Context, challenge []byte, asked time.Time, response []byte) (Record, error) {
	id, err := webauthn.CredentialID(response)
	if err != nil {
		return Record{}, err
	}
	for range maxRaces {
		r, err := s.find(ctx, hashOf(id))
		if err != nil {
			return Record{}, err
		}
		proof, err := webauthn.VerifyAssertion(ctx, s.Verify, s.Party, challenge, r.credential(id), response)
		now := s.Now().UTC()
		switch {
		case errors.Is(err, webauthn.ErrCounter):
			if !r.Blocked.IsZero() {
				return r, nil
			}
			if !asked.After(r.written) {
				return Record{}, err
			}
			r.Blocked = now
			s.Log.LogAttrs(ctx, slog.LevelWarn, "user passkey blocked: a copy exists",
				slog.String("publisher", r.Publisher))
		case err != nil:
			return Record{}, err
		case proof.Counter == r.counter && proof.BackedUp == r.backedUp:
			return r, nil
		default:
			r.counter, r.backedUp = proof.Counter, proof.BackedUp
		}
		r.written = now
		tx, err := s.put(r)
		if err != nil {
			return Record{}, err
		}
		if err = kv.CommitSurely(ctx, s.KV, tx); !kv.IsConflict(err) {
			r.version = tx.ID
			return r, err
		}
	}
	return Record{}, fmt.Errorf("%w: a passkey was used %d times under one request", kv.ErrUnavailable,
		maxRaces)
}

// Delete deletes the record with that id. A missing record is no error.
func (s *Store) Delete(ctx context.Context, id string) error {
	r, err := s.find(ctx, id)
	if errors.Is(err, ErrUnknown) {
		return nil
	}
	if err != nil {
		return err
	}
	key, _ := keyOf(id)
	tx := kv.Tx{Partition: key.Partition, Deletes: []string{key.Name, belongs(r.Publisher, r.hash)}}
	if tx.ID, err = kv.NewTxID(s.Random); err != nil {
		return err
	}
	return kv.CommitSurely(ctx, s.KV, tx) // deleting twice is harmless
}

// end is the item with the time at which a publisher's passkeys were ended.
type end struct {
	At time.Time `json:"at"`
}

// Ended returns the last time at which the passkeys of a publisher were ended, or zero. Passkeys created
// until then are not accepted.
func (s *Store) Ended(ctx context.Context, publisher string) (time.Time, error) {
	at, _, err := s.ended(ctx, publisher)
	return at, err
}

func (s *Store) ended(ctx context.Context, publisher string) (at time.Time, version string, err error) {
	item, err := s.KV.Get(ctx, endItem(publisher))
	if errors.Is(err, kv.ErrNotFound) {
		return time.Time{}, "", nil
	}
	if err != nil {
		return time.Time{}, "", err
	}
	at, err = s.readEnd(item)
	return at, item.Tx, err
}

func (s *Store) readEnd(item kv.Item) (time.Time, error) {
	var e end
	err := s.authentic(item, func() (time.Time, error) {
		err := json.Unmarshal(item.Value, &e)
		if err == nil && e.At.IsZero() {
			err = errDamaged
		}
		return e.At, err
	})
	return e.At.UTC(), err
}

// End ends all passkeys of a publisher that exist now, and writes audit in the same commit.
func (s *Store) End(ctx context.Context, publisher string, audit ...kv.Put) error {
	key := endItem(publisher)
	for range maxRaces {
		_, version, err := s.ended(ctx, publisher)
		if err != nil && !errors.Is(err, token.ErrRecord) {
			return err // an item that this service did not write is replaced
		}
		b, err := json.Marshal(end{s.Now().UTC()})
		if err != nil {
			return fmt.Errorf("passkey: %w", err)
		}
		value, err := token.SignRecord(s.Sealer, key.String(), b)
		if err != nil {
			return err
		}
		tx := kv.Tx{Partition: key.Partition, Checks: []kv.Check{{Name: key.Name, Tx: version}},
			Puts: append([]kv.Put{{Name: key.Name, Value: value}}, audit...)}
		if tx.ID, err = kv.NewTxID(s.Random); err != nil {
			return err
		}
		if err := kv.CommitSurely(ctx, s.KV, tx); !kv.IsConflict(err) {
			return err
		}
	}
	return fmt.Errorf("%w: the passkeys of %s were ended %d times under one request", kv.ErrUnavailable,
		publisher, maxRaces)
}

// Limits of CountOf.
const (
	page = 500 // records per read

	CountPage = 1_000   // for a page, which is loaded often
	MaxCount  = 100_000 // for an operator who asks for the number
)

// CountOf returns the number of a publisher's passkeys that have not ended. It reads about most records at
// most, including ended ones. If there are further records, it returns more.
func (s *Store) CountOf(ctx context.Context, publisher string, most int) (n int, more bool, err error) {
	ended, err := s.Ended(ctx, publisher)
	if err != nil {
		return 0, false, err
	}
	read := 0
	for p := range partitions {
		prefix := kv.Key{Partition: partition(p), Name: belongs(publisher, "")}
		for after := ""; ; {
			found, err := s.KV.List(ctx, prefix, after, page)
			if err != nil {
				return 0, false, err
			}
			for _, item := range found {
				after = item.Key.Name
				made, err := time.Parse(time.RFC3339Nano, string(item.Value))
				if err == nil && made.After(ended) {
					n++
				}
			}
			if read += len(found); read >= most {
				return n, true, nil
			}
			if len(found) < page {
				break
			}
		}
	}
	return n, false, nil
}
