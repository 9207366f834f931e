package session

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/verge-id/verge/core/kv"
)

// BoxHandle names a box. Its text is in an address that others post to, so it has the partition, by which the
// one item is found, and 128 random bits, which nobody guesses.
type BoxHandle struct {
	Partition Partition
	text      string
}

const boxSize = 2 + 16

// NewBoxHandle makes the handle of a box in a partition.
func NewBoxHandle(random io.Reader, p Partition) (BoxHandle, error) {
	var b [boxSize]byte
	binary.BigEndian.PutUint16(b[:], uint16(p))
	if _, err := io.ReadFull(random, b[2:]); err != nil {
		return BoxHandle{}, fmt.Errorf("session: reading randomness: %w", err)
	}
	return BoxHandle{p, idText.EncodeToString(b[:])}, nil
}

// ParseBoxHandle reads the text of a handle. ok says that it has the form of one.
func ParseBoxHandle(text string) (h BoxHandle, ok bool) {
	b, err := idText.DecodeString(text)
	// The decoder skips line breaks, so the length of the text counts, too.
	if err != nil || len(b) != boxSize || len(text) != idText.EncodedLen(boxSize) {
		return BoxHandle{}, false
	}
	return BoxHandle{Partition(binary.BigEndian.Uint16(b)), text}, true
}

func (h BoxHandle) String() string { return h.text }

// Key is where the box is kept.
func (h BoxHandle) Key() kv.Key { return kv.Key{Partition: h.Partition.Name(), Name: BoxName(h.text)} }

// BoxName is the name of the item of a box in its partition.
func BoxName(handle string) string { return "b/" + handle }

// HandKey is where the hand-off of that handle is kept. Its handle is made and read like that of a box.
func (h BoxHandle) HandKey() kv.Key {
	return kv.Key{Partition: h.Partition.Name(), Name: HandName(h.text)}
}

// HandName is the name of the item of a hand-off in its partition.
func HandName(handle string) string { return "h/" + handle }
