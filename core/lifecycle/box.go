package lifecycle

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/internal/verdict"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/session"
	"github.com/verge-id/verge/core/token"
)

// Box is where somebody answers who is not the browser (contract 34): one sealed item in the session's
// partition. The session's record names the one box of its attempt, in the commit that opens it. The commit
// that ends the attempt deletes it.
type Box struct {
	token.BoxClaims
	key     kv.Key
	version string
}

// Answer is what closes a box.
type Answer struct {
	Kept []byte // by the method
	Same bool   // it came from the browser's own device
	Code string // the response_code for that device; "": none
	Raw  []byte // all that was posted; the box keeps a digest

	Basis verdict.Basis // what it was judged by
}

// Errors of boxes.
var (
	// ErrNoBox: there is no such box, or it is gone.
	ErrNoBox = errors.New("lifecycle: no such box")
	// ErrAnswered: another answer has closed the box before.
	ErrAnswered = errors.New("lifecycle: the box is closed")
)

// OpenBox opens a box for an attempt, and closes the one before it. The error is ErrMovedOn or the store's.
func (l *Lifecycle) OpenBox(ctx context.Context, s Session, method string, attempt int, state []byte) (
	handle string, err error) {
	h, err := session.NewBoxHandle(l.Random, s.ID.Partition)
	if err != nil {
		return "", err
	}
	value, err := token.SealBox(l.Sealer, token.BoxClaims{Handle: h.String(), Session: s.Text, Method: method,
		Attempt: attempt, State: state, Issued: token.At(l.Now())})
	if err != nil {
		return "", err
	}
	for range maxRaces {
		r, version, err := l.Load(ctx, s.ID)
		if err != nil {
			return "", err
		}
		before := r.Box
		r = r.As(l.Now(), s.ID.Expires())
		if r.Terminal() || r.Attempts != attempt {
			return "", ErrMovedOn
		}
		r.Box = h.String()
		tx := kv.Tx{Partition: s.ID.Partition.Name(),
			Puts: []kv.Put{{Name: h.Key().Name, Value: value, Expires: s.ID.Expires()}}}
		if before != "" {
			tx.Deletes = []string{session.BoxName(before)}
		}
		if _, err := l.put(ctx, s, r, version, tx); !kv.IsConflict(err) {
			return h.String(), err
		}
	}
	return "", errRaces
}

// Box returns the box of that handle, open or closed. The error is ErrNoBox, host.ErrKeyAwaited or the
// store's.
func (l *Lifecycle) Box(ctx context.Context, handle string) (Box, error) {
	h, ok := session.ParseBoxHandle(handle)
	if !ok {
		return Box{}, ErrNoBox
	}
	item, err := l.KV.Get(ctx, h.Key())
	if errors.Is(err, kv.ErrNotFound) {
		return Box{}, ErrNoBox
	}
	if err != nil {
		return Box{}, err
	}
	c, err := token.OpenBox(l.Sealer, item.Value)
	if errors.Is(err, host.ErrKeyAwaited) {
		return Box{}, err
	}
	if err != nil || c.Handle != handle {
		return Box{}, l.foreign("a box", token.ErrRecord)
	}
	return Box{c, h.Key(), item.Tx}, nil
}

// CloseBox keeps an answer in a box that is open. The first answer wins. It returns the box as it is then,
// which is also closed if the same answer has come before. Any other answer finds ErrAnswered, or ErrNoBox
// if the attempt has ended meanwhile.
func (l *Lifecycle) CloseBox(ctx context.Context, b Box, a Answer, expires token.Time) (Box, error) {
	digest := sha256.Sum256(a.Raw)
	c := b.BoxClaims
	c.Issued, c.Answered, c.Kept, c.Same, c.Code, c.Digest, c.Basis =
		token.At(l.Now()), true, a.Kept, a.Same, a.Code, digest[:], a.Basis
	value, err := token.SealBox(l.Sealer, c)
	if err != nil {
		return Box{}, err
	}
	version, err := l.replace(ctx, b.key, b.version, value, expires)
	if err == nil {
		return Box{c, b.key, version}, nil
	}
	if !kv.IsConflict(err) {
		return Box{}, err
	}
	now, err := l.Box(ctx, b.Handle)
	if err == nil && !now.IsAnswer(a) {
		err = ErrAnswered
	}
	return now, err
}

// IsAnswer reports whether this answer has closed the box.
func (b Box) IsAnswer(a Answer) bool {
	digest := sha256.Sum256(a.Raw)
	return b.Answered && b.Same == a.Same && subtle.ConstantTimeCompare(b.Digest, digest[:]) == 1
}

// Returns reports whether a browser that came back with this code has been sent by whoever closed the box.
func (b Box) Returns(code string) bool {
	return b.Answered && b.Same && b.Code != "" &&
		subtle.ConstantTimeCompare([]byte(b.Code), []byte(code)) == 1
}
