// Package tallies adds up what the core notes as usage, and has the core record the sums from time to time.
// So no request waits for a counter, and no counter is written by two instances.
//
// The sums stay in memory until the core has recorded them, however long the store fails and whichever engine
// takes the requests meanwhile. Memory is bounded: a module that notes a million names is counted up to a
// limit, and the log says that it went beyond.
package tallies

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/edge/engine"
)

// Config says what an Aggregator works with. All fields but Most are needed.
type Config struct {
	Now func() time.Time
	Log *slog.Logger

	// Most is how many integrations, and how many keys, are counted between two times when all is recorded.
	// Each takes about 300 bytes. 0: 65,536.
	Most int

	// Expired is called, from Record, with how many untimed sessions of an integration have expired, as far
	// as this instance can tell: their life is over, and it has seen no end for each. Nil discards it.
	Expired func(integration string, n int)
}

// Aggregator adds tallies up. Its methods may be called concurrently.
type Aggregator struct {
	config Config

	recording sync.Mutex // held while sums are recorded

	mu       sync.Mutex
	name     string // of this instance, for sums that begin now
	days     map[dayOf]*sum
	keys     map[string]*use
	untimed  map[string]*untimed // by integration
	refused  int                 // tallies since the last time when all was recorded
	unusable bool                // the module keeps no usage, and nothing has been noted since it said so
}

type dayOf struct {
	integration string
	day         host.Day
}

// sum is what this instance has counted of an integration on a day since the sum began.
type sum struct {
	name             string // the instance's when the sum began
	counts, recorded host.Counts
}

type use struct{ last, recorded host.Day }

// untimed are the untimed sessions of an integration: those whose life is not over, by the minute in which it
// will be, and how many ends of others this instance has seen.
type untimed struct {
	due   map[int64]int
	ended int
}

// sessionLife is how long a session lives (spec, Limits), to the next full minute.
const sessionLife = 11 * time.Minute

// never is before any day on which a key can be used.
const never host.Day = -1 << 31

// New returns an Aggregator that has counted nothing.
func New(c Config) *Aggregator {
	c.Most = cmp.Or(c.Most, 1<<16)
	a := &Aggregator{config: c, days: map[dayOf]*sum{}, keys: map[string]*use{},
		untimed: map[string]*untimed{}}
	a.rename()
	return a
}

func (a *Aggregator) rename() {
	var random [8]byte
	rand.Read(random[:]) // it never fails
	a.name = hex.EncodeToString(random[:])
}

// Add adds one tally. It is host.Host's Tally.
func (a *Aggregator) Add(t host.Tally) {
	today := host.DayOf(a.config.Now())
	a.mu.Lock()
	defer a.mu.Unlock()
	a.unusable = false
	if t.Key != "" {
		u := a.keys[t.Key]
		if u == nil && len(a.keys) >= a.config.Most {
			a.refused++
			return
		}
		if u == nil {
			u = &use{last: never, recorded: never}
			a.keys[strings.Clone(t.Key)] = u // it may be a part of a large message
		}
		u.last = max(u.last, today)
		return
	}
	if t.Outcome != host.OutcomeUntimed {
		a.count(t.Integration, today, t.Outcome, 1)
	}
	a.noteUntimed(t)
}

// count adds to the sum of an integration and day. a.mu is held.
func (a *Aggregator) count(integration string, day host.Day, outcome string, n int) {
	s := a.days[dayOf{integration, day}]
	if s == nil && len(a.days) >= a.config.Most {
		a.refused += n
		return
	}
	if s == nil {
		s = &sum{name: a.name}
		a.days[dayOf{strings.Clone(integration), day}] = s
	}
	s.counts.Add(outcome, uint64(n))
}

// noteUntimed notes the start or end of an untimed session. a.mu is held.
func (a *Aggregator) noteUntimed(t host.Tally) {
	if t.Outcome != host.OutcomeUntimed && t.Outcome != host.OutcomeUntimedEnded {
		return
	}
	u := a.untimed[t.Integration]
	if u == nil && len(a.untimed) >= a.config.Most {
		a.refused++
		return
	}
	if u == nil {
		u = &untimed{due: map[int64]int{}}
		a.untimed[strings.Clone(t.Integration)] = u
	}
	if t.Outcome == host.OutcomeUntimedEnded {
		u.ended++
		return
	}
	u.due[minuteOf(a.config.Now().Add(sessionLife))]++
}

func minuteOf(t time.Time) int64 { return t.Unix() / 60 }

// Expire counts the untimed sessions whose life is over before a time. Record does it by the clock. A process
// that ends counts those that still live, too, because no other instance would count them.
func (a *Aggregator) Expire(before time.Time) {
	expired := a.expire(minuteOf(before))
	if a.config.Expired != nil {
		for integration, n := range expired {
			a.config.Expired(integration, n)
		}
	}
}

// expire returns how many sessions have expired, by integration.
func (a *Aggregator) expire(now int64) map[string]int {
	a.mu.Lock()
	defer a.mu.Unlock()
	today := host.DayOf(a.config.Now())
	expired := map[string]int{}
	for integration, u := range a.untimed {
		over := 0
		for minute, n := range u.due {
			if minute <= now {
				over += n
				delete(u.due, minute)
			}
		}
		if over > 0 {
			a.count(integration, today, host.OutcomeUntimed, over)
			a.unusable = false
		}
		ended := min(over, u.ended)
		if u.ended -= ended; over > ended {
			expired[integration] = over - ended
		}
		if len(u.due) == 0 {
			delete(a.untimed, integration) // ends without starts are other instances'
		}
	}
	return expired
}

// batch is how many sums one call records. Each costs the core a read, and a commit holds 32.
const batch = 256

// Record has record write all sums that have changed since they were last written. What could not be written
// stays for the next time.
func (a *Aggregator) Record(ctx context.Context, record func(context.Context, host.Totals) error) error {
	a.Expire(a.config.Now())
	a.recording.Lock()
	defer a.recording.Unlock()
	changed, usable := a.changed()
	if !usable {
		return nil
	}
	var errs []error
	for part := range slices.Chunk(changed, batch) {
		if err := record(ctx, totalsOf(part)); err != nil {
			errs = append(errs, err)
			if ctx.Err() != nil || errors.Is(err, engine.ErrNoUsage) {
				break
			}
			continue
		}
		a.recorded(part)
	}
	err := errors.Join(errs...)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.unusable = errors.Is(err, engine.ErrNoUsage)
	if err == nil {
		a.prune()
	}
	return err
}

// row is a sum or a use as it was when the recording began.
type row struct {
	day host.DayTotal // without an instance: the row is a use
	key host.KeyUse
}

func (a *Aggregator) changed() (rows []row, usable bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for of, s := range a.days {
		if s.counts != s.recorded {
			rows = append(rows,
				row{day: host.DayTotal{Integration: of.integration, Day: of.day, Instance: s.name,
					Counts: s.counts}})
		}
	}
	for key, u := range a.keys {
		if u.last != u.recorded {
			rows = append(rows, row{key: host.KeyUse{Key: key, Day: u.last}})
		}
	}
	return rows, !a.unusable
}

func totalsOf(rows []row) (t host.Totals) {
	for _, r := range rows {
		if r.day.Instance != "" {
			t.Days = append(t.Days, r.day)
		} else {
			t.Keys = append(t.Keys, r.key)
		}
	}
	return t
}

// recorded marks rows as written. More may have been counted since they were read.
func (a *Aggregator) recorded(rows []row) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, r := range rows {
		if r.day.Instance != "" {
			a.days[dayOf{r.day.Integration, r.day.Day}].recorded = r.day.Counts
		} else {
			a.keys[r.key.Key].recorded = r.key.Day
		}
	}
}

// prune forgets what is written and belongs to an earlier day. If that leaves too little room, it forgets
// everything that is written. A sum that begins anew begins at zero, so it gets another name.
func (a *Aggregator) prune() {
	today := host.DayOf(a.config.Now())
	written := func(of dayOf, s *sum) bool { return s.counts == s.recorded }
	used := func(_ string, u *use) bool { return u.last == u.recorded }
	before := len(a.days)
	maps.DeleteFunc(a.days, func(of dayOf, s *sum) bool { return of.day < today && written(of, s) })
	maps.DeleteFunc(a.keys, func(k string, u *use) bool { return u.last < today && used(k, u) })
	if room := a.config.Most / 4; len(a.days) > a.config.Most-room {
		maps.DeleteFunc(a.days, written)
	}
	if room := a.config.Most / 4; len(a.keys) > a.config.Most-room {
		maps.DeleteFunc(a.keys, used)
	}
	if len(a.days) < before {
		a.rename()
	}
	if a.refused > 0 {
		a.config.Log.Error("usage was not counted: too many integrations or keys at once",
			"tallies", a.refused, "most", a.config.Most)
		a.refused = 0
	}
}

// Run records the sums at intervals until ctx is done. The caller then records the rest itself, while the
// store is still there. timeout bounds one recording.
func (a *Aggregator) Run(ctx context.Context, every, timeout time.Duration,
	record func(context.Context, host.Totals) error) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	said := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := a.within(ctx, timeout, record)
		if err != nil && !said && !kv.Failed(err) { // the watcher of the store reports its failures
			a.config.Log.Warn("usage is not recorded; it will be tried again", "error", err.Error())
		}
		said = err != nil
	}
}

func (a *Aggregator) within(ctx context.Context, timeout time.Duration,
	record func(context.Context, host.Totals) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return a.Record(ctx, record)
}
