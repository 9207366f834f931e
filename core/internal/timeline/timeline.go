// Package timeline names items of the store by time, the latest first, and lists the items of several
// partitions in one order. It reads only items that its caller uses, so a long list costs no more than a
// short one.
package timeline

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"time"

	"github.com/verge-id/verge/core/kv"
)

// Digits is the number of hexadecimal digits that begin a Prefix.
const Digits = 16

// Prefix begins the name of an item: later times come first in the order of names.
func Prefix(t time.Time) string {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], 1<<63-1-uint64(t.UnixMilli()))
	return hex.EncodeToString(b[:]) + "-"
}

// Time returns the time of a name that begins with a Prefix. ok is false for any other name.
func Time(name string) (t time.Time, ok bool) {
	if len(name) <= Digits || name[Digits] != '-' || strings.Trim(name[:Digits], "0123456789abcdef") != "" {
		return t, false
	}
	b, err := hex.DecodeString(name[:Digits])
	if err != nil {
		return t, false
	}
	return time.UnixMilli(int64(1<<63 - 1 - binary.BigEndian.Uint64(b))).UTC(), true
}

// MaxRead is the maximum number of items that one request to the store reads.
const MaxRead = 200

// Source is the items of one partition below a prefix.
type Source struct {
	prefix kv.Key
	after  string    // the last name that was read
	items  []kv.Item // read and not yet taken
	asked  int       // how many items the last request asked for; 0: none was made
	ended  bool
}

// NewSource returns the items below a prefix. after is the name of the caller's last item, without the
// prefix, or "".
func NewSource(prefix kv.Key, after string) *Source {
	if after != "" {
		after = prefix.Name + after
	}
	return &Source{prefix: prefix, after: after}
}

// Take removes the next item and returns it, and its name without the prefix.
func (s *Source) Take() (item kv.Item, name string) {
	item = s.items[0]
	s.items = s.items[1:]
	return item, s.name(item)
}

func (s *Source) name(item kv.Item) string { return strings.TrimPrefix(item.Key.Name, s.prefix.Name) }

// First returns the source whose next item comes first, or nil if there are no more items. want is the number
// of items that the caller still takes.
func First(ctx context.Context, store kv.KV, sources []*Source, want int) (*Source, error) {
	var first *Source
	for _, s := range sources {
		if len(s.items) == 0 && !s.ended {
			// An even share, and a little more, since items are spread by chance. A source that is asked
			// again has more than others, so it is asked for twice as many.
			s.asked = min(max(want/len(sources)+8, 2*s.asked), MaxRead)
			items, err := store.List(ctx, s.prefix, s.after, s.asked)
			if err != nil {
				return nil, err
			}
			s.items, s.ended = items, len(items) < s.asked
			if len(items) > 0 {
				s.after = items[len(items)-1].Key.Name
			}
		}
		if len(s.items) > 0 && (first == nil || s.name(s.items[0]) < first.name(first.items[0])) {
			first = s
		}
	}
	return first, nil
}
