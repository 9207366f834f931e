package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/session"
	"github.com/verge-id/verge/core/token"
)

// Hand is a hand-off: a phone does a step for the browser that began (contract 40). It is one sealed item in
// the session's partition, beside the box if there is one. The session's record names the one hand-off of its
// attempt, in the commit that opens it. The commit that ends the attempt deletes it.
//
// A hand-off goes one way: it is open, then one device has taken it, then it is done. Each write is a
// compare-and-set of the item, so a hand-off that was replaced takes nothing any more.
type Hand struct {
	token.HandClaims
	key     kv.Key
	version string
}

// Outcome is the decision of a hand-off that is done.
func (h Hand) Outcome() method.Decision {
	return method.Decision{
		Verdict: method.Verdict(h.Verdict),
		Reason:  method.Reason(h.Reason),
		Basis:   h.Basis,
		Setting: h.Setting,
		Detail:  h.Detail,
		Cause:   h.Cause,
	}
}

// Errors of hand-offs.
var (
	// ErrNoHand: there is no such hand-off, or it is gone.
	ErrNoHand = errors.New("lifecycle: no such hand-off")
	// ErrHandTaken: another device has the hand-off, or has ended it.
	ErrHandTaken = errors.New("lifecycle: another device has the hand-off")
)

// OpenHand opens a hand-off for an attempt, and ends the one before it. c says for what; the rest of it is
// filled in. The error is ErrMovedOn, ErrAsked or the store's. ErrAsked: a device asks just now, and what it
// learns must count. A no that a device has brought must count, too, before another device begins.
func (l *Lifecycle) OpenHand(ctx context.Context, s Session, c token.HandClaims) (handle string, err error) {
	h, err := session.NewBoxHandle(l.Random, s.ID.Partition)
	if err != nil {
		return "", err
	}
	c.Handle, c.Session, c.Issued = h.String(), s.Text, token.At(l.Now())
	if c.Number, err = newNumber(l.Random); err != nil {
		return "", err
	}
	value, err := token.SealHand(l.Sealer, c)
	if err != nil {
		return "", err
	}
	for range maxRaces {
		r, version, err := l.Load(ctx, s.ID)
		if err != nil {
			return "", err
		}
		now, before := l.Now(), r.Hand
		r = r.As(now, s.ID.Expires())
		switch {
		case r.Terminal() || r.Attempts != c.Attempt:
			return "", ErrMovedOn
		case r.IsAsked(now):
			return "", ErrAsked
		}
		tx := kv.Tx{Partition: s.ID.Partition.Name(),
			Puts: []kv.Put{{Name: h.HandKey().Name, Value: value, Expires: s.ID.Expires()}}}
		if before != "" {
			old, err := l.Hand(ctx, before)
			switch {
			case err == nil && old.Done && old.Outcome().Verdict != method.Approved: // it is applied first
				return "", ErrAsked
			case err == nil:
				tx.Checks = []kv.Check{{Name: old.key.Name, Tx: old.version}}
				tx.Deletes = []string{old.key.Name}
			case !errors.Is(err, ErrNoHand):
				return "", err
			}
		}
		r.Hand = h.String()
		if _, err := l.put(ctx, s, r, version, tx); !kv.IsConflict(err) {
			return h.String(), err
		}
	}
	return "", errRaces
}

// newNumber returns two digits that a person compares on two screens.
func newNumber(random io.Reader) (string, error) {
	for { // 90 numbers; a byte from 180 on would make some more likely than others
		var b [1]byte
		if _, err := io.ReadFull(random, b[:]); err != nil {
			return "", fmt.Errorf("lifecycle: reading randomness: %w", err)
		}
		if b[0] < 180 {
			return strconv.Itoa(10 + int(b[0])%90), nil
		}
	}
}

// Hand returns the hand-off of that handle. The error is ErrNoHand, host.ErrKeyAwaited or the store's.
func (l *Lifecycle) Hand(ctx context.Context, handle string) (Hand, error) {
	h, ok := session.ParseBoxHandle(handle)
	if !ok {
		return Hand{}, ErrNoHand
	}
	item, err := l.KV.Get(ctx, h.HandKey())
	if errors.Is(err, kv.ErrNotFound) {
		return Hand{}, ErrNoHand
	}
	if err != nil {
		return Hand{}, err
	}
	c, err := token.OpenHand(l.Sealer, item.Value)
	if errors.Is(err, host.ErrKeyAwaited) {
		return Hand{}, err
	}
	if err != nil || handle != c.Handle {
		return Hand{}, l.foreign("a hand-off", token.ErrRecord)
	}
	return Hand{c, h.HandKey(), item.Tx}, nil
}

// TakeHand gives a hand-off to a device, which session.Proof names. The first one has it; if it asks again,
// it is told the same. The error is ErrHandTaken, ErrNoHand or the store's.
func (l *Lifecycle) TakeHand(ctx context.Context, h Hand, device string, expires token.Time) (Hand, error) {
	if h.Device != "" {
		return h, sameDevice(h, device)
	}
	c := h.HandClaims
	c.Device = device
	now, err := l.putHand(ctx, h, c, expires)
	if err != nil {
		return now, err
	}
	return now, sameDevice(now, device)
}

func sameDevice(h Hand, device string) error {
	if h.Device != device {
		return ErrHandTaken
	}
	return nil
}

// EndHand keeps what came of a hand-off. The first verdict stands: a second one changes nothing, and is no
// error. The error is ErrNoHand or the store's.
func (l *Lifecycle) EndHand(ctx context.Context, h Hand, d method.Decision, expires token.Time) error {
	if h.Done {
		return nil
	}
	c := h.HandClaims
	c.Done, c.Verdict, c.Reason, c.Basis = true, int(d.Verdict), string(d.Reason), d.Basis
	_, c.Cause = d.Result()
	c.Setting, c.Detail = d.Setting, d.Detail
	_, err := l.putHand(ctx, h, c, expires)
	return err
}

// putHand writes a hand-off in place of what was read of it, and returns it as it is then. If another write
// came first, that is what it returns.
func (l *Lifecycle) putHand(ctx context.Context, h Hand, c token.HandClaims, expires token.Time) (Hand,
	error) {
	c.Issued = token.At(l.Now())
	value, err := token.SealHand(l.Sealer, c)
	if err != nil {
		return Hand{}, err
	}
	version, err := l.replace(ctx, h.key, h.version, value, expires)
	if kv.IsConflict(err) {
		return l.Hand(ctx, h.Handle)
	}
	return Hand{c, h.key, version}, err
}
