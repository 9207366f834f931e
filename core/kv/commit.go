package kv

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
)

// NewTxID makes a transaction id of 128 random bits.
func NewTxID(random io.Reader) (string, error) {
	var b [16]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return "", fmt.Errorf("kv: reading randomness: %w", err)
	}
	return hex.EncodeToString(b[:]), nil
}

// CommitSurely commits tx. If the reply is lost, it finds out what happened by committing the same tx
// once more. There are three cases:
//
//   - tx applies now, for the first and only time.
//   - A check finds the item that tx itself wrote, so tx had applied.
//   - A check or lease fails for another reason. Then the error is a *Conflict as well as ErrUnknown.
//     tx will never apply, but it may have applied before another transaction overwrote it. If nobody
//     overwrites the items that tx puts, the *Conflict means that it has not applied.
//
// A tx that is passed to CommitSurely must check every item that it puts, or do no harm if it is done
// twice. If the outcome stays unknown, the error is ErrUnknown only, and the caller grants nothing.
func CommitSurely(ctx context.Context, store KV, tx Tx) error {
	err := store.Commit(ctx, tx)
	if !errors.Is(err, ErrUnknown) {
		return err
	}
	err = store.Commit(ctx, tx)
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
	// Even if the second try certainly did nothing, the first may have applied.
	return fmt.Errorf("%w: %w", ErrUnknown, err)
}
