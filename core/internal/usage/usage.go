// Package usage stores the number of sessions of an integration that started and ended, by day and outcome,
// and the day of each API key's last use.
//
// No request waits for it, and no two instances write the same item. The core emits each event as a
// host.UsageEvent, the host adds them up in memory and passes the sums to [Usage.Record] at intervals. Each
// instance has its own item for each integration and day, with its sums so far. An instance may therefore
// record the same sums again after a lost reply without counting twice. [Usage.Read] adds the instances up.
//
// After a rotation of the key ring, [Usage.Reseal] signs all items again, so that they survive the retirement
// of a key.
//
// If a process is killed, the counts that it has not recorded yet are lost. Do not use these numbers for
// billing: use the events of the sessions.
package usage

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/metric"
	"github.com/verge-id/verge/core/internal/strictjson"
	"github.com/verge-id/verge/core/internal/token"
	"github.com/verge-id/verge/core/kv"
)

// The items, both signed as records:
//
//	u0 … u7  u/<integration>/<day>/<instance>  {"started":12,"completed":9}
//	c        c/use/<key id>                    {"day":"2026-11-20"}
//
// Usage has separate partitions, because a service's number of session partitions may grow. An integration's
// items would then be in two places.
const (
	partitions = 8
	useItems   = "c/use/"
)

// MaxDays is the number of days that are stored, and the maximum range of Read.
const MaxDays = 400

// Usage reads and writes usage. All fields except Count are required.
type Usage struct {
	host.Host
}

func partitionOf(integration string) kv.Partition {
	h := fnv.New32a()
	h.Write([]byte(integration))
	return partition(int(h.Sum32() % partitions))
}

func partition(n int) kv.Partition { return kv.Partition(fmt.Sprint("u", n)) }

// Partitions returns the partitions that have usage only.
func Partitions() (all []kv.Partition) {
	for n := range partitions {
		all = append(all, partition(n))
	}
	return all
}

// Reseal signs all usage with the active key, like integration.Directory.Reseal for its own records. Usage
// then no longer depends on older keys, and survives their retirement.
func (u *Usage) Reseal(ctx context.Context) error {
	accept := func(it kv.Item) error {
		_, err := u.open(it)
		return err
	}
	errs := []error{integration.Resign(ctx, u.Host, kv.Key{Partition: integration.Partition, Name: useItems},
		accept)}
	for n := range partitions {
		errs = append(errs,
			integration.Resign(ctx, u.Host, kv.Key{Partition: partition(n), Name: "u/"}, accept))
	}
	return errors.Join(errs...)
}

func prefixOf(integration string) string { return "u/" + integration + "/" }

// change is one item for Record to write.
type change struct {
	key     kv.Key
	expires time.Time
	// value returns the item's new content, given the stored object, which may be empty. It returns nil for
	// no change.
	value func(now strictjson.Object) []byte
}

// mostChanges is the maximum number of changes in one commit. Each has a check and a put.
const mostChanges = kv.MaxTx / 2

// Record writes an instance's sums. After an error, only some of them may be written: the caller records all
// of them again later. Totals with invalid names are left out.
func (u *Usage) Record(ctx context.Context, t host.Totals) error {
	byPartition := map[kv.Partition][]change{}
	var order []kv.Partition // so that the same sums always produce the same commits in the same order
	add := func(c change) {
		p := c.key.Partition
		if byPartition[p] == nil {
			order = append(order, p)
		}
		byPartition[p] = append(byPartition[p], c)
	}
	for _, d := range t.Days {
		if isName(d.Integration) && isName(d.Instance) && d.Counts != (host.Counts{}) {
			add(ofDay(d))
		}
	}
	for _, k := range t.Keys {
		if isName(k.Key) {
			add(ofKey(k))
		}
	}
	var errs []error
	for _, p := range order {
		for changes := byPartition[p]; len(changes) > 0; {
			n := min(len(changes), mostChanges)
			if err := u.write(ctx, p, changes[:n]); err != nil {
				errs = append(errs, err)
				break // the rest of this partition would probably fail too
			}
			changes = changes[n:]
		}
	}
	return errors.Join(errs...)
}

// isName reports whether s can be part of an item's name.
func isName(s string) bool {
	return s != "" && len(s) <= 64 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-_") == ""
}

func ofDay(d host.DayTotal) change {
	name := prefixOf(d.Integration) + d.Day.String() + "/" + d.Instance
	return change{kv.Key{Partition: partitionOf(d.Integration), Name: name}, lifeOf(d.Day),
		func(now strictjson.Object) []byte {
			// A count never decreases. If the stored one is larger, an earlier commit arrived late.
			before := countsIn(now)
			next := before
			for i, n := range d.Counts {
				next[i] = max(next[i], n)
			}
			if next == before {
				return nil
			}
			return objectOf(next)
		}}
}

func ofKey(k host.KeyUse) change {
	return change{kv.Key{Partition: integration.Partition, Name: useItems + k.Key}, lifeOf(k.Day),
		func(now strictjson.Object) []byte {
			if before, ok := dayIn(now); ok && before >= k.Day {
				return nil
			}
			w := strictjson.NewWriter(32)
			w.Text("day", k.Day.String())
			return w.End()
		}}
}

func lifeOf(d host.Day) time.Time { return (d + MaxDays + 1).Begin() }

// write makes the changes of one partition in one commit. Each change is checked against the version that was
// read, so that a commit with a lost reply cannot arrive late and undo a newer one.
func (u *Usage) write(ctx context.Context, p kv.Partition, changes []change) error {
	tx := kv.Tx{Partition: p}
	for _, c := range changes {
		item, err := u.KV.Get(ctx, c.key)
		if err != nil && !errors.Is(err, kv.ErrNotFound) {
			return err
		}
		var now strictjson.Object
		if err == nil {
			// An item that this service did not write is ignored and replaced.
			if now, err = u.open(item); err != nil && !errors.Is(err, token.ErrRecord) {
				return err
			}
		}
		object := c.value(now)
		if object == nil {
			continue
		}
		value, err := token.SignRecord(u.Sealer, c.key.String(), object)
		if err != nil {
			return err
		}
		tx.Checks = append(tx.Checks, kv.Check{Name: c.key.Name, Tx: item.Tx})
		tx.Puts = append(tx.Puts, kv.Put{Name: c.key.Name, Value: value, Expires: c.expires})
	}
	if len(tx.Puts) == 0 {
		return nil
	}
	var err error
	if tx.ID, err = kv.NewTxID(u.Random); err != nil {
		return err
	}
	return kv.CommitSurely(ctx, u.KV, tx)
}

// open returns the object of an item that an instance of this service wrote. Otherwise it returns
// token.ErrRecord.
func (u *Usage) open(item kv.Item) (strictjson.Object, error) {
	until, err := token.CheckLongLived(u.Sealer, item.Key.String(), item.Value)
	if err == nil && token.RecordedWith(item.Value) == "" { // no release wrote usage without a MAC
		err = fmt.Errorf("%w: %s", token.ErrRecord, item.Key)
	}
	if err != nil {
		return strictjson.Object{}, err
	}
	o, err := strictjson.Read(item.Value)
	if err != nil {
		return strictjson.Object{}, fmt.Errorf("%w: %s", token.ErrRecord, item.Key)
	}
	// A leaked ring that was replaced cannot sign usage of later days.
	day, ok := dayIn(o)
	if parts := strings.Split(item.Key.Name, "/"); !ok && len(parts) == 4 {
		day, ok = host.ParseDay(parts[2])
	}
	if !ok || !host.ValidAt(day.Begin(), until) {
		return strictjson.Object{}, fmt.Errorf("%w: %s", token.ErrRecord, item.Key)
	}
	return o, nil
}

func dayIn(o strictjson.Object) (host.Day, bool) {
	text, present, ok := o.String("day")
	if !present || !ok {
		return 0, false
	}
	return host.ParseDay(text)
}

func countsIn(o strictjson.Object) (c host.Counts) {
	for _, outcome := range host.Counted() {
		if n, present, ok := o.Integer(outcome); present && ok && n > 0 {
			c.Add(outcome, uint64(n))
		}
	}
	return c
}

func objectOf(c host.Counts) []byte {
	w := strictjson.NewWriter(128)
	for i, outcome := range host.Counted() {
		if c[i] > 0 {
			w.Number(outcome, int64(c[i]))
		}
	}
	return w.End()
}

// Day is the usage of an integration on one day. A session that started before midnight and ended after it
// counts as started on the first day and as ended on the second.
type Day struct {
	Day    host.Day
	Counts host.Counts
}

// Open returns the number of sessions started minus the number ended.
func (d Day) Open() uint64 {
	started, ended := d.Counts.Of(host.OutcomeStarted), uint64(0)
	for _, outcome := range host.Outcomes() {
		if outcome != host.OutcomeStarted {
			ended += d.Counts.Of(outcome)
		}
	}
	return started - min(started, ended)
}

var (
	// ErrRange: the range has no days, or more than MaxDays.
	ErrRange = fmt.Errorf("usage: ask for 1 to %d days", MaxDays)

	// ErrTooMuch: more instances have counted on these days than Read adds up in one call.
	ErrTooMuch = errors.New("usage: too many records for these days; request fewer days")
)

const (
	page     = 500
	maxItems = 100_000
)

// Read returns all days from one to another, including both and days without sessions. A record that this
// service did not write is left out and logged.
func (u *Usage) Read(ctx context.Context, integration string, from, to host.Day) ([]Day, error) {
	if to < from || int(to-from) >= MaxDays || !isName(integration) {
		return nil, ErrRange
	}
	// The previous day has the starts of sessions that ended in the first minutes of from.
	days, err := u.read(ctx, integration, from-1, to)
	if err != nil {
		return nil, err
	}
	addExpired(days)
	return days[1:], nil
}

// addExpired adds untimed sessions that have not ended to the expired ones, on the day of their expiry.
// Instances count a session as untimed when its life is over, and its end when it happens. The end can
// therefore count on an earlier day than the session.
func addExpired(days []Day) {
	early := uint64(0) // ends whose sessions are not counted yet
	for i := range days {
		c := &days[i].Counts
		untimed, ended := c.Of(host.OutcomeUntimed), c.Of(host.OutcomeUntimedEnded)+early
		c.Add(host.OutcomeExpired, untimed-min(untimed, ended))
		early = ended - min(untimed, ended)
	}
}

func (u *Usage) read(ctx context.Context, integration string, from, to host.Day) ([]Day, error) {
	days := make([]Day, to-from+1)
	for i := range days {
		days[i].Day = from + host.Day(i)
	}
	prefix := kv.Key{Partition: partitionOf(integration), Name: prefixOf(integration)}
	after, left := prefix.Name+from.String(), 0 // sorts before every item of the first day
	for read := 0; ; read += page {
		if read >= maxItems {
			return nil, ErrTooMuch
		}
		items, err := u.KV.List(ctx, prefix, after, page)
		if err != nil {
			return nil, err
		}
		past := false
		for _, item := range items {
			after = item.Key.Name
			day, ok := host.ParseDay(strings.Split(after[len(prefix.Name):], "/")[0])
			if past = ok && day > to; past {
				break
			}
			o, err := u.open(item)
			switch {
			case errors.Is(err, token.ErrRecord) || err == nil && day < from:
				left++
			case err != nil:
				return nil, err
			default:
				days[day-from].Counts = days[day-from].Counts.Plus(countsIn(o))
			}
		}
		if past || len(items) < page {
			u.tellLeft(integration, left)
			return days, nil
		}
	}
}

// tellLeft logs the number of records that were left out.
func (u *Usage) tellLeft(integration string, n int) {
	if n == 0 {
		return
	}
	u.Count(metric.NotAuthentic)
	u.Log.Error("the store holds usage that no key of this service's key ring has signed; it is left out",
		"integration", integration, "records", n)
}

// LastUse returns the day on which each key was last used. Keys that were not used within MaxDays are not in
// the map.
func (u *Usage) LastUse(ctx context.Context, keys []string) (map[string]host.Day, error) {
	last := map[string]host.Day{}
	for _, key := range keys {
		if !isName(key) {
			continue
		}
		item, err := u.KV.Get(ctx, kv.Key{Partition: integration.Partition, Name: useItems + key})
		if errors.Is(err, kv.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		o, err := u.open(item)
		if errors.Is(err, token.ErrRecord) {
			continue // the next use replaces it
		}
		if err != nil {
			return nil, err
		}
		if day, ok := dayIn(o); ok {
			last[key] = day
		}
	}
	return last, nil
}
