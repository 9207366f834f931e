package keyset

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/passkey"
	"github.com/verge-id/verge/core/internal/token"
	"github.com/verge-id/verge/core/internal/usage"
	"github.com/verge-id/verge/core/keyring"
	"github.com/verge-id/verge/core/kv"
)

// key is the key of the set in the store.
var key = kv.Key{Partition: integration.Partition, Name: "c/ring"}

// Config configures a Ring.
type Config struct {
	host.Host // KV, Now and Random are required; the Sealer is not used

	// Name is the host name to which tokens are bound.
	Name string

	// Keyring is the content of the ring's file.
	Keyring keyring.File

	// Awaited is called when a token names a key that this instance lacks, so that the file is read again.
	// Nil: no call.
	Awaited func()

	// Stale, if not nil, reports that the ring was compared with the store so long ago that it may have
	// missed a key that is active by now. The ring then seals nothing, and its KV rejects every write.
	Stale func() bool
}

// Ring is the key ring of one instance of a fleet. It implements host.Sealer and may be used concurrently.
type Ring struct {
	cfg       Config
	directory *integration.Directory
	usage     *usage.Usage
	passkeys  *passkey.Store
	state     atomic.Pointer[state]
	mu        sync.Mutex // held while state is replaced, never during a call to the store
}

var _ host.Sealer = (*Ring)(nil)

// state is never modified after it is stored.
type state struct {
	file     ownKeys
	ring     *token.Ring
	set      keySet
	known    keySet    // the last set that was certainly in the store
	joined   bool      // the store was read, and set is its set
	unused   bool      // the store had no set when it was read
	seen     time.Time // when the store was last read
	standing comparison
}

// New returns the ring that cfg describes. Its KV rejects every write until Refresh has succeeded once.
func New(cfg Config) (*Ring, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	r := &Ring{cfg: cfg}
	r.state.Store(&state{})
	on := host.WithDefaults(cfg.Host)
	on.Sealer, on.KV = r, r.KV()
	r.directory = integration.NewDirectory(on)
	r.usage = &usage.Usage{Host: on}
	r.passkeys = &passkey.Store{Host: on}
	return r, r.Use(cfg.Keyring)
}

// Use replaces the ring with the current content of its file. Call Refresh afterwards.
func (r *Ring) Use(file keyring.File) error {
	own := identified(file)
	return r.change(func(s *state) {
		s.file = own
		if s.joined {
			s.standing = compare(s.set, trust{!s.standing.Stranger, s.standing.Doubt}, own)
		}
	})
}

// change stores a new state and builds its ring.
func (r *Ring) change(edit func(*state)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	next := *r.state.Load()
	edit(&next)
	usable := next.file.File
	if next.joined && !next.standing.Stranger {
		usable = effective(next.set, next.file)
	}
	if len(next.file.Keys) == 0 {
		return errors.New("key ring: it has no keys; create one with keyring.Generate, and save it")
	}
	if len(usable.Keys) == 0 {
		return errors.New("key ring: every key in it was retired elsewhere")
	}
	var err error
	if next.ring == nil {
		next.ring, err = usable.Ring(r.cfg.Name, r.cfg.Random, r.cfg.Now)
	} else {
		next.ring, err = next.ring.With(usable.Keys)
	}
	if err != nil {
		return err
	}
	r.state.Store(&next)
	return nil
}

// Refresh compares the ring with the store's set. It adds keys to the set that are about to become active,
// and marks retired keys. If a key has become active, it encrypts the webhook secrets again and signs the
// records. If the set was deleted or replaced by an earlier one, it restores it. Call it every few seconds.
// An error means that the store did not respond; the next call retries.
func (r *Ring) Refresh(ctx context.Context) error {
	for range maxRaces {
		set, version, forgot, err := r.meet(ctx)
		if st := r.Standing(); err != nil || st.Stranger || len(st.Missing) > 0 {
			return err
		}
		set, proved, err := r.recover(ctx, set, version)
		if err != nil {
			return err
		}
		next, changed := advance(set, r.state.Load().file, r.cfg.Now())
		changed = changed || forgot || proved
		if !changed && version != "" {
			return r.reseal(ctx, set, version)
		}
		switch done, err := r.write(ctx, next, version); {
		case err != nil:
			return err
		case done:
			return nil
		}
	}
	return fmt.Errorf("%w: the set of keys changed %d times under one change", kv.ErrUnavailable, maxRaces)
}

const maxRaces = 8

// meet reads the set and compares the ring with it. version is "" if the store has no set yet; set is then
// the ring's own. forgot reports whether the store's set lacks data that this instance has seen in it.
func (r *Ring) meet(ctx context.Context) (set keySet, version string, forgot bool, err error) {
	file, known, asked := r.state.Load().file, r.state.Load().known, r.cfg.Now()
	item, err := r.cfg.KV.Get(ctx, key)
	var standing comparison
	switch {
	case errors.Is(err, kv.ErrNotFound):
		set = first(file, r.cfg.Now())
		belongs, err := r.belongs(ctx)
		if err != nil {
			return set, "", false, err
		}
		if !belongs {
			standing = comparison{Stranger: true}
		}
	case err != nil:
		return set, "", false, err
	default:
		var t trust
		if set, t, err = parse(item.Value, file, asked); err != nil {
			return set, "", false, fmt.Errorf("%s: %w", key, err)
		}
		standing, version = compare(set, t, file), item.Tx
	}
	if !standing.Stranger {
		set, forgot = set.remember(known)
	}
	if forgot {
		r.cfg.Log.Error("the store's set of keys was deleted or rolled back; it is "+
			"restored",
			"item", key.String())
	}
	return set, version, forgot, r.change(func(s *state) {
		s.set, s.joined, s.unused, s.seen, s.standing = set, true, version == "", asked, standing
		if version != "" && !standing.Stranger {
			s.known = set
		}
	})
}

// recover adds the active key by the ring's own times to the set, if the set lacks that key and the store's
// records show that it was already in use. So an older set that someone restores, or a deleted set, does
// not make an older key fully valid again.
func (r *Ring) recover(ctx context.Context, set keySet, version string) (whole keySet, proved bool,
	err error) {
	file := r.state.Load().file
	i := file.Sealing(r.cfg.Now())
	k := file.Keys[i]
	if known, ok := set.find(k.ID); i == len(file.Keys)-1 || ok && (version != "" || known.Alone) {
		return set, false, nil
	}
	if used, err := r.directory.SignedWith(ctx, k.ID); err != nil || !used {
		return set, false, err
	}
	r.cfg.Log.Error("the store's set of keys lacks a key that has signed records; "+
		"long-lived records signed by an older key are ignored", "key", k.ID)
	lost := file.shared(i, begins(file, i))
	lost.Resealed, lost.Alone = true, true
	whole, _ = set.remember(keySet{Keys: []sharedKey{lost}})
	return whole, true, nil
}

// belongs reports whether this ring was used with a store that has no set because an earlier release used
// it.
func (r *Ring) belongs(ctx context.Context) (bool, error) {
	on := r.cfg.Host
	on.Sealer = r.state.Load().ring
	return integration.NewDirectory(on).Belongs(ctx)
}

// write replaces the set. done is false if another instance was faster.
func (r *Ring) write(ctx context.Context, next keySet, version string) (done bool, err error) {
	id, err := kv.NewTxID(r.cfg.Random)
	if err != nil {
		return false, err
	}
	err = kv.CommitSurely(ctx, r.cfg.KV, kv.Tx{ID: id, Partition: key.Partition,
		Checks: []kv.Check{{Name: key.Name, Tx: version}},
		Puts:   []kv.Put{{Name: key.Name, Value: next.marshal(r.state.Load().file)}}})
	if kv.IsConflict(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, r.change(func(s *state) { s.set, s.known, s.unused = next, next, false })
}

// reseal encrypts the webhook secrets with the newest key once it is active, signs all long-lived records
// with it, and marks that in the set. It does so a second time when no instance signs with an older key any
// longer. Only then is the key alone: before, another instance may have signed a record with the older key
// after this instance had passed it.
func (r *Ring) reseal(ctx context.Context, set keySet, version string) error {
	sealing, now := r.state.Load().ring.SealingKey(), r.cfg.Now()
	i := slices.IndexFunc(set.Keys, func(k sharedKey) bool { return k.ID == sealing && !k.Retired })
	if i < 0 {
		return nil
	}
	alone := !now.Before(set.Keys[i].From.Add(aloneAfter))
	if set.Keys[i].Alone || set.Keys[i].Resealed && !alone {
		return nil
	}
	if err := errors.Join(r.directory.Reseal(ctx), r.usage.Reseal(ctx), r.passkeys.Reseal(ctx)); err != nil {
		return err
	}
	next := keySet{Keys: slices.Clone(set.Keys)}
	next.Keys[i].Resealed, next.Keys[i].Alone = true, alone
	done, err := r.write(ctx, next, version)
	if done && alone {
		r.cfg.Log.Info("all long-lived records are signed with the active key; "+
			"older keys are no longer needed for them", "key", sealing)
	}
	return err
}

// aloneAfter is the time after a key's time when it is active on every instance, by any clock, and earlier
// signatures are written.
const aloneAfter = host.ClockMargin + time.Minute

// Standing returns the result of the last comparison of the ring with the store's set.
func (r *Ring) Standing() comparison { return r.state.Load().standing }

// SealingKey returns the id of the active key.
func (r *Ring) SealingKey() string { return r.state.Load().ring.SealingKey() }

// KeyIDs returns the ids of all keys of the ring.
func (r *Ring) KeyIDs() (ids []string) {
	for _, k := range r.state.Load().file.Keys {
		ids = append(ids, k.ID)
	}
	return ids
}

// Ready returns nil if this instance may serve: it has seen the store's set, and its ring has all active
// keys of the fleet.
func (r *Ring) Ready() error {
	switch s := r.state.Load(); {
	case !s.joined:
		return errors.New("the key ring has not been compared with the store's set of keys yet")
	case s.standing.Doubt != "":
		return unfit("the store's set of keys is not trusted: " + s.standing.Doubt +
			"; otherwise find out who writes to the store, and restore the set with " +
			"\"verge keyring adopt\", or the store of a Worker with \"verge kv import\"")
	case s.standing.Stranger:
		return unfit(fmt.Sprintf("the key ring is another fleet's: the store is used with key %s; "+
			"this ring has key %s; bring this instance the ring or the store of its own fleet",
			names(s.standing.Missing), ringNames(s.file)))
	case len(s.standing.Missing) > 0 && !s.standing.whole(r.cfg.Now()):
		return unfit(fmt.Sprintf("the key ring lacks key %s, which other instances use: bring this "+
			"instance their key ring; it has key %s", names(s.standing.Missing), ringNames(s.file)))
	}
	return nil
}

// ErrUnfit is one of the errors of Ready: the store is not used with this ring. Use another ring or another
// store.
var ErrUnfit = errors.New("the key ring does not fit the store")

// unfit is an ErrUnfit with the reason.
type unfit string

func (u unfit) Error() string        { return string(u) }
func (u unfit) Is(target error) bool { return target == ErrUnfit }

// Unused reports whether the store had no set of keys when Meet read it: no instance of this release has
// used it yet.
func (r *Ring) Unused() bool { return r.state.Load().unused }

// Lags returns an error if other instances have announced a key that this ring lacks. The instance is ready
// until that key becomes active.
func (r *Ring) Lags() error {
	s := r.state.Load()
	if s.standing.Stranger || len(s.standing.Missing) == 0 {
		return nil
	}
	k := s.standing.Missing[0]
	return fmt.Errorf("the key ring lacks key %s, with which other instances seal from %s: "+
		"bring this instance their key ring by then", k, k.From.UTC().Format(time.RFC3339))
}

// Adopt replaces the store's set with this ring's own, even if another ring created it. All data that
// another ring sealed is lost: live sessions, waiting events and webhook secrets, which must be set again.
func (r *Ring) Adopt(ctx context.Context) error {
	for range maxRaces {
		version := ""
		item, err := r.cfg.KV.Get(ctx, key)
		switch {
		case err == nil:
			version = item.Tx
		case !errors.Is(err, kv.ErrNotFound):
			return err
		}
		done, err := r.write(ctx, first(r.state.Load().file, r.cfg.Now()), version)
		if err != nil || done {
			return err
		}
	}
	return fmt.Errorf("%w: the set of keys changed %d times under one change", kv.ErrUnavailable, maxRaces)
}

// Meet compares the ring with the store's set without modifying the store. Ready then returns the result.
func (r *Ring) Meet(ctx context.Context) error {
	_, _, _, err := r.meet(ctx)
	return err
}

func names(keys []sharedKey) string {
	if len(keys) == 0 {
		return "that this ring does not have"
	}
	out := make([]string, len(keys))
	for i, k := range keys {
		out[i] = k.String()
	}
	return strings.Join(out, ", ")
}

func ringNames(ring ownKeys) string {
	keys := make([]sharedKey, len(ring.Keys))
	for i := range ring.Keys {
		keys[i] = ring.shared(i, time.Time{})
	}
	return names(keys)
}

// awaited replaces a rejection by host.ErrKeyAwaited if the fleet uses the key with that id and this ring
// lacks it. It also does so if the set was last read so long ago that the key could have become active
// since.
func (r *Ring) awaited(err error, id string) error {
	s := r.state.Load()
	current := s.joined && r.cfg.Now().Sub(s.seen).Abs() < Settle
	if !errors.Is(err, host.ErrNotAuthentic) || id == "" || current && !s.set.has(id) {
		return err
	}
	if slices.ContainsFunc(s.file.Keys, func(k token.RingKey) bool { return k.ID == id }) {
		return err
	}
	if r.cfg.Awaited != nil {
		r.cfg.Awaited()
	}
	return fmt.Errorf("%w: key %s", host.ErrKeyAwaited, id)
}

// stale returns an error if the ring may have missed a key.
func (r *Ring) stale() error {
	if r.cfg.Stale == nil || !r.cfg.Stale() {
		return nil
	}
	return fmt.Errorf("%w: the key ring was not compared with the store's set of keys for too long",
		kv.ErrUnavailable)
}

// Seal implements host.Sealer.
func (r *Ring) Seal(purpose string, claims []byte) ([]byte, error) {
	if err := r.stale(); err != nil {
		return nil, err
	}
	return r.state.Load().ring.Seal(purpose, claims)
}

// Open implements host.Sealer.
func (r *Ring) Open(purpose string, sealed []byte) (claims []byte, until time.Time, err error) {
	claims, until, err = r.state.Load().ring.Open(purpose, sealed)
	if err != nil {
		err = r.awaited(err, token.SealedWith(sealed))
	}
	return claims, until, err
}

// MAC implements host.Sealer.
func (r *Ring) MAC(purpose string, message []byte) ([]byte, error) {
	if err := r.stale(); err != nil {
		return nil, err
	}
	return r.state.Load().ring.MAC(purpose, message)
}

// CheckMAC implements host.Sealer.
func (r *Ring) CheckMAC(purpose string, message, mac []byte) (until time.Time, err error) {
	until, err = r.state.Load().ring.CheckMAC(purpose, message, mac)
	if err != nil {
		err = r.awaited(err, token.MACedWith(mac))
	}
	return until, err
}
