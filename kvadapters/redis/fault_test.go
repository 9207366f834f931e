package redis_test

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters/kvtest"
	"github.com/verge-id/verge/kvadapters/redis"
	"github.com/verge-id/verge/testharness/stores"
	"github.com/verge-id/verge/testharness/wait"
)

var due = time.Unix(1, 0)

// mark returns a transaction like validate's: only the first one succeeds.
func mark(id, name string) kv.Tx {
	return kv.Tx{ID: id, Partition: "p", Checks: []kv.Check{{Name: name}},
		Puts: []kv.Put{{Name: name, Value: []byte(id), Expires: time.Now().Add(time.Hour)}}}
}

func commit(t *testing.T, s kv.KV, tx kv.Tx) {
	t.Helper()
	if err := s.Commit(t.Context(), tx); err != nil {
		t.Fatalf("commit %s: %v", tx.ID, err)
	}
}

func wantAbsent(t *testing.T, s kv.KV, name, why string) {
	t.Helper()
	if it, err := s.Get(t.Context(), kv.Key{Partition: "p", Name: name}); !errors.Is(err, kv.ErrNotFound) {
		t.Errorf("%s: %q of %s, %v, want ErrNotFound: %s", name, it.Value, it.Tx, err, why)
	}
}

// wantRejected checks that err means that nothing was changed, and why.
func wantRejected(t *testing.T, err error, words ...string) {
	t.Helper()
	if !errors.Is(err, kv.ErrUnavailable) || errors.Is(err, kv.ErrUnknown) {
		t.Errorf("got %v, want ErrUnavailable", err)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
}

func TestGetAndCommitAreLinearizable(t *testing.T) {
	t.Run("miniredis", func(t *testing.T) {
		m, _, _ := mini(t)
		kvtest.Linearizable(t, open(t, "redis://"+m.Addr(), redis.Config{}), 40)
	})
	t.Run("redis", func(t *testing.T) {
		kvtest.Linearizable(t, open(t, stores.StartRedis(t).URL(), redis.Config{}), 40)
	})
	t.Run("cluster", func(t *testing.T) {
		kvtest.Linearizable(t, open(t, "redis+cluster://"+stores.StartCluster(t, 3)[0].Addr(),
			redis.Config{}), 40)
	})
}

func TestScript_SentAgain(t *testing.T) {
	s := stores.StartRedis(t)
	store := open(t, s.URL(), redis.Config{})
	for i := range 20 {
		if i%2 == 1 {
			s.Do("script", "flush")
		}
		commit(t, store, kv.Tx{ID: "id", Partition: "p", Schedule: []kv.Task{{ID: fmt.Sprint(i), Due: due}}})
		if tasks, _, err := store.Claim(t.Context(), "p", time.Now(), time.Hour, 9); err != nil ||
			len(tasks) != 1 {
			t.Fatalf("round %d: claimed %v, %v, want the one task", i, tasks, err)
		}
	}
}

func TestOpen_Replica(t *testing.T) {
	primary := stores.StartRedis(t)
	replica := primary.Replica()
	_, err := redis.Open(t.Context(), replica.URL(), redis.Config{})
	wantRejected(t, err, "is a replica", "point the URL at the primary")

	c := goredis.NewClient(&goredis.Options{Addr: replica.Addr(), MaxRetries: -1})
	defer c.Close()
	s, err := redis.New(c, redis.Config{})
	if err != nil {
		t.Fatal(err)
	}
	// The client closes a connection whose server returned the code READONLY.
	err = s.Commit(t.Context(), mark("1", "a"))
	wantRejected(t, err, kv.ErrUnavailable.Error()+": READONLY ", "point the URL at the primary")
}

func TestStore_FullServer(t *testing.T) {
	s := stores.StartRedis(t, "--maxmemory", "20mb", "--maxmemory-policy", "noeviction")
	store := open(t, s.URL(), redis.Config{})
	commit(t, store, kv.Tx{
		ID:        "first",
		Partition: "p",
		Puts:      []kv.Put{{Name: "first"}},
		Schedule:  []kv.Task{{ID: "t", Due: due}},
	})
	s.Do("config", "set", "maxmemory", "1")
	tx := mark("late", "a")
	tx.Deletes, tx.Cancel = []string{"first"}, []string{"t"}
	wantRejected(t, store.Commit(t.Context(), tx), "OOM", "raise it")
	wantAbsent(t, store, "a", "its commit was rejected")
	if _, err := store.Get(t.Context(), kv.Key{Partition: "p", Name: "first"}); err != nil {
		t.Errorf("first: %v, though the commit that deletes it was rejected", err)
	}
	// A commit that frees memory is accepted.
	commit(t, store, kv.Tx{ID: "free", Partition: "p", Deletes: []string{"first"}})
	s.Do("config", "set", "maxmemory", "20mb")
	commit(t, store, mark("late", "a"))
}

func TestOpen_EvictingServer(t *testing.T) {
	for _, policy := range []string{"allkeys-lru", "volatile-ttl"} {
		s := stores.StartRedis(t, "--maxmemory", "20mb", "--maxmemory-policy", policy)
		_, err := redis.Open(t.Context(), s.URL(), redis.Config{})
		wantRejected(t, err, policy, "set it to noeviction")
	}
}

func TestCommit_MissingReplicas(t *testing.T) {
	t.Parallel()
	t.Run("min-replicas-to-write: the server rejects the commit", func(t *testing.T) {
		s := stores.StartRedis(t)
		store := open(t, s.URL(), redis.Config{})
		s.Do("config", "set", "min-replicas-to-write", "1")
		wantRejected(t, store.Commit(t.Context(), mark("1", "a")), "NOREPLICAS", "bring them back")
		s.Do("config", "set", "min-replicas-to-write", "0")
		wantAbsent(t, store, "a", "its commit was rejected")
	})
	t.Run("Replicas: the primary's confirmation is not enough", func(t *testing.T) {
		primary := stores.StartRedis(t)
		store := open(t, primary.URL(), redis.Config{Replicas: 1, WaitTimeout: 50 * time.Millisecond})
		err := store.Commit(t.Context(), mark("1", "a"))
		if !errors.Is(err, kv.ErrUnknown) || !strings.Contains(err.Error(), "0 of 1 replicas") {
			t.Fatalf("got %v, want ErrUnknown: no replica has it", err)
		}
		for rule, commit := range map[string]func() error{
			"another commit is rejected by data that no replica has": func() error {
				return store.Commit(t.Context(), mark("2", "a"))
			},
			"the second try finds its own item, which no replica has": func() error {
				return kv.CommitSurely(t.Context(), store, mark("1", "a"))
			},
		} {
			var conflict *kv.Conflict
			if err := commit(); !errors.Is(err, kv.ErrUnknown) || errors.As(err, &conflict) {
				t.Errorf("%s: got %v, want ErrUnknown", rule, err)
			}
		}
		stores.StartRedis(t, "--replicaof", "127.0.0.1 "+fmt.Sprint(primary.Port))
		wait.Until(t, "a commit with a replica succeeds", func() bool {
			tx := kv.Tx{ID: "3", Partition: "p", Puts: []kv.Put{{Name: "b"}}}
			return store.Commit(t.Context(), tx) == nil
		})
		var conflict *kv.Conflict
		healthy := open(t, primary.URL(), redis.Config{Replicas: 1, WaitTimeout: time.Minute})
		if err := healthy.Commit(t.Context(), mark("2", "a")); !errors.As(err, &conflict) {
			t.Errorf("got %v, want a conflict, because the replica has the data", err)
		}
	})
	t.Run("Replicas: a conflict on a connection whose writes the replica has", func(t *testing.T) {
		primary := stores.StartRedis(t)
		replica := primary.Replica()
		config := redis.Config{Replicas: 1, WaitTimeout: 50 * time.Millisecond}
		store, other := open(t, primary.URL(), config), open(t, primary.URL(), config)
		wait.Until(t, "the replica has each write of the connection", func() bool {
			tx := kv.Tx{ID: "0", Partition: "p", Puts: []kv.Put{{Name: "earlier"}}}
			return other.Commit(t.Context(), tx) == nil
		})
		replica.Freeze()
		defer replica.Thaw()
		if err := store.Commit(t.Context(), mark("1", "a")); !errors.Is(err, kv.ErrUnknown) {
			t.Fatalf("got %v, want ErrUnknown: no replica has it", err)
		}
		var conflict *kv.Conflict
		err := other.Commit(t.Context(), mark("2", "a"))
		if !errors.Is(err, kv.ErrUnknown) || errors.As(err, &conflict) {
			t.Errorf("got %v, want ErrUnknown: no replica has the item", err)
		}
	})
	t.Run("Replicas, on a Cluster: the node that owns the slot is asked", func(t *testing.T) {
		nodes := stores.StartCluster(t, 3)
		store := open(t, "redis+cluster://"+nodes[0].Addr(),
			redis.Config{Replicas: 1, WaitTimeout: 50 * time.Millisecond})
		for i := range 9 {
			tx := mark("1", "a")
			tx.Partition = kv.Partition(fmt.Sprint("p", i))
			err := store.Commit(t.Context(), tx)
			if !errors.Is(err, kv.ErrUnknown) || !strings.Contains(err.Error(), "0 of 1 replicas") {
				t.Errorf("got %v, want ErrUnknown: no replica has it", err)
			}
		}
	})
}

func TestCredentials(t *testing.T) {
	s := stores.StartRedis(t)
	// The permissions in the package's documentation.
	s.Do("acl", "setuser", "verge", "reset", "on", ">canary7", "~{verge:*",
		"+get", "+set", "+del", "+mget", "+zadd", "+zrem", "+zcard", "+zrangebyscore", "+zrangebylex",
		"+hset", "+hget", "+hdel", "+hlen", "+eval", "+evalsha", "+time", "+wait", "+info",
		"+ping", "+client", "+hello")
	s.Do("acl", "setuser", "less", "reset", "on", ">canary7", "~*", "+@all", "-hset")
	s.Do("acl", "setuser", "blind", "reset", "on", ">canary7", "~*", "+@all", "-info")
	s.Do("acl", "setuser", "elsewhere", "reset", "on", ">canary7", "~other:*", "+@all")
	for _, c := range []struct {
		name, userinfo string
		words          []string // of the error; nil: Open succeeds
	}{
		{"the documented permissions are enough", "verge:canary7@", nil},
		{"INFO may be forbidden", "blind:canary7@", nil},
		{"wrong password", "verge:canary8@", []string{"WRONGPASS", "correct them"}},
		{"a command is forbidden", "less:canary7@", []string{"kvadapters/redis lists"}},
		{"our keys are forbidden", "elsewhere:canary7@", []string{"NOPERM", "kvadapters/redis lists"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			store, err := redis.Open(t.Context(), "redis://"+c.userinfo+s.Addr(), redis.Config{Replicas: 0})
			if c.words == nil {
				if err != nil {
					t.Fatal(err)
				}
				defer store.Close()
				kvWalk(t, store)
				return
			}
			wantRejected(t, err, c.words...)
			if err != nil && strings.Contains(err.Error(), "canary") {
				t.Errorf("the error contains the password: %v", err)
			}
		})
	}
	s.Do("config", "set", "requirepass", "secret")
	_, err := redis.Open(t.Context(), s.URL(), redis.Config{})
	wantRejected(t, err, "NOAUTH", "requires a password")
}

// kvWalk makes each call of a store once.
func kvWalk(t *testing.T, s *redis.Store) {
	t.Helper()
	commit(t, s, kv.Tx{ID: "w", Partition: "w", Puts: []kv.Put{
		{Name: "a"},
		{Name: "b", Expires: time.Now().Add(time.Hour)},
	},
		Deletes: []string{"c"}, Schedule: []kv.Task{{ID: "t", Due: due}}, Cancel: []string{"u"}})
	if items, err := s.List(t.Context(), kv.Key{Partition: "w"}, "", 9); err != nil || len(items) != 2 {
		t.Errorf("list: %v, %v", items, err)
	}
	tasks, _, err := s.Claim(t.Context(), "w", time.Now(), time.Millisecond, 9)
	if err != nil || len(tasks) != 1 {
		t.Errorf("claim: %v, %v", tasks, err)
	}
	_, err = s.Spend(t.Context(), "w", time.Now(),
		[]kv.Charge{{Name: "c", Cost: time.Second, Burst: time.Minute}})
	if err != nil {
		t.Errorf("spend: %v", err)
	}
}

func TestCommit_PermissionWithdrawn(t *testing.T) {
	s := stores.StartRedis(t)
	s.Do("acl", "setuser", "verge", "reset", "on", ">pw", "~*", "+@all")
	store := open(t, "redis://verge:pw@"+s.Addr(), redis.Config{})
	s.Do("acl", "setuser", "verge", "-hset")
	tx := mark("1", "a")
	tx.Schedule = []kv.Task{{ID: "t", Due: due}}
	err := store.Commit(t.Context(), tx)
	unknown := errors.Is(err, kv.ErrUnknown) && !errors.Is(err, kv.ErrUnavailable)
	if !unknown || !strings.Contains(err.Error(), "half-way") {
		t.Errorf("got %v, want ErrUnknown: the item was written, the task was not", err)
	}
}

func TestCommit_WrongType(t *testing.T) {
	s := stores.StartRedis(t)
	store := open(t, s.URL(), redis.Config{})
	for _, key := range []string{"n", "x", "d", "t", "i:checked"} {
		t.Run(key, func(t *testing.T) {
			s.Do("flushall")
			if key == "t" || key == "i:checked" {
				s.Do("zadd", "{verge:p}"+key, 1, "stray")
			} else {
				s.Do("set", "{verge:p}"+key, "stray")
			}
			wantRejected(t, store.Commit(t.Context(), kv.Tx{
				ID: "1", Partition: "p", Checks: []kv.Check{{Name: "checked"}},
				Puts: []kv.Put{
					{Name: "a"},
					{Name: "b", Expires: time.Now().Add(time.Hour)},
				}, Schedule: []kv.Task{{ID: "t", Due: due}},
			}), "WRONGTYPE", "choose another prefix")
			if size := s.Do("dbsize"); size != int64(1) {
				t.Errorf("%v keys, want only the foreign one", size)
			}
		})
	}
}

func TestStore_ServerKilled(t *testing.T) {
	s := stores.StartRedis(t, stores.Durable...)
	store := open(t, s.URL(), redis.Config{})
	var (
		wg      sync.WaitGroup
		stop    atomic.Bool
		mu      sync.Mutex
		granted = map[string]string{}
		denied  atomic.Int64
	)
	for w := range 8 {
		wg.Go(func() {
			for i := 0; !stop.Load(); i++ {
				id := fmt.Sprintf("%d-%d", w, i)
				tx := mark(id, "n"+fmt.Sprint(w, "/", i/2)) // two commits try each name
				tx.Schedule = []kv.Task{{ID: id, Due: due}}
				switch err := kv.CommitSurely(t.Context(), store, tx); {
				case err == nil:
					mu.Lock()
					if by, ok := granted[tx.Puts[0].Name]; ok {
						t.Errorf("%s was granted to %s and to %s", tx.Puts[0].Name, by, id)
					}
					granted[tx.Puts[0].Name] = id
					mu.Unlock()
				case errors.Is(err, kv.ErrUnavailable), errors.Is(err, kv.ErrUnknown):
					denied.Add(1)
					time.Sleep(5 * time.Millisecond)
				}
			}
		})
	}
	count := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(granted)
	}
	more := func(before int) func() bool { return func() bool { return count() >= before+100 } }
	for range 3 {
		wait.Until(t, "commits are granted", more(count()))
		s.Kill()
		wantRejected(t, store.Commit(t.Context(), mark("down", "down")))
		before := denied.Load()
		wait.Until(t, "commits are denied", func() bool { return denied.Load() > before })
		s.Start()
	}
	wait.Until(t, "commits are granted", more(count()))
	stop.Store(true)
	wg.Wait()
	// Once a second the pool looks for a server that was unreachable.
	wait.Until(t, "I10: commits succeed again", func() bool {
		return store.Commit(t.Context(), kv.Tx{ID: "back", Partition: "p"}) == nil
	})
	tasks := map[string]bool{}
	for {
		claimed, _, err := store.Claim(t.Context(), "p", time.Now(), time.Hour, 1000)
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
	for name, id := range granted {
		if it, err := store.Get(t.Context(), kv.Key{Partition: "p", Name: name}); err != nil || it.Tx != id {
			t.Errorf("%s was granted to %s, but the store has it from %s, %v", name, id, it.Tx, err)
		}
		if !tasks[id] {
			t.Errorf("the task of %s is lost, though its commit returned", id)
		}
	}
	t.Logf("%d granted, %d denied", len(granted), denied.Load())
}

// proxy is a proxy for a server that cuts connections.
type proxy struct {
	net.Listener
	cutReply, cutRequest atomic.Int64 // number of next replies or requests to cut
}

func newProxy(t *testing.T, addr string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{Listener: l}
	t.Cleanup(func() { l.Close() })
	pipe := func(from, to net.Conn, cut *atomic.Int64) {
		defer from.Close()
		defer to.Close()
		buf := make([]byte, 64<<10)
		for {
			n, err := from.Read(buf)
			if err != nil {
				return
			}
			if cut.Load() > 0 && cut.Add(-1) >= 0 {
				return
			}
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
	}
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", addr)
			if err != nil {
				in.Close()
				continue
			}
			go pipe(in, out, &p.cutRequest)
			go pipe(out, in, &p.cutReply)
		}
	}()
	return p
}

func TestStore_LostReply(t *testing.T) {
	s := stores.StartRedis(t)
	p := newProxy(t, s.Addr())
	for _, replicas := range []int{0, 1} {
		t.Run(fmt.Sprint("replicas ", replicas), func(t *testing.T) {
			s.Do("flushall")
			if replicas == 1 {
				stores.StartRedis(t, "--replicaof", "127.0.0.1 "+fmt.Sprint(s.Port))
			}
			wait.Until(t, "the replicas are online", func() bool {
				return strings.Count(fmt.Sprint(s.Do("info", "replication")), "state=online") == replicas
			})
			store := open(t, "redis://"+p.Addr().String(),
				redis.Config{Replicas: replicas, WaitTimeout: time.Minute})
			commit(t, store, mark("first", "first")) // the server must have the script
			direct := open(t, s.URL(), redis.Config{})

			// A connection is already open, so that the proxy cuts the request itself.
			warm := func() { commit(t, store, kv.Tx{ID: "warm", Partition: "p"}) }
			warm()
			p.cutReply.Store(1)
			err := store.Commit(t.Context(), mark("1", "a"))
			if !errors.Is(err, kv.ErrUnknown) || errors.Is(err, kv.ErrUnavailable) {
				t.Errorf("the reply is lost: %v, want ErrUnknown", err)
			}
			if it, err := direct.Get(t.Context(), kv.Key{Partition: "p", Name: "a"}); err != nil ||
				it.Tx != "1" {
				t.Errorf("a is from %s, %v, want it from the commit whose reply was lost", it.Tx, err)
			}

			warm()
			p.cutRequest.Store(1)
			err = store.Commit(t.Context(), mark("2", "b"))
			if !errors.Is(err, kv.ErrUnknown) || errors.Is(err, kv.ErrUnavailable) {
				t.Errorf("the request is lost: %v, want ErrUnknown", err)
			}
			wantAbsent(t, direct, "b", "the request was lost")

			warm()
			p.cutReply.Store(1)
			if err := kv.CommitSurely(t.Context(), store, mark("3", "c")); err != nil {
				t.Errorf("the reply is lost: %v, want nil, because the write succeeded", err)
			}
			warm()
			p.cutRequest.Store(1)
			if err := kv.CommitSurely(t.Context(), store, mark("4", "d")); err != nil {
				t.Errorf("the request is lost: %v, want nil, because the second attempt writes", err)
			}
			for i, name := range []string{"c", "d"} {
				it, err := direct.Get(t.Context(), kv.Key{Partition: "p", Name: name})
				if err != nil || it.Tx != fmt.Sprint(3+i) {
					t.Errorf("%s is from %s, %v", name, it.Tx, err)
				}
			}

			if _, err := store.Get(t.Context(), kv.Key{Partition: "p", Name: "a"}); err != nil {
				t.Fatal(err)
			}
			p.cutReply.Store(1)
			if it, err := store.Get(t.Context(), kv.Key{Partition: "p", Name: "a"}); err != nil ||
				it.Tx != "1" {
				t.Errorf("a read whose reply is lost: %s, %v, want the item, because the read is repeated",
					it.Tx, err)
			}
			commit(t, store, kv.Tx{ID: "5", Partition: "p", Schedule: []kv.Task{{ID: "t", Due: due}}})
			if _, err := store.Get(t.Context(), kv.Key{Partition: "p", Name: "a"}); err != nil {
				t.Fatal(err)
			}
			// the script is known
			if _, _, err := store.Claim(t.Context(), "empty", time.Now(), time.Hour, 1); err != nil {
				t.Fatal(err)
			}
			p.cutReply.Store(1)
			_, _, err = store.Claim(t.Context(), "p", time.Now(), time.Hour, 1)
			wantRejected(t, err)
			tasks, _, err := direct.Claim(t.Context(), "p", time.Now(), time.Hour, 1)
			if err != nil || len(tasks) != 0 {
				t.Errorf("claimed %v, %v, want none: the task is leased by the claim whose reply was lost",
					tasks, err)
			}
		})
	}
}

func TestCluster_MovingSlot(t *testing.T) {
	nodes := stores.StartCluster(t, 3)
	store := open(t, "redis+cluster://"+nodes[0].Addr(), redis.Config{})
	byID := map[string]*stores.Redis{}
	for _, n := range nodes {
		byID[n.Do("cluster", "myid").(string)] = n
	}
	slot := nodes[0].Do("cluster", "keyslot", "{verge:p}").(int64)
	from := nodes[slot*3/16384]
	to := nodes[(slot*3/16384+1)%3]
	id := func(n *stores.Redis) string { return n.Do("cluster", "myid").(string) }

	commit(t, store, mark("1", "a"))
	to.Do("cluster", "setslot", slot, "importing", id(from))
	from.Do("cluster", "setslot", slot, "migrating", id(to))
	// Half of the slot's keys have moved: reads follow them, commits wait.
	from.Do("migrate", "127.0.0.1", to.Port, "{verge:p}i:a", 0, 5000)
	if it, err := store.Get(t.Context(), kv.Key{Partition: "p", Name: "a"}); err != nil || it.Tx != "1" {
		t.Errorf("an item that has moved: %s, %v", it.Tx, err)
	}
	wantRejected(t, store.Commit(t.Context(), mark("2", "a")), "TRYAGAIN")
	for _, key := range []string{"n", "x"} {
		from.Do("migrate", "127.0.0.1", to.Port, "{verge:p}"+key, 0, 5000)
	}
	for _, n := range []*stores.Redis{to, from, nodes[0], nodes[1], nodes[2]} {
		n.Do("cluster", "setslot", slot, "node", id(to))
	}
	var conflict *kv.Conflict
	if err := store.Commit(t.Context(), mark("3", "a")); !errors.As(err, &conflict) {
		t.Errorf("the slot has moved: %v, want a conflict with the item that moved with it", err)
	}
	commit(t, store, mark("4", "b"))
}

func TestCluster_NodeDown(t *testing.T) {
	t.Parallel()
	nodes := stores.StartCluster(t, 3)
	nodes[0].Do("config", "set", "cluster-require-full-coverage", "no")
	nodes[2].Do("config", "set", "cluster-require-full-coverage", "no")
	store := open(t, "redis+cluster://"+nodes[0].Addr()+"?addr="+nodes[2].Addr(), redis.Config{})
	partitions := map[int64]kv.Partition{}
	for i := range 64 {
		p := kv.Partition(fmt.Sprint("p", i))
		slot := nodes[0].Do("cluster", "keyslot", "{verge:"+string(p)+"}").(int64)
		partitions[slot*3/16384] = p
	}
	put := func(node int64, id string) error {
		return store.Commit(t.Context(), kv.Tx{ID: id, Partition: partitions[node],
			Puts: []kv.Put{{Name: id}}})
	}
	for node := range int64(3) {
		if err := put(node, "before"); err != nil {
			t.Fatal(err)
		}
	}
	nodes[1].Kill()
	wantRejected(t, put(1, "down"))
	for _, node := range []int64{0, 2} {
		if err := put(node, "meanwhile"); err != nil {
			t.Errorf("node %d is up, but: %v", node, err)
		}
	}
	nodes[1].Start()
	wait.Until(t, "the node is back", func() bool { return put(1, "after") == nil })
	if _, err := store.Get(t.Context(), kv.Key{Partition: partitions[1], Name: "before"}); err != nil {
		t.Errorf("an item from before the node was stopped: %v", err)
	}
}

func TestOpen_SingleClientOnCluster(t *testing.T) {
	s := stores.StartRedis(t, "--cluster-enabled", "yes")
	_, err := redis.Open(t.Context(), s.URL(), redis.Config{})
	wantRejected(t, err, "redis+cluster://")
}

func TestSentinelFailover(t *testing.T) {
	primary := stores.StartRedis(t)
	primary.Replica()
	sentinel := stores.StartSentinel(t, primary)
	// Until the kill, the Sentinel does not replace a primary that stands still.
	sentinel.Do("sentinel", "set", "verge", "down-after-milliseconds", 60_000)
	url := "redis+sentinel://" + sentinel.Addr() + "/?master_name=verge"
	// opened before the failover, because no replica is left to wait for after it
	store := open(t, url, redis.Config{})
	commit(t, open(t, url, redis.Config{Replicas: 1, WaitTimeout: time.Minute}), mark("1", "a"))
	primary.Kill()
	sentinel.Do("sentinel", "set", "verge", "down-after-milliseconds", 500)
	var conflict *kv.Conflict
	wait.Until(t, "the failover", func() bool {
		err := store.Commit(t.Context(), mark("2", "a"))
		if err == nil {
			t.Fatal("a mark was granted twice: the new primary lacks a commit that Replicas waited for")
		}
		return errors.As(err, &conflict)
	})
	commit(t, store, mark("3", "b"))
}
