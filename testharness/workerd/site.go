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
)

// Config is what a site runs. Guest needs what verge_config needs, the key ring
// included; everything else may be zero.
type Config struct {
	// Guest is the configuration. An empty BaseURL is the site's own, for
	// which Dev has to be set.
	Guest abi.Config

	// Module is what runs: "" is Verge, "other" is Options.Other.
	Module string

	// Store keeps what the site keeps. Its effects are then carried out in
	// this process, and no alarm is ever set. Nil: the site's Durable Objects.
	Store kv.KV

	// Now is where the site's clock stands until it is moved; then no alarm
	// is ever set, and RunDue does what is due. Zero: the clock runs, Offset
	// before the real one, and alarms are set.
	Now    time.Time
	Offset time.Duration

	HandleTimeout time.Duration // of a public request; 0: 15 s
	FetchTimeout  time.Duration // of a fetch; 0: 10 s
	Places        int           // requests at once; 0: 1024
	Memory        int           // bytes from which on a guest is replaced; 0: 48 MiB
}

// Site is one service. Its methods may be called concurrently.
type Site struct {
	ID       string
	BaseURL  string // http://, a name that only Client and browsers find
	AdminURL string // the operators' side

	server *Server
	t      testing.TB
	made   []byte // what make sends
	client *http.Client

	entering entering

	mu         sync.Mutex
	now        time.Time
	offset     time.Duration
	partitions map[kv.Partition]bool // that were asked for through KV
	keeps      []kv.Partition        // that the guest keeps something in
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

// Configure replaces what the site runs and where its clock stands; what it
// keeps stays. So a store can be had before it is known what will run on it.
func (s *Site) Configure(c Config) {
	s.t.Helper()
	if c.Guest.BaseURL == "" {
		c.Guest.BaseURL = s.BaseURL
	}
	elsewhere := ""
	if c.Store != nil {
		elsewhere = s.entering.carryOut(s.t, c.Store)
	}
	made, err := json.Marshal(map[string]any{
		"store": elsewhere, "guest": c.Guest, "module": c.Module, "handle_ms": c.HandleTimeout.Milliseconds(),
		"fetch_ms": c.FetchTimeout.Milliseconds(),
		"places":   c.Places, "memory": c.Memory,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.mu.Lock()
	s.made, s.now, s.offset = made, c.Now, c.Offset
	s.keeps = []kv.Partition{"c", "limits"} // and behind them those of sessions
	for n := range max(c.Guest.Partitions, 1) {
		s.keeps = append(s.keeps, kv.Partition(fmt.Sprint("p", n)))
	}
	s.mu.Unlock()
	s.make()
}

// make tells the server of the site and where its clock stands.
func (s *Site) make() {
	s.t.Helper()
	s.must(s.server.control(context.Background(), "PUT", s.ID, s.made))
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

// Client sends every request to this site, whatever host its URL names: also
// those for a BaseURL of the test's own. It follows nothing. Its Transport can
// be wrapped in others.
func (s *Site) Client() *http.Client { return s.client }

// Close drops the site and what it keeps.
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

// Now is where the site's clock stands, or what it shows.
func (s *Site) Now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now.IsZero() {
		return time.Now().Add(s.offset)
	}
	return s.now
}

// SetClock moves a clock that stands to an instant.
func (s *Site) SetClock(now time.Time) {
	s.t.Helper()
	s.mu.Lock()
	s.now = now
	s.mu.Unlock()
	s.tellClock()
}

// Advance moves the clock on, one that stands and one that runs. What a clock
// that runs has then passed, its alarms do at once.
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

func (s *Site) tellClock() {
	s.t.Helper()
	s.mu.Lock()
	now, offset := s.now, s.offset
	s.mu.Unlock()
	clock := map[string]any{"offset": strconv.FormatInt(int64(offset), 10), "partitions": s.keeps[2:]}
	if !now.IsZero() {
		clock = map[string]any{"at": strconv.FormatInt(now.UnixNano(), 10)}
	}
	b, err := json.Marshal(clock)
	if err != nil {
		s.t.Fatal(err)
	}
	s.post("clock", b)
}

// RunDue runs everything that is due, and returns when the next thing falls due.
func (s *Site) RunDue(ctx context.Context) (next time.Time, err error) {
	b, err := s.Entry(ctx, abi.RunDue, nil)
	if err != nil {
		return time.Time{}, err
	}
	jobs, err := abi.ReadJobs(b)
	if err != nil {
		return time.Time{}, err
	}
	return jobs.Next, jobs.Outcome.Err()
}

// Entry submits an entry to the site's guest and returns its result. Where
// Config has a Store, the end of ctx ends what that is asked for meanwhile, as
// a host that cancels would, and the guest has the last word.
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
	o, err := abi.ReadOutcome(b)
	if err != nil {
		return err
	}
	return o.Err()
}

// Abandon submits an entry in a context that ends at once, as the platform ends
// that of a request whose client has gone.
func (s *Site) Abandon(e abi.Entry, message []byte) {
	s.t.Helper()
	s.post("abandon", append([]byte{byte(e)}, message...))
}

// Forget has the next request make a new guest, which has read nothing yet.
func (s *Site) Forget() {
	s.t.Helper()
	s.post("forget", nil)
}

// Logs is what the site has logged, one JSON object a line.
func (s *Site) Logs() string {
	s.t.Helper()
	return string(s.post("logs", nil))
}

// Counts is how often each event worth a metric happened.
func (s *Site) Counts() map[string]int {
	s.t.Helper()
	counts := map[string]int{}
	if err := json.Unmarshal(s.post("counts", nil), &counts); err != nil {
		s.t.Errorf("%v", err)
	}
	return counts
}

// BreakAlarm has the end of the next alarm fail: it cannot tell when the next is due.
func (s *Site) BreakAlarm() {
	s.t.Helper()
	s.post("break-alarm", nil)
}

// MostJobs is how many jobs one alarm has run at the most.
func (s *Site) MostJobs() (n int) {
	s.t.Helper()
	if err := json.Unmarshal(s.post("most-jobs", nil), &n); err != nil {
		s.t.Errorf("%v", err)
	}
	return n
}

// Guest is how large the site's guest is, in bytes, and how many requests are
// in it; zeros while there is none.
func (s *Site) Guest() (bytes, live int) {
	s.t.Helper()
	var state struct{ Bytes, Live int }
	if err := json.Unmarshal(s.post("guest", nil), &state); err != nil {
		s.t.Errorf("%v", err)
	}
	return state.Bytes, state.Live
}

// KV is the site's Durable Objects as a store, which is a kv.Meter too.
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

// effect has one carried out. Without a reply nobody can say
// whether it happened; one that was not sent did not.
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
	status, reply, err := s.effect(ctx, key.Partition, abi.KVGet, abi.AppendKey(nil, key))
	if err != nil {
		return kv.Item{}, err
	}
	if status == abi.NotFound {
		return kv.Item{}, kv.ErrNotFound
	}
	return abi.ReadItem(reply)
}

// Commit implements kv.KV.
func (s store) Commit(ctx context.Context, tx kv.Tx) error {
	status, reply, err := s.effect(ctx, tx.Partition, abi.KVCommit, abi.AppendTx(nil, tx))
	if err != nil || status == abi.OK {
		return err
	}
	conflict, err := abi.ReadConflict(reply)
	if err != nil {
		return fmt.Errorf("workerd: %w: %w", kv.ErrUnknown, err)
	}
	return conflict
}

// Claim implements kv.KV.
func (s store) Claim(
	ctx context.Context, p kv.Partition, now time.Time, lease time.Duration, n int,
) ([]kv.Task, time.Time, error) {
	_, reply, err := s.effect(ctx, p, abi.KVClaim, abi.AppendClaim(nil,
		abi.Claim{Partition: p, Now: now, Lease: lease, N: n}))
	if err != nil {
		return nil, time.Time{}, err
	}
	return abi.ReadTasks(reply)
}

// List implements kv.KV.
func (s store) List(ctx context.Context, prefix kv.Key, after string, n int) ([]kv.Item, error) {
	_, reply, err := s.effect(ctx, prefix.Partition, abi.KVList,
		abi.AppendList(nil, abi.List{Prefix: prefix, After: after, N: n}))
	if err != nil {
		return nil, err
	}
	return abi.ReadItems(reply)
}

// Spend implements kv.Meter.
func (s store) Spend(
	ctx context.Context, p kv.Partition, now time.Time, charges []kv.Charge,
) ([]time.Time, error) {
	_, reply, err := s.effect(ctx, p, abi.KVSpend, abi.AppendSpend(nil,
		abi.Spend{Partition: p, Now: now, Charges: charges}))
	if err != nil {
		return nil, err
	}
	return abi.ReadTimes(reply)
}

// Fleet has the tests' entry run isolates that share counters (test/worker.js,
// fleet), and returns what it answers. Both are JSON.
func (s *Server) Fleet(t testing.TB, fleet []byte) []byte {
	t.Helper()
	b, err := s.control(context.Background(), "POST", "fleet", fleet)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
