package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/spf13/afero"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters/etcd"
	"github.com/verge-id/verge/kvadapters/kvtest"
	"github.com/verge-id/verge/kvadapters/kvtest/promises"
	"github.com/verge-id/verge/kvadapters/memory"
	"github.com/verge-id/verge/kvadapters/redis"
	"github.com/verge-id/verge/testharness/stores"
)

// checkable is a store to check, and all that lies in it.
type checkable struct {
	url  string
	keys func() map[string]string // to their values
}

func miniredisHere(t *testing.T) (*miniredis.Miniredis, checkable) {
	m := miniredis.RunT(t)
	m.ClockTTL(true)
	return m, checkable{"redis://" + m.Addr(), func() map[string]string {
		keys := map[string]string{}
		for _, key := range m.Keys() {
			keys[key] = ""
		}
		if len(keys) > 0 {
			keys["values"] = m.Dump()
		}
		return keys
	}}
}

func keysOf(servers ...*stores.Redis) func() map[string]string {
	return func() map[string]string {
		keys := map[string]string{}
		for _, s := range servers {
			found, _ := s.Do("keys", "*").([]any)
			for _, key := range found {
				keys[key.(string)] = fmt.Sprint(s.Do("dump", key))
			}
			if n := s.Do("dbsize").(int64); n != int64(len(found)) {
				keys["dbsize"] = fmt.Sprint(n) // counts what has expired and still takes space
			}
		}
		return keys
	}
}

func etcdHere(e *stores.Etcd) checkable {
	client := e.Client()
	return checkable{e.URL("verge"), func() map[string]string {
		all, err := client.Get(context.Background(), "", clientv3.WithPrefix())
		if err != nil {
			return map[string]string{"error": err.Error()}
		}
		keys := map[string]string{}
		for _, found := range all.Kvs {
			keys[string(found.Key)] = fmt.Sprint(found.ModRevision, string(found.Value))
		}
		return keys
	}}
}

var checkables = []struct {
	name string
	open func(t *testing.T) checkable
}{
	{"memory", func(*testing.T) checkable { return checkable{keys: func() map[string]string { return nil }} }},
	{"miniredis", func(t *testing.T) checkable { _, c := miniredisHere(t); return c }},
	{"redis", func(t *testing.T) checkable {
		s := stores.StartRedis(t, stores.Durable...)
		return checkable{s.URL(), keysOf(s)}
	}},
	{"cluster", func(t *testing.T) checkable {
		nodes := stores.StartCluster(t, 3)
		return checkable{nodes.URL(), keysOf(nodes...)}
	}},
	{"etcd", func(t *testing.T) checkable { return etcdHere(stores.StartEtcd(t)) }},
	{"bolt", func(t *testing.T) checkable {
		dir := t.TempDir()
		return checkable{"bolt:" + filepath.Join(dir, "verge.db"), func() map[string]string {
			keys := map[string]string{}
			filepath.WalkDir(dir, func(path string, _ os.DirEntry, _ error) error {
				if path != dir {
					b, _ := os.ReadFile(path)
					keys[path] = string(b)
				}
				return nil
			})
			return keys
		}}
	}},
}

// inMemory is a scratch place without an operator's store below it.
type inMemory struct{}

func (inMemory) where() string                          { return "nowhere" }
func (inMemory) about(context.Context) (kvAbout, error) { return kvAbout{Server: "memory"}, nil }
func (inMemory) more() []kvProof                        { return nil }
func (inMemory) erase(context.Context) error            { return nil }
func (inMemory) close() error                           { return nil }
func (inMemory) store(string) (promises.Harness, error) {
	return promises.Harness{KV: memory.New(memory.Config{})}, nil
}

// bent is a scratch place whose stores are not what they were.
type bent struct {
	scratch
	bend func(kv.KV) kv.KV
}

func (b bent) store(name string) (promises.Harness, error) {
	h, err := b.scratch.store(name)
	if err == nil {
		h.KV = b.bend(h.KV)
	}
	return h, err
}

// forgetful is a store that leaves parts of what it is told out.
type forgetful struct {
	kv.KV
	forget func(*kv.Tx)
}

func (f forgetful) Commit(ctx context.Context, tx kv.Tx) error {
	f.forget(&tx)
	return f.KV.Commit(ctx, tx)
}

func forget(what func(*kv.Tx)) func(context.CancelFunc) func(kv.KV) kv.KV {
	return func(context.CancelFunc) func(kv.KV) kv.KV {
		return func(store kv.KV) kv.KV { return forgetful{store, what} }
	}
}

type panicky struct{ kv.KV }

func (panicky) List(context.Context, kv.Key, string, int) ([]kv.Item, error) { panic("out of cheese") }

// endAt ends the check at one of its commits.
func endAt(n int64) func(context.CancelFunc) func(kv.KV) kv.KV {
	return func(end context.CancelFunc) func(kv.KV) kv.KV {
		var commits atomic.Int64
		return func(store kv.KV) kv.KV {
			return forgetful{store, func(*kv.Tx) {
				if commits.Add(1) == n {
					end()
				}
			}}
		}
	}
}

// TestKVCheck checks every kind of store that holds data of others: whole
// ones, broken ones, and until somebody says stop. Afterwards every key is
// as it was.
func TestKVCheck(t *testing.T) {
	cases := []struct {
		name  string
		bend  func(context.CancelFunc) func(kv.KV) kv.KV // nil: as it is
		wants []string                                   // in the output
		every bool                                       // kind of store, and not memory alone, which costs nothing
	}{
		{"a store that keeps its promises", nil, []string{"atomicity proven", "read your writes proven", "values proven", "order proven", "expiry proven",
			"leases proven", "items were gone at most", "round trips Commit", "clocks", "Not tried:", "OK: all "}, true},
		{"a store that ignores checks", forget(func(tx *kv.Tx) { tx.Checks = nil }), []string{"atomicity FAILED",
			"a check without Tx holds only while there is no item", "the commit went through, but a is there", "order proven"}, true},
		{"a store that ignores leases", forget(func(tx *kv.Tx) { tx.Held = nil }), []string{"leases FAILED",
			"Held is lost once another claim took over", "order proven"}, false},
		{"a store that ignores expiry", forget(func(tx *kv.Tx) {
			tx.Puts = slices.Clone(tx.Puts)
			for i := range tx.Puts {
				tx.Puts[i].Expires = time.Time{}
			}
		}), []string{"expiry FAILED", "an item is there until its time", "ms after its time", "order proven"}, false},
		{"a store that expires early", forget(func(tx *kv.Tx) {
			tx.Puts = slices.Clone(tx.Puts)
			for i, p := range tx.Puts {
				if !p.Expires.IsZero() {
					tx.Puts[i].Expires = p.Expires.Add(-50 * time.Millisecond)
				}
			}
		}), []string{"expiry FAILED", "an item was gone", "ms before its time", "order proven"}, false},
		{"a store that panics", func(context.CancelFunc) func(kv.KV) kv.KV { return func(s kv.KV) kv.KV { return panicky{s} } },
			[]string{"order FAILED", "panic: out of cheese", "atomicity proven"}, false},
		{"a store that loses replies", func(context.CancelFunc) func(kv.KV) kv.KV {
			return func(s kv.KV) kv.KV {
				return &kvtest.Faulty{KV: s, Decide: func(c kvtest.Call) kvtest.Fault {
					if c.Method == "Commit" && len(c.Tx.Cancel) > 0 {
						return kvtest.LoseReply
					}
					return kvtest.Pass
				}}
			}
		}, []string{"leases FAILED", "outcome unknown", "order FAILED", "show only that the store refused, or did not answer in time"}, false},
		{"an end at the first commit", endAt(1), []string{"Stopped: interrupted", "FAILED: nothing was proven"}, false},
		{"an end among the round trips", endAt(100), []string{"Stopped: interrupted", "FAILED: nothing was proven"}, false},
		{"an end among the promises", endAt(300), []string{"round trips", "Stopped: interrupted", "promises were proven"}, true},
		{"a later end among the promises", endAt(1200), []string{"round trips", "Stopped: interrupted", "promises were proven"}, false},
	}
	for _, store := range checkables {
		t.Run(store.name, func(t *testing.T) {
			t.Parallel()
			target := store.open(t)
			if target.url != "" {
				liveOn(t, target.url)
			}
			before := target.keys()
			if len(before) == 0 && target.url != "" {
				t.Fatal("the store is empty, so nothing could be harmed")
			}
			// They mostly sleep, so all at once, on however few cores.
			var running sync.WaitGroup
			for _, c := range cases {
				if !c.every && store.name != "memory" || c.bend != nil && store.name == "miniredis" {
					continue // miniredis works within this process, and hard
				}
				running.Go(func() {
					t.Run(c.name, func(t *testing.T) {
						p, stdout, _ := testProgram()
						command := &kvCheckCmd{URL: target.url, Timeout: lifeSpan(time.Minute)}
						name, err := scratchName(p.random)
						if err != nil {
							t.Fatal(err)
						}
						var at storeAt
						var s scratch = inMemory{}
						if target.url != "" {
							if at, err = command.store(p); err != nil {
								t.Fatal(err)
							}
							if s, err = openScratch(t.Context(), at, name, p.now); err != nil {
								t.Fatal(err)
							}
						}
						ctx, end := context.WithCancel(t.Context())
						defer end()
						if c.bend != nil {
							s = bent{s, c.bend(end)}
						}
						err = command.check(ctx, p, at.String(), s)
						var said saidError
						if errors.As(err, &said) != (c.bend != nil) || err != nil && c.bend == nil {
							t.Errorf("error %v", err)
						}
						flat := strings.Join(strings.Fields(stdout.String()), " ")
						for _, want := range append(c.wants, "Nothing is left of the check.") {
							if !strings.Contains(flat, want) {
								t.Errorf("want %q in:\n%s", want, stdout)
							}
						}
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
				t.Errorf("the store held\n%q before and\n%q after", slices.Sorted(maps.Keys(before)), slices.Sorted(maps.Keys(after)))
			}
		})
	}
}

// liveOn writes what a service would have there.
func liveOn(t *testing.T, url string) {
	t.Helper()
	at, err := parseStore(url)
	if err != nil {
		t.Fatal(err)
	}
	store, shut, err := at.open(t.Context(), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	defer shut()
	for _, p := range []kv.Partition{"p0", "s-1", "config"} {
		err := store.Commit(t.Context(), kv.Tx{ID: "live", Partition: p,
			Puts:     []kv.Put{{Name: "a", Value: []byte("1")}, {Name: "b", Expires: time.Now().Add(time.Hour)}},
			Schedule: []kv.Task{{ID: "t", Due: time.Now().Add(time.Hour)}}})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestKVCheckRefusals gives the command what it cannot check.
func TestKVCheckRefusals(t *testing.T) {
	m, _ := miniredisHere(t)
	m.RequireUserAuth("verge", "right")
	closed := "127.0.0.1:1" // nobody listens there
	for _, c := range []struct {
		name, url string
		code      int
		wants     string
	}{
		{"no store named", "", exitUsage, "name the store to check"},
		{"a store of Verge's own", "memory", exitUsage, "nothing of yours to check"},
		{"another store of Verge's own", "miniredis", exitUsage, "nothing of yours to check"},
		{"a scheme mistyped", "reddis://verge:wr0ng@" + m.Addr(), exitUsage, "there is no store for reddis:// URLs"},
		{"an unknown variety", "redis+clutser://verge:wr0ng@" + m.Addr(), exitUsage, "want redis, redis+cluster or redis+sentinel"},
		{"a port mistyped", "redis://verge:wr0ng@127.0.0.1:x", exitUsage, "is not user:password@host:port"},
		{"a password not escaped", "redis://verge:wr0ng%zz@" + m.Addr(), exitUsage, "escape special characters"},
		{"an option that breaks promises", "redis://" + m.Addr() + "?max_retries=3", exitUsage, "max_retries"},
		{"an etcd URL with a query", "etcd://verge:wr0ng@" + closed + "?x=1", exitUsage, "has a query"},
		{"a bolt file without a name", "bolt:", exitUsage, "it needs a file"},
		{"a wrong password", "redis://verge:wr0ng@" + m.Addr(), exitFailed, "user and password are not the server's"},
		{"no password", "redis://" + m.Addr(), exitFailed, "the server wants a password"},
		{"nobody listens", "redis://verge:wr0ng@" + closed, exitFailed, "connection refused"},
		{"no etcd listens", "etcd://verge:wr0ng@" + closed, exitFailed, "connection refused"},
		{"no socket", "unix:///nowhere/redis.sock", exitFailed, "no such file"},
		{"not a Cluster", "redis+cluster://" + closed, exitFailed, "connection refused"},
		{"no etcd, but something else", "etcd://" + m.Addr(), exitFailed, "does a server of this kind listen there"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p, stdout, stderr := testProgram()
			args := []string{"kv", "check"}
			if c.url != "" {
				args = append(args, c.url)
			}
			if code := run(t.Context(), args, p); code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			if !strings.Contains(stderr.String(), c.wants) || stdout.Len() > 0 {
				t.Errorf("got %q and %q, want %q", stdout, stderr, c.wants)
			}
			if strings.Contains(stderr.String(), "wr0ng") {
				t.Errorf("the password is in %q", stderr)
			}
		})
	}
}

// TestKVCheckTakesWhatServeTakes reads the store's settings from a
// configuration, and over them from flags.
func TestKVCheckTakesWhatServeTakes(t *testing.T) {
	m, _ := miniredisHere(t)
	m.RequireUserAuth("verge", "right")
	p, stdout, stderr := testProgram()
	for name, text := range map[string]string{
		"/verge.toml": "kv = \"redis://verge@" + m.Addr() + "\"\n[store]\npassword_file = \"/password\"\nprefix = \"ours\"\n",
		"/password":   "right\n",
		"/wrong":      "wr0ng\n",
	} {
		if err := afero.WriteFile(p.fs, name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if code := run(t.Context(), []string{"kv", "check", "--config", "/verge.toml", "--json"}, p); code != exitOK {
		t.Fatalf("exit code %d: %s%s", code, stdout, stderr)
	}
	var r struct {
		kvReport
		Settings []kvSetting
	}
	if err := json.Unmarshal(stdout.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	if r.Store != "redis://"+m.Addr() || !r.OK || !r.CleanedUp || !strings.HasPrefix(r.Scratch, "{ours:verge-check-") || r.Error != "" {
		t.Errorf("got %+v", r.kvReport)
	}
	if len(r.RoundTrips) != 2 || r.RoundTrips[0].N == 0 || r.RoundTrips[0].MedianMS <= 0 || r.RoundTrips[0].P99MS < r.RoundTrips[0].MedianMS {
		t.Errorf("round trips %+v", r.RoundTrips)
	}
	if r.Expiry == nil || r.Expiry.N != kvItems || len(r.NotProven) != 3 || len(r.Clocks) != 1 {
		t.Errorf("expiry %+v, not proven %+v, clocks %+v", r.Expiry, r.NotProven, r.Clocks)
	}
	for _, s := range r.Subjects {
		if len(s.Promises) == 0 || s.Name == "" {
			t.Errorf("subject %+v", s)
		}
		for _, promise := range s.Promises {
			if !promise.Proven || promise.Name == "" || promise.Seen != "" {
				t.Errorf("%s: %+v", s.Name, promise)
			}
		}
	}
	if strings.Contains(stdout.String(), "right") {
		t.Errorf("the password is in %s", stdout)
	}

	p.stdout, p.stderr = new(bytes.Buffer), stderr
	if code := run(t.Context(), []string{"kv", "check", "--config", "/verge.toml", "--password-file", "/wrong"}, p); code != exitFailed || !strings.Contains(stderr.String(), "are not the server's") {
		t.Errorf("with a wrong --password-file: exit code %d, %s", code, stderr)
	}
}

// TestKVCheckOfAClockThatIsOff proves the promises by the server's clock and
// warns about it.
func TestKVCheckOfAClockThatIsOff(t *testing.T) {
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
	p, stdout, _ := testProgram()
	s, err := openScratch(t.Context(), storeAt{kind: "redis", url: target.url}, "verge-check-x", p.now)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	r := checkKV(t.Context(), target.url, s, p.now, time.Second, newKVPrinter(p.stdout))
	flat := strings.Join(strings.Fields(stdout.String()), " ")
	if want := "clocks WARNING the server's is 1m30s ahead of"; !strings.Contains(flat, want) {
		t.Errorf("want %q in:\n%s", want, stdout)
	}
	if len(r.Warnings) == 0 || !strings.Contains(r.Warnings[0], "the clock of "+m.Addr()+" is 1m30s ahead of") {
		t.Errorf("warnings %q", r.Warnings)
	}
	// This server's clock moves in fits, which the measuring of expiry may notice.
	for _, subject := range r.Subjects {
		for _, promise := range subject.Promises {
			if !promise.Proven && promise.Name != "an item is there until its time and gone from then on" {
				t.Errorf("%s: %+v", subject.Name, promise)
			}
		}
	}
}

func TestKVCheckWordsOfClocks(t *testing.T) {
	for _, c := range []struct {
		clocks []kvClock
		wants  []string
	}{
		{[]kvClock{{"a", 0.4, 0.5}}, []string{"clocks good the server's is the same as this machine's, to within 0.50 ms"}},
		{[]kvClock{{"a", -20, 0.5}}, []string{"clocks good the server's is 20.0 ms behind this machine's, give or take 0.50 ms"}},
		{[]kvClock{{"a", 999, 0.5}}, []string{"clocks good the server's is 999 ms ahead of"}},
		{[]kvClock{{"a", 1000, 0.5}}, []string{"clocks WARNING", "the clock of a is 1000 ms ahead of", "gone so much too early", "a token may be used again", "NTP"}},
		{[]kvClock{{"a", -30_000, 0.5}}, []string{"clocks WARNING the server's is 30s behind", "too late", "stay longer"}},
		{[]kvClock{{"a", 2, 0.5}, {"b", -3000, 0.5}, {"c", 1, 0.5}}, []string{"clocks WARNING of 3 servers the worst, b, is 3000 ms behind"}},
	} {
		var said bytes.Buffer
		r := &kvReport{kvAbout: kvAbout{Clocks: c.clocks}}
		newKVPrinter(&said).clocks(r)
		fmt.Fprint(&said, r.worstClock().meaning())
		for _, want := range c.wants {
			if flat := strings.Join(strings.Fields(said.String()), " "); !strings.Contains(flat, want) {
				t.Errorf("%v: want %q in %q", c.clocks, want, flat)
			}
		}
	}
}

func TestKVCheckWithTheDocumentedPermissions(t *testing.T) {
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		s := stores.StartRedis(t)
		acl := "~{verge:* +get +set +del +mget +zadd +zrem +zcard +zrangebyscore +zrangebylex +hset +hget +hdel +hlen" +
			" +eval +evalsha +time +wait +info +ping +client +hello"
		s.Do(append([]any{"acl", "setuser", "verge", "on", ">right"}, words(acl)...)...)
		p, stdout, stderr := testProgram()
		url := "redis://verge:right@" + s.Addr()
		if code := run(t.Context(), []string{"kv", "check", url}, p); code != exitOK {
			t.Errorf("exit code %d: %s%s", code, stdout, stderr)
		}
		if !strings.Contains(stdout.String(), "the rest may not be asked") || strings.Contains(stdout.String(), "right@") {
			t.Errorf("want what may not be asked, and no password, in:\n%s", stdout)
		}
		s.Do("acl", "setuser", "verge", "-hset")
		p, _, stderr = testProgram()
		if code := run(t.Context(), []string{"kv", "check", url}, p); code != exitFailed || !strings.Contains(stderr.String(), "the ACL user may not do this") {
			t.Errorf("without hset: exit code %d, %s", code, stderr)
		}
		if n := s.Do("dbsize").(int64); n != 0 {
			t.Errorf("%d keys are left: %v", n, s.Do("keys", "*"))
		}
	})
	t.Run("etcd", func(t *testing.T) {
		t.Parallel()
		e := stores.StartEtcd(t)
		client := e.Client()
		must := func(_ any, err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		ctx := t.Context()
		must(client.UserAdd(ctx, "root", "root"))
		must(client.UserGrantRole(ctx, "root", "root"))
		must(client.RoleAdd(ctx, "verge"))
		must(client.RoleGrantPermission(ctx, "verge", "verge/", clientv3.GetPrefixRangeEnd("verge/"), clientv3.PermissionType(clientv3.PermReadWrite)))
		must(client.UserAdd(ctx, "verge", "right"))
		must(client.UserGrantRole(ctx, "verge", "verge"))
		must(client.AuthEnable(ctx))
		p, stdout, stderr := testProgram()
		if code := run(ctx, []string{"kv", "check", "etcd://verge:right@" + e.Addr}, p); code != exitOK {
			t.Errorf("exit code %d: %s%s", code, stdout, stderr)
		}
		for prefix, want := range map[string]string{"verge:right@" + e.Addr + "/other": "grant the user's role readwrite", "verge:wr0ng@" + e.Addr: "user or password is wrong"} {
			p, _, stderr = testProgram()
			if code := run(ctx, []string{"kv", "check", "etcd://" + prefix}, p); code != exitFailed || !strings.Contains(stderr.String(), want) || strings.Contains(stderr.String(), "wr0ng") {
				t.Errorf("%s: exit code %d, %s, want %q", prefix, code, stderr, want)
			}
		}
	})
}

func words(s string) (all []any) {
	for _, w := range strings.Fields(s) {
		all = append(all, w)
	}
	return all
}

// TestKVCheckInterrupted sends the process a signal, as Ctrl-C does.
func TestKVCheckInterrupted(t *testing.T) {
	_, target := miniredisHere(t)
	verge, err := exec.LookPath("verge") // this test binary, see TestMain
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(verge, "kv", "check", target.url)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	var said strings.Builder
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		fmt.Fprintln(&said, lines.Text())
		if strings.Contains(lines.Text(), "clocks") {
			if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
		}
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != exitFailed {
		t.Errorf("ended with %v, want exit code %d", err, exitFailed)
	}
	if !strings.Contains(said.String(), "interrupted") || len(target.keys()) != 0 {
		t.Errorf("%d keys are left, and it said:\n%s", len(target.keys()), said.String())
	}
}

// TestKVCheckOfAStoreThatGoesAway says what is left where it cannot clean up.
func TestKVCheckOfAStoreThatGoesAway(t *testing.T) {
	m, target := miniredisHere(t)
	p, stdout, _ := testProgram()
	s, err := openScratch(t.Context(), storeAt{kind: "redis", url: target.url}, "verge-check-x", p.now)
	if err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	s = bent{s, func(store kv.KV) kv.KV {
		return forgetful{store, func(tx *kv.Tx) {
			if tx.ID == "n20" {
				once.Do(m.Close)
			}
		}}
	}}
	r := checkKV(t.Context(), target.url, s, p.now, time.Second, newKVPrinter(p.stdout))
	if r.OK || r.CleanedUp || !strings.Contains(r.Error, "could not clean up") || !strings.Contains(stdout.String(), "What is left of the check lies under {verge:verge-check-x") {
		t.Errorf("%+v\n%s", r, stdout)
	}
}

// TestKVCheckOfAFrozenServer stops a server under the check: requests whose
// callers have long left are carried out when it goes on, and leave nothing.
func TestKVCheckOfAFrozenServer(t *testing.T) {
	server := stores.StartRedis(t)
	p, stdout, _ := testProgram()
	at := storeAt{kind: "redis", url: server.URL() + "?read_timeout=200ms"}
	s, err := openScratch(t.Context(), at, "verge-check-x", p.now)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	var commits atomic.Int64
	var thawed sync.WaitGroup
	s = bent{s, func(store kv.KV) kv.KV {
		return forgetful{store, func(*kv.Tx) {
			if commits.Add(1) == 600 { // of some hundred at the same time
				server.Freeze()
				thawed.Go(func() { time.Sleep(time.Second); server.Thaw() })
			}
		}}
	}}
	r := checkKV(t.Context(), server.URL(), s, p.now, kvEraseTime, newKVPrinter(p.stdout))
	thawed.Wait()
	if r.OK || !r.CleanedUp || server.Do("dbsize").(int64) != 0 {
		t.Errorf("ok %v, cleaned up %v, left %v, and said:\n%s", r.OK, r.CleanedUp, server.Do("keys", "*"), stdout)
	}
}

// slow is a store whose caller may leave while the write goes on, as on a network.
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

// erasedWhen notes how many writes were under way each time the place was erased.
type erasedWhen struct {
	scratch
	underWay *atomic.Int64
	seen     []int64
}

func (e *erasedWhen) erase(ctx context.Context) error {
	e.seen = append(e.seen, e.underWay.Load())
	return e.scratch.erase(ctx)
}

// TestKVCheckErasesWhenNothingIsUnderWay ends checks among their writes. What a
// server has in a queue nobody can wait for: after an end, it is erased twice.
func TestKVCheckErasesWhenNothingIsUnderWay(t *testing.T) {
	for _, at := range []int64{50, 450, 700} {
		var underWay, commits atomic.Int64
		ctx, end := context.WithCancel(t.Context())
		s := &erasedWhen{bent{inMemory{}, func(store kv.KV) kv.KV {
			return slow{forgetful{store, func(*kv.Tx) {
				if commits.Add(1) == at {
					end()
				}
			}}, &underWay}
		}}, &underWay, nil}
		p, _, _ := testProgram()
		r := checkKV(ctx, "memory", s, p.now, time.Second, newKVPrinter(p.stdout))
		if !slices.Equal(s.seen, []int64{0, 0}) || r.OK {
			t.Errorf("ended at commit %d: erased while %v writes were under way, want none twice; ok %v", at, s.seen, r.OK)
		}
	}
}

func TestAboutRedis(t *testing.T) {
	server := func(addr string, settings ...string) redis.Server {
		s := redis.Server{Addr: addr, Product: "Redis 7.0.0", Replicas: "0", Settings: map[string]string{}}
		for i := 0; i+1 < len(settings); i += 2 {
			s.Settings[settings[i]] = settings[i+1]
		}
		return s
	}
	safe := []string{"appendonly", "yes", "appendfsync", "always", "maxmemory", "1000", "maxmemory-policy", "noeviction", "min-replicas-to-write", "1"}
	with := func(extra ...string) []string { return append(slices.Clone(safe), extra...) }
	replicated := server("a", safe...)
	replicated.Replicas = "1"
	cutOff := server("a", with("min-replicas-to-write", "0")...)
	cutOff.Replicas = "1"
	for _, c := range []struct {
		name     string
		servers  []redis.Server
		replicas int
		says     string
		warnings []string
	}{
		{"safe", []redis.Server{server("a", safe...)}, 0, "keeps every write through kill -9 and a power cut", nil},
		{"everysec", []redis.Server{server("a", with("appendfsync", "everysec")...)}, 0, "a power cut the last second", []string{"appendfsync"}},
		{"no log", []redis.Server{server("a", with("appendonly", "no")...)}, 0, "a restart forgets everything", []string{"appendonly"}},
		{"one of two has no log", []redis.Server{server("a", safe...), server("b", with("appendonly", "no")...)}, 0, "a restart forgets everything", []string{"appendonly"}},
		{"nothing may be asked", []redis.Server{{Addr: "a"}}, 0, "may not be asked", nil},
		{"no bound", []redis.Server{server("a", with("maxmemory", "0")...)}, 0, "nothing bounds them", []string{"maxmemory is 0"}},
		{"no bound, and a policy that will evict", []redis.Server{server("a", with("maxmemory", "0", "maxmemory-policy", "allkeys-lru")...)}, 0, "nothing bounds them", []string{"maxmemory is 0", "maxmemory-policy"}},
		{"replicas nobody waits for", []redis.Server{replicated}, 0, "Replicas are connected", []string{"no write waits"}},
		{"replicas that are waited for", []redis.Server{replicated}, 1, "waited for replicas (1)", nil},
		{"a primary that goes on alone", []redis.Server{cutOff}, 1, "waited for replicas (1)", []string{"min-replicas-to-write is 0"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := aboutRedis(c.servers, c.replicas)
			if said := fmt.Sprint(a.NotProven); !strings.Contains(said, c.says) {
				t.Errorf("want %q in %s", c.says, said)
			}
			if len(a.Warnings) != len(c.warnings) {
				t.Fatalf("warnings %q, want %q", a.Warnings, c.warnings)
			}
			for i, want := range c.warnings {
				if !strings.HasPrefix(a.Warnings[i], want) && !strings.Contains(a.Warnings[i], want) {
					t.Errorf("warning %q, want %q", a.Warnings[i], want)
				}
			}
		})
	}
}

func TestAboutEtcd(t *testing.T) {
	for _, c := range []struct {
		name     string
		server   etcd.Server
		members  int
		says     string
		warnings int
	}{
		{"three members", etcd.Server{Version: "3.5.0"}, 3, "no failover forgets it", 0},
		{"one member", etcd.Server{Version: "3.5.0"}, 1, "1 of the 3 members", 1},
		{"members may not be asked", etcd.Server{}, 0, "may not be asked", 0},
		{"nearly full", etcd.Server{Size: defaultQuota}, 3, "no failover", 1},
		{"not so full", etcd.Server{Size: defaultQuota, Quota: 8 << 30}, 3, "no failover", 0},
		{"an alarm", etcd.Server{Alarms: []string{"NOSPACE"}}, 5, "5 members", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := aboutEtcd([]etcd.Server{c.server}, c.members)
			if said := fmt.Sprint(a.NotProven); !strings.Contains(said, c.says) || len(a.Warnings) != c.warnings {
				t.Errorf("warnings %q; want %q in %s", a.Warnings, c.says, said)
			}
		})
	}
}
