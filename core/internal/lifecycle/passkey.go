package lifecycle

import (
	"bytes"
	"context"
	"errors"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/internal/token"
	"github.com/verge-id/verge/core/kv"
)

// ErrEnrolled: the session's verdict was already used for another passkey.
var ErrEnrolled = errors.New("lifecycle: another passkey was created from this session")

// Enrol records that a passkey is created from the verdict of a completed session, which is possible once.
// mark identifies the passkey only within this check. The same mark may be repeated. Enrol returns
// ErrEnrolled or the store's error.
func (l *Lifecycle) Enrol(ctx context.Context, s Session, mark []byte) error {
	key := s.ID.PasskeyKey()
	// Keep it for as long as the page can offer a passkey, by every clock.
	expires := s.ID.Expires().Add(token.ResultLife + host.ClockMargin)
	tx := kv.Tx{Partition: key.Partition, Checks: []kv.Check{{Name: key.Name}},
		Puts: []kv.Put{{Name: key.Name, Value: mark, Expires: expires}}}
	if err := l.identify(&tx); err != nil {
		return err
	}
	err := kv.CommitSurely(ctx, l.KV, tx)
	var conflict *kv.Conflict
	if !errors.As(err, &conflict) {
		return err
	}
	if item, ok := conflict.Item(key.Name); ok && bytes.Equal(item.Value, mark) {
		return nil
	}
	return ErrEnrolled
}

// Enrolled reports whether a passkey was created from the session's verdict.
func (l *Lifecycle) Enrolled(ctx context.Context, s Session) (bool, error) {
	_, err := l.KV.Get(ctx, s.ID.PasskeyKey())
	if errors.Is(err, kv.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}
