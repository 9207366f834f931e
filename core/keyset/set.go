package keyset

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/verge-id/verge/core/token"
)

// Set is which keys the instances that share a store use, newest first.
type Set struct {
	Keys []Key
}

// Key is one key of the set. It holds nothing that opens anything.
type Key struct {
	ID          string    `json:"id"`
	Fingerprint string    `json:"fingerprint"`       // token.Key.Fingerprint
	From        time.Time `json:"from"`              // when it begins to seal, at every instance
	Retired     bool      `json:"retired,omitempty"` // no instance may use it any more

	// Resealed is set once the webhook secrets have been sealed with this key.
	Resealed bool `json:"resealed,omitempty"`
}

// String names the key as log lines and messages do.
func (k Key) String() string { return fmt.Sprintf("%s (fingerprint %s)", k.ID, k.Fingerprint) }

// The item is two lines: the keys as JSON, and the MAC that each key of the
// ring of whoever wrote it made over the first line.
//
//	[{"id":"9f02ab31","fingerprint":"5b0c…","from":"2026-11-20T22:11:00Z"}]
//	{"9f02ab31":"<base64>","07c1d2e4":"<base64>"}
//
// One MAC for each key lets an instance check the set as long as it has any one
// of the writer's keys, so that it can tell a ring that lags behind from a
// stranger's.
func (s Set) marshal(ring token.Keyring) []byte {
	line, err := json.Marshal(s.Keys)
	if err != nil {
		panic(err) // strings and times always marshal
	}
	macs := make(map[string][]byte, len(ring.Keys))
	for _, k := range ring.Keys {
		macs[k.ID] = k.Vouch(line)
	}
	second, err := json.Marshal(macs)
	if err != nil {
		panic(err) // strings and bytes always marshal
	}
	return append(append(line, '\n'), second...)
}

// maxKeys bounds what is read: a ring has a few keys.
const maxKeys = 256

// parse reads an item. vouched reports whether a key of the ring made one of
// its MACs.
func parse(b []byte, ring token.Keyring) (s Set, vouched bool, err error) {
	line, second, _ := bytes.Cut(b, []byte{'\n'})
	var macs map[string][]byte
	if json.Unmarshal(line, &s.Keys) != nil || json.Unmarshal(second, &macs) != nil || len(s.Keys) > maxKeys {
		return Set{}, false, errors.New("keyset: the store's item is damaged")
	}
	for _, k := range ring.Keys {
		if mac, ok := macs[k.ID]; ok && token.SameMAC(mac, k.Vouch(line)) {
			vouched = true
		}
	}
	return s, vouched, nil
}

func (s Set) find(id string) (Key, bool) {
	i := slices.IndexFunc(s.Keys, func(k Key) bool { return k.ID == id })
	if i < 0 {
		return Key{}, false
	}
	return s.Keys[i], true
}

// newest is when the newest key begins to seal.
func (s Set) newest() (from time.Time) {
	for _, k := range s.Keys {
		if !k.Retired {
			from = later(from, k.From)
		}
	}
	return from
}

// has reports whether the fleet uses a key of that id.
func (s Set) has(id string) bool {
	k, ok := s.find(id)
	return ok && !k.Retired
}

// Standing is how a ring relates to the set.
type Standing struct {
	// Missing are keys of the set that the ring lacks: the ring's file is older
	// than the others'.
	Missing []Key

	// Stranger is set where the ring shares no key with the set: it belongs to
	// another fleet. Missing then holds the set's keys.
	Stranger bool
}

// Whole reports whether the ring has every key that the fleet seals with at
// now. A missing key whose time has not come yet does no harm: what this
// instance seals until then is as good as ever.
func (s Standing) Whole(now time.Time) bool { return !s.Stranger && s.Lacking(now) == 0 }

// Lacking is how many keys the fleet seals with at now and the ring lacks. A key
// that is announced and waits for its time is not one of them yet.
func (s Standing) Lacking(now time.Time) (n int) {
	for _, k := range s.Missing {
		if s.Stranger || !now.Before(k.From) {
			n++
		}
	}
	return n
}

// compare returns how the ring stands to a set that the store holds.
func compare(s Set, vouched bool, ring token.Keyring) (st Standing) {
	for _, k := range s.Keys {
		i := slices.IndexFunc(ring.Keys, func(r token.RingKey) bool { return r.ID == k.ID })
		switch {
		case k.Retired || retired(ring, k.ID):
		case i < 0:
			st.Missing = append(st.Missing, k)
		case ring.Keys[i].Fingerprint() != k.Fingerprint:
			// The same id with another secret is no accident of a slow copy.
			vouched = false
		}
	}
	if !vouched {
		return Standing{Missing: s.Keys, Stranger: true}
	}
	return st
}

func retired(ring token.Keyring, id string) bool {
	return slices.ContainsFunc(ring.Retired, func(r token.RetiredKey) bool { return r.ID == id })
}

// Settle is how long a key is in the set before anything is sealed with it:
// longer than every instance takes to look at the store again.
const Settle = 10 * time.Second

// announceAhead is how long before its time a key is put into the set.
const announceAhead = 2 * Settle

// first returns the set that a ring makes of an empty store. The ring was in
// use before there was a set, so its keys seal from when the ring says.
func first(ring token.Keyring, now time.Time) (s Set) {
	older := slices.ContainsFunc(ring.Keys, func(k token.RingKey) bool { return !k.Bound })
	for i, k := range ring.Keys {
		if i < ring.Sealing(now) {
			continue // its time has not come; it is announced then
		}
		from := begins(ring, i)
		if k.Bound && older {
			// An earlier release has used the store, which signs nothing: what
			// it left is signed before this key begins (integration.Reseal).
			from = later(from, now.Add(Settle))
		}
		s.Keys = append(s.Keys, Key{ID: k.ID, Fingerprint: k.Fingerprint(), From: from})
	}
	return s
}

// begins is when the key at i seals from, by the ring alone.
func begins(ring token.Keyring, i int) time.Time {
	k := ring.Keys[i]
	switch {
	case !k.SealsFrom.IsZero():
		return k.SealsFrom
	case i+1 < len(ring.Keys):
		return ring.Keys[i+1].Replaced // an earlier release's key
	}
	return k.Created
}

// advance returns the set with what the ring's operator has changed: keys that
// are about to seal are added, keys that were retired are marked. changed
// reports whether there was anything. The ring must be whole.
func advance(s Set, ring token.Keyring, now time.Time) (next Set, changed bool) {
	next.Keys = slices.Clone(s.Keys)
	for i, k := range next.Keys {
		if !k.Retired && retired(ring, k.ID) {
			next.Keys[i].Retired, changed = true, true
		}
	}
	newest := s.newest()
	for i, k := range slices.Backward(ring.Keys) {
		from := begins(ring, i)
		if _, ok := s.find(k.ID); ok || now.Before(from.Add(-announceAhead)) {
			continue
		}
		// A key that an operator has put back is older than one that seals, and
		// only opens. Any other waits until every instance knows of it.
		if from.After(newest) {
			from = later(from, now.Add(Settle))
		}
		next.Keys = append(next.Keys, Key{ID: k.ID, Fingerprint: k.Fingerprint(), From: from})
		changed = true
	}
	slices.SortStableFunc(next.Keys, func(a, b Key) int { return b.From.Compare(a.From) })
	return next, changed
}

// effective returns the ring as it may be used: the keys that are not retired,
// with the times that hold for the whole fleet. A key that the store's set does
// not have yet opens and does not seal.
func effective(s Set, ring token.Keyring) token.Keyring {
	var out token.Keyring
	for _, k := range ring.Keys {
		known, ok := s.find(k.ID)
		switch {
		case ok && known.Retired:
			continue
		case ok:
			k.SealsFrom = known.From
		default:
			k.SealsFrom = never
		}
		out.Keys = append(out.Keys, k)
	}
	slices.SortStableFunc(out.Keys, func(a, b token.RingKey) int { return b.SealsFrom.Compare(a.SealsFrom) })
	for i := range out.Keys {
		out.Keys[i].Replaced = time.Time{}
		if i > 0 && !out.Keys[i-1].SealsFrom.Equal(never) {
			out.Keys[i].Replaced = out.Keys[i-1].SealsFrom
		}
	}
	return out
}

// never is when a key seals that may not seal.
var never = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
