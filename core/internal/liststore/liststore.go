// Package liststore stores the last good trusted list of each configured list (contract 53). A host fetches
// and verifies a list; [Store.Load] decides whether it may replace the stored one, and [Store.Anchors]
// returns the certificates of the stored one as long as it counts.
//
// The store is the one authority for all instances and engines. An instance asks it at most once a minute for
// each list, so a certificate that leaves a list counts for at most one minute longer. If the store fails,
// nothing is known, and the caller denies.
package liststore

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/metric"
	"github.com/verge-id/verge/core/internal/token"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/method"
)

// A stored list is a record, and pieces with its certificates. All of it is in one partition and one commit.
// The record is signed and has a hash of the pieces. Both names end with the digest of the list's
// configuration, so that a list of another configuration is never used, and instances with the old and the
// new configuration do not overwrite each other's lists.
const (
	records = "c/list/"    // c/list/METHOD/DIGEST
	pieces  = "c/listed/"  // c/listed/METHOD/DIGEST/N
	claims  = "c/listing/" // c/listing/METHOD/DIGEST, while an instance fetches the list
)

// Limits of a list.
const (
	MaxBytes    = 704 << 10 // of all certificates together; a list for the operators' API fits its body
	MaxNumber   = 4096      // of certificates
	pieceSize   = 60 << 10
	maxText     = 512 // bytes of a name
	keptTooOld  = 30 * 24 * time.Hour
	checkEach   = time.Minute     // how long an instance uses a list without asking the store
	missingEach = 5 * time.Second // the same for a list that is missing
	maxRaces    = 8
	maxFuture   = 2 * 366 * 24 * time.Hour // of a next update
)

// Errors of Load. Nothing was stored.
var (
	ErrLower   = errors.New("liststore: its sequence number is lower than the stored one")
	ErrContent = errors.New("liststore: its sequence number is the stored one, and its content differs")
	ErrTooOld  = errors.New("liststore: its next update and the grace are over")
	ErrFuture  = errors.New("liststore: its dates are in the future or out of order")
	ErrTooMany = errors.New("liststore: it has too many certificates")
)

// List is a list as it is stored, without its certificates.
type List struct {
	At         time.Time `json:"at"` // when it was fetched and verified last
	Name       string    `json:"name"`
	Format     string    `json:"format"`
	Sequence   uint64    `json:"sequence"`
	Issued     time.Time `json:"issued"`
	NextUpdate time.Time `json:"next_update"`

	Issuer      string `json:"issuer"`      // the operator's name in the list
	Signer      string `json:"signer"`      // the subject of the certificate that signed it
	Fingerprint string `json:"fingerprint"` // its SHA-256 in hex
	Document    string `json:"document"`    // SHA-256 of the whole list, in hex

	Entries int    `json:"entries"` // certificates that are used
	Skipped int    `json:"skipped"` // certificates of the list that are not
	Content string `json:"content"` // a hash of the certificates that are used
	Pieces  int    `json:"pieces"`
}

// Store keeps the lists. All fields are needed.
type Store struct {
	host.Host

	mu    sync.Mutex
	cache map[kv.Key]cached
}

// cached is a list as the store had it at a time.
type cached struct {
	at      time.Time
	list    List
	missing bool
	anchors method.ListedAnchors
}

func key(prefix, of string, l method.TrustList) kv.Key {
	return kv.Key{Partition: integration.Partition, Name: prefix + of + "/" + l.Digest()}
}

func piece(of string, l method.TrustList, n int) kv.Key {
	k := key(pieces, of, l)
	k.Name += "/" + strconv.Itoa(n)
	return k
}

// Read returns the stored list. The error is method.ErrNoList if no list is stored. A list that no longer
// counts is returned, too.
func (s *Store) Read(ctx context.Context, of string, l method.TrustList) (List, error) {
	list, _, err := s.read(ctx, of, l)
	return list, err
}

func (s *Store) read(
	ctx context.Context, of string, l method.TrustList,
) (list List, version string, err error) {
	it, err := s.KV.Get(ctx, key(records, of, l))
	if errors.Is(err, kv.ErrNotFound) {
		return List{}, "", method.ErrNoList
	}
	if err != nil {
		return List{}, "", err
	}
	until, err := token.CheckLongLived(s.Sealer, it.Key.String(), it.Value)
	if err == nil && (json.Unmarshal(it.Value, &list) != nil || token.RecordedWith(it.Value) == "" ||
		!host.ValidAt(list.At, until)) {
		err = fmt.Errorf("%w: %s", token.ErrRecord, it.Key)
	}
	if errors.Is(err, token.ErrRecord) {
		s.Count(metric.NotAuthentic)
		err = fmt.Errorf("a trusted list: %s: %w; %s", token.Rejection(err), err, repair)
	}
	if err != nil {
		return List{}, it.Tx, err
	}
	return list, it.Tx, nil
}

// repair is the advice for a damaged list. A server fetches it again within minutes if the record is damaged,
// and only when the list is due if its certificates are.
const repair = "send SIGHUP to the server, which then fetches the list again; for a Worker, run " +
	"`verge method list-load`"

// Anchors implements method.TrustLists.
func (s *Store) Anchors(ctx context.Context, of string, l method.TrustList) (method.ListedAnchors, error) {
	c, err := s.current(ctx, of, l)
	if err != nil {
		return method.ListedAnchors{}, err
	}
	if c.missing || !l.Counts(c.list.NextUpdate, s.Now()) {
		return method.ListedAnchors{}, method.ErrNoList
	}
	return c.anchors, nil
}

// current returns the list as the store has it, or had it a moment ago.
func (s *Store) current(ctx context.Context, of string, l method.TrustList) (cached, error) {
	k, now := key(records, of, l), s.Now()
	s.mu.Lock()
	c, known := s.cache[k]
	s.mu.Unlock()
	if known {
		each := checkEach
		if c.missing {
			each = missingEach
		}
		// A clock that was set back does not make a list last longer.
		if age := now.Sub(c.at); age >= 0 && age < each {
			return c, nil
		}
	}
	list, _, err := s.read(ctx, of, l)
	switch {
	case errors.Is(err, method.ErrNoList):
		c = cached{at: now, missing: true}
	case err != nil:
		return cached{}, err
	case !known || c.missing || c.list.Content != list.Content:
		if c, err = s.fetch(ctx, of, l, list); err != nil {
			return cached{}, err
		}
		c.at = now
	default:
		c.at, c.list = now, list
	}
	s.remember(k, c)
	return c, nil
}

func (s *Store) remember(k kv.Key, c cached) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cache == nil {
		s.cache = map[kv.Key]cached{}
	}
	s.cache[k] = c
}

// fetch reads the certificates of a list. Another instance may replace the list meanwhile: then the record is
// read again.
func (s *Store) fetch(ctx context.Context, of string, l method.TrustList, list List) (cached, error) {
	for again := false; ; again = true {
		var all []byte
		for n := range list.Pieces {
			it, err := s.KV.Get(ctx, piece(of, l, n))
			if err != nil && !errors.Is(err, kv.ErrNotFound) {
				return cached{}, err
			}
			all = append(all, it.Value...)
		}
		if certificates, ok := split(all); ok && contentOf(all) == list.Content {
			return cached{list: list, anchors: method.ListedAnchors{Certificates: certificates,
				Content: list.Content}}, nil
		}
		if again {
			s.Count(metric.NotAuthentic)
			return cached{}, fmt.Errorf("a trusted list: its certificates are not those of its record: "+
				"%w; %s", token.ErrRecord, repair)
		}
		var err error
		if list, _, err = s.read(ctx, of, l); err != nil {
			return cached{}, err
		}
	}
}

// Load stores a list that the host has verified, unless the stored one is newer. extra returns the audit
// entry of a list whose content differs from the stored one; before is nil for the first. The error is one of
// this package, or of the store.
func (s *Store) Load(ctx context.Context, of string, l method.TrustList, list List, certificates [][]byte,
	extra func(before *List) ([]kv.Put, error)) (List, error) {
	now := s.Now().UTC()
	all, number := join(certificates)
	switch {
	case list.Issued.After(now.Add(host.ClockMargin)), list.NextUpdate.Before(list.Issued),
		list.NextUpdate.After(now.Add(maxFuture)):
		return List{}, ErrFuture
	case !l.Counts(list.NextUpdate, now):
		return List{}, ErrTooOld
	case number > MaxNumber || len(all) > MaxBytes:
		return List{}, ErrTooMany
	}
	list.At, list.Name, list.Format = now, l.Name, l.Format
	list.Issued, list.NextUpdate = list.Issued.UTC(), list.NextUpdate.UTC()
	list.Issuer, list.Signer = cut(list.Issuer), cut(list.Signer)
	list.Skipped += len(certificates) - number
	list.Entries, list.Content, list.Pieces = number, contentOf(all), (len(all)+pieceSize-1)/pieceSize
	var err error
	for range maxRaces {
		if err = s.replace(ctx, of, l, list, all, extra); !kv.IsConflict(err) {
			break
		}
	}
	return list, err
}

// replace is Load for the version of the stored list that is there now.
func (s *Store) replace(ctx context.Context, of string, l method.TrustList, list List, all []byte,
	extra func(before *List) ([]kv.Put, error)) error {
	stored, version, err := s.read(ctx, of, l)
	before := &stored
	switch {
	case errors.Is(err, method.ErrNoList):
		before = nil
	case errors.Is(err, token.ErrRecord):
		// Anyone who can write to the store can delete the record as well, so it protects nothing.
		s.Log.WarnContext(ctx, "stored trusted list replaced", "method", of, "list", l.Name,
			"error", err.Error())
		before = nil
	case err != nil:
		return err
	default:
		if err := follows(stored, list); err != nil {
			return err
		}
	}
	id, err := kv.NewTxID(s.Random)
	if err != nil {
		return err
	}
	k, until := key(records, of, l), list.NextUpdate.Add(l.Grace).Add(keptTooOld)
	value, err := s.sign(k, list)
	if err != nil {
		return err
	}
	tx := kv.Tx{ID: id, Partition: k.Partition, Checks: []kv.Check{{Name: k.Name, Tx: version}},
		Puts: []kv.Put{{Name: k.Name, Value: value, Expires: until}}}
	for n := range list.Pieces { // again each time, since they expire
		end := min((n+1)*pieceSize, len(all))
		tx.Puts = append(tx.Puts, kv.Put{Name: piece(of, l, n).Name, Value: all[n*pieceSize : end],
			Expires: until})
	}
	for n := list.Pieces; before != nil && n < before.Pieces; n++ {
		tx.Deletes = append(tx.Deletes, piece(of, l, n).Name)
	}
	if before == nil || before.Document != list.Document {
		entry, err := extra(before)
		if err != nil {
			return err
		}
		tx.Puts = append(tx.Puts, entry...)
	}
	if err := kv.CommitSurely(ctx, s.KV, tx); err != nil {
		return err
	}
	s.mu.Lock()
	delete(s.cache, k)
	s.mu.Unlock()
	return nil
}

func (s *Store) sign(k kv.Key, list List) ([]byte, error) {
	b, err := json.Marshal(list)
	if err != nil {
		return nil, fmt.Errorf("liststore: %w", err)
	}
	return token.SignRecord(s.Sealer, k.String(), b)
}

// follows returns an error if a list is older than the stored one, or another one with its number. A VICAL
// may have no number (0): then the date of issue orders the lists.
func follows(stored, list List) error {
	switch {
	case list.Document == stored.Document:
		return nil
	case list.Sequence < stored.Sequence, list.Sequence == 0 && list.Issued.Before(stored.Issued):
		return fmt.Errorf("%w (%d after %d)", ErrLower, list.Sequence, stored.Sequence)
	case list.Sequence == stored.Sequence && (list.Sequence != 0 || list.Issued.Equal(stored.Issued)):
		return fmt.Errorf("%w (%d)", ErrContent, list.Sequence)
	}
	return nil
}

// Claim reports whether this instance may fetch a list now. No other instance may until then.
func (s *Store) Claim(ctx context.Context, of string, l method.TrustList, until time.Time) (bool, error) {
	id, err := kv.NewTxID(s.Random)
	if err != nil {
		return false, err
	}
	k := key(claims, of, l)
	err = kv.CommitSurely(ctx, s.KV, kv.Tx{ID: id, Partition: k.Partition,
		Checks: []kv.Check{
			{Name: k.Name},
		}, Puts: []kv.Put{{Name: k.Name, Value: []byte("1"), Expires: until}}})
	if kv.IsConflict(err) {
		return false, nil
	}
	return err == nil, err
}

// join returns all certificates, each once and behind its length, and their number.
func join(certificates [][]byte) (all []byte, number int) {
	seen := map[string]bool{}
	for _, der := range certificates {
		if seen[string(der)] {
			continue
		}
		seen[string(der)] = true
		all = append(binary.BigEndian.AppendUint32(all, uint32(len(der))), der...)
	}
	return all, len(seen)
}

// split returns the certificates that join has joined.
func split(all []byte) (certificates [][]byte, ok bool) {
	for len(all) > 0 {
		if len(all) < 4 {
			return nil, false
		}
		size := binary.BigEndian.Uint32(all)
		if uint64(size) > uint64(len(all)-4) {
			return nil, false
		}
		certificates = append(certificates, all[4:4+size])
		all = all[4+size:]
	}
	return certificates, true
}

// cut shortens a text of a list to maxText bytes.
func cut(text string) string {
	if len(text) > maxText {
		text = text[:maxText]
	}
	return strings.ToValidUTF8(text, "")
}

func contentOf(all []byte) string {
	hash := sha256.Sum256(all)
	return base64.RawURLEncoding.EncodeToString(hash[:])
}
