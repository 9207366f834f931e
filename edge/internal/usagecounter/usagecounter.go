// Package usagecounter adds up the usage that the core reports, and has the core record the sums at
// intervals. So no request waits for a counter, and no two instances write the same counter.
//
// The sums stay in memory until the core has recorded them, even if the store fails or the engine changes.
// Memory is limited: if a module reports too many names, the names beyond the limit are logged, not counted.
package usagecounter

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

// Config configures a Counter. All fields except Most and Expired are required.
type Config struct {
	Now func() time.Time
	Log *slog.Logger

	// Most is the maximum number of integrations, and of keys, that are counted between two complete
	// recordings. Each takes about 300 bytes. 0: 65,536.
	Most int

	// Expired, if not nil, is called from Record with the number of untimed sessions of an integration that
	// have expired, as far as this instance can tell: their lifetime is over, and the instance has seen no
	// end of them.
	Expired func(integration string, n int)
}

// Counter adds up usage. Its methods may be called concurrently.
type Counter struct {
	config Config

	recording sync.Mutex // held while sums are recorded

	mu       sync.Mutex
	name     string // of this instance, for sums that begin now
	days     map[dayOf]*sum
	keys     map[string]*use
	untimed  map[string]*untimed // by integration
	rejected int                 // number of uncounted reports since the last complete recording
	unusable bool                // the module does not record usage, and has reported none since
}

type dayOf struct {
	integration string
	day         host.Day
}

// sum contains this instance's counts for an integration and day since the sum began.
type sum struct {
	name             string // the name of the instance when the sum began
	counts, recorded host.Counts
}

type use struct{ last, recorded host.Day }

// untimed contains the untimed sessions of an integration: the number of active sessions by the minute in
// which their lifetime ends, and the number of ends that this instance has seen.
type untimed struct {
	due   map[int64]int
	ended int
}

// sessionLife is the lifetime of a session (spec, Limits), rounded up to the next minute.
const sessionLife = 11 * time.Minute

// never is before any day on which a key can be used.
const never host.Day = -1 << 31

// New returns an empty Counter.
func New(c Config) *Counter {
	c.Most = cmp.Or(c.Most, 1<<16)
	a := &Counter{config: c, days: map[dayOf]*sum{}, keys: map[string]*use{},
		untimed: map[string]*untimed{}}
	a.rename()
	return a
}

func (a *Counter) rename() {
	var random [8]byte
	rand.Read(random[:]) // it never fails
	a.name = hex.EncodeToString(random[:])
}

// Add counts one report. It fits host.Observer.
func (a *Counter) Add(t host.UsageEvent) {
	today := host.DayOf(a.config.Now())
	a.mu.Lock()
	defer a.mu.Unlock()
	a.unusable = false
	if t.Key != "" {
		u := a.keys[t.Key]
		if u == nil && len(a.keys) >= a.config.Most {
			a.rejected++
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
	a.countUntimed(t)
}

// count adds to the sum of an integration and day. a.mu is held.
func (a *Counter) count(integration string, day host.Day, outcome string, n int) {
	s := a.days[dayOf{integration, day}]
	if s == nil && len(a.days) >= a.config.Most {
		a.rejected += n
		return
	}
	if s == nil {
		s = &sum{name: a.name}
		a.days[dayOf{strings.Clone(integration), day}] = s
	}
	s.counts.Add(outcome, uint64(n))
}

// countUntimed counts the start or end of an untimed session. a.mu is held.
func (a *Counter) countUntimed(t host.UsageEvent) {
	if t.Outcome != host.OutcomeUntimed && t.Outcome != host.OutcomeUntimedEnded {
		return
	}
	u := a.untimed[t.Integration]
	if u == nil && len(a.untimed) >= a.config.Most {
		a.rejected++
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

// Expire counts the untimed sessions whose lifetime ends before the given time. Record calls it with the
// current time. A process that ends calls it with a later time, because no other instance would count its
// sessions.
func (a *Counter) Expire(before time.Time) {
	expired := a.expire(minuteOf(before))
	if a.config.Expired != nil {
		for integration, n := range expired {
			a.config.Expired(integration, n)
		}
	}
}

// expire removes the expired sessions and returns their number by integration.
func (a *Counter) expire(now int64) map[string]int {
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
			delete(a.untimed, integration) // the starts were counted by other instances
		}
	}
	return expired
}

// batch is the maximum number of sums per call. Each costs the core a read, and a commit has room for 32.
const batch = 256

// Record passes all sums that have changed since the last recording to record. Sums that could not be
// written stay for the next call.
func (a *Counter) Record(ctx context.Context, record func(context.Context, host.Totals) error) error {
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

// row is a sum, or the use of a key, as it was when the recording began.
type row struct {
	day host.DayTotal // if Instance is "", the row is the use of a key
	key host.KeyUse
}

func (a *Counter) changed() (rows []row, usable bool) {
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

// recorded marks rows as written. Their sums may have grown in the meantime.
func (a *Counter) recorded(rows []row) {
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

// prune removes sums of earlier days that are written. If that leaves too little room, it removes all sums
// that are written. A new sum begins at zero, so it needs a new instance name.
func (a *Counter) prune() {
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
	if a.rejected > 0 {
		a.config.Log.Error("usage not counted: too many integrations or keys",
			"usage_events", a.rejected, "most", a.config.Most)
		a.rejected = 0
	}
}

// Run records the sums at intervals until ctx is done. After that, the caller records the rest while the
// store is still open. timeout limits one recording.
func (a *Counter) Run(ctx context.Context, every, timeout time.Duration,
	record func(context.Context, host.Totals) error) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	reported := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := a.within(ctx, timeout, record)
		if err != nil && !reported && !kv.Failed(err) { // storehealth logs failures of the store
			a.config.Log.Warn("usage not recorded; will be tried again", "error", err.Error())
		}
		reported = err != nil
	}
}

func (a *Counter) within(ctx context.Context, timeout time.Duration,
	record func(context.Context, host.Totals) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return a.Record(ctx, record)
}
