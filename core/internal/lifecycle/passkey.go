package lifecycle

import (
	"bytes"
	"context"
	"errors"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/token"
)

// ErrEnrolled: another passkey was made of what the session has proven.
var ErrEnrolled = errors.New("lifecycle: a passkey was made of this session")

// Enrol notes that a passkey is made of what a completed session has proven, which happens once. mark names
// the passkey without identifying it. The same mark may come again. The error is ErrEnrolled or the
// store's.
func (l *Lifecycle) Enrol(ctx context.Context, s Session, mark []byte) error {
	key := s.ID.PasskeyKey()
	// It is there for as long as the page can offer a passkey, by every clock.
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

// Enrolled reports whether a passkey was made of what the session has proven.
func (l *Lifecycle) Enrolled(ctx context.Context, s Session) (bool, error) {
	_, err := l.KV.Get(ctx, s.ID.PasskeyKey())
	if errors.Is(err, kv.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}
