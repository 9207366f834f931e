package attackers

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/keyring"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/sessiontest"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/kvadapters/redis"
	"github.com/verge-id/verge/testharness"
)

// hostName is the host to which the tokens of every harness in dev mode are bound.
const hostName = "127.0.0.1"

// partition is the partition of a harness's sessions.
const partition kv.Partition = "p0"

// cacheLife is longer than the life of any instance's cache.
const cacheLife = 6 * time.Second

var (
	ctx    = context.Background()
	bearer = testharness.Bearer
	form   = testharness.Headers("Content-Type", "application/x-www-form-urlencoded")
)

type body = testharness.Body

// service is a running service, with access to its store.
type service struct {
	*testharness.Harness
	t    *testing.T
	mini *miniredis.Miniredis // nil unless newReadable created it
}

func newService(t *testing.T, o *testharness.Options) *service {
	t.Helper()
	return &service{Harness: testharness.New(t, o), t: t}
}

// newReadable returns a service whose store can be read byte by byte.
func newReadable(t *testing.T) *service {
	t.Helper()
	mini := miniredis.RunT(t)
	mini.SetTime(testharness.Epoch)
	s := newService(t, &testharness.Options{KV: func(func() time.Time) kv.KV {
		store, err := redis.Open(ctx, "redis://"+mini.Addr(), redis.Config{})
		must(t, err)
		t.Cleanup(func() { store.Close() })
		return store
	}})
	s.mini = mini
	return s
}

// sharing returns a service with another ring on the same store.
func (s *service) sharing(ring keyring.File) *service {
	s.t.Helper()
	return newService(s.t, &testharness.Options{Keyring: ring,
		KV: func(func() time.Time) kv.KV { return s.KV }})
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func want(t testing.TB, r *testharness.Response, status int, code string) {
	t.Helper()
	if r.Status != status || r.Code() != code {
		t.Errorf("got %d %s, want %d %s: %s", r.Status, r.Code(), status, code, r.Body)
	}
}

func wantStatus(t testing.TB, s *service, id, status string) {
	t.Helper()
	if r := s.Reconcile(id); r.Status != 200 || r.Text("status") != status {
		t.Errorf("reconcile returned %d %s, want %s", r.Status, r.Body, status)
	}
}

// startAs starts a session with a key, and returns the response.
func (s *service) startAs(header http.Header, change body) *testharness.Response {
	s.t.Helper()
	return s.Do("POST", web.StartPath, header, s.StartBody(change))
}

// startPublic starts a session with L1's public key.
func (s *service) startPublic(header http.Header, change body) *testharness.Response {
	s.t.Helper()
	with := body{"public_key": s.Publisher.L1.PublicKey}
	maps.Copy(with, change)
	return s.startAs(header, with)
}

// flowOf returns the flow token of a redirect_url.
func flowOf(t testing.TB, redirectURL string) string {
	t.Helper()
	u, err := url.Parse(redirectURL)
	must(t, err)
	return u.Query().Get("flow")
}

// ring returns the ring of an attacker who has the file.
func (s *service) ring(file keyring.File, host string) host.Sealer {
	s.t.Helper()
	r, err := file.Ring(host, rand.Reader, s.Now)
	must(s.t, err)
	return r
}

// forge returns a session id of L1 from a ring, dated at.
func (s *service) forge(ring host.Sealer, at time.Time) (sessiontest.ID, string) {
	s.t.Helper()
	id, err := sessiontest.New(rand.Reader, s.Publisher.L1.ID, "L1", at, 0)
	must(s.t, err)
	text, err := id.Format(ring)
	must(s.t, err)
	return id, text
}

// idOf parses an id of the service.
func (s *service) idOf(text string) sessiontest.ID {
	s.t.Helper()
	id, err := sessiontest.Forger{Sealer: s.ring(s.Keyring, hostName)}.ID(text)
	must(s.t, err)
	return id
}

// resultClaims is the content of a result token.
type resultClaims struct {
	Session   string
	Completed time.Time
	Outcome   string
}

// opened returns the content of an authentic result token.
func opened(ring host.Sealer, text string) (c resultClaims, err error) {
	c.Session, c.Completed, c.Outcome, err = sessiontest.Forger{Sealer: ring}.OpenResult(text)
	return c, err
}

// result returns a result token from a ring.
func (s *service) result(ring host.Sealer, c resultClaims) string {
	s.t.Helper()
	text, err := sessiontest.Forger{Sealer: ring}.Result(c.Session, c.Completed, c.Outcome)
	must(s.t, err)
	return text
}

// completed returns the record of a completed session, without a MAC.
func completed(at time.Time) []byte {
	return sessiontest.Forger{}.Completed(at)
}

// outcomeKey returns the key of a session's outcome.
func outcomeKey(id sessiontest.ID) kv.Key { return id.Key() }

// read returns the item under a name.
func (s *service) read(key kv.Key) kv.Item {
	s.t.Helper()
	item, err := s.KV.Get(ctx, key)
	must(s.t, err)
	return item
}

// plant writes to the store without the service. It waits until no instance caches an older value, and
// returns the write's transaction.
func (s *service) plant(key kv.Key, value []byte) string {
	s.t.Helper()
	return s.write(kv.Tx{Partition: key.Partition, Puts: []kv.Put{{Name: key.Name, Value: value}}})
}

func (s *service) write(tx kv.Tx) string {
	s.t.Helper()
	if tx.Partition == integration.Partition { // so that instances do not wait to read their records again
		tx.Puts = append(tx.Puts, kv.Put{Name: "c/generation"})
	}
	var err error
	tx.ID, err = kv.NewTxID(rand.Reader)
	must(s.t, err)
	must(s.t, s.KV.Commit(ctx, tx))
	s.Pause(cacheLife)
	return tx.ID
}

// tasks claims the due tasks, so that the service does not get them.
func (s *service) tasks() []kv.Task {
	s.t.Helper()
	tasks, _, err := s.KV.Claim(ctx, partition, s.Now(), time.Minute, 100)
	must(s.t, err)
	if len(tasks) == 0 {
		s.t.Fatal("no task is due")
	}
	return tasks
}

// dump returns all stored data, with tasks and counters.
func (s *service) dump() string {
	s.t.Helper()
	var b strings.Builder
	for _, key := range s.mini.Keys() {
		fmt.Fprintf(&b, "%s\n", key)
		switch s.mini.Type(key) {
		case "string":
			v, err := s.mini.Get(key)
			must(s.t, err)
			fmt.Fprintf(&b, "\t%s\n", v)
		case "hash":
			fields, err := s.mini.HKeys(key)
			must(s.t, err)
			for _, f := range fields {
				fmt.Fprintf(&b, "\t%s %s\n", f, s.mini.HGet(key, f))
			}
		case "zset":
			members, err := s.mini.ZMembers(key)
			must(s.t, err)
			fmt.Fprintf(&b, "\t%s\n", strings.Join(members, "\n\t"))
		default:
			s.t.Fatalf("%s is a %s, which this test does not read", key, s.mini.Type(key))
		}
	}
	return b.String()
}
