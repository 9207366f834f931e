package kv

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
)

// NewTxID returns a transaction id of 128 random bits.
func NewTxID(random io.Reader) (string, error) {
	var b [16]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return "", fmt.Errorf("kv: reading randomness: %w", err)
	}
	return hex.EncodeToString(b[:]), nil
}

// CommitSurely commits tx. If the reply is lost, it determines the outcome by committing the same tx again.
// There are three cases:
//
//   - tx applies now, for the first and only time.
//   - A check finds the item that tx itself wrote, so tx had applied.
//   - A check or lease fails for another reason. The error is then a *Conflict as well as ErrUnknown. tx
//     will never apply, but it may have applied before another transaction overwrote it. If no other
//     transaction overwrites the items that tx puts, the *Conflict means that it has not applied.
//
// A tx for CommitSurely must check every item that it puts, or be harmless if it is executed twice. If such
// an item can be deleted within minutes, use [CommitOnce].
//
// If the outcome stays unknown, the error is only ErrUnknown, and the caller must deny.
func CommitSurely(ctx context.Context, store KV, tx Tx) error { return commitTwice(ctx, store, tx, tx) }

// commitTwice commits tx, and again if the reply is lost. Both have one id.
func commitTwice(ctx context.Context, store KV, tx, again Tx) error {
	err := store.Commit(ctx, tx)
	if !errors.Is(err, ErrUnknown) {
		return err
	}
	err = store.Commit(ctx, again)
	var conflict *Conflict
	switch {
	case err == nil:
		return nil
	case errors.As(err, &conflict):
		for _, it := range conflict.Items {
			if it.Tx == tx.ID {
				return nil
			}
		}
	}
	// Even if the second attempt certainly had no effect, the first may have applied.
	return fmt.Errorf("%w: %w", ErrUnknown, err)
}

// CommitOnce is CommitSurely for a tx with items that can be deleted within minutes. A first try that
// arrives after that would create them again. It does not apply, because the second try also puts receipt, a
// new item that outlives every late try. A commit whose reply is not lost leaves no receipt.
func CommitOnce(ctx context.Context, store KV, tx Tx, receipt Put) error {
	tx.Checks = append(slices.Clip(tx.Checks), Check{Name: receipt.Name})
	again := tx
	again.Puts = append(slices.Clip(tx.Puts), receipt)
	return commitTwice(ctx, store, tx, again)
}
