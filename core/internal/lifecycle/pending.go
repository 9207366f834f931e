package lifecycle

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/internal/session"
	"github.com/verge-id/verge/core/internal/token"
	"github.com/verge-id/verge/core/internal/verdict"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/method"
)

// Pending is a pending response (token.Pending): one sealed item in the session's partition. The commit that
// opens it also writes its handle to the session's record, which has one handle of each kind. Its states are
// open, then (for a hand-off) taken by one device, then arrived. Each write is a compare-and-set of the item,
// so the first response counts. The commit that ends the attempt deletes the item.
type Pending struct {
	token.PendingClaims
	key     kv.Key
	version string
}

// Outcome returns the decision of a phone.
func (p Pending) Outcome() method.Decision {
	return method.Decision{
		Verdict: method.Verdict(p.Verdict),
		Reason:  method.Reason(p.Reason),
		Basis:   p.Basis,
		Setting: p.Setting,
		Detail:  p.Detail,
		Cause:   p.Cause,
	}
}

// Response is a response posted by a program.
type Response struct {
	Kept []byte // the part that the method needs
	Same bool   // the response came from the browser's own device
	Code string // the response_code for that device; "": none
	Raw  []byte // the whole response; the item contains its digest

	Basis verdict.Basis // of the verdict
}

// Errors of pending responses.
var (
	// ErrNoPending: the pending response does not exist or no longer exists.
	ErrNoPending = errors.New("lifecycle: no such pending response")
	// ErrSecondResponse: another response was posted first.
	ErrSecondResponse = errors.New("lifecycle: another response was first")
	// ErrHandOffTaken: another device is doing the step, or has done it.
	ErrHandOffTaken = errors.New("lifecycle: another device has the hand-off")
)

// OpenResponse opens a pending response for a program, and closes the previous one of the attempt. c has the
// method, the attempt and the method's state. It returns ErrMovedOn or the store's error.
func (l *Lifecycle) OpenResponse(ctx context.Context, s Session,
	c token.PendingClaims) (token.Pending, error) {
	h, err := session.NewPendingHandle(l.Random, s.ID.Partition)
	if err != nil {
		return token.Pending{}, err
	}
	c.Response = h.String()
	return c.Pending, l.openPending(ctx, s, c)
}

// OpenHandOff opens a hand-off, and closes the previous one of the attempt. c has the method, the attempt,
// the site and the language. It returns ErrMovedOn, ErrAsked or the store's error. ErrAsked: the result of
// another request about the attempt, or the rejection that a device has brought, must count first.
func (l *Lifecycle) OpenHandOff(ctx context.Context, s Session,
	c token.PendingClaims) (token.Pending, error) {
	h, err := session.NewPendingHandle(l.Random, s.ID.Partition)
	if err != nil {
		return token.Pending{}, err
	}
	c.HandOff = h.String()
	if c.Number, err = newNumber(l.Random); err != nil {
		return token.Pending{}, err
	}
	return c.Pending, l.openPending(ctx, s, c)
}

func (l *Lifecycle) openPending(ctx context.Context, s Session, c token.PendingClaims) error {
	c.Session, c.Issued = s.Text, token.At(l.Now())
	value, err := token.SealPending(l.Sealer, c)
	if err != nil {
		return err
	}
	for range maxRaces {
		r, version, err := l.Load(ctx, s.ID)
		if err != nil {
			return err
		}
		now, before := l.Now(), c.Pending.Like(*r.Slot(c.Pending))
		r = r.As(now, s.ID.Expires())
		switch {
		case r.Terminal() || r.Attempts != c.Attempt:
			return ErrMovedOn
		case c.HandOff != "" && r.IsAsked(now):
			return ErrAsked
		}
		tx := kv.Tx{Puts: []kv.Put{{Name: session.PendingName(c.Pending), Value: value,
			Expires: s.ID.Expires()}}}
		if err := l.replacePending(ctx, &tx, before); err != nil {
			return err
		}
		*r.Slot(c.Pending) = c.Handle()
		if _, err := l.put(ctx, s, r, version, tx); !kv.IsConflict(err) {
			return err
		}
	}
	return errRaces
}

// replacePending adds the deletion of a pending response to tx. It returns ErrAsked for a hand-off with a
// verdict other than approved, which must count first.
func (l *Lifecycle) replacePending(ctx context.Context, tx *kv.Tx, before token.Pending) error {
	if before.HandOff != "" {
		old, err := l.Pending(ctx, before)
		switch {
		case errors.Is(err, ErrNoPending):
			return nil
		case err != nil:
			return err
		case old.Done && old.Outcome().Verdict != method.Approved:
			return ErrAsked
		}
		tx.Checks = []kv.Check{{Name: old.key.Name, Tx: old.version}}
	}
	if before.Handle() != "" {
		tx.Deletes = []string{session.PendingName(before)}
	}
	return nil
}

// newNumber returns two digits that a person compares on two screens.
func newNumber(random io.Reader) (string, error) {
	for { // 90 numbers; a byte of 180 or more would favour some of them
		var b [1]byte
		if _, err := io.ReadFull(random, b[:]); err != nil {
			return "", fmt.Errorf("lifecycle: reading randomness: %w", err)
		}
		if b[0] < 180 {
			return strconv.Itoa(10 + int(b[0])%90), nil
		}
	}
}

// Pending returns a pending response. It returns ErrNoPending, host.ErrKeyAwaited or the store's error.
func (l *Lifecycle) Pending(ctx context.Context, p token.Pending) (Pending, error) {
	key, ok := session.PendingKey(p)
	if !ok {
		return Pending{}, ErrNoPending
	}
	item, err := l.KV.Get(ctx, key)
	if errors.Is(err, kv.ErrNotFound) {
		return Pending{}, ErrNoPending
	}
	if err != nil {
		return Pending{}, err
	}
	c, err := token.OpenPending(l.Sealer, p, item.Value)
	if errors.Is(err, host.ErrKeyAwaited) {
		return Pending{}, err
	}
	if err != nil {
		what := "a box"
		if p.HandOff != "" {
			what = "a hand-off"
		}
		return Pending{}, l.foreign(what, token.ErrRecord)
	}
	return Pending{c, key, item.Tx}, nil
}

// Receive stores a posted response. The first response counts. Receive returns the stored item, even if the
// same response has arrived before. For any other response it returns ErrSecondResponse, or ErrNoPending if
// the attempt has ended.
func (l *Lifecycle) Receive(ctx context.Context, p Pending, a Response, expires token.Time) (Pending, error) {
	digest := sha256.Sum256(a.Raw)
	c := p.PendingClaims
	c.Posted, c.Kept, c.Same, c.Code, c.Digest, c.Basis = true, a.Kept, a.Same, a.Code, digest[:], a.Basis
	now, err := l.rewrite(ctx, p, c, expires)
	if err == nil && !now.Is(a) {
		err = ErrSecondResponse
	}
	return now, err
}

// Is reports whether this response has arrived.
func (p Pending) Is(a Response) bool {
	digest := sha256.Sum256(a.Raw)
	return p.Posted && p.Same == a.Same && subtle.ConstantTimeCompare(p.Digest, digest[:]) == 1
}

// Returns reports whether the program that posted the response sent the browser with this response_code.
func (p Pending) Returns(code string) bool {
	return p.Posted && p.Same && p.Code != "" &&
		subtle.ConstantTimeCompare([]byte(p.Code), []byte(code)) == 1
}

// Take assigns a hand-off to a device, given by its session.Proof. The first device gets it, and may repeat
// the call. It returns ErrHandOffTaken, ErrNoPending or the store's error.
func (l *Lifecycle) Take(ctx context.Context, p Pending, device string, expires token.Time) (now Pending,
	err error) {
	if now = p; p.Device == "" {
		c := p.PendingClaims
		c.Device = device
		now, err = l.rewrite(ctx, p, c, expires)
	}
	if err == nil && now.Device != device {
		err = ErrHandOffTaken
	}
	return now, err
}

// Bring stores the decision of a phone. The first decision counts; a later one is no error. It returns
// ErrNoPending or the store's error.
func (l *Lifecycle) Bring(ctx context.Context, p Pending, d method.Decision, expires token.Time) error {
	if p.Done {
		return nil
	}
	c := p.PendingClaims
	c.Done, c.Verdict, c.Reason, c.Basis = true, int(d.Verdict), string(d.Reason), d.Basis
	_, c.Cause = d.Result()
	c.Setting, c.Detail = d.Setting, d.Detail
	_, err := l.rewrite(ctx, p, c, expires)
	return err
}

// rewrite replaces the item of a pending response by c, and returns the stored item. If another write came
// first, it returns that one.
func (l *Lifecycle) rewrite(ctx context.Context, p Pending, c token.PendingClaims, expires token.Time) (
	Pending, error) {
	c.Issued = token.At(l.Now())
	value, err := token.SealPending(l.Sealer, c)
	if err != nil {
		return Pending{}, err
	}
	tx := kv.Tx{Partition: p.key.Partition, Checks: []kv.Check{{Name: p.key.Name, Tx: p.version}},
		Puts: []kv.Put{{Name: p.key.Name, Value: value, Expires: expires.Time()}}}
	if err := l.identify(&tx); err != nil {
		return Pending{}, err
	}
	err = kv.CommitSurely(ctx, l.KV, tx)
	if kv.IsConflict(err) {
		return l.Pending(ctx, p.Pending)
	}
	return Pending{c, p.key, tx.ID}, err
}

// Discard ends a pending response without a result, because its verdict no longer counts. It counts no
// attempt. It returns the current record, which is unchanged if the session has ended or no longer awaits p.
func (l *Lifecycle) Discard(ctx context.Context, s Session, p token.Pending) (r session.Record, err error) {
	for range maxRaces {
		var version string
		if r, version, err = l.Load(ctx, s.ID); err != nil {
			return r, err
		}
		r = r.As(l.Now(), s.ID.Expires())
		if r.Terminal() || !r.Awaits(p) {
			return r, nil
		}
		*r.Slot(p) = ""
		tx := kv.Tx{Deletes: []string{session.PendingName(p)}}
		if _, err = l.put(ctx, s, r, version, tx); !kv.IsConflict(err) {
			return r, err
		}
	}
	return r, errRaces
}
