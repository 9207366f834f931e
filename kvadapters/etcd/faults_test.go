package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters/etcd"
	"github.com/verge-id/verge/testharness/long"
	"github.com/verge-id/verge/testharness/stores"
	"github.com/verge-id/verge/testharness/wait"
)

// proxy stands between a Store and its server.
type proxy struct {
	net.Listener
	server string

	muted atomic.Bool // drop everything that the server sends

	mu    sync.Mutex
	conns []net.Conn
}

func startProxy(t *testing.T, server string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{Listener: l, server: server}
	t.Cleanup(func() { l.Close(); p.cut() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", server)
			if err != nil {
				in.Close()
				continue
			}
			p.mu.Lock()
			p.conns = append(p.conns, in, out)
			p.mu.Unlock()
			go func() { io.Copy(out, in); out.Close() }()
			go func() {
				buf := make([]byte, 64<<10)
				for {
					n, err := out.Read(buf)
					if err != nil {
						in.Close()
						return
					}
					if !p.muted.Load() {
						in.Write(buf[:n])
					}
				}
			}()
		}
	}()
	return p
}

// cut breaks every connection.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		c.Close()
	}
	p.conns = nil
}

func (p *proxy) url() string { return "etcd://" + p.Addr().String() + "/verge" }

func used(id string) kv.Tx {
	return kv.Tx{
		ID:        id,
		Partition: part,
		Checks:    []kv.Check{{Name: "used"}},
		Puts:      []kv.Put{{Name: "used", Expires: time.Now().Add(time.Hour)}},
	}
}

func wantUnknown(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, kv.ErrUnknown) || errors.Is(err, kv.ErrUnavailable) {
		t.Errorf("%v, want ErrUnknown and not ErrUnavailable", err)
	}
}

func wantUnavailable(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, kv.ErrUnavailable) || errors.Is(err, kv.ErrUnknown) {
		t.Errorf("%v, want ErrUnavailable and not ErrUnknown", err)
	}
}

// eventually waits until the store answers again. Recovery must need no restart.
func eventually(t *testing.T, s kv.KV) {
	t.Helper()
	wait.Until(t, "I10: a store that came back is read again", func() bool {
		_, err := s.Get(t.Context(), kv.Key{Partition: part, Name: "back"})
		return errors.Is(err, kv.ErrNotFound)
	})
}

func TestALostReplyIsUnknownAndCommitSurelyFindsOut(t *testing.T) {
	server := stores.StartEtcd(t)
	p := startProxy(t, server.Addr)
	s := open(t, p.url(), etcd.Config{Timeout: 2 * time.Second})
	direct := open(t, server.URL("verge"), etcd.Config{})
	committed := func(tx kv.Tx) bool {
		it, err := direct.Get(t.Context(), kv.Key{Partition: part, Name: "used"})
		return err == nil && it.Tx == tx.ID
	}

	for _, c := range []struct {
		how  string
		lose func()
	}{
		{"the connection breaks before the answer", func() {
			tx := used("the connection breaks before the answer")
			for start := time.Now(); !committed(tx) && time.Since(start) < time.Second; {
				time.Sleep(time.Millisecond)
			}
			p.cut()
		}},
		{"no answer comes in time", func() {}},
	} {
		t.Run(c.how, func(t *testing.T) {
			p.muted.Store(true)
			go c.lose()
			tx := used(c.how)
			wantUnknown(t, s.Commit(t.Context(), tx))
			if !committed(tx) {
				t.Fatal("the commit whose reply was lost did not happen, so this proves nothing")
			}
			p.muted.Store(false)
			eventually(t, s)
			if err := kv.CommitSurely(t.Context(), s, tx); err == nil {
				t.Error("the same commit succeeded twice, though its own check forbids it")
			}
			// CommitSurely starts over: the reply to its first try is lost, and its second try finds
			// the item of the first.
			commit(t, direct, kv.Tx{ID: "clear", Deletes: []string{"used"}})
			p.muted.Store(true)
			go func() {
				for !committed(tx) {
					time.Sleep(time.Millisecond)
				}
				p.muted.Store(false)
				p.cut()
			}()
			retrying := retryAfter{s, func() { eventually(t, s) }}
			if err := kv.CommitSurely(t.Context(), retrying, tx); err != nil {
				t.Errorf("CommitSurely: %v, want nil, because the item is its own", err)
			}
			commit(t, direct, kv.Tx{ID: "clear", Deletes: []string{"used"}})
		})
	}
}

// retryAfter waits until the store answers again after an unknown outcome.
type retryAfter struct {
	kv.KV
	back func()
}

func (r retryAfter) Commit(ctx context.Context, tx kv.Tx) error {
	err := r.KV.Commit(ctx, tx)
	if errors.Is(err, kv.ErrUnknown) {
		r.back()
	}
	return err
}

func TestAnUnreachableStoreIsUnavailableAndComesBackUnchanged(t *testing.T) {
	server := stores.StartEtcd(t)
	// so that a call that waits for it would be noticed
	s := open(t, server.URL("verge"), etcd.Config{Timeout: time.Hour})
	commit(t, s, kv.Tx{ID: "task", Schedule: []kv.Task{{ID: "t", Due: time.Unix(1, 0)}}})
	server.Kill()
	// The client notices the broken connection in the background.
	for start := time.Now(); time.Since(start) < 10*time.Second; time.Sleep(10 * time.Millisecond) {
		if err := s.Commit(t.Context(), used("down")); !errors.Is(err, kv.ErrUnknown) {
			break
		}
	}
	wantUnavailable(t, s.Commit(t.Context(), used("down")))
	_, err := s.Get(t.Context(), kv.Key{Partition: part, Name: "a"})
	wantUnavailable(t, err)
	_, err = s.List(t.Context(), kv.Key{Partition: part}, "", 1)
	wantUnavailable(t, err)
	_, _, err = s.Claim(t.Context(), part, time.Now(), time.Second, 1)
	wantUnavailable(t, err)
	_, err = s.Spend(t.Context(), part, time.Now(), []kv.Charge{{Name: "a", Cost: 1, Burst: 1}})
	wantUnavailable(t, err)
	_, err = etcd.Open(t.Context(), server.URL("verge"), etcd.Config{})
	wantUnavailable(t, err)
	if !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("open: %v, want the cause, that nothing listens there", err)
	}

	server.Start()
	server.Wait()
	eventually(t, s)
	commit(t, s, used("up"))
	if tasks, _, err := s.Claim(t.Context(), part, time.Now(), time.Second, 1); err != nil ||
		len(tasks) != 1 {
		t.Errorf("claim after the return: %v, %v, want the task", tasks, err)
	}
}

func TestAContextThatEndsOnTheWayMakesACommitUnknown(t *testing.T) {
	server := stores.StartEtcd(t)
	p := startProxy(t, server.Addr)
	s := open(t, p.url(), etcd.Config{})
	p.muted.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	wantUnknown(t, s.Commit(ctx, used("late")))
	_, err := s.Get(ctx, kv.Key{Partition: part, Name: "a"})
	wantUnavailable(t, err)
	p.muted.Store(false)
	eventually(t, s)
}

// etcd applies the request that crosses the quota and then refuses it.
func TestAFullQuotaIsUnknownAndWritesReturnOnceThereIsSpace(t *testing.T) {
	server := stores.StartEtcd(t, "--quota-backend-bytes", "4194304")
	s := open(t, server.URL("verge"), etcd.Config{})
	var err error
	n := 0
	for ; err == nil && n < 500; n++ {
		err = s.Commit(t.Context(), kv.Tx{
			ID:        fmt.Sprint(n),
			Partition: part,
			Puts:      []kv.Put{{Name: "a", Value: make([]byte, kv.MaxValue)}},
		})
	}
	wantUnknown(t, err)
	if err == nil || !strings.Contains(err.Error(), "compact, defragment") {
		t.Errorf("%v, want advice on how to make space", err)
	}
	if _, err := s.Get(t.Context(), kv.Key{Partition: part, Name: "a"}); err != nil {
		t.Errorf("get while there is no space: %v", err)
	}

	c := server.Client()
	resp, err := c.Get(t.Context(), "verge/format")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Compact(t.Context(), resp.Header.Revision, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Defragment(t.Context(), server.Addr); err != nil {
		t.Fatal(err)
	}
	if _, err := c.AlarmDisarm(t.Context(), &clientv3.AlarmMember{}); err != nil {
		t.Fatal(err)
	}
	commit(t, s, used("space"))
}

func TestUserPasswordAndPermissionsAreChecked(t *testing.T) {
	server := stores.StartEtcd(t)
	c := server.Client()
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx := t.Context()
	must(c.UserAdd(ctx, "root", "r%ot"))
	must(c.UserGrantRole(ctx, "root", "root"))
	must(c.RoleAdd(ctx, "verge"))
	must(c.RoleGrantPermission(ctx, "verge", "verge/", clientv3.GetPrefixRangeEnd("verge/"),
		clientv3.PermissionType(clientv3.PermReadWrite)))
	must(c.UserAdd(ctx, "v", "pa:ss"))
	must(c.UserGrantRole(ctx, "v", "verge"))
	must(c.AuthEnable(ctx))

	at := func(auth, prefix string) string { return "etcd://" + auth + server.Addr + "/" + prefix }
	commit(t, open(t, at("v:pa%3Ass@", "verge"), etcd.Config{}), used("v"))
	commit(t, open(t, at("root:r%25ot@", "other"), etcd.Config{}), used("root"))
	for url, want := range map[string]string{
		at("v:pa%3Ass@", "other"): "readwrite on the whole prefix",
		at("v:wrong@", "verge"):   "user or password is wrong",
		at("", "verge"):           "want a user and password",
	} {
		_, err := etcd.Open(ctx, url, etcd.Config{})
		wantUnavailable(t, err)
		if err != nil && (!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "wrong@")) {
			t.Errorf("%v, want it to say %q and no password", err, want)
		}
	}
}

func TestAnotherFormatIsRefused(t *testing.T) {
	server := stores.StartEtcd(t)
	if _, err := server.Client().Put(t.Context(), "verge/format", "2"); err != nil {
		t.Fatal(err)
	}
	_, err := etcd.Open(t.Context(), server.URL("verge"), etcd.Config{})
	if err == nil || !strings.Contains(err.Error(), `format "2"`) {
		t.Errorf("open: %v, want an error that names the format", err)
	}
}

// load makes callers use up tokens, two callers for each token, until it is told to stop. For each
// token it notes who was told that it won.
type load struct {
	stop chan struct{}
	wg   sync.WaitGroup

	mu      sync.Mutex
	winners map[string][]string
	won     atomic.Int64
}

func startLoad(stores ...kv.KV) *load {
	l := &load{stop: make(chan struct{}), winners: make(map[string][]string)}
	for w := range 4 {
		l.wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-l.stop:
					return
				default:
				}
				name := fmt.Sprintf("used/%d/%d", w, n)
				var both sync.WaitGroup
				for i := range 2 {
					both.Go(func() {
						id := fmt.Sprintf("%s/%d", name, i)
						err := kv.CommitSurely(context.Background(), stores[(w+i)%len(stores)], kv.Tx{
							ID: id, Partition: part,
							Checks:   []kv.Check{{Name: name}},
							Puts:     []kv.Put{{Name: name, Value: []byte(id)}},
							Schedule: []kv.Task{{ID: id, Due: time.Unix(1, 0)}},
						})
						if err == nil {
							l.mu.Lock()
							l.winners[name] = append(l.winners[name], id)
							l.mu.Unlock()
							l.won.Add(1)
						}
					})
				}
				both.Wait()
			}
		})
	}
	return l
}

// progress waits until n more tokens are used up.
func (l *load) progress(t *testing.T, n int64) {
	t.Helper()
	from := l.won.Load()
	for start := time.Now(); l.won.Load() < from+n; time.Sleep(5 * time.Millisecond) {
		if time.Since(start) > 30*time.Second {
			t.Fatalf("I10: fewer than %d commits succeeded in 30 s", n)
		}
	}
}

// verify checks that no token was won twice and that each winner's item and task are there.
func (l *load) verify(t *testing.T, s kv.KV) {
	t.Helper()
	close(l.stop)
	l.wg.Wait()
	tasks := make(map[string]bool)
	for {
		claimed, _, err := s.Claim(t.Context(), part, time.Now(), time.Hour, 100)
		if err != nil {
			t.Fatal(err)
		}
		if len(claimed) == 0 {
			break
		}
		for _, task := range claimed {
			tasks[task.ID] = true
		}
	}
	items := make(map[string]kv.Item)
	for after := ""; ; {
		page, err := s.List(t.Context(), kv.Key{Partition: part, Name: "used/"}, after, 1000)
		if err != nil {
			t.Fatal(err)
		}
		for _, it := range page {
			items[it.Key.Name] = it
			after = it.Key.Name
		}
		if len(page) < 1000 {
			break
		}
	}
	for name, winners := range l.winners {
		if len(winners) > 1 {
			t.Errorf("I1: %s was won by %v", name, winners)
		}
		it, ok := items[name]
		if !ok || it.Tx != winners[0] {
			t.Errorf("I3: %s was told that it won %s, which now holds the item of %q", winners[0], name,
				it.Tx)
		}
	}
	for name, it := range items {
		if !tasks[it.Tx] {
			t.Errorf("I3: %s was written by %s, whose task is gone", name, it.Tx)
		}
		delete(tasks, it.Tx)
	}
	for id := range tasks {
		t.Errorf("I1: the task of %s is there, but its item is not", id)
	}
	t.Logf("%d tokens used up, %d winners told", len(items), len(l.winners))
}

func TestKill9AndReturnUnderLoad(t *testing.T) {
	t.Parallel()
	server := stores.StartEtcd(t)
	s := open(t, server.URL("verge"), etcd.Config{Timeout: 2 * time.Second})
	l := startLoad(s)
	for range long.Pick(t, "TestKill9AndReturnUnderLoad", 1, 3) {
		l.progress(t, 50)
		server.Kill()
		time.Sleep(200 * time.Millisecond)
		server.Start()
	}
	l.progress(t, 50)
	l.verify(t, s)
}

func TestALeaderKilledUnderLoadLosesNoAcknowledgedWrite(t *testing.T) {
	t.Parallel()
	servers := stores.StartEtcdCluster(t, 3, "--heartbeat-interval", "50", "--election-timeout", "500")
	url := servers.URL("verge")
	s1, s2 := open(t, url, etcd.Config{}), open(t, url, etcd.Config{})
	l := startLoad(s1, s2)
	for range long.Pick(t, "TestALeaderKilledUnderLoadLosesNoAcknowledgedWrite", 1, 3) {
		l.progress(t, 30)
		old := servers.Leader()
		old.Kill()
		l.progress(t, 30) // by the others, before the old one returns
		old.Start()
		old.Wait()
	}
	l.progress(t, 30)
	l.verify(t, s1)
}

// Frozen followers cannot agree, so a commit that reaches the leader stays open. A leader that has
// stepped down refuses at once.
func TestWithoutAMajorityNothingIsGranted(t *testing.T) {
	t.Parallel()
	servers := stores.StartEtcdCluster(t, 3, "--heartbeat-interval", "50", "--election-timeout", "500")
	leads := servers.Leader()
	s := open(t, leads.URL("verge"), etcd.Config{Timeout: time.Second})
	followers := func(act func(*stores.Etcd)) {
		for _, f := range servers {
			if f != leads {
				act(f)
			}
		}
	}
	followers((*stores.Etcd).Freeze)
	wantUnknown(t, s.Commit(t.Context(), used("frozen")))
	for start := time.Now(); time.Since(start) < 20*time.Second; time.Sleep(50 * time.Millisecond) {
		if err := s.Commit(t.Context(), used("cut off")); errors.Is(err, kv.ErrUnavailable) {
			break
		}
	}
	wantUnavailable(t, s.Commit(t.Context(), used("cut off")))
	_, err := s.Get(t.Context(), kv.Key{Partition: part, Name: "used"})
	wantUnavailable(t, err)
	followers((*stores.Etcd).Thaw)
	eventually(t, s)
	// The open commit either holds against all others or did not happen.
	err = s.Commit(t.Context(), used("after"))
	it, getErr := s.Get(t.Context(), kv.Key{Partition: part, Name: "used"})
	if getErr != nil || (err == nil) != (it.Tx == "after") {
		t.Errorf("commit: %v, then used is held by %q, %v", err, it.Tx, getErr)
	}
}
