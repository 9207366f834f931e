package kit

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/session"
	"github.com/verge-id/verge/core/token"
)

// Issue completes a session in the store, as if its user had been verified at
// that time, and returns its result token. It is for tests and measurements
// that need many tokens and no pages.
func Issue(
	ctx context.Context, store kv.KV, sealer host.Sealer, id session.ID, at time.Time,
) (string, error) {
	text, err := id.Format(sealer)
	if err != nil {
		return "", err
	}
	tx, err := kv.NewTxID(rand.Reader)
	if err != nil {
		return "", err
	}
	key := id.Key()
	record := session.Record{State: session.Completed, At: at}
	value, err := token.SignRecord(sealer, key.String(), record.Marshal())
	if err != nil {
		return "", err
	}
	err = store.Commit(ctx, kv.Tx{ID: tx, Partition: key.Partition, Checks: []kv.Check{{Name: key.Name}},
		Puts: []kv.Put{{Name: key.Name, Value: value}}})
	if err != nil {
		return "", err
	}
	return token.SealResult(sealer, token.ResultClaims{Session: text, Completed: token.At(at), Outcome: tx})
}
