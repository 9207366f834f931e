package session

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/verge-id/verge/core/internal/token"
	"github.com/verge-id/verge/core/kv"
)

// PendingHandle identifies a pending response (token.Pending). Its text is part of a public address. It
// contains the partition, which locates the item, and 128 random bits, which cannot be guessed.
type PendingHandle struct {
	Partition Partition
	text      string
}

const pendingSize = 2 + 16

// NewPendingHandle returns a random handle in a partition.
func NewPendingHandle(random io.Reader, p Partition) (PendingHandle, error) {
	var b [pendingSize]byte
	binary.BigEndian.PutUint16(b[:], uint16(p))
	if _, err := io.ReadFull(random, b[2:]); err != nil {
		return PendingHandle{}, fmt.Errorf("session: reading randomness: %w", err)
	}
	return PendingHandle{p, idText.EncodeToString(b[:])}, nil
}

// ParsePendingHandle parses a handle. ok is false if the text is malformed.
func ParsePendingHandle(text string) (h PendingHandle, ok bool) {
	b, err := idText.DecodeString(text)
	// The decoder skips line breaks, so check the length of the text as well.
	if err != nil || len(b) != pendingSize || len(text) != idText.EncodedLen(pendingSize) {
		return PendingHandle{}, false
	}
	return PendingHandle{Partition(binary.BigEndian.Uint16(b)), text}, true
}

func (h PendingHandle) String() string { return h.text }

// PendingKey returns the key of a pending response in the KV. ok is false for a malformed handle.
func PendingKey(p token.Pending) (key kv.Key, ok bool) {
	h, ok := ParsePendingHandle(p.Handle())
	return kv.Key{Partition: h.Partition.Name(), Name: PendingName(p)}, ok
}

// PendingName returns the name of the item of a pending response in its partition.
func PendingName(p token.Pending) string {
	if p.HandOff != "" {
		return "h/" + p.HandOff
	}
	return "b/" + p.Response
}

// Pending returns the pending responses of the attempt, at most one of each kind.
func (r Record) Pending() (all []token.Pending) {
	for _, p := range []token.Pending{{Response: r.Response}, {HandOff: r.HandOff}} {
		if p.Handle() != "" {
			all = append(all, p)
		}
	}
	return all
}

// Slot returns the field of r for the handle of p's kind.
func (r *Record) Slot(p token.Pending) *string {
	if p.HandOff != "" {
		return &r.HandOff
	}
	return &r.Response
}

// Awaits reports whether the attempt waits for this pending response.
func (r Record) Awaits(p token.Pending) bool {
	return p.Handle() != "" && *r.Slot(p) == p.Handle()
}
