package kvcheck

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters/kvtest"
	"github.com/verge-id/verge/testharness/long"
	"github.com/verge-id/verge/testharness/stores"
)

// bend changes a store. It may end the check.
type bend func(end context.CancelFunc) func(kv.KV) kv.KV

func edit(edit func(*kv.Tx)) bend {
	return func(context.CancelFunc) func(kv.KV) kv.KV {
		return func(store kv.KV) kv.KV { return editing{store, edit} }
	}
}

// editPuts changes copies of the puts: the caller's are unchanged.
func editPuts(change func(*kv.Put)) bend {
	return edit(func(tx *kv.Tx) {
		tx.Puts = slices.Clone(tx.Puts)
		for i := range tx.Puts {
			change(&tx.Puts[i])
		}
	})
}

// endAt ends the check at its commit number n.
func endAt(n int64) bend {
	return func(end context.CancelFunc) func(kv.KV) kv.KV {
		var commits atomic.Int64
		return func(store kv.KV) kv.KV {
			return editing{store, func(*kv.Tx) {
				if commits.Add(1) == n {
					end()
				}
			}}
		}
	}
}

type panicking struct{ kv.KV }

func (panicking) List(context.Context, kv.Key, string, int) ([]kv.Item, error) {
	panic("out of cheese")
}

// cases are stores that keep their promises or break them, and checks that end early.
var cases = []struct {
	name  string
	bend  bend     // nil: the store unchanged
	wants []string // texts in the output
	every bool     // on every kind of store; otherwise only on memory, which is fast
}{
	{"a store that keeps its promises", nil, []string{"atomicity proven", "read your writes proven",
		"values proven", "order proven", "expiry proven", "leases proven", "items were gone at most",
		"round trips Commit", "clocks", "Not tried:", "OK: all "}, true},
	{"a store that ignores checks", edit(func(tx *kv.Tx) { tx.Checks = nil }), []string{"atomicity FAILED",
		"a check without Tx holds only while there is no item", "the commit succeeded, but a exists",
		"order proven"}, true},
	{"a store that ignores leases", edit(func(tx *kv.Tx) { tx.Held = nil }), []string{"leases FAILED",
		"Held is lost once another claim took over", "order proven"}, false},
	{"a store that ignores expiry", editPuts(func(p *kv.Put) { p.Expires = time.Time{} }), []string{
		"expiry FAILED", "an item exists until its expiry", "ms after its time", "order proven"}, false},
	{"a store that expires early", editPuts(func(p *kv.Put) {
		if !p.Expires.IsZero() {
			p.Expires = p.Expires.Add(-50 * time.Millisecond)
		}
	}), []string{"expiry FAILED", "an item was gone", "ms before its time", "order proven"}, false},
	{"a store that panics", func(context.CancelFunc) func(kv.KV) kv.KV {
		return func(s kv.KV) kv.KV { return panicking{s} }
	}, []string{"order FAILED", "panic: out of cheese", "atomicity proven"}, false},
	{"a store that loses replies", func(context.CancelFunc) func(kv.KV) kv.KV {
		return func(s kv.KV) kv.KV {
			return &kvtest.Faulty{KV: s, Decide: func(c kvtest.Call) kvtest.Fault {
				if c.Method == "Commit" && len(c.Tx.Cancel) > 0 {
					return kvtest.LoseReply
				}
				return kvtest.Pass
			}}
		}
	}, []string{"leases FAILED", "outcome unknown", "order FAILED",
		"show only that the store rejected a call, or did not respond in time"}, false},
	{"a check that ends at its first commit", endAt(1),
		[]string{"Stopped: interrupted", "FAILED: nothing was proven"}, false},
	{"a check that ends among the round trips", endAt(100),
		[]string{"Stopped: interrupted", "FAILED: nothing was proven"}, false},
	{"a check that ends among the promises", endAt(300),
		[]string{"round trips", "Stopped: interrupted", "promises were proven"}, true},
	{"a check that ends late among the promises", endAt(1200),
		[]string{"round trips", "Stopped: interrupted", "promises were proven"}, false},
}

// TestCheck checks every kind of store while it contains other data. The store is good or broken, or the
// check ends early. Afterwards every key must be unchanged.
func TestCheck(t *testing.T) {
	full := long.Run(t, "TestCheck")
	for _, store := range checkables {
		t.Run(store.name, func(t *testing.T) {
			t.Parallel()
			target := store.open(t)
			if target.url != "" {
				fillAsAService(t, target.url)
			}
			before := target.keys()
			if len(before) == 0 && target.url != "" {
				t.Fatal("the store is empty, so nothing could be harmed")
			}
			// Checks mostly sleep, so all run concurrently, even on few cores.
			var running sync.WaitGroup
			for n, c := range cases {
				if (!c.every || c.bend != nil && !full) && store.name != "memory" {
					continue
				}
				if store.name == "miniredis" && (c.bend != nil || !full && stores.RedisInstalled()) {
					continue // miniredis runs in this process and is slow
				}
				running.Go(func() {
					t.Run(c.name, func(t *testing.T) {
						name := fmt.Sprintf("verge-check-case%02d", n)
						var s scratch = inMemory{}
						if target.url != "" {
							s = scratchOn(t, target.url, name)
						}
						ctx, end := context.WithCancel(t.Context())
						defer end()
						if c.bend != nil {
							s = bent{s, c.bend(end)}
						}
						var said bytes.Buffer
						r := checkIn(ctx, s, limit, &said)
						if r.OK != (c.bend == nil) || !r.CleanedUp {
							t.Errorf("ok %v, cleaned up %v, error %s", r.OK, r.CleanedUp, r.Error)
						}
						wantInWords(t, said.String()+unsaid(r),
							append(c.wants, "Nothing is left of the check.")...)
						for key := range target.keys() {
							if strings.Contains(key, name) {
								t.Errorf("%q is left", key)
							}
						}
					})
				})
			}
			running.Wait()
			if after := target.keys(); !maps.Equal(before, after) {
				t.Errorf("the store had\n%q before and\n%q after",
					slices.Sorted(maps.Keys(before)), slices.Sorted(maps.Keys(after)))
			}
		})
	}
}

// checkIn checks in a scratch place and writes the findings.
func checkIn(ctx context.Context, s scratch, timeout time.Duration, w io.Writer) *Report {
	return newCheck("store", s, Config{Now: time.Now, Timeout: timeout, Progress: w}).run(ctx)
}

// unsaid returns the names of all failed promises. The text contains the first five of a subject, and a
// store that breaks one of them may break another as well, depending on a race.
func unsaid(r *Report) string {
	var names []string
	for i := range r.Subjects {
		failed, _ := r.Subjects[i].failed()
		for _, p := range failed {
			names = append(names, p.Name)
		}
	}
	return "\n" + strings.Join(names, "\n")
}

// wantInWords searches for texts and treats any white space as one space.
func wantInWords(t *testing.T, said string, wants ...string) {
	t.Helper()
	flat := strings.Join(strings.Fields(said), " ")
	for _, want := range wants {
		if !strings.Contains(flat, want) {
			t.Errorf("want %q in:\n%s", want, said)
		}
	}
}

// limit ends a check that hangs.
const limit = 20 * time.Minute

// TestRun calls the package like a program.
func TestRun(t *testing.T) {
	_, target := miniredisHere(t)
	r, err := Run(t.Context(), address(t, target.url), Config{Timeout: limit})
	store, _, _ := strings.Cut(target.url, "?")
	if err != nil || !r.OK || !r.CleanedUp || r.Store != store || len(r.Subjects) == 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if left := target.keys(); len(left) != 0 {
		t.Errorf("%q is left", left)
	}
}

func TestRun_Timeout(t *testing.T) {
	_, target := miniredisHere(t)
	r, err := Run(t.Context(), address(t, target.url), Config{Timeout: time.Nanosecond})
	if err != nil || r.OK || !r.CleanedUp || r.Error != "not done within 1ns" {
		t.Errorf("%+v, %v", r, err)
	}
}

// The errors have a reason and contain no password.
func TestRun_Unusable(t *testing.T) {
	for url, want := range map[string]string{
		"redis://u:wr0ng@127.0.0.1:1": "redis://127.0.0.1:1 cannot be used: ",
		"memory":                      `memory cannot be used: a store of kind "memory" is part of this process`,
	} {
		r, err := Run(t.Context(), address(t, url), Config{})
		if text := fmt.Sprint(err); r != nil || !strings.Contains(text, want) ||
			strings.Contains(text, "wr0ng") {
			t.Errorf("%s: %v, %v, want %q", url, r, err, want)
		}
	}
}

// The promises are proven by the server's clock, with a warning.
func TestCheck_ClockOff(t *testing.T) {
	const ahead = 90 * time.Second
	m, target := miniredisHere(t)
	stop := make(chan struct{})
	var ticking sync.WaitGroup
	m.SetTime(time.Now().Add(ahead))
	ticking.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(200 * time.Microsecond):
				m.SetTime(time.Now().Add(ahead))
			}
		}
	})
	defer ticking.Wait()
	defer close(stop)
	var said bytes.Buffer
	r := checkIn(t.Context(), scratchOn(t, target.url, "verge-check-x"), limit, &said)
	wantInWords(t, said.String(), "clocks WARNING the server's is 1m30s ahead of")
	if len(r.Warnings) == 0 || !strings.Contains(r.Warnings[0],
		"the clock of "+m.Addr()+" is 1m30s ahead of") {
		t.Errorf("warnings %q", r.Warnings)
	}
	// This server's clock jumps, which the measurement of expiry may notice.
	for _, subject := range r.Subjects {
		for _, p := range subject.Promises {
			if !p.Proven && p.Name != "an item exists until its expiry and is absent from that time" {
				t.Errorf("%s: %+v", subject.Name, p)
			}
		}
	}
}

func TestClock_Words(t *testing.T) {
	for _, c := range []struct {
		clocks []clock
		wants  []string
	}{
		{[]clock{{"a", 0.4, 0.5}},
			[]string{"clocks good the server's is the same as this machine's, to within 0.50 ms"}},
		{[]clock{{"a", -20, 0.5}},
			[]string{"clocks good the server's is 20.0 ms behind this machine's, give or take 0.50 ms"}},
		{[]clock{{"a", 999, 0.5}}, []string{"clocks good the server's is 999 ms ahead of"}},
		{[]clock{{"a", 1000, 0.5}}, []string{"clocks WARNING", "the clock of a is 1000 ms ahead of",
			"gone so much too early", "a token may be used again", "NTP"}},
		{[]clock{{"a", -30_000, 0.5}},
			[]string{"clocks WARNING the server's is 30s behind", "too late", "stay longer"}},
		{[]clock{{"a", 2, 0.5}, {"b", -3000, 0.5}, {"c", 1, 0.5}},
			[]string{"clocks WARNING of 3 servers the worst, b, is 3000 ms behind"}},
	} {
		var said bytes.Buffer
		r := &Report{about: about{Clocks: c.clocks}}
		text{&said}.clocks(r)
		fmt.Fprint(&said, r.worstClock().meaning())
		wantInWords(t, said.String(), c.wants...)
	}
}

// The report names the remaining data if the check cannot clean up.
func TestCheck_StoreGone(t *testing.T) {
	m, target := miniredisHere(t)
	var once sync.Once
	s := bent{scratchOn(t, target.url, "verge-check-x"), func(store kv.KV) kv.KV {
		return editing{store, func(tx *kv.Tx) {
			if tx.ID == "n20" {
				once.Do(m.Close)
			}
		}}
	}}
	var said bytes.Buffer
	c := newCheck("store", s, Config{Now: time.Now, Timeout: limit, Progress: &said})
	c.eraseFor = time.Second
	r := c.run(t.Context())
	if r.OK || r.CleanedUp || !strings.Contains(r.Error, "could not clean up") {
		t.Errorf("%+v", r)
	}
	wantInWords(t, said.String(), "Remaining items of the check are under {verge:verge-check-x")
}

// The test stops a server during the check. The server executes its requests when it continues, though
// their callers have left. None of their data may stay.
func TestCheck_FrozenServer(t *testing.T) {
	server := stores.StartRedis(t)
	var commits atomic.Int64
	var thawed sync.WaitGroup
	s := bent{scratchOn(t, server.URL()+"?read_timeout=200ms", "verge-check-x"), func(store kv.KV) kv.KV {
		return editing{store, func(*kv.Tx) {
			if commits.Add(1) == 600 { // while some hundred are in progress
				server.Freeze()
				thawed.Go(func() { time.Sleep(time.Second); server.Thaw() })
			}
		}}
	}}
	var said bytes.Buffer
	r := checkIn(t.Context(), s, limit, &said)
	thawed.Wait()
	if r.OK || !r.CleanedUp || server.Do("dbsize").(int64) != 0 {
		t.Errorf("ok %v, cleaned up %v, left %v, and said:\n%s", r.OK, r.CleanedUp, server.Do("keys", "*"),
			&said)
	}
}

// slow is a store whose caller may leave while the write continues, as on a network.
type slow struct {
	kv.KV
	underWay *atomic.Int64
}

func (s slow) Commit(ctx context.Context, tx kv.Tx) error {
	if ctx.Err() != nil {
		return kv.ErrUnavailable
	}
	s.underWay.Add(1)
	done := make(chan error, 1)
	go func() {
		time.Sleep(3 * time.Millisecond)
		err := s.KV.Commit(context.Background(), tx)
		s.underWay.Add(-1)
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return kv.ErrUnknown
	}
}

// erasing records the number of writes in progress each time the place is erased.
type erasing struct {
	scratch
	underWay *atomic.Int64
	seen     []int64
}

func (e *erasing) erase(ctx context.Context) error {
	e.seen = append(e.seen, e.underWay.Load())
	return e.scratch.erase(ctx)
}

// The test ends checks during their writes. The place is then erased twice, because the check cannot wait
// for a server's queue.
func TestCheck_EraseAfterWrites(t *testing.T) {
	for _, at := range []int64{50, 450, 700} {
		var underWay atomic.Int64
		ctx, end := context.WithCancel(t.Context())
		ending := endAt(at)(end)
		s := &erasing{bent{inMemory{}, func(store kv.KV) kv.KV {
			return slow{ending(store), &underWay}
		}}, &underWay, nil}
		r := checkIn(ctx, s, limit, io.Discard)
		if !slices.Equal(s.seen, []int64{0, 0}) || r.OK {
			t.Errorf("ended at commit %d: erased while %v writes were in progress, want none twice; ok %v",
				at, s.seen, r.OK)
		}
		end()
	}
}
