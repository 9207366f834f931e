package keyset

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/verge-id/verge/core/internal/token"
	"github.com/verge-id/verge/core/keyring"
)

// keySet lists the keys of the instances that share a store, newest first.
type keySet struct {
	Keys []sharedKey
}

// sharedKey is one key of the set. It contains no secret.
type sharedKey struct {
	ID          string    `json:"id"`
	Fingerprint string    `json:"fingerprint"`       // token.Key.Fingerprint
	From        time.Time `json:"from"`              // when it becomes active on every instance
	Retired     bool      `json:"retired,omitempty"` // no instance may use it

	// Resealed is set after the webhook secrets were encrypted with this key, and the records signed.
	Resealed bool `json:"resealed,omitempty"`

	// Alone is set after that was repeated when the key was active on the last instance. After that, no
	// older key authenticates long-lived records (token.CheckLongLived).
	Alone bool `json:"alone,omitempty"`
}

// String returns the key's name in logs and messages.
func (k sharedKey) String() string { return fmt.Sprintf("%s (fingerprint %s)", k.ID, k.Fingerprint) }

// ownKeys is the content of the ring's file, with the identity of each key. Deriving one costs more than the
// rest of a look, and looks are frequent.
type ownKeys struct {
	keyring.File
	identities []token.Identity
}

func identified(file keyring.File) ownKeys {
	own := ownKeys{File: file}
	for _, k := range file.Keys {
		own.identities = append(own.identities, k.Identity())
	}
	return own
}

// shared returns the key at i as a key of the set.
func (o ownKeys) shared(i int, from time.Time) sharedKey {
	return sharedKey{ID: o.Keys[i].ID, Fingerprint: o.identities[i].Fingerprint, From: from}
}

// The item has two lines: the keys as JSON, and the MACs over that line. The writer adds one MAC for each
// key of its ring.
//
//	[{"id":"9f02ab31","fingerprint":"5b0c…","from":"2026-11-20T22:11:00Z"}]
//	{"9f02ab31":"<base64>","07c1d2e4":"<base64>"}
//
// So an instance can check the set if it has any of the writer's keys. This distinguishes an outdated ring
// from a foreign one. A legitimate writer of the set has every key in it that is not retired. So a set
// which lists a key without its MAC was created with a replaced ring.
func (s keySet) marshal(ring ownKeys) []byte {
	line, err := json.Marshal(s.Keys)
	if err != nil {
		panic(err) // strings and times always marshal
	}
	macs := make(map[string][]byte, len(ring.Keys))
	for i, k := range ring.Keys {
		macs[k.ID] = ring.identities[i].Vouch(line)
	}
	second, err := json.Marshal(macs)
	if err != nil {
		panic(err) // strings and bytes always marshal
	}
	return append(append(line, '\n'), second...)
}

// maxKeys is the maximum number of keys that are read. A ring has only a few keys.
const maxKeys = 256

// trust is the result of checking the MACs of a set with a ring.
type trust struct {
	vouched bool   // a key of the ring made one of the MACs
	doubt   string // the reason why the set is not trusted anyway
}

// parse parses an item, and checks its MACs with the keys of the ring.
func parse(b []byte, ring ownKeys, now time.Time) (s keySet, t trust, err error) {
	line, second, _ := bytes.Cut(b, []byte{'\n'})
	var macs map[string][]byte
	if json.Unmarshal(line, &s.Keys) != nil || json.Unmarshal(second, &macs) != nil || len(s.Keys) > maxKeys {
		return keySet{}, trust{}, errors.New("keyset: the store's item is damaged")
	}
	for i, k := range ring.Keys {
		mac, ok := macs[k.ID]
		good := ok && token.SameMAC(mac, ring.identities[i].Vouch(line))
		known, listed := s.find(k.ID)
		switch {
		case !listed || retired(ring, k.ID) || known.Fingerprint != ring.identities[i].Fingerprint:
		case !known.Retired && !good:
			t.doubt = fmt.Sprintf("it lists key %s and lacks the MAC by that key, so it was made "+
				"with a ring that was replaced", known)
		case known.Retired && !t.vouched && !now.Before(begins(ring, i)):
			// A waiting key can be retired before it was active. An active key is retired with its
			// successor's MAC, or by force; this instance then needs the file without it.
			t.doubt = fmt.Sprintf("it says that key %s was retired, which no newer key of this ring "+
				"confirms; if you have retired it, bring this instance the ring without it", known)
		}
		t.vouched = t.vouched || good
	}
	return s, t, nil
}

func (s keySet) find(id string) (sharedKey, bool) {
	i := slices.IndexFunc(s.Keys, func(k sharedKey) bool { return k.ID == id })
	if i < 0 {
		return sharedKey{}, false
	}
	return s.Keys[i], true
}

// newest returns the time when the newest key becomes active.
func (s keySet) newest() (from time.Time) {
	for _, k := range s.Keys {
		if !k.Retired {
			from = later(from, k.From)
		}
	}
	return from
}

// has reports whether the fleet uses a key with that id.
func (s keySet) has(id string) bool {
	k, ok := s.find(id)
	return ok && !k.Retired
}

// comparison is the result of comparing a ring with the set.
type comparison struct {
	// Missing are keys of the set that the ring lacks, because its file is older than the others'.
	Missing []sharedKey

	// Stranger is set if the ring shares no key with the set, because it belongs to another fleet. Missing
	// then has all keys of the set.
	Stranger bool

	// Doubt is the reason why the set is not trusted although the ring has keys of it. Stranger is then
	// set, too.
	Doubt string
}

// whole reports whether the ring has all keys of the fleet that are active at now. A missing key that is
// not active yet is harmless: until then all instances can open this instance's tokens.
func (s comparison) whole(now time.Time) bool { return !s.Stranger && s.Lacking(now) == 0 }

// Lacking returns the number of keys of the fleet that are active at now and missing in the ring. It does
// not count a key that is announced but not active yet.
func (s comparison) Lacking(now time.Time) (n int) {
	for _, k := range s.Missing {
		if s.Stranger || !now.Before(k.From) {
			n++
		}
	}
	return n
}

// compare compares the ring with a set from the store.
func compare(s keySet, t trust, ring ownKeys) (st comparison) {
	for _, k := range s.Keys {
		i := slices.IndexFunc(ring.Keys, func(r token.RingKey) bool { return r.ID == k.ID })
		switch {
		case k.Retired || retired(ring, k.ID):
		case i < 0:
			st.Missing = append(st.Missing, k)
		case ring.identities[i].Fingerprint != k.Fingerprint:
			// A late file cannot explain the same id with another secret.
			t.vouched = false
		}
	}
	if !t.vouched || t.doubt != "" {
		return comparison{Missing: s.Keys, Stranger: true, Doubt: t.doubt}
	}
	return st
}

// remember returns the set with all of its earlier content: no key leaves it or begins later, and no mark
// is lost. forgot reports whether the set violated this: someone has restored an older set, or deleted it.
func (s keySet) remember(before keySet) (whole keySet, forgot bool) {
	whole.Keys = slices.Clone(s.Keys)
	for _, k := range before.Keys {
		i := slices.IndexFunc(whole.Keys, func(n sharedKey) bool { return n.ID == k.ID })
		if i < 0 {
			whole.Keys, forgot = append(whole.Keys, k), true
			continue
		}
		now := &whole.Keys[i]
		kept := *now
		if k.From.Before(kept.From) {
			kept.From = k.From
		}
		kept.Retired = kept.Retired || k.Retired
		kept.Resealed = kept.Resealed || k.Resealed
		kept.Alone = kept.Alone || k.Alone
		forgot = forgot || kept != *now
		*now = kept
	}
	whole.sort()
	return whole, forgot
}

func (s keySet) sort() {
	slices.SortStableFunc(s.Keys, func(a, b sharedKey) int { return b.From.Compare(a.From) })
}

func retired(ring ownKeys, id string) bool {
	return slices.ContainsFunc(ring.Retired, func(r keyring.Retired) bool { return r.ID == id })
}

// Settle is how long a key is in the set before it becomes active. It is longer than every instance takes
// to read the store again.
const Settle = 10 * time.Second

// announceAhead is how long before its time a key is added to the set.
const announceAhead = 2 * Settle

// first returns the set that a ring creates for a store without one. The ring was in use before, so its
// keys are active from the ring's own times.
func first(ring ownKeys, now time.Time) (s keySet) {
	older := slices.ContainsFunc(ring.Keys, func(k token.RingKey) bool { return !k.Bound })
	for i, k := range ring.Keys {
		if i < ring.Sealing(now) {
			continue // its time has not come; advance adds it later
		}
		from := begins(ring, i)
		if k.Bound && older {
			// An earlier release has used the store without signing. Its records are signed before this key
			// begins (integration.Reseal).
			from = later(from, now.Add(Settle))
		}
		s.Keys = append(s.Keys, ring.shared(i, from))
	}
	return s
}

// begins returns when the key at i becomes active, according to the ring only.
func begins(ring ownKeys, i int) time.Time {
	k := ring.Keys[i]
	switch {
	case !k.SealsFrom.IsZero():
		return k.SealsFrom
	case i+1 < len(ring.Keys):
		return ring.Keys[i+1].Replaced // a key of an earlier release
	}
	return k.Created
}

// advance returns the set with the changes of the ring's operator: it adds keys that are about to become
// active and marks retired keys. changed reports whether there was a change. The ring must be whole.
func advance(s keySet, ring ownKeys, now time.Time) (next keySet, changed bool) {
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
		// A key that an operator has restored is older than the active one, so it only opens. Any other key
		// waits until every instance has read it.
		if from.After(newest) {
			from = later(from, now.Add(Settle))
		}
		next.Keys = append(next.Keys, ring.shared(i, from))
		changed = true
	}
	next.sort()
	return next, changed
}

// effective returns the usable ring: without the retired keys, and with the times of the whole fleet. A key
// that is not in the store's set yet opens but does not seal.
func effective(s keySet, ring ownKeys) keyring.File {
	var out keyring.File
	for _, k := range ring.Keys {
		known, ok := s.find(k.ID)
		switch {
		case ok && known.Retired:
			continue
		case ok:
			k.SealsFrom, k.Alone = known.From, known.Alone
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

// never is the time of a key that must not become active.
var never = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
