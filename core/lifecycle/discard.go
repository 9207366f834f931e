package lifecycle

import (
	"context"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/session"
)

// Discard ends the box or hand-off of that handle without a result, because its verdict no longer counts. It
// counts no attempt. It returns the record that holds then. If the session has ended, or waits for another
// one by then, the record stays unchanged.
func (l *Lifecycle) Discard(ctx context.Context, s Session, handle string) (r session.Record, err error) {
	for range maxRaces {
		var version string
		if r, version, err = l.Load(ctx, s.ID); err != nil {
			return r, err
		}
		r = r.As(l.Now(), s.ID.Expires())
		tx := kv.Tx{}
		switch {
		case r.Terminal() || handle == "":
			return r, nil
		case r.Box == handle:
			r.Box, tx.Deletes = "", []string{session.BoxName(handle)}
		case r.Hand == handle:
			r.Hand, tx.Deletes = "", []string{session.HandName(handle)}
		default:
			return r, nil
		}
		if _, err = l.put(ctx, s, r, version, tx); !kv.IsConflict(err) {
			return r, err
		}
	}
	return r, errRaces
}
