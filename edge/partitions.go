package edge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/kv"
)

// partitionsKey holds the largest number of partitions that this store has had.
var partitionsKey = kv.Key{Partition: integration.Partition, Name: "c/partitions"}

// PartitionsError is the error of a Config.Core.Partitions that is smaller than it once was on this store.
// The other partitions would not be polled, and their events would wait indefinitely. A restart does not
// help, only another number.
type PartitionsError struct{ Configured, Used int }

func (e *PartitionsError) Error() string {
	return fmt.Sprintf("store.partitions: %d, but sessions of this store are spread over %d; "+
		"set it to %d or more", e.Configured, e.Used, e.Used)
}

// CheckPartitions rejects a number of partitions as Open does, with a *PartitionsError, without a change in
// the store.
func CheckPartitions(ctx context.Context, store kv.KV, n int) error {
	_, _, err := comparePartitions(ctx, store, n)
	return err
}

// comparePartitions returns the number in the store, or 0, and the transaction that wrote it.
func comparePartitions(ctx context.Context, store kv.KV, n int) (before int, tx string, err error) {
	switch it, err := store.Get(ctx, partitionsKey); {
	case err == nil:
		if before, err = strconv.Atoi(string(it.Value)); err != nil {
			return 0, "", fmt.Errorf(
				"store: %s is no number of partitions: was it written by something else?", partitionsKey)
		}
		tx = it.Tx
	case !errors.Is(err, kv.ErrNotFound):
		return 0, "", fmt.Errorf("store: %w", err)
	}
	if before > n {
		return before, tx, &PartitionsError{Configured: n, Used: before}
	}
	return before, tx, nil
}

// keepPartitions stores the number. It rejects a number below the stored one.
func keepPartitions(ctx context.Context, store kv.KV, random io.Reader, n int) error {
	for range 5 { // instances that start at the same time may conflict
		before, tx, err := comparePartitions(ctx, store, n)
		if err != nil || before == n {
			return err
		}
		id, err := kv.NewTxID(random)
		if err != nil {
			return err
		}
		err = store.Commit(ctx, kv.Tx{ID: id, Partition: partitionsKey.Partition,
			Checks: []kv.Check{{Name: partitionsKey.Name, Tx: tx}},
			Puts:   []kv.Put{{Name: partitionsKey.Name, Value: []byte(strconv.Itoa(n))}}})
		var conflict *kv.Conflict
		if err != nil && !errors.As(err, &conflict) && !errors.Is(err, kv.ErrUnknown) {
			return fmt.Errorf("store: %w", err)
		}
	}
	return errors.New("store: the number of partitions could not be written; try again")
}
