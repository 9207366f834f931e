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

// CommitSurely commits tx and, where the reply is lost, finds out by
// committing the same tx once more: it applies, for the first and only time;
// or a check finds the item that tx itself wrote, so it had applied; or a
// check or lease fails otherwise. Then the error is a *Conflict as well as
// ErrUnknown: tx never will apply, but it may have, before somebody else
// overwrote it. Whoever puts what nobody overwrites knows by the *Conflict
// that it has not. A tx handed to it checks every item that it puts, or does
// no harm when done twice. What stays unknown is ErrUnknown alone and grants
// nothing.
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
	// Even a refusal that surely did nothing leaves the first try open.
	return fmt.Errorf("%w: %w", ErrUnknown, err)
}
