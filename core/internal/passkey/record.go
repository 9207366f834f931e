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
	"github.com/verge-id/verge/core/internal/birthdate"
	"github.com/verge-id/verge/core/internal/verdict"
	"github.com/verge-id/verge/core/internal/webauthn"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/method"
)

// Name is the name of the passkey method, next to an integration's other methods.
const Name = method.Passkey

// Proof is the proof behind a passkey: the basis of the verdict that completed the session, without later
// settings.
type Proof struct {
	verdict.Basis
	Publisher string    `json:"publisher"` // at which it was proven
	Proven    time.Time `json:"proven"`    // the minute in which the session completed
}

// Record is the stored data of a passkey.
type Record struct {
	Proof
	Made  time.Time
	Until time.Time // its end; it is not accepted afterwards

	// Blocked is the time at which its counter revealed a copy; zero: it is not blocked.
	Blocked time.Time

	hash     string    // names the item: the credential id's SHA-256 in hexadecimal
	version  string    // of the item
	written  time.Time // last write; a counter was stored then
	key      []byte    // the public key, in COSE
	counter  uint32
	eligible bool
	backedUp bool
}

// ID names the record for Store.Delete. It is not secret, and does not reveal the credential.
func (r Record) ID() string { return r.hash }

// stored is the record as JSON. It ends in the MAC of token.SignRecord. A record of an earlier release has no
// fingerprint, so it is not accepted.
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

// parse reads a record whose MAC has been checked.
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

// isAge allows 0, which means that no age was proven.
func isAge(years int) bool { return years >= 0 && years <= birthdate.MaxAge }

// credential returns the record as a webauthn.Credential. The store has no credential id, so id comes from
// the response; the record was found by its hash.
func (r Record) credential(id []byte) webauthn.Credential {
	return webauthn.Credential{ID: id, PublicKey: r.key, Counter: r.counter, BackupEligible: r.eligible,
		BackedUp: r.backedUp}
}

// isOf reports whether the record belongs to this credential, and not to another with the same id.
func (r Record) isOf(c webauthn.Credential) bool { return bytes.Equal(r.key, c.PublicKey) }

// Items:
//
//	k0 … k7  k/<hash>                  a passkey
//	k0 … k7  o/<publisher>/<hash>      that it was made at this publisher, and when
//	k0 … k7  d/<transaction>           that a passkey was stored, after a lost reply (Keep)
//	c        c/passkeys/<publisher>    when all passkeys of this publisher were ended
//
// Passkeys have separate partitions, because a service's number of session partitions may grow. Items under
// o/ have no MAC. They are only counted.
const (
	partitions = 8
	items      = "k/"
	belonging  = "o/"
	receipts   = "d/"
	endItems   = "c/passkeys/"
	hashDigits = 2 * sha256.Size
)

func partition(n int) kv.Partition { return kv.Partition("k" + strconv.Itoa(n)) }

// Partitions returns the partitions that have passkeys only.
func Partitions() (all []kv.Partition) {
	for n := range partitions {
		all = append(all, partition(n))
	}
	return all
}

func hashOf(credentialID []byte) string {
	sum := sha256.Sum256(credentialID)
	return hex.EncodeToString(sum[:])
}

// keyOf returns the key of the record with a hash. ok is false if the text is no hash.
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
