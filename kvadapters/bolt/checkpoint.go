package bolt

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime/debug"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// checkpoint is the state of a Store's checkpoints. Only the writer and a checkpoint in progress use it.
type checkpoint struct {
	txid    uint64     // the latest transaction of the file that is certainly on disk
	written uint64     // sequence of the last record that the file contains
	frozen  uint64     // sequence of the last record of the frozen layer
	done    chan error // receives the result of the checkpoint in progress; nil: none
}

// ended reports whether a checkpoint has ended and endCheckpoint has not been called.
func (c *checkpoint) ended() bool {
	return len(c.done) > 0
}

// makeRoom makes the log accept a record. If the half is full, it waits for the checkpoint in progress, and
// begins the next one.
func (s *Store) makeRoom(record []byte) error {
	if s.log.fits(record) {
		return nil
	}
	if err := s.endCheckpoint(); err != nil {
		return err
	}
	s.beginCheckpoint()
	return nil
}

// beginCheckpoint writes the changes of the half in use to the file, while the Store continues in the other
// half.
func (s *Store) beginCheckpoint() {
	s.opened.Lock()
	s.frozen, s.active = s.active, &layer{}
	s.opened.Unlock()
	s.log.turn()
	frozen, upTo, done := s.frozen, s.log.last, make(chan error, 1)
	s.checkpoint.frozen, s.checkpoint.done = upTo, done
	go func() {
		done <- s.writeCheckpoint(frozen, upTo, false)
		s.queue.signal()
	}()
}

// endCheckpoint waits for the checkpoint in progress, if there is one.
func (s *Store) endCheckpoint() error {
	if s.checkpoint.done == nil {
		return nil
	}
	err := <-s.checkpoint.done
	s.checkpoint.done = nil
	if err == nil {
		s.thaw()
	}
	return err
}

// thaw drops the frozen layer, which is in the file now.
func (s *Store) thaw() {
	s.opened.Lock()
	defer s.opened.Unlock()
	s.frozen = nil
}

// writeCheckpoint writes changes to the file, and the sequence of their last record, in one transaction.
// closing makes the file complete without a log.
func (s *Store) writeCheckpoint(changes *layer, upTo uint64, closing bool) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	var tx *bbolt.Tx
	defer func() {
		if r := recover(); r != nil {
			err = damaged(r)
		}
		if tx == nil || err == nil {
			return
		}
		// A failed commit has rolled itself back. If the rollback fails too, bbolt may never release its own
		// lock.
		if e := recovered(tx.Rollback); e != nil && !errors.Is(e, berrors.ErrTxClosed) {
			err = errors.Join(err, e)
			s.wedged.Store(true)
		}
	}()
	if err := s.inPlace(); err != nil {
		return err
	}
	if tx, err = s.begin(true); err != nil {
		return err
	}
	if err := changes.writeTo(tx); err != nil {
		return err
	}
	at := logState{used: !closing, id: s.log.id, written: upTo}
	if err := at.writeTo(tx); err != nil {
		return err
	}
	txid := uint64(tx.ID())
	if err := s.disk.Commit(tx); err != nil {
		return err
	}
	s.checkpoint.txid, s.checkpoint.written = txid, upTo
	return nil
}

// logState describes the log of a file.
type logState struct {
	used    bool // the log has commits that the file may lack
	id      logID
	written uint64 // sequence of the last record that the file contains
}

// readLogState returns the state of the log, or the zero value for an empty file.
func readLogState(tx *bbolt.Tx) (at logState, err error) {
	verge := tx.Bucket(bucketVerge)
	if verge == nil {
		return at, nil
	}
	if at.used, err = fileFormat(verge); err != nil {
		return at, err
	}
	v := verge.Get(keyLog)
	switch {
	case len(v) == len(at.id)+8:
		copy(at.id[:], v)
		at.written = binary.BigEndian.Uint64(v[len(at.id):])
	case at.used || v != nil:
		return at, damaged(fmt.Sprintf("%q has %d bytes", keyLog, len(v)))
	}
	return at, nil
}

func (at logState) writeTo(tx *bbolt.Tx) error {
	verge := tx.Bucket(bucketVerge)
	written := format
	if at.used {
		written = formatLogged
	}
	if err := verge.Put(keyFormat, []byte(written)); err != nil {
		return err
	}
	return verge.Put(keyLog, binary.BigEndian.AppendUint64(at.id[:], at.written))
}
