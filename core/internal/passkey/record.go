package passkey

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/verdict"
	"github.com/verge-id/verge/core/internal/webauthn"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/method"
)

// Name is the name under which the passkey stands beside the methods of an integration.
const Name = method.Passkey

// Proof is what was proven when a passkey was made: the basis of the verdict that completed the session, and
// nothing that was set later.
type Proof struct {
	verdict.Basis
	Publisher string    `json:"publisher"` // where it was proven
	Proven    time.Time `json:"proven"`    // the minute in which the session completed
}

// Record is what the store keeps of a passkey.
type Record struct {
	Proof
	Made  time.Time
	Until time.Time // from then on it counts for nothing

	// Blocked is when its counter showed that somebody has a copy; zero: it is not blocked.
	Blocked time.Time

	hash     string    // names the item: the credential id's SHA-256 in hexadecimal
	version  string    // of the item
	written  time.Time // last; a counter was seen then
	key      []byte    // the public one, in COSE
	counter  uint32
	eligible bool
	backedUp bool
}

// ID names the record for Store.Delete. It is no secret, and says nothing of the credential.
func (r Record) ID() string { return r.hash }

// stored is the record as JSON. The MAC that ends it is token.SignRecord's. A record of an earlier release
// has no fingerprint, so it counts for nothing.
type stored struct {
	Proof
	At       time.Time  `json:"at"` // when it was written
	Key      []byte     `json:"key"`
	Counter  uint32     `json:"counter,omitempty"`
	Eligible bool       `json:"backup_eligible,omitempty"`
	BackedUp bool       `json:"backed_up,omitempty"`
	Made     time.Time  `json:"made"`
	Until    time.Time  `json:"until"`
	Blocked  *time.Time `json:"blocked,omitempty"`
}

func (r Record) marshal() ([]byte, error) {
	s := stored{r.Proof, r.written, r.key, r.counter, r.eligible, r.backedUp, r.Made, r.Until, nil}
	if !r.Blocked.IsZero() {
		s.Blocked = &r.Blocked
	}
	return json.Marshal(s)
}

var errDamaged = errors.New("passkey: damaged record")

// parse reads a record. Its MAC was checked before.
func parse(b []byte) (Record, error) {
	var s stored
	if err := json.Unmarshal(b, &s); err != nil {
		return Record{}, fmt.Errorf("%w: %w", errDamaged, err)
	}
	if s.Level != "L1" && s.Level != "L2" || s.Method == "" || s.Publisher == "" || len(s.Key) == 0 ||
		!isAge(s.ChallengeAge) || !isAge(s.MinimumAge) || s.At.IsZero() || s.Made.IsZero() ||
		!s.Until.After(s.Made) {
		return Record{}, errDamaged
	}
	r := Record{Proof: s.Proof, Made: s.Made.UTC(), Until: s.Until.UTC(), written: s.At.UTC(),
		key: s.Key, counter: s.Counter,
		eligible: s.Eligible, backedUp: s.BackedUp}
	r.Proven = r.Proven.UTC()
	if s.Blocked != nil {
		r.Blocked = s.Blocked.UTC()
	}
	return r, nil
}

// isAge allows 0, which says that there is none.
func isAge(years int) bool { return years >= 0 && years <= 99 }

// credential is the record as webauthn knows it. The store has no credential id, so id is the answer's own,
// by whose hash the record was found.
func (r Record) credential(id []byte) webauthn.Credential {
	return webauthn.Credential{ID: id, PublicKey: r.key, Counter: r.counter, BackupEligible: r.eligible,
		BackedUp: r.backedUp}
}

// isOf reports whether the record is of that credential, and not of another with the same id.
func (r Record) isOf(c webauthn.Credential) bool { return bytes.Equal(r.key, c.PublicKey) }

// Items:
//
//	k0 … k7  k/<hash>                  a passkey
//	k0 … k7  o/<publisher>/<hash>      that it was made at this publisher, and when
//	c        c/passkeys/<publisher>    when all passkeys of this publisher were ended
//
// Passkeys have partitions of their own, because the number of a service's session partitions may grow. What
// begins with o/ has no MAC. It is only counted.
const (
	partitions = 8
	items      = "k/"
	belonging  = "o/"
	endItems   = "c/passkeys/"
	hashDigits = 2 * sha256.Size
)

func partition(n int) kv.Partition { return kv.Partition("k" + strconv.Itoa(n)) }

func hashOf(credentialID []byte) string {
	sum := sha256.Sum256(credentialID)
	return hex.EncodeToString(sum[:])
}

// keyOf returns where the record of a hash is kept. ok is false for a text that is no hash.
func keyOf(hash string) (key kv.Key, ok bool) {
	b, err := hex.DecodeString(hash)
	if err != nil || len(hash) != hashDigits || hex.EncodeToString(b) != hash {
		return kv.Key{}, false
	}
	return kv.Key{Partition: partition(int(b[0]) % partitions), Name: items + hash}, true
}

func belongs(publisher, hash string) string { return belonging + publisher + "/" + hash }

func endItem(publisher string) kv.Key {
	return kv.Key{Partition: integration.Partition, Name: endItems + publisher}
}
