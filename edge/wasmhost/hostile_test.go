package wasmhost_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/edge/wasmhost"
	"github.com/verge-id/verge/kvadapters/memory"
	"github.com/verge-id/verge/testharness/faultproxy"
	"github.com/verge-id/verge/testharness/long"
	"github.com/verge-id/verge/testharness/wait"
	"github.com/verge-id/verge/wasm/abi"
)

// record returns a record for the request that sends it.
func record(kind abi.Kind, body []byte) []byte {
	return abi.Append.Record(nil, abi.Record{Kind: kind, Body: body})
}

// effect returns a record with a number, as effects have.
func effect(kind abi.Kind, body []byte) []byte {
	return abi.Append.Record(nil, abi.Record{Kind: kind, Op: 1, Body: body})
}

func answer(status int, header web.Header) []byte {
	return record(abi.Respond,
		abi.Append.Response(nil, &web.Response{Status: status, Header: header, Body: []byte("said")}))
}

// say makes a guest send the test's records.
func say(e *wasmhost.Engine, ctx context.Context, records ...[]byte) *web.Response {
	return e.Handle(ctx, &web.Request{
		Method: "POST",
		Path:   "/say",
		Header: web.Header{},
		Body:   bytes.Join(records, nil),
	})
}

// heard collects the events that guests have reported to the host.
type heard struct {
	mu       sync.Mutex
	counts   []string
	measured []host.Measurement
	usage    []host.UsageEvent
	wakes    []kv.Partition
}

func (h *heard) About(context.Context, host.RequestInfo) {}

func (h *heard) Count(event string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counts = append(h.counts, event)
}

func (h *heard) Measure(m host.Measurement) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.measured = append(h.measured, m)
}

func (h *heard) CountUsage(t host.UsageEvent) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.usage = append(h.usage, t)
}

func (h *heard) Wake(p kv.Partition, _ time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wakes = append(h.wakes, p)
}

func wake(p string, due time.Time) []byte {
	return record(abi.Wake, abi.Append.Wake(nil, kv.Partition(p), due))
}

func told(method, event, reason string) []byte {
	return record(abi.Measure, abi.Append.MethodEvent(nil,
		abi.MethodEvent{Method: method, Event: event, Reason: reason}))
}

func usage(t host.UsageEvent) []byte { return record(abi.UsageEvent, abi.Append.UsageEvent(nil, t)) }

func sign(key, algorithm string, message int) []byte {
	q := abi.SignRequest{Key: key, Algorithm: algorithm, Message: make([]byte, message)}
	return effect(abi.Sign, abi.Append.Sign(nil, q))
}

func verify(publicKey []byte) []byte {
	q := abi.VerifyRequest{Algorithm: "ES256", PublicKey: publicKey}
	return effect(abi.Verify, abi.Append.Verify(nil, q))
}

func prove(transcript int) []byte {
	q := abi.ProofRequest{Statement: host.ProofStatement{SessionTranscript: make([]byte, transcript)}}
	return effect(abi.VerifyProof, abi.Append.VerifyProof(nil, q))
}

func fetch(change func(*host.FetchRequest)) []byte {
	q := host.FetchRequest{Method: "GET", URL: "https://shop.example/"}
	change(&q)
	return effect(abi.Fetch, abi.Append.Fetch(nil, q))
}

// guestSays is the output of a guest, the response to the request, and the expected reaction of the host.
type guestSays struct {
	name   string
	says   [][]byte
	status int
	fails  bool   // the guest fails
	counts string // the counted names
	wakes  string // the woken partitions
	tells  host.Measurement
	usage  host.UsageEvent // the usage that counts as usage
	signs  int32           // number of signatures; at most that many if the guest fails
}

// testSays makes a guest send each case. The host accepts output that the core could have sent. A guest
// with other output is replaced, and others are unaffected.
func testSays(t *testing.T, cases []guestSays) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var told heard
			seen := &observed{}
			var signed atomic.Int32
			cfg := config(t, badGuest)
			cfg.Instances, cfg.Observer, cfg.Guests = 1, &told, seen
			cfg.Sign = func(_ context.Context, key, _ string, _ []byte) ([]byte, error) {
				if key != "client" {
					return nil, host.ErrNoSuchKey
				}
				signed.Add(1)
				return []byte("signature"), nil
			}
			e := start(t, cfg)
			if r := say(e, t.Context(), c.says...); r.Status != c.status {
				t.Errorf("%d %.80s, want %d", r.Status, r.Body, c.status)
			}
			want := 0
			if c.fails {
				want = 1
				wait.Until(t, "the guest is abandoned", func() bool {
					return seen.count("failed: "+wasmhost.CauseProtocol) == 1
				})
			}
			r := get(e, t.Context(), "/")
			if r.Status != 200 || seen.count("failed: "+wasmhost.CauseProtocol) != want {
				t.Errorf("the next request: %d, reported %q", r.Status, seen.all)
			}
			if got := strings.Join(told.counts, " "); got != c.counts {
				t.Errorf("counted %q, want %q", got, c.counts)
			}
			if len(told.measured) > 1 || len(told.measured) == 1 && told.measured[0] != c.tells ||
				len(told.measured) == 0 && c.tells != (host.Measurement{}) {
				t.Errorf("measured %+v, want %+v", told.measured, c.tells)
			}
			if len(told.usage) > 1 || len(told.usage) == 1 && told.usage[0] != c.usage ||
				len(told.usage) == 0 && c.usage != (host.UsageEvent{}) {
				t.Errorf("counted as usage: %+v, want %+v", told.usage, c.usage)
			}
			if got := signed.Load(); got > c.signs || got < c.signs && !c.fails {
				t.Errorf("%d signatures were made, want %d", got, c.signs)
			}
			if len(told.wakes) > 0 != (c.wakes != "") ||
				len(told.wakes) > 0 && string(told.wakes[0]) != c.wakes {
				t.Errorf("reported tasks in %q, want %q", told.wakes, c.wakes)
			}
		})
	}
}

// aYearFarOff is later than any time that fits into 64 bits of nanoseconds.
var aYearFarOff = time.Date(300000, 1, 1, 0, 0, 0, 0, time.UTC)

// saidGood is a response that the host passes on.
func saidGood() []byte { return answer(200, web.Header{}) }

// named returns n different header names.
func named(n int) (names []string) {
	for i := range n {
		names = append(names, "X-"+strings.Repeat("a", i+1))
	}
	return names
}

func TestGuestOutput_Usage(t *testing.T) {
	good := saidGood()
	testSays(t, []guestSays{
		{
			name: "a session that started",
			says: [][]byte{usage(host.UsageEvent{Integration: anIntegration, Outcome: host.OutcomeStarted}),
				good},
			status: 200,
			usage:  host.UsageEvent{Integration: anIntegration, Outcome: host.OutcomeStarted},
		},
		{
			name: "an outcome that this host does not know",
			says: [][]byte{usage(host.UsageEvent{Integration: anIntegration,
				Outcome: "svc_sk_secret"}), good},
			status: 200,
		},
		{
			name: "an integration whose name would escape from its items",
			says: [][]byte{usage(host.UsageEvent{Integration: "../" + anIntegration,
				Outcome: host.OutcomeStarted}), good},
			status: 200,
		},
		{
			name:   "a key of a megabyte",
			says:   [][]byte{usage(host.UsageEvent{Key: "key_" + strings.Repeat("a", 1<<20)}), good},
			status: 200,
		},
		{
			name:   "usage that cannot be read",
			says:   [][]byte{record(abi.UsageEvent, []byte("usage")), good},
			status: 503,
			fails:  true,
		},
	})
}

func TestGuestOutput_Notices(t *testing.T) {
	good := saidGood()
	testSays(t, []guestSays{
		{
			name:   "an event of a method",
			says:   [][]byte{told("bankid", "attempt_failed", "below"), good},
			status: 200,
			tells:  host.Measurement{Method: "bankid", Event: "attempt_failed", Reason: "below"},
		},
		{
			name:   "an event and a reason that are in no list",
			says:   [][]byte{told("bankid", "svc_sk_secret", "\xff"), good},
			status: 200,
			tells:  host.Measurement{Method: "bankid", Event: "other", Reason: "other"},
		},
		{
			name:   "a fetch, which the host measures itself",
			says:   [][]byte{told("bankid", host.MethodFetched, ""), good},
			status: 200,
			tells:  host.Measurement{Method: "bankid", Event: "other"},
		},
		{
			name:   "an event of a method with a name of a megabyte",
			says:   [][]byte{told(strings.Repeat("m", 1<<20), "begun", ""), good},
			status: 200,
			tells:  host.Measurement{Method: strings.Repeat("m", 64) + "…", Event: "begun"},
		},
		{
			name:   "an event that cannot be read",
			says:   [][]byte{record(abi.Measure, []byte("bankid")), good},
			status: 503,
			fails:  true,
		},
		{
			name:   "a count with a name of the list",
			says:   [][]byte{record(abi.Count, []byte("webhook_dead")), good},
			status: 200,
			counts: "webhook_dead",
		},
		{
			name:   "a count whose name is not UTF-8",
			says:   [][]byte{record(abi.Count, []byte{0xff}), good},
			status: 200,
			counts: "other",
		},
		{
			name:   "a count with a name of a megabyte",
			says:   [][]byte{record(abi.Count, make([]byte, 1<<20)), good},
			status: 200,
			counts: "other",
		},
		{
			name:   "a count without a name",
			says:   [][]byte{record(abi.Count, nil), good},
			status: 200,
			counts: "other",
		},
		{name: "an unknown notice", says: [][]byte{record(77, []byte("?")), good},
			status: 200},
		{
			name:   "a log that cannot be read",
			says:   [][]byte{record(abi.Log, []byte{1, 2}), good},
			status: 503,
			fails:  true,
		},
		{
			name:   "the maximum number of notices",
			says:   [][]byte{bytes.Repeat(record(77, nil), 256), good},
			status: 200,
		},
		{
			name:   "one notice too many",
			says:   [][]byte{bytes.Repeat(record(77, nil), 257), good},
			status: 503,
			fails:  true,
		},
	})
}

func TestGuestOutput_Tasks(t *testing.T) {
	now, far, good := time.Now(), aYearFarOff, saidGood()
	testSays(t, []guestSays{
		{name: "a task that falls due", says: [][]byte{wake("p0", now), good}, status: 200, wakes: "p0"},
		{
			name:   "a task of a partition that does not exist",
			says:   [][]byte{wake("p7", now), wake("c", now), wake("", now), good},
			status: 200,
		},
		{name: "a task without a time", says: [][]byte{wake("p0", time.Time{}), good}, status: 200,
			wakes: "p0"},
		{name: "a task in the year 300000", says: [][]byte{wake("p0", far), good}, status: 503, fails: true},
		{name: "a task before 1970", says: [][]byte{wake("p0", time.Unix(-1, 0)), good}, status: 503,
			fails: true},
		{
			name:   "a wake that cannot be read",
			says:   [][]byte{record(abi.Wake, []byte("p0")), good},
			status: 503,
			fails:  true,
		},
	})
}

func TestGuestOutput_Concurrent(t *testing.T) {
	good, reads := saidGood(), effect(abi.KVGet, abi.Append.Key(nil, kv.Key{Partition: "p0", Name: "n"}))
	testSays(t, []guestSays{
		{
			name:   "two effects at the same time",
			says:   [][]byte{reads, reads},
			status: 503,
			fails:  true,
		},
		{
			name:   "an effect and a response",
			says:   [][]byte{reads, good},
			status: 503,
			fails:  true,
		},
		{name: "two answers", says: [][]byte{good, good}, status: 200, fails: true},
		{
			name:   "an effect that cannot be read",
			says:   [][]byte{effect(abi.KVCommit, []byte{1})},
			status: 503,
			fails:  true,
		},
	})
}

func TestGuestOutput_Store(t *testing.T) {
	now, far := time.Now(), aYearFarOff
	testSays(t, []guestSays{
		{
			name: "a list of everything",
			says: [][]byte{effect(abi.KVList,
				abi.Append.List(nil, abi.List{Prefix: kv.Key{Partition: "p0"}, N: 1<<31 - 1}))},
			status: 503,
			fails:  true,
		},
		{
			name: "a claim of everything",
			says: [][]byte{effect(abi.KVClaim,
				abi.Append.Claim(nil, abi.Claim{Partition: "p0", Now: now, Lease: time.Second, N: 1025}))},
			status: 503,
			fails:  true,
		},
		{
			name: "a claim for ever",
			says: [][]byte{effect(abi.KVClaim,
				abi.Append.Claim(nil, abi.Claim{Partition: "p0", Now: now, Lease: 1<<63 - 1, N: 1}))},
			status: 503,
			fails:  true,
		},
		{
			name: "a claim as of the year 300000",
			says: [][]byte{effect(abi.KVClaim,
				abi.Append.Claim(nil, abi.Claim{Partition: "p0", Now: far, Lease: time.Second, N: 1}))},
			status: 503,
			fails:  true,
		},
		{
			name: "more charges than a transaction may have parts",
			says: [][]byte{effect(abi.KVSpend,
				abi.Append.Spend(nil, abi.Spend{Partition: "l", Now: now,
					Charges: make([]kv.Charge, kv.MaxTx+1)}))},
			status: 503,
			fails:  true,
		},
		{
			name: "a charge that gives back",
			says: [][]byte{effect(abi.KVSpend, abi.Append.Spend(nil, abi.Spend{
				Partition: "l",
				Now:       now,
				Charges:   []kv.Charge{{Name: "c", Cost: -1}},
			}))},
			status: 503,
			fails:  true,
		},
		{
			name: "a name of a megabyte",
			says: [][]byte{effect(abi.KVGet,
				abi.Append.Key(nil, kv.Key{Partition: "p0", Name: strings.Repeat("n", 1<<20)}))},
			status: 503,
			fails:  true,
		},
		{
			name: "an item that expires in the year 300000",
			says: [][]byte{effect(abi.KVCommit, abi.Append.Tx(nil, kv.Tx{
				ID:        "t",
				Partition: "p0",
				Puts:      []kv.Put{{Name: "n", Expires: far}},
			}))},
			status: 503,
			fails:  true,
		},
		{
			name: "a task of the year 300000",
			says: [][]byte{effect(abi.KVCommit, abi.Append.Tx(nil, kv.Tx{
				ID:        "t",
				Partition: "p0",
				Schedule:  []kv.Task{{ID: "n", Due: far}},
			}))},
			status: 503,
			fails:  true,
		},
	})
}

func TestGuestOutput_Fetches(t *testing.T) {
	fields := map[string]string{}
	for _, name := range named(65) {
		fields[name] = "v"
	}
	testSays(t, []guestSays{
		{
			name:   "a fetch with 65 fields",
			says:   [][]byte{fetch(func(q *host.FetchRequest) { q.Header = fields })},
			status: 503,
			fails:  true,
		},
		{name: "a fetch with a long field", says: [][]byte{fetch(func(q *host.FetchRequest) {
			q.Header = map[string]string{"A": strings.Repeat("a", 80<<10)}
		})}, status: 503, fails: true},
		{name: "a fetch of a long URL", says: [][]byte{fetch(func(q *host.FetchRequest) {
			q.URL += strings.Repeat("a", 1<<14)
		})}, status: 503, fails: true},
		{name: "a fetch by a long method", says: [][]byte{fetch(func(q *host.FetchRequest) {
			q.Method = strings.Repeat("G", 17)
		})}, status: 503, fails: true},
		{name: "a fetch with a large body", says: [][]byte{fetch(func(q *host.FetchRequest) {
			q.Body = make([]byte, 3<<20)
		})}, status: 503, fails: true},
		{name: "a fetch for a method with a long name", says: [][]byte{fetch(func(q *host.FetchRequest) {
			q.For = strings.Repeat("m", 65)
		})}, status: 503, fails: true},
		{name: "a fetch that ends before it begins", says: [][]byte{fetch(func(q *host.FetchRequest) {
			q.Timeout = -1
		})}, status: 503, fails: true},
		{name: "a fetch without a time limit", says: [][]byte{fetch(func(q *host.FetchRequest) {
			q.Timeout = 1<<63 - 1
		})}, status: 503, fails: true},
	})
}

func TestGuestOutput_Signatures(t *testing.T) {
	many := func(n int, of []byte) []byte { return bytes.Repeat(of, n) }
	testSays(t, []guestSays{
		{
			name:   "a signature with an existing key",
			says:   [][]byte{sign("client", "ES256", 10)},
			status: 200,
			signs:  1,
		},
		{
			name:   "a signature with an unknown key",
			says:   [][]byte{sign("root", "ES256", 10)},
			status: 200,
		},
		{
			name:   "a signature with the key of the self-test",
			says:   [][]byte{sign("self-test", "ES256", 1)},
			status: 200,
		},
		{
			name:   "a signature with a key of a long name",
			says:   [][]byte{sign(strings.Repeat("k", 65), "ES256", 10)},
			status: 503,
			fails:  true,
		},
		{
			name:   "a signature by a long algorithm",
			says:   [][]byte{sign("client", strings.Repeat("E", 17), 10)},
			status: 503,
			fails:  true,
		},
		{
			name:   "a signature over too much",
			says:   [][]byte{sign("client", "ES256", 5<<20)},
			status: 503,
			fails:  true,
		},
		{
			name:   "a signature that cannot be read",
			says:   [][]byte{effect(abi.Sign, []byte{1})},
			status: 503,
			fails:  true,
		},
		{
			name:   "a verification by a malformed key",
			says:   [][]byte{verify([]byte("key"))},
			status: 200,
		},
		{
			name:   "a verification by a key that is too large",
			says:   [][]byte{verify(make([]byte, 5<<10))},
			status: 503,
			fails:  true,
		},
		{
			name:   "a verification that cannot be read",
			says:   [][]byte{effect(abi.Verify, []byte{1})},
			status: 503,
			fails:  true,
		},
		{
			name:   "a proof, of a host that verifies none",
			says:   [][]byte{prove(5 << 20)},
			status: 200,
		},
		{
			name:   "two signatures at the same time",
			says:   [][]byte{many(2, sign("client", "ES256", 10))},
			status: 503,
			fails:  true,
			signs:  1,
		},
	})
}

func TestGuestOutput_Responses(t *testing.T) {
	headers := web.Header{}
	for _, name := range named(129) {
		headers[name] = []string{"v"}
	}
	testSays(t, []guestSays{
		{name: "a response without a status", says: [][]byte{answer(0, web.Header{})}, status: 503},
		{name: "an informational response", says: [][]byte{answer(101, web.Header{})},
			status: 503},
		{
			name:   "a header with a length",
			says:   [][]byte{answer(200, web.Header{"content-length": {"1"}})},
			status: 503,
		},
		{
			name:   "a header with a coding",
			says:   [][]byte{answer(200, web.Header{"transfer-Encoding": {"chunked"}})},
			status: 503,
		},
		{
			name:   "a header that ends the head",
			says:   [][]byte{answer(200, web.Header{"X": {"a\r\n\r\nb"}})},
			status: 503,
		},
		{name: "a header with an invalid name", says: [][]byte{answer(200, web.Header{"A b": {"c"}})},
			status: 503},
		{name: "129 headers", says: [][]byte{answer(200, headers)}, status: 503},
		{
			name:   "a long header",
			says:   [][]byte{answer(200, web.Header{"X": {strings.Repeat("a", 1<<16)}})},
			status: 503,
		},
		{
			name:   "a long request id",
			says:   [][]byte{answer(200, web.Header{"X-Request-Id": {strings.Repeat("a", 129)}})},
			status: 503,
		},
	})
}

type panickingObserver struct{ host.Observer }

func (panickingObserver) Count(string) { panic("a secret") }

// If a guest triggers a bug of the host, only that guest may fail.
func TestGuestOutput_HostPanic(t *testing.T) {
	var log bytes.Buffer
	told := &observed{}
	cfg := config(t, badGuest)
	cfg.Instances, cfg.Guests, cfg.Log = 1, told, slog.New(slog.NewTextHandler(&log, nil))
	cfg.Observer = panickingObserver{}
	e := start(t, cfg)
	r := say(e, t.Context(), answer(200, web.Header{}), record(abi.Count, []byte("webhook_dead")))
	if r.Status != 200 {
		t.Errorf("%d", r.Status)
	}
	wait.Until(t, "the guest is abandoned", func() bool {
		return told.count("failed: "+wasmhost.CauseProtocol) == 1
	})
	if r := get(e, t.Context(), "/"); r.Status != 200 {
		t.Errorf("the next request: %d", r.Status)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	said := strings.Contains(log.String(), "its record made the host panic (string)")
	if !said || strings.Contains(log.String(), "a secret") {
		t.Errorf("the log: %s", &log)
	}
}

// lines is the destination of a host's log. Each line must be complete, of limited size, and have the
// host's own attributes once.
type lines struct {
	t     testing.TB
	count atomic.Int64
	bad   atomic.Int64
}

func (l *lines) Write(p []byte) (int, error) {
	l.count.Add(1)
	members := map[string]int{}
	d := json.NewDecoder(bytes.NewReader(p))
	for _, err := d.Token(); err == nil && d.More(); { // after the brace: names and values in turn
		var name json.Token
		var value any
		if name, err = d.Token(); err == nil {
			members[strings.ToLower(name.(string))]++
			err = d.Decode(&value)
		}
	}
	whole := len(p) <= 128<<10 && bytes.IndexByte(p, '\n') == len(p)-1 && json.Valid(p)
	once := members["time"] == 1 && members["level"] == 1 && members["msg"] == 1
	if !whole || !once || members["module"] > 1 || members["source"] != 0 {
		if l.bad.Add(1) < 5 {
			l.t.Errorf("a line of %d bytes with the members %v: %.300q", len(p), members, p)
		}
	}
	return len(p), nil
}

// hostileKinds are kinds of records, some of which do not exist.
var hostileKinds = []abi.Kind{0, abi.KVGet, abi.KVCommit, abi.KVClaim, abi.KVList, abi.KVSpend, abi.Fetch,
	abi.Sign, abi.Verify, abi.VerifyProof, abi.Decrypt, 11,
	abi.Respond, abi.Log, abi.Count, abi.Wake, abi.Measure, abi.UsageEvent, 22, 255}

// hostile returns output that a guest could send: every kind of record, well formed or malformed, in any
// order and for any request.
func hostile(r *rand.Rand) []byte {
	random := hostility{r}
	var out []byte
	for range 1 + r.IntN(4) {
		rec := abi.Record{Kind: hostileKinds[r.IntN(len(hostileKinds))], Op: uint32(r.IntN(3))}
		if r.IntN(8) == 0 {
			rec.Request = r.Uint32N(20)
		}
		rec.Body = random.body(rec.Kind)
		if len(rec.Body) > 0 && r.IntN(4) == 0 {
			rec.Body = slices.Clone(rec.Body[:r.IntN(len(rec.Body))])
		}
		if len(rec.Body) > 0 && r.IntN(4) == 0 {
			rec.Body[r.IntN(len(rec.Body))] = byte(r.Uint32())
		}
		out = abi.Append.Record(out, rec)
	}
	if r.IntN(16) == 0 {
		out = out[:r.IntN(len(out))]
	}
	return out
}

// hostility creates the parts of records at random.
type hostility struct{ *rand.Rand }

func (r hostility) text() string {
	all := []string{"", "p0", "p1", "c", "l", "n", "\xff\xfe", "time", "level", "msg", "module", "a\nb", "{}",
		strings.Repeat("x", r.IntN(1<<r.IntN(18)))}
	return all[r.IntN(len(all))]
}

func (r hostility) number() int64 {
	all := []int64{0, 1, -1, 1 << 31, 1<<63 - 1, -1 << 63, 1e9, r.Int64(), -r.Int64()}
	return all[r.IntN(len(all))]
}

func (r hostility) partition() kv.Partition { return kv.Partition(r.text()) }
func (r hostility) when() time.Time         { return time.Unix(r.number(), r.number()%1e9) }
func (r hostility) span() time.Duration     { return time.Duration(r.number()) }
func (r hostility) count() int              { return int(uint32(r.number())) }

// some calls do several times, or not at all.
func (r hostility) some(do func()) {
	for range r.IntN(1 << r.IntN(8)) {
		do()
	}
}

// body returns a record's body in the format of its kind.
func (r hostility) body(k abi.Kind) []byte {
	switch k {
	case abi.KVGet:
		return abi.Append.Key(nil, kv.Key{Partition: r.partition(), Name: r.text()})
	case abi.KVCommit:
		return abi.Append.Tx(nil, r.tx())
	case abi.KVClaim:
		return abi.Append.Claim(nil,
			abi.Claim{Partition: r.partition(), Now: r.when(), Lease: r.span(), N: r.count()})
	case abi.KVList:
		return abi.Append.List(nil, abi.List{
			Prefix: kv.Key{Partition: r.partition(), Name: r.text()},
			After:  r.text(),
			N:      r.count(),
		})
	case abi.KVSpend:
		s := abi.Spend{Partition: r.partition(), Now: r.when()}
		r.some(func() {
			s.Charges = append(s.Charges, kv.Charge{Name: r.text(), Cost: r.span(), Burst: r.span()})
		})
		return abi.Append.Spend(nil, s)
	case abi.Fetch:
		q := host.FetchRequest{Method: r.text(), URL: r.text(), Header: map[string]string{},
			Body: []byte(r.text()), For: r.text(), Timeout: r.span()}
		r.some(func() { q.Header[r.text()] = r.text() })
		return abi.Append.Fetch(nil, q)
	case abi.Sign, abi.Decrypt:
		return abi.Append.Sign(nil, abi.SignRequest{Key: r.text(), Algorithm: r.text(),
			Message: []byte(r.text())})
	case abi.Verify:
		return abi.Append.Verify(nil, abi.VerifyRequest{Algorithm: r.text(), PublicKey: []byte(r.text()),
			Message: []byte(r.text()), Signature: []byte(r.text())})
	case abi.VerifyProof:
		return abi.Append.VerifyProof(nil, abi.ProofRequest{Statement: host.ProofStatement{Circuit: r.text(),
			DocType: r.text(), SessionTranscript: []byte(r.text()),
			Elements: make([]host.ProvenElement, r.IntN(9))},
			Proof: []byte(r.text())})
	case abi.Measure:
		events := []string{"begun", host.MethodFetched, r.text()}
		return abi.Append.MethodEvent(nil,
			abi.MethodEvent{Method: r.text(), Event: events[r.IntN(len(events))], Reason: r.text()})
	case abi.Respond:
		p := &web.Response{Status: r.count(), Header: web.Header{}, Body: []byte(r.text())}
		r.some(func() { p.Header[r.text()] = []string{r.text(), r.text()} })
		return abi.Append.Response(nil, p)
	case abi.Log:
		l := abi.LogRecord{Level: int8(r.number()), Message: r.text()}
		r.some(func() {
			value, _ := json.Marshal(r.text())
			l.Attrs = append(l.Attrs, abi.LogAttr{Key: r.text(), Value: value})
		})
		return abi.Append.Log(nil, l)
	case abi.UsageEvent:
		ids := []string{"0a4e1f7c-1b2d-4c3e-8f4a-5b6c7d8e9f00", r.text()}
		what := []string{host.OutcomeStarted, r.text()}
		return abi.Append.UsageEvent(nil, host.UsageEvent{Integration: ids[r.IntN(2)],
			Outcome: what[r.IntN(2)],
			Key:     r.text()})
	case abi.Wake:
		return abi.Append.Wake(nil, r.partition(), r.when())
	}
	return []byte(r.text())
}

func (r hostility) tx() kv.Tx {
	tx := kv.Tx{ID: r.text(), Partition: r.partition()}
	r.some(func() { tx.Checks = append(tx.Checks, kv.Check{Name: r.text(), Tx: r.text()}) })
	r.some(func() { tx.Held = append(tx.Held, kv.Held{TaskID: r.text(), Lease: r.text()}) })
	r.some(func() {
		tx.Puts = append(tx.Puts, kv.Put{Name: r.text(), Value: []byte(r.text()), Expires: r.when()})
	})
	r.some(func() { tx.Deletes = append(tx.Deletes, r.text()) })
	r.some(func() {
		tx.Schedule = append(tx.Schedule, kv.Task{ID: r.text(), Due: r.when(), Payload: []byte(r.text())})
	})
	r.some(func() { tx.Cancel = append(tx.Cancel, r.text()) })
	return tx
}

// A module with arbitrary output, in any order, may end only its own guests. Another module of the same
// process and the same store must always respond. No line of the log may be forged. Afterwards the host
// must be in the same state as before.
func TestHostileModule_Random(t *testing.T) {
	each := long.Pick(t, "TestHostileModule_Random", 25, 150)
	seed := faultproxy.Seed(t, 1)
	store := memory.New(memory.Config{})
	log := &lines{t: t}
	var told heard
	engine := func(pkg string) *wasmhost.Engine {
		cfg := config(t, pkg)
		cfg.KV, cfg.Instances, cfg.Observer = store, 2, &told
		cfg.Sign = func(_ context.Context, _, _ string, m []byte) ([]byte, error) { return m, nil }
		cfg.Decrypt = cfg.Sign
		cfg.Log = slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		return start(t, cfg)
	}
	bad, neighbour := engine(badGuest), engine(goodGuest)
	var all sync.WaitGroup
	for w := range 4 {
		r := rand.New(rand.NewPCG(seed, uint64(w)))
		all.Go(func() {
			for range each {
				// Most of these requests never end.
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				resp := bad.Handle(ctx, &web.Request{
					Method: "POST",
					Path:   "/say",
					Header: web.Header{},
					Client: netip.MustParseAddr("192.0.2.1"),
					Body:   hostile(r),
				})
				cancel()
				if resp.Status < 200 || resp.Status > 599 {
					t.Errorf("answered with status %d", resp.Status)
				}
				if r := get(neighbour, t.Context(), "/nowhere"); r.Status != 404 {
					t.Errorf("the other module returns %d", r.Status)
				}
			}
		})
	}
	all.Wait()
	if r := get(bad, t.Context(), "/"); r.Status != 200 {
		t.Errorf("afterwards: %d", r.Status)
	}
	if err := neighbour.Ready(t.Context()); err != nil {
		t.Errorf("afterwards the other module is not ready: %v", err)
	}
	wait.Until(t, "no request is left", func() bool {
		s := bad.Stats()
		return s.InFlight == 0 && s.Queued == 0
	})
	for _, usage := range told.usage {
		if !usage.Valid() {
			t.Errorf("%+v counted as usage", usage)
		}
	}
	for _, event := range told.counts {
		if event != host.CountName(event) {
			t.Errorf("%.40q was counted", event)
		}
	}
	for _, m := range told.measured {
		if again := host.NewMeasurement(m.Method, m.Event, m.Reason); again.Event != m.Event ||
			again.Reason != m.Reason || m.Took != 0 || len(m.Method) > 67 {
			t.Errorf("%.200q was measured", fmt.Sprint(m))
		}
	}
	for _, p := range told.wakes {
		if p != "p0" {
			t.Errorf("a task in %.40q was reported", p)
		}
	}
	t.Logf("%d lines, %d counts, %d wakes", log.count.Load(), len(told.counts), len(told.wakes))
}
