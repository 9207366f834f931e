package usage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/internal/testhost"
	"github.com/verge-id/verge/core/internal/token"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters/kvtest"
)

const aKey = "key_0a4e1f7c1b2d4c3e"

func newFixture(t *testing.T) (*testhost.Host, *Usage, host.Day) {
	t.Helper()
	h := testhost.New(t)
	u := &Usage{Host: h.Host}
	return h, u, host.DayOf(h.Now())
}

// counted returns a total of that many started and completed sessions.
func counted(day host.Day, instance string, started, completed uint64) host.DayTotal {
	d := host.DayTotal{Integration: testhost.UUID, Day: day, Instance: instance}
	d.Counts.Add(host.OutcomeStarted, started)
	d.Counts.Add(host.OutcomeCompleted, completed)
	return d
}

func record(t *testing.T, u *Usage, days ...host.DayTotal) {
	t.Helper()
	coretest.Must(t, u.Record(t.Context(), host.Totals{Days: days}))
}

// wantDay checks the counts that Read returns for one day.
func wantDay(t *testing.T, u *Usage, day host.Day, started, completed uint64) {
	t.Helper()
	days, err := u.Read(t.Context(), testhost.UUID, day, day)
	coretest.Must(t, err)
	want := []Day{{day, counted(day, "", started, completed).Counts}}
	if !slices.Equal(days, want) {
		t.Errorf("got %v, want %v", days, want)
	}
}

func TestRead_AddsInstances(t *testing.T) {
	_, u, day := newFixture(t)
	record(t, u, counted(day, "a", 3, 1))
	record(t, u, counted(day, "b", 10, 4))
	record(t, u, counted(day, "a", 5, 2)) // all sums of a so far
	wantDay(t, u, day, 15, 6)
	wantDay(t, u, day-1, 0, 0)
}

func TestRecord_Restart(t *testing.T) {
	_, u, day := newFixture(t)
	record(t, u, counted(day, "before", 3, 3))
	record(t, u, counted(day, "after", 1, 0))
	wantDay(t, u, day, 4, 3)
}

// After a lost reply or a late commit, no session counts twice, and a newer sum is not undone.
func TestRecord_LostReplies(t *testing.T) {
	for _, fault := range []kvtest.Fault{kvtest.LoseReply, kvtest.LoseRequest, kvtest.Delay, kvtest.Reject} {
		for every := range 3 {
			t.Run(fmt.Sprint(fault, " ", every), func(t *testing.T) {
				h, u, day := newFixture(t)
				record(t, u, counted(day, "a", 1, 0))
				commits := 0
				h.Store.Decide = func(c kvtest.Call) kvtest.Fault {
					if c.Method != "Commit" {
						return kvtest.Pass
					}
					if commits++; commits > every+1 || commits < every {
						return kvtest.Pass
					}
					return fault
				}
				for _, n := range []uint64{4, 6, 9} {
					_ = u.Record(t.Context(), host.Totals{Days: []host.DayTotal{counted(day, "a", n, n)}})
				}
				h.Store.Decide = nil
				record(t, u, counted(day, "a", 9, 9))
				h.Store.Deliver(t.Context())
				wantDay(t, u, day, 9, 9)
			})
		}
	}
}

func TestUsage_StoreError(t *testing.T) {
	h, u, day := newFixture(t)
	h.Store.Decide = func(kvtest.Call) kvtest.Fault { return kvtest.Reject }
	if err := u.Record(t.Context(), host.Totals{Days: []host.DayTotal{counted(day, "a", 1, 0)}}); !kv.Failed(
		err) {
		t.Errorf("recording: %v", err)
	}
	if _, err := u.Read(t.Context(), testhost.UUID, day, day); !kv.Failed(err) {
		t.Errorf("reading: %v", err)
	}
	if _, err := u.LastUse(t.Context(), []string{aKey}); !kv.Failed(err) {
		t.Errorf("reading the last use: %v", err)
	}
}

// A session without an event has no timer. It has expired if its life is over and it has not ended.
func TestRead_UntimedSessionsExpire(t *testing.T) {
	_, u, day := newFixture(t)
	of := func(day host.Day, instance string, untimed, ended, expired uint64) host.DayTotal {
		d := counted(day, instance, untimed, ended)
		d.Counts.Add(host.OutcomeUntimed, untimed)
		d.Counts.Add(host.OutcomeUntimedEnded, ended)
		d.Counts.Add(host.OutcomeExpired, expired)
		return d
	}
	record(t, u, of(day-2, "a", 5, 2, 0))
	record(t, u, of(day-2, "b", 0, 1, 1)) // the end of another instance's session, and a session with a timer
	record(t, u, of(day-1, "a", 2, 3, 0)) // one end belongs to a session that started before midnight
	record(t, u, of(day, "a", 4, 1, 0))
	for _, c := range []struct {
		name string
		from host.Day
		want []uint64
	}{
		{"contract 44: all days", day - 2, []uint64{3, 0, 2}},
		{"contract 44: the day before counts, too", day, []uint64{2}},
	} {
		days, err := u.Read(t.Context(), testhost.UUID, c.from, day)
		coretest.Must(t, err)
		var got []uint64
		for _, d := range days {
			got = append(got, d.Counts.Of(host.OutcomeExpired))
		}
		if !slices.Equal(got, c.want) || days[0].Day != c.from {
			t.Errorf("%s: %v expired from %s, want %v", c.name, got, days[0].Day, c.want)
		}
	}
}

// Unchanged sums are not written again.
func TestRecord_UnchangedSums(t *testing.T) {
	h, u, day := newFixture(t)
	totals := host.Totals{Days: []host.DayTotal{counted(day, "a", 1, 0)},
		Keys: []host.KeyUse{{Key: aKey, Day: day}}}
	coretest.Must(t, u.Record(t.Context(), totals))
	h.Store.Decide = func(c kvtest.Call) kvtest.Fault {
		if c.Method == "Commit" {
			t.Errorf("a commit of %v", c.Tx.Puts)
		}
		return kvtest.Pass
	}
	// an instance with a late clock
	totals.Keys = append(totals.Keys, host.KeyUse{Key: aKey, Day: day - 1})
	coretest.Must(t, u.Record(t.Context(), totals))
}

// A thousand integrations fit into commits that every store takes.
func TestRecord_ManyIntegrations(t *testing.T) {
	h, u, day := newFixture(t)
	commits := map[kv.Partition]int{}
	h.Store.Decide = func(c kvtest.Call) kvtest.Fault {
		if c.Method == "Commit" {
			commits[c.Tx.Partition]++
			coretest.Must(t, c.Tx.Validate())
		}
		return kvtest.Pass
	}
	var totals host.Totals
	name := func(n int) string { return fmt.Sprintf("%08x%s", n, testhost.UUID[8:]) }
	for n := range 1000 {
		d := counted(day, "a", uint64(n+1), 0)
		d.Integration = name(n)
		totals.Days = append(totals.Days, d)
	}
	coretest.Must(t, u.Record(t.Context(), totals))
	all := 0
	for _, n := range commits {
		all += n
	}
	if len(commits) != partitions || all > 1000/mostChanges+1+partitions {
		t.Errorf("commits by partition: %v", commits)
	}
	for _, n := range []int{0, 500, 999} {
		days, err := u.Read(t.Context(), name(n), day, day)
		coretest.Must(t, err)
		if got := days[0].Counts.Of(host.OutcomeStarted); got != uint64(n+1) {
			t.Errorf("integration %d has %d started, want %d", n, got, n+1)
		}
	}
}

func TestRead_Days(t *testing.T) {
	_, u, day := newFixture(t)
	for n := range host.Day(6) {
		for instance := range 200 { // so that a day does not end with a page of the list
			record(t, u, counted(day+n, fmt.Sprintf("i%03d", instance), uint64(n+1), 0))
		}
	}
	days, err := u.Read(t.Context(), testhost.UUID, day+1, day+4)
	coretest.Must(t, err)
	if len(days) != 4 {
		t.Fatalf("%d days, want 4", len(days))
	}
	for i, d := range days {
		if n := host.Day(i + 1); d.Day != day+n || d.Counts.Of(host.OutcomeStarted) != uint64(200*(n+1)) {
			t.Errorf("day %d is %s with %v", i, d.Day, d.Counts)
		}
	}
	unknown, err := u.Read(t.Context(), testhost.Other, day, day+1)
	if err != nil || len(unknown) != 2 || unknown[0].Counts != (host.Counts{}) {
		t.Errorf("of an unknown integration: %v, %v", unknown, err)
	}
}

func TestRead_Range(t *testing.T) {
	_, u, day := newFixture(t)
	for _, c := range []struct {
		name     string
		id       string
		from, to host.Day
		ok       bool
	}{
		{"the most", testhost.UUID, day - MaxDays + 1, day, true},
		{"one more", testhost.UUID, day - MaxDays, day, false},
		{"backwards", testhost.UUID, day, day - 1, false},
		{"an id with a path to other items", "a/../b", day, day, false},
		{"no id", "", day, day, false},
	} {
		if _, err := u.Read(t.Context(), c.id, c.from, c.to); errors.Is(err, ErrRange) == c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestRecord_Expiry(t *testing.T) {
	h, u, day := newFixture(t)
	record(t, u, counted(day, "a", 1, 0))
	coretest.Must(t, u.Record(t.Context(), host.Totals{Keys: []host.KeyUse{{Key: aKey, Day: day}}}))
	h.Clock.Advance((day + MaxDays).Begin().Sub(h.Now()))
	wantDay(t, u, day, 1, 0)
	h.Clock.Advance(24 * time.Hour)
	wantDay(t, u, day, 0, 0)
	if last, err := u.LastUse(t.Context(), []string{aKey}); err != nil || len(last) != 0 {
		t.Errorf("last use: %v, %v", last, err)
	}
}

func TestLastUse(t *testing.T) {
	_, u, day := newFixture(t)
	other := "key_ffffffffffffffff"
	for _, k := range []host.KeyUse{{Key: aKey, Day: day}, {Key: aKey, Day: day + 2},
		{Key: aKey, Day: day + 1}} {
		coretest.Must(t, u.Record(t.Context(), host.Totals{Keys: []host.KeyUse{k}}))
	}
	last, err := u.LastUse(t.Context(), []string{aKey, other, "", "a/b"})
	if err != nil || len(last) != 1 || last[aKey] != day+2 {
		t.Errorf("%v, %v, want %s alone", last, err, day+2)
	}
}

// An attacker who can write to the store can neither create usage, move it to another integration or day, nor
// break a page.
func TestRead_ForgedItems(t *testing.T) {
	h, u, day := newFixture(t)
	record(t, u, counted(day, "a", 7, 0))
	items, err := h.Memory.List(t.Context(), kv.Key{Partition: partitionOf(testhost.UUID), Name: "u/"}, "",
		10)
	coretest.Must(t, err)
	if len(items) != 1 {
		t.Fatalf("%d items", len(items))
	}
	prefix := prefixOf(testhost.UUID)
	put := func(name string, value []byte) {
		t.Helper()
		coretest.Must(t, h.Memory.Commit(t.Context(), kv.Tx{ID: "forged-" + name[len(name)-3:],
			Partition: partitionOf(testhost.UUID), Puts: []kv.Put{{Name: name, Value: value}}}))
	}
	put(prefix+day.String()+"/copy", items[0].Value)
	put(prefix+(day+1).String()+"/a", items[0].Value)
	put(prefix+day.String()+"/plain", []byte(`{"started":1000}`))
	put(prefix+day.String()+"/none", nil)
	put(prefix+"not-a-day", []byte("{}"))
	days, err := u.Read(t.Context(), testhost.UUID, day, day+1)
	coretest.Must(t, err)
	if days[0].Counts.Of(host.OutcomeStarted) != 7 || days[1].Counts.Of(host.OutcomeStarted) != 0 {
		t.Errorf("%v", days)
	}
	if log := h.Logged.String(); !strings.Contains(log, "records=5") || strings.Count(log, "\n") != 1 {
		t.Errorf("log: %s", log)
	}
	// The instance itself overwrites a forged item under its name.
	put(prefix+day.String()+"/a", []byte(`{"started":1000}`))
	record(t, u, counted(day, "a", 8, 0))
	wantDay(t, u, day, 8, 0)
}

// A leaked ring that was replaced cannot sign usage of later days.
func TestRead_ReplacedKey(t *testing.T) {
	h, u, day := newFixture(t)
	u.Sealer = until{h.Sealer, h.Now()}
	record(t, u, counted(day, "a", 1, 0))
	record(t, u, counted(day+2, "a", 5, 0))
	wantDay(t, u, day, 1, 0)
	wantDay(t, u, day+2, 0, 0)
}

type until struct {
	host.Sealer
	at time.Time
}

func (s until) CheckMAC(purpose string, message, mac []byte) (time.Time, error) {
	_, err := s.Sealer.CheckMAC(purpose, message, mac)
	return s.at, err
}

func TestRead_AwaitedKey(t *testing.T) {
	h, u, day := newFixture(t)
	record(t, u, counted(day, "a", 1, 0))
	u.Sealer = awaiting{h.Sealer}
	if _, err := u.Read(t.Context(), testhost.UUID, day, day); !errors.Is(err, host.ErrKeyAwaited) {
		t.Errorf("%v", err)
	}
}

type awaiting struct{ host.Sealer }

func (awaiting) CheckMAC(string, []byte, []byte) (time.Time, error) {
	return time.Time{}, host.ErrKeyAwaited
}

// Totals with invalid names are not written.
func TestRecord_InvalidNames(t *testing.T) {
	h, u, day := newFixture(t)
	var totals host.Totals
	for _, odd := range []string{"", "a/b", "A", " ", strings.Repeat("a", 65), "\x00"} {
		totals.Days = append(totals.Days,
			host.DayTotal{Integration: odd, Day: day, Instance: "a", Counts: host.Counts{1}},
			host.DayTotal{Integration: testhost.UUID, Day: day, Instance: odd, Counts: host.Counts{1}})
		totals.Keys = append(totals.Keys, host.KeyUse{Key: odd, Day: day})
	}
	totals.Days = append(totals.Days, counted(day, "a", 0, 0))
	h.Store.Decide = func(c kvtest.Call) kvtest.Fault {
		t.Errorf("store call: %+v", c)
		return kvtest.Pass
	}
	coretest.Must(t, u.Record(t.Context(), totals))
}

func TestRecord_Signed(t *testing.T) {
	h, u, day := newFixture(t)
	coretest.Must(t, u.Record(t.Context(), host.Totals{Days: []host.DayTotal{counted(day, "a", 2, 1)},
		Keys: []host.KeyUse{{Key: aKey, Day: day}}}))
	for key, begins := range map[kv.Key]string{
		{Partition: partitionOf(testhost.UUID), Name: prefixOf(testhost.UUID) + day.String() + "/a"}: `{"started":2,` +
			`"completed":1,"m":"`,
		{Partition: integration.Partition, Name: "c/use/" + aKey}: `{"day":"` + day.String() + `","m":"`,
	} {
		item, err := h.Memory.Get(t.Context(), key)
		coretest.Must(t, err)
		if !bytes.HasPrefix(item.Value, []byte(begins)) || token.RecordedWith(item.Value) == "" {
			t.Errorf("%s is %s, want %s…", key, item.Value, begins)
		}
	}
}

func TestDays(t *testing.T) {
	for _, c := range []struct {
		at   string
		want string
	}{
		{"2026-11-20T23:59:59.999Z", "2026-11-20"},
		{"2026-11-21T00:00:00Z", "2026-11-21"},
		{"2026-11-21T00:30:00+01:00", "2026-11-20"},
		{"2028-02-29T12:00:00Z", "2028-02-29"},
		{"1969-12-31T23:59:59Z", "1969-12-31"},
		{"1970-01-01T00:00:00Z", "1970-01-01"},
	} {
		at, err := time.Parse(time.RFC3339Nano, c.at)
		coretest.Must(t, err)
		d := host.DayOf(at)
		if again, ok := host.ParseDay(c.want); d.String() != c.want || !ok || again != d {
			t.Errorf("%s is on %s, want %s", c.at, d, c.want)
		}
	}
	for _, text := range []string{"", "2026-11-31", "2026-1-1", "20261120", "2026-11-20/"} {
		if d, ok := host.ParseDay(text); ok {
			t.Errorf("%q is read as %s", text, d)
		}
	}
}

func BenchmarkRead(b *testing.B) {
	h := testhost.New(b)
	u := &Usage{Host: h.Host}
	day := host.DayOf(h.Now())
	for n := range host.Day(30) {
		for i := range 20 {
			coretest.Must(b, u.Record(context.Background(),
				host.Totals{Days: []host.DayTotal{counted(day-n, fmt.Sprint("i", i), 100, 90)}}))
		}
	}
	for b.Loop() {
		if _, err := u.Read(b.Context(), testhost.UUID, day-29, day); err != nil {
			b.Fatal(err)
		}
	}
}
