package workers_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/ratelimit"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/testharness/long"
	"github.com/verge-id/verge/testharness/workerd"
)

// fleet is the input of the tests' entry: isolates that lease cells of the same counters.
// Times and durations are in microseconds.
type fleet struct {
	Isolates int            `json:"isolates"`
	Requests []fleetRequest `json:"requests"`
	Evict    []fleetEvict   `json:"evict"`
	Delays   []int          `json:"delays"`
	Lost     []int          `json:"lost"`
}

type fleetRequest struct {
	At      int           `json:"at"`
	Isolate int           `json:"isolate"`
	Charges []fleetCharge `json:"charges"`
}

type fleetCharge struct {
	Name  string `json:"name"`
	Cost  int    `json:"cost"`
	Burst int    `json:"burst"`
}

type fleetEvict struct {
	At      int `json:"at"`
	Isolate int `json:"isolate"`
}

type fleetAnswer struct {
	TATs  []int  `json:"tats"`
	Error string `json:"error"`
}

// allowed reports whether the guest accepts the response as a yes.
func (a fleetAnswer) allowed(r fleetRequest) bool {
	if a.Error != "" || len(a.TATs) != len(r.Charges) {
		return false
	}
	for i, c := range r.Charges {
		if max(a.TATs[i], r.At)+c.Cost > r.At+c.Burst {
			return false
		}
	}
	return true
}

// remaining returns the remaining part of a charge, as the guest reads the response.
func (a fleetAnswer) remaining(r fleetRequest, i int) int {
	c := r.Charges[i]
	return (r.At + c.Burst - max(a.TATs[i], r.At) - c.Cost) / c.Cost
}

// run returns the answers, and the number of questions and answers in flight.
func (f fleet) run(t *testing.T) (answers []fleetAnswer, ways int) {
	t.Helper()
	if f.Evict == nil {
		f.Evict = []fleetEvict{}
	}
	if f.Lost == nil {
		f.Lost = []int{}
	}
	if f.Delays == nil {
		f.Delays = []int{0}
	}
	b, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	var out struct {
		Answers []fleetAnswer
		Ways    int
	}
	err = json.Unmarshal(workerd.Shared(t).Fleet(t, b), &out)
	if err != nil || len(out.Answers) != len(f.Requests) {
		t.Fatalf("%d answers to %d requests, %v", len(out.Answers), len(f.Requests), err)
	}
	return out.Answers, out.Ways
}

const start0 = 1_000_000_000_000_000 // some time

// TestLeases_FleetLimit sends requests to isolates that lease cells of the
// same counters, at random times. Some questions and answers take long or are lost, and
// some isolates are evicted. The requests that were allowed must be within the limit
// that a single counter would have kept.
func TestLeases_FleetLimit(t *testing.T) {
	long.Skip(t, "TestLeases_FleetLimit")
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 1))
		limit := func(name string) fleetCharge {
			cost := (1 + r.IntN(1000)) * 1000
			return fleetCharge{name, cost, cost * (1 + r.IntN(100))}
		}
		limits := []fleetCharge{limit("address/a"), limit("address/b"), limit("key/k")}
		f := fleet{Isolates: 1 + r.IntN(6)}
		pace := 1 + r.IntN(3*limits[2].Cost/2)
		at := start0
		for range 400 {
			if r.IntN(20) > 0 {
				at += r.IntN(pace)
			}
			charges := []fleetCharge{limits[r.IntN(2)], limits[2]}
			if r.IntN(3) == 0 {
				charges = charges[:1]
			}
			f.Requests = append(f.Requests, fleetRequest{at, r.IntN(f.Isolates), charges})
		}
		for range 20 {
			f.Delays = append(f.Delays, r.IntN(1+r.IntN(300_000)))
		}
		if r.IntN(2) == 0 {
			for range 10 {
				f.Lost = append(f.Lost, r.IntN(400))
				f.Evict = append(f.Evict, fleetEvict{f.Requests[r.IntN(400)].At, r.IntN(f.Isolates)})
			}
		}
		answers, _ := f.run(t)
		for _, c := range limits {
			if over := f.over(c, answers); over != "" {
				t.Fatalf("seed %d: %s", seed, over)
			}
		}
	}
}

// over returns the first request above the limit of a counter, or "".
func (f fleet) over(c fleetCharge, answers []fleetAnswer) string {
	var allowed []int
	for i, a := range answers {
		if slices.Contains(f.Requests[i].Charges, c) && a.allowed(f.Requests[i]) {
			allowed = append(allowed, f.Requests[i].At)
		}
	}
	slices.Sort(allowed)
	tat := 0
	for n, at := range allowed {
		if tat = max(tat, at) + c.Cost; tat > at+c.Burst {
			return fmt.Sprintf("request %d of the %d that %s allowed was one too many: %d µs over",
				n, len(allowed), c.Name, tat-at-c.Burst)
		}
	}
	return ""
}

// A single isolate answers exactly like a single counter, including the counters for headers.
func TestLeases_OneIsolate(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 2))
		cost := (1 + r.IntN(1000)) * 1000
		c := fleetCharge{"key/k", cost, cost * (1 + r.IntN(100))}
		f := fleet{Isolates: 1}
		at, pace := start0, 1+r.IntN(3*cost)
		for range 400 {
			if r.IntN(4) > 0 {
				at += r.IntN(pace)
			}
			f.Requests = append(f.Requests, fleetRequest{at, 0, []fleetCharge{c}})
		}
		answers, ways := f.run(t)
		tat := 0
		for i, a := range answers {
			at := f.Requests[i].At
			if a.Error != "" || max(a.TATs[0], at) != max(tat, at) {
				t.Fatalf("seed %d: request %d of %+v: the counter was %v %s, want %d", seed, i, c, a.TATs,
					a.Error, tat)
			}
			if max(tat, at)+c.Cost <= at+c.Burst {
				tat = max(tat, at) + c.Cost
			}
		}
		t.Logf("seed %d: %d ways for %d requests", seed, ways, len(answers))
	}
}

// second is in the unit of a fleet's times.
const second = 1_000_000

// minute is a charge of a limit of count a minute.
func minute(name string, count int) fleetCharge {
	return fleetCharge{name, 60 * second / count, 60 * second}
}

// every has n requests, a step apart, to the isolates in turn.
func every(isolates, n, step int, charges ...fleetCharge) fleet {
	f := fleet{Isolates: isolates, Delays: []int{1000}}
	for i := range n {
		f.Requests = append(f.Requests, fleetRequest{start0 + i*step, i % isolates, charges})
	}
	return f
}

// allowed returns how many requests were allowed.
func (f fleet) allowed(answers []fleetAnswer) (n int) {
	for i, a := range answers {
		if a.allowed(f.Requests[i]) {
			n++
		}
	}
	return n
}

func TestLeases(t *testing.T) {
	t.Run("contract 30: one client has its 60 a minute from one isolate", func(t *testing.T) {
		f := every(1, 100, 1, minute("a", 60))
		f.Delays = nil
		if answers, _ := f.run(t); f.allowed(answers) != 60 {
			t.Errorf("%d were allowed", f.allowed(answers))
		}
	})
	t.Run("contract 30: even if all come at the same time", func(t *testing.T) {
		f := every(1, 100, 0, minute("a", 60))
		if answers, _ := f.run(t); f.allowed(answers) != 60 {
			t.Errorf("%d were allowed", f.allowed(answers))
		}
	})
	t.Run("contract 30: from four isolates it has no more, and not many less", func(t *testing.T) {
		f := every(4, 200, 100, minute("a", 60))
		if answers, _ := f.run(t); f.allowed(answers) > 60 || f.allowed(answers) < 50 {
			t.Errorf("%d were allowed", f.allowed(answers))
		}
	})
	t.Run("a steady client below its limit is never refused, on many isolates", func(t *testing.T) {
		f := every(20, 600, second/8, minute("k", 600))
		if answers, _ := f.run(t); f.allowed(answers) != 600 {
			t.Errorf("%d of 600 were allowed", f.allowed(answers))
		}
	})
	t.Run("most requests ask no object", func(t *testing.T) {
		f := every(1, 3000, second/2000, minute("k", 600_000))
		if answers, ways := f.run(t); f.allowed(answers) != 3000 || ways > 200 {
			t.Errorf("%d of 3000 were allowed, with %d questions", f.allowed(answers), ways/2)
		}
	})
	t.Run("rejected requests ask no object", func(t *testing.T) {
		f := every(1, 1000, 1, minute("a", 6))
		f.Delays = nil
		if answers, ways := f.run(t); f.allowed(answers) != 6 || ways > 2*8 {
			t.Errorf("%d of 1000 were allowed, with %d questions", f.allowed(answers), ways/2)
		}
	})
	t.Run("contract 30: lost counters allow one period's requests again", func(t *testing.T) {
		f := every(3, 900, 100, minute("a", 60))
		f.Evict = []fleetEvict{{start0 + 30_000, -1}}
		if answers, _ := f.run(t); f.allowed(answers) > 120 {
			t.Errorf("%d were allowed", f.allowed(answers))
		}
	})
	t.Run("nothing is allowed if the object cannot be asked", func(t *testing.T) {
		f := every(1, 3, second, minute("a", 60))
		f.Lost = []int{0, 1, 2, 3, 4, 5}
		if answers, _ := f.run(t); f.allowed(answers) != 0 {
			t.Errorf("%+v", answers)
		}
	})
}

// A request is charged to its address and to its key.
func TestLeasesOfTwoLimits(t *testing.T) {
	t.Run("a client at its limit costs the key nothing", func(t *testing.T) {
		address, key := minute("a", 6), minute("k", 60)
		f := every(1, 100, 1, address, key)
		f.Delays = nil
		f.Requests = append(f.Requests, fleetRequest{start0 + 101, 0, []fleetCharge{key}})
		answers, _ := f.run(t)
		if left := answers[100].remaining(f.Requests[100], 0); f.allowed(answers) != 7 || left != 53 {
			t.Errorf("%d were allowed, and %d remain of the key's 60", f.allowed(answers), left)
		}
	})
	t.Run("a key at its limit costs an address nothing", func(t *testing.T) {
		address, key := minute("a", 60), minute("k", 6)
		f := every(1, 100, 1, address, key)
		f.Delays = nil
		f.Requests = append(f.Requests, fleetRequest{start0 + 2*second, 0, []fleetCharge{address}})
		answers, _ := f.run(t)
		if left := answers[100].remaining(f.Requests[100], 0); left < 54 {
			t.Errorf("%d remain of the address' 60", left)
		}
	})
}

func TestLeasesThatAnIsolateDoesNotUse(t *testing.T) {
	t.Run("cells that an isolate leases and does not use go to another after a second", func(t *testing.T) {
		c := minute("k", 60)
		f := every(1, 22, 1, c) // the isolate wishes for more and more, and has some left
		f.Isolates, f.Delays = 2, nil
		for i := range 80 {
			f.Requests = append(f.Requests, fleetRequest{start0 + 61*second + i, 1, []fleetCharge{c}})
		}
		for i := range 20 {
			f.Requests = append(f.Requests, fleetRequest{start0 + 61*second + 80 + i, 0, []fleetCharge{c}})
		}
		answers, _ := f.run(t)
		if n := f.allowed(answers); n != 82 {
			t.Errorf("%d were allowed, want the first 22, and 60 a minute later", n)
		}
	})
	t.Run("an isolate with many requests leaves most cells to others", func(t *testing.T) {
		c := minute("k", 60)
		f := every(1, 32, 1, c)
		f.Isolates, f.Delays = 2, nil
		for i := range 40 {
			f.Requests = append(f.Requests, fleetRequest{start0 + 32 + i, 1, []fleetCharge{c}})
		}
		answers, _ := f.run(t)
		if n := f.allowed(answers) - 32; n < 22 {
			t.Errorf("the other isolate allowed %d of the 28 that were left", n)
		}
	})
}

// contract 30, RateLimit: an isolate never reports more than the real remainder. Each isolate is first asked
// twice. After that, its remainder is compared with a single counter's.
func TestRemainingIsNeverTooMuch(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 3))
		cost := (1 + r.IntN(100)) * 1000
		c := fleetCharge{"key/k", cost, cost * (20 + r.IntN(200))}
		f := fleet{Isolates: 2 + r.IntN(3)}
		at := start0
		for i := range 300 {
			isolate := r.IntN(f.Isolates)
			if i < 2*f.Isolates {
				isolate = i % f.Isolates
			}
			f.Requests = append(f.Requests, fleetRequest{at, isolate, []fleetCharge{c}})
			at += r.IntN(cost)
		}
		answers, _ := f.run(t)
		tat := 0
		for i, a := range answers {
			at := f.Requests[i].At
			if !a.allowed(f.Requests[i]) {
				continue
			}
			tat = max(tat, at) + c.Cost
			left := (at + c.Burst - tat) / c.Cost
			if said := a.remaining(f.Requests[i], 0); i >= 2*f.Isolates && said > left {
				t.Fatalf("seed %d: request %d of %d isolates: it says that %d remain of %d, and %d do",
					seed, i, f.Isolates, said, c.Burst/c.Cost, left)
			}
		}
	}
}

// contract 30: limits hold across all instances. Here these are isolates of a real
// workerd, with real objects.
func TestLimitsHoldAcrossIsolates(t *testing.T) {
	const isolates, limit, each = 3, 40, 30
	s, server := deployOn(t, isolates, newInbox(t), func(w *workerd.Worker) {
		w.Config.Limits.SecretPerIP = ratelimit.PerMinute(limit)
	})
	var allowed, rejected atomic.Int64
	began := time.Now()
	client := http.Header{"Cf-Connecting-Ip": {"192.0.2.1"}}
	var wait sync.WaitGroup
	for n := range isolates {
		at := *s
		at.client = server.ClientOf(n)
		for range 2 {
			wait.Go(func() {
				for range each {
					a := at.do("POST", at.base+web.ValidatePath, client.Clone(), []byte("{}"))
					switch a.status {
					case http.StatusUnauthorized:
						allowed.Add(1)
					case http.StatusTooManyRequests:
						rejected.Add(1)
					default:
						t.Errorf("%d %s", a.status, a.body)
					}
				}
			})
		}
	}
	wait.Wait()
	most := limit + int64(time.Since(began)*limit/time.Minute) + 1
	if n := allowed.Load(); n > most || n < limit*3/4 || n+rejected.Load() != isolates*2*each {
		t.Errorf("%d isolates allowed %d of %d requests, want about %d and at most %d",
			isolates, n, isolates*2*each, limit, most)
	}
}

// The platform discards an object that is not called for ten seconds. A client at
// its limit must not be let through again by waiting for that.
func TestCountersOutliveAPause(t *testing.T) {
	t.Parallel()
	long.Skip(t, "TestCountersOutliveAPause")
	site := workerd.Shared(t).Site(t, workerd.Config{})
	now := time.Now().Truncate(time.Microsecond)
	charge := []kv.Charge{{Name: "address/a", Cost: 20 * time.Second, Burst: 60 * time.Second}}
	spend := func() time.Time {
		t.Helper()
		tats, err := site.KV().(kv.Meter).Spend(t.Context(), "limits", now, charge)
		if err != nil {
			t.Fatal(err)
		}
		return tats[0]
	}
	for range 3 {
		spend()
	}
	time.Sleep(13 * time.Second)
	site.Configure(workerd.Config{}) // a new isolate
	if tat := spend(); !tat.Equal(now.Add(time.Minute)) {
		t.Errorf("the counter is %v, want a minute after %v", tat, now)
	}
}
