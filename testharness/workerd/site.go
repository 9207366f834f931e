package workerd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/wasm/abi"
	"github.com/verge-id/verge/wasm/settings"
)

// Config is the configuration of a site. Guest must contain all required values of verge_config, with the key
// ring. All other fields may be zero.
type Config struct {
	// Guest is the configuration. An empty BaseURL stands for the site's own,
	// which needs Dev.
	Guest settings.Config

	// Module is the module that runs: "" is Verge, "other" is Options.Other.
	Module string

	// Store is the site's store. This process then carries out the effects,
	// and no alarm is ever set. Nil: the site's Durable Objects.
	Store kv.KV

	// Now is the time of the site's clock until it is moved. No alarm is set then, and RunDue runs due tasks.
	// Zero: the clock runs, Offset ahead of the real one, and alarms are set.
	Now    time.Time
	Offset time.Duration

	HandleTimeout time.Duration     // of a public request; 0: 15 s
	FetchTimeout  time.Duration     // of a fetch; 0: 10 s
	Places        int               // maximum concurrent requests; 0: 1024
	Keys          map[string]string // private keys by name, each in PEM
	UsageEach     time.Duration     // how often usage is recorded; 0: only by RecordUsage
	Memory        int               // how many bytes a guest may have before it is replaced; 0: 48 MiB
}

// Site is one service. Its methods may be called concurrently.
type Site struct {
	ID       string
	BaseURL  string // http:// and a name that only Client and browsers can resolve
	AdminURL string // the operators' side

	server *Server
	t      testing.TB
	made   map[string]any // the message that make sends
	client *http.Client

	entering entering

	mu         sync.Mutex
	now        time.Time
	offset     time.Duration
	partitions map[kv.Partition]bool // those that KV was asked for
	keeps      []kv.Partition        // those that the guest uses
}

// Site makes a service that ends with the test.
func (s *Server) Site(t testing.TB, c Config) *Site {
	t.Helper()
	id := "h" + strconv.FormatInt(s.ids.Add(1), 10)
	_, port, _ := strings.Cut(s.Addr, ":")
	site := &Site{
		ID: id, BaseURL: "http://" + id + ".localhost:" + port,
		AdminURL: "http://admin-" + id + ".localhost:" + port,
		server:   s, t: t, partitions: map[kv.Partition]bool{},
	}
	own := s.client.Transport.(*transport)
	site.client = &http.Client{Transport: &transport{Transport: own.Transport, server: s, site: id},
		CheckRedirect: s.client.CheckRedirect}
	s.mu.Lock()
	s.sites[id] = site
	s.mu.Unlock()
	t.Cleanup(site.Close)
	site.Configure(c)
	return site
}

// Configure replaces the configuration and the clock of a site. Its stored data remains, so that a test can
// have the store before its configuration.
func (s *Site) Configure(c Config) {
	s.t.Helper()
	if c.Guest.BaseURL == "" {
		c.Guest.BaseURL = s.BaseURL
	}
	elsewhere := ""
	if c.Store != nil {
		elsewhere = s.entering.carryOut(s.t, c.Store)
	}
	made := map[string]any{
		"store": elsewhere, "guest": c.Guest, "module": c.Module, "handle_ms": c.HandleTimeout.Milliseconds(),
		"fetch_ms": c.FetchTimeout.Milliseconds(), "usage_ms": c.UsageEach.Milliseconds(),
		"places": c.Places, "memory": c.Memory, "keys": c.Keys,
	}
	s.mu.Lock()
	s.made, s.now, s.offset = made, c.Now, c.Offset
	s.keeps = []kv.Partition{"c", "limits"} // and then those of sessions
	for n := range max(c.Guest.Partitions, 1) {
		s.keeps = append(s.keeps, kv.Partition(fmt.Sprint("p", n)))
	}
	s.mu.Unlock()
	s.make()
}

// make sends the site and its clock to the server. They are sent together, because an alarm may fire as soon
// as the server has the site.
func (s *Site) make() {
	s.t.Helper()
	clock := s.clock()
	s.mu.Lock()
	s.made["clock"] = clock
	b, err := json.Marshal(s.made)
	s.mu.Unlock()
	if err != nil {
		s.t.Fatal(err)
	}
	s.must(s.server.control(context.Background(), "PUT", s.ID, b))
	s.tellClock()
}

func (s *Site) must(b []byte, err error) []byte {
	s.t.Helper()
	if err != nil {
		s.t.Errorf("%v", err)
	}
	return b
}

func (s *Site) post(what string, body []byte) []byte {
	s.t.Helper()
	return s.must(s.server.control(context.Background(), "POST", s.ID+"/"+what, body))
}

// Client sends every request to this site, for any host of its URL, including
// the test's own BaseURL. It follows no redirect. Its Transport may be
// wrapped in another one.
func (s *Site) Client() *http.Client { return s.client }

// Close drops the site and its store.
func (s *Site) Close() {
	s.server.mu.Lock()
	_, there := s.server.sites[s.ID]
	delete(s.server.sites, s.ID)
	s.server.mu.Unlock()
	if !there {
		return
	}
	if s.t.Failed() {
		s.t.Logf("the site's log:\n%s", s.Logs())
	}
	all := s.keeps
	for p := range s.partitions {
		all = append(all, p)
	}
	b, err := json.Marshal(all)
	if err == nil {
		_, err = s.server.control(context.Background(), "DELETE", s.ID, b)
	}
	if err != nil {
		s.t.Errorf("%v", err)
	}
}

// Now returns the time of the site's clock.
func (s *Site) Now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now.IsZero() {
		return time.Now().Add(s.offset)
	}
	return s.now
}

// SetClock moves a clock that does not run to an instant.
func (s *Site) SetClock(now time.Time) {
	s.t.Helper()
	s.mu.Lock()
	s.now = now
	s.mu.Unlock()
	s.tellClock()
}

// Advance moves the clock forward, whether it runs or not. If it runs, the passed alarms fire immediately.
func (s *Site) Advance(d time.Duration) {
	s.t.Helper()
	s.mu.Lock()
	if s.now.IsZero() {
		s.offset += d
	} else {
		s.now = s.now.Add(d)
	}
	s.mu.Unlock()
	s.tellClock()
}

// clock returns the clock as the server expects it.
func (s *Site) clock() map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.now.IsZero() {
		return map[string]any{"at": strconv.FormatInt(s.now.UnixNano(), 10)}
	}
	return map[string]any{"offset": strconv.FormatInt(int64(s.offset), 10), "partitions": s.keeps[2:]}
}

// tellClock sends the clock to the server, and sets the alarms by it.
func (s *Site) tellClock() {
	s.t.Helper()
	b, err := json.Marshal(s.clock())
	if err != nil {
		s.t.Fatal(err)
	}
	s.post("clock", b)
}

// RunDue runs all due tasks, and returns the time of the next one.
func (s *Site) RunDue(ctx context.Context) (next time.Time, err error) {
	b, err := s.Entry(ctx, abi.RunDue, nil)
	if err != nil {
		return time.Time{}, err
	}
	jobs, err := abi.Read.Jobs(b)
	if err != nil {
		return time.Time{}, err
	}
	return jobs.Next, jobs.Outcome.Err()
}

// Entry submits an entry to the site's guest and returns its result. If Config
// has a Store, the end of ctx also ends the calls to it, as it does in a host that
// cancels. The guest decides on its response then.
func (s *Site) Entry(ctx context.Context, e abi.Entry, message []byte) ([]byte, error) {
	if ctx.Done() != nil && s.entering.here {
		defer s.entering.begin(ctx)()
		ctx = context.WithoutCancel(ctx)
	}
	return s.server.control(ctx, "POST", s.ID+"/entry", append([]byte{byte(e)}, message...))
}

// Ready reports whether the site's KV answers its guest.
func (s *Site) Ready(ctx context.Context) error {
	b, err := s.Entry(ctx, abi.Ready, nil)
	if err != nil {
		return err
	}
	o, err := abi.Read.Outcome(b)
	if err != nil {
		return err
	}
	return o.Err()
}

// Abandon submits an entry in a context that ends immediately, like the platform ends the context of a
// disconnected client's request.
func (s *Site) Abandon(e abi.Entry, message []byte) {
	s.t.Helper()
	s.post("abandon", append([]byte{byte(e)}, message...))
}

// Forget makes the next request use a new guest, which has read nothing yet.
func (s *Site) Forget() {
	s.t.Helper()
	s.post("forget", nil)
}

// Logs returns the site's log, one JSON object per line.
func (s *Site) Logs() string {
	s.t.Helper()
	return string(s.post("logs", nil))
}

// Counts is how often each event that has a metric happened.
func (s *Site) Counts() map[string]int {
	s.t.Helper()
	counts := map[string]int{}
	if err := json.Unmarshal(s.post("counts", nil), &counts); err != nil {
		s.t.Errorf("%v", err)
	}
	return counts
}

// RecordUsage has the site's isolate record its counts of usage.
func (s *Site) RecordUsage() error {
	s.mu.Lock()
	for n := range 8 { // so that Close removes them
		s.partitions[kv.Partition(fmt.Sprint("u", n))] = true
	}
	s.mu.Unlock()
	_, err := s.server.control(context.Background(), "POST", s.ID+"/record-usage", nil)
	return err
}

// Measured returns the site's measurements of verification methods, in order.
func (s *Site) Measured() (all []measured) {
	s.t.Helper()
	if err := json.Unmarshal(s.post("measured", nil), &all); err != nil {
		s.t.Fatal(err)
	}
	return all
}

// measured is an event of a verification method.
type measured struct {
	Method, Event, Reason string
	Seconds               float64
}

// Effect has the site carry out an effect and returns the reply.
func (s *Site) Effect(kind abi.Kind, body []byte) (abi.Status, []byte) {
	s.t.Helper()
	reply := s.post("effect", append([]byte{byte(kind)}, body...))
	if len(reply) == 0 {
		s.t.Fatal("an effect without a reply")
	}
	return abi.Status(reply[0]), reply[1:]
}

// BreakAlarm makes the next alarm fail at its end, when it sets the following alarm.
func (s *Site) BreakAlarm() {
	s.t.Helper()
	s.post("break-alarm", nil)
}

// BreakCrypto makes the next call of that function of WebCrypto fail, as if the platform did not have the
// algorithm.
func (s *Site) BreakCrypto(function string) {
	s.t.Helper()
	s.post("break-crypto", []byte(function))
}

// MostJobs is the largest number of jobs that one alarm has run.
func (s *Site) MostJobs() (n int) {
	s.t.Helper()
	if err := json.Unmarshal(s.post("most-jobs", nil), &n); err != nil {
		s.t.Errorf("%v", err)
	}
	return n
}

// Guest is the size of the site's guest, in bytes, and the number of requests in
// it. Both are zero while there is no guest.
func (s *Site) Guest() (bytes, live int) {
	s.t.Helper()
	var state struct{ Bytes, Live int }
	if err := json.Unmarshal(s.post("guest", nil), &state); err != nil {
		s.t.Errorf("%v", err)
	}
	return state.Bytes, state.Live
}

// KV is the site's Durable Objects as a store. It is also a kv.Meter.
func (s *Site) KV() kv.KV {
	return store{func(ctx context.Context, p kv.Partition, message []byte) ([]byte, error) {
		s.mu.Lock()
		s.partitions[p] = true
		s.mu.Unlock()
		return s.server.control(ctx, "POST", s.ID+"/effect", message)
	}}
}

// store has Durable Objects carry out effects. ask sends a partition's, a kind
// and the body, and returns a status and the reply.
type store struct {
	ask func(ctx context.Context, p kv.Partition, message []byte) ([]byte, error)
}

var (
	_ kv.KV    = store{}
	_ kv.Meter = store{}
)

// effect has a Durable Object carry out one effect. Without a reply, its outcome is
// unknown, unless it was not sent.
func (s store) effect(
	ctx context.Context, p kv.Partition, k abi.Kind, body []byte,
) (abi.Status, []byte, error) {
	if err := context.Cause(ctx); err != nil {
		return abi.Unavailable, nil, fmt.Errorf("workerd: %w: %w", kv.ErrUnavailable, err)
	}
	reply, err := s.ask(ctx, p, append([]byte{byte(k)}, body...))
	if err != nil || len(reply) == 0 {
		is := kv.ErrUnavailable
		if k == abi.KVCommit {
			is = kv.ErrUnknown
		}
		return abi.Failed, nil, fmt.Errorf("workerd: %w: %w", is, errors.Join(err))
	}
	status, reply := abi.Status(reply[0]), reply[1:]
	if status == abi.Unavailable || status == abi.Unknown {
		return status, reply, abi.Outcome{Status: status, Text: string(reply)}.Err()
	}
	return status, reply, nil
}

// Get implements kv.KV.
func (s store) Get(ctx context.Context, key kv.Key) (kv.Item, error) {
	status, reply, err := s.effect(ctx, key.Partition, abi.KVGet, abi.Append.Key(nil, key))
	if err != nil {
		return kv.Item{}, err
	}
	if status == abi.NotFound {
		return kv.Item{}, kv.ErrNotFound
	}
	return abi.Read.Item(reply)
}

// Commit implements kv.KV.
func (s store) Commit(ctx context.Context, tx kv.Tx) error {
	status, reply, err := s.effect(ctx, tx.Partition, abi.KVCommit, abi.Append.Tx(nil, tx))
	if err != nil || status == abi.OK {
		return err
	}
	conflict, err := abi.Read.Conflict(reply)
	if err != nil {
		return fmt.Errorf("workerd: %w: %w", kv.ErrUnknown, err)
	}
	return conflict
}

// Claim implements kv.KV.
func (s store) Claim(
	ctx context.Context, p kv.Partition, now time.Time, lease time.Duration, n int,
) ([]kv.Task, time.Time, error) {
	_, reply, err := s.effect(ctx, p, abi.KVClaim, abi.Append.Claim(nil,
		abi.Claim{Partition: p, Now: now, Lease: lease, N: n}))
	if err != nil {
		return nil, time.Time{}, err
	}
	return abi.Read.Tasks(reply)
}

// List implements kv.KV.
func (s store) List(ctx context.Context, prefix kv.Key, after string, n int) ([]kv.Item, error) {
	_, reply, err := s.effect(ctx, prefix.Partition, abi.KVList,
		abi.Append.List(nil, abi.List{Prefix: prefix, After: after, N: n}))
	if err != nil {
		return nil, err
	}
	return abi.Read.Items(reply)
}

// Spend implements kv.Meter.
func (s store) Spend(
	ctx context.Context, p kv.Partition, now time.Time, charges []kv.Charge,
) ([]time.Time, error) {
	_, reply, err := s.effect(ctx, p, abi.KVSpend, abi.Append.Spend(nil,
		abi.Spend{Partition: p, Now: now, Charges: charges}))
	if err != nil {
		return nil, err
	}
	return abi.Read.Times(reply)
}

// Fleet has the tests' entry run isolates that share counters (fleet in
// test/worker.js), and returns its answer. Both are JSON.
func (s *Server) Fleet(t testing.TB, fleet []byte) []byte {
	t.Helper()
	b, err := s.control(context.Background(), "POST", "fleet", fleet)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
