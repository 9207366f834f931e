package stores

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/verge-id/verge/testharness/testenv"
	"github.com/verge-id/verge/testharness/wait"
)

// Redis is a redis-server, or a Sentinel, on a loopback port.
type Redis struct {
	Port int
	Dir  string // its working directory, which outlives Kill

	t        testing.TB
	args     []string
	sentinel string // the file of a Sentinel; empty: a server
	cmd      *exec.Cmd
}

// RedisInstalled reports whether StartRedis can run a server. Short tests use miniredis only if not.
func RedisInstalled() bool {
	_, err := exec.LookPath("redis-server")
	return err == nil
}

// Durable are the arguments of a server that survives kill -9.
var Durable = []string{"--appendonly", "yes", "--appendfsync", "always"}

// StartRedis runs a server that ends with the test. It keeps everything only in
// memory, unless args say otherwise, which come last on its command line.
func StartRedis(t testing.TB, args ...string) *Redis {
	t.Helper()
	r := &Redis{t: t, Port: FreePort(t), Dir: t.TempDir(), args: args}
	r.Start()
	t.Cleanup(r.Kill)
	return r
}

// Replica runs a server that follows r, and returns when it does.
func (r *Redis) Replica(args ...string) *Redis {
	r.t.Helper()
	replica := StartRedis(r.t, append([]string{"--replicaof", fmt.Sprint("127.0.0.1 ", r.Port)}, args...)...)
	replica.WaitForPrimary()
	return replica
}

// WaitForPrimary returns when a replica has a connection to its primary.
func (r *Redis) WaitForPrimary() {
	r.t.Helper()
	wait.Until(r.t, "a connection to the primary", func() bool {
		return strings.Contains(fmt.Sprint(r.Do("info", "replication")), "master_link_status:up")
	})
}

// StartSentinel runs a Sentinel that replaces the primary, named verge, by its replica half a second after it
// has ended. It returns when the Sentinel knows the replica.
func StartSentinel(t testing.TB, primary *Redis) *Redis {
	t.Helper()
	r := &Redis{t: t, Port: FreePort(t), Dir: t.TempDir()}
	r.sentinel = filepath.Join(r.Dir, "sentinel.conf") // which it rewrites
	text := fmt.Sprintf("sentinel monitor verge 127.0.0.1 %d 1\nsentinel down-after-milliseconds verge "+
		"500\nsentinel failover-timeout verge 2000\n", primary.Port)
	if err := os.WriteFile(r.sentinel, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r.Start()
	t.Cleanup(r.Kill)
	wait.Until(t, "a Sentinel that knows the replica", func() bool {
		return strings.Contains(fmt.Sprint(r.Do("info", "sentinel")), "slaves=1")
	})
	return r
}

// Start runs the server again, on the same port and directory, and returns
// when it answers.
func (r *Redis) Start() {
	r.t.Helper()
	program := testenv.Program(r.t, "redis-server")
	args := []string{"--port", fmt.Sprint(r.Port), "--bind", "127.0.0.1", "--dir", r.Dir, "--logfile",
		filepath.Join(r.Dir, "log")}
	if r.sentinel != "" {
		args = append([]string{r.sentinel, "--sentinel"}, args...)
	} else {
		args = append(args, "--save", "", "--appendonly", "no", "--repl-diskless-sync-delay", "0")
	}
	r.cmd = exec.Command(program, append(args, r.args...)...)
	if err := r.cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	c := redis.NewClient(&redis.Options{Addr: r.Addr()})
	defer c.Close()
	for start := time.Now(); time.Since(start) < limit; time.Sleep(20 * time.Millisecond) {
		err := c.Ping(context.Background()).Err()
		if err == nil || strings.HasPrefix(err.Error(), "NOAUTH") ||
			strings.HasPrefix(err.Error(), "WRONGPASS") {
			return
		}
	}
	log, _ := os.ReadFile(filepath.Join(r.Dir, "log"))
	r.t.Fatalf("redis-server does not answer:\n%s", log)
}

// Kill is kill -9.
func (r *Redis) Kill() {
	if r.cmd.ProcessState == nil {
		r.cmd.Process.Kill()
		r.cmd.Wait()
	}
}

// Freeze stops the process where it stands until Thaw; its connections stay.
func (r *Redis) Freeze() {
	r.t.Helper()
	freeze(r.t, r.cmd.Process)
}

// Thaw resumes the process.
func (r *Redis) Thaw() { r.signal(syscall.SIGCONT) }

func (r *Redis) signal(s syscall.Signal) {
	r.t.Helper()
	if err := r.cmd.Process.Signal(s); err != nil {
		r.t.Fatal(err)
	}
}

// PID is the number of the process, another one after Start.
func (r *Redis) PID() int { return r.cmd.Process.Pid }

// Addr is host and port.
func (r *Redis) Addr() string { return fmt.Sprintf("127.0.0.1:%d", r.Port) }

// URL returns the URL for package redis.
func (r *Redis) URL() string { return "redis://" + r.Addr() }

// Do sends the server a command, as an operator would.
func (r *Redis) Do(args ...any) any {
	r.t.Helper()
	// A repetition of a command that succeeded could fail, so the limits are long. A server that changes its
	// role closes connections, and then the client repeats.
	c := redis.NewClient(&redis.Options{Addr: r.Addr(), Protocol: 2,
		DialTimeout: limit, ReadTimeout: limit, WriteTimeout: limit})
	defer c.Close()
	v, err := c.Do(context.Background(), args...).Result()
	if err != nil && err != redis.Nil {
		r.t.Fatalf("%v: %v", args, err)
	}
	return v
}

// cluster is a Redis Cluster of primaries that share all slots.
type cluster []*Redis

// StartCluster runs a Cluster of n primaries on Durable servers. A node counts as failed after a minute, so
// that no node of a slow machine does. A test of failed nodes sets a shorter cluster-node-timeout.
func StartCluster(t testing.TB, n int) cluster {
	t.Helper()
	nodes := make(cluster, n)
	for i := range nodes {
		nodes[i] = StartRedis(t,
			append([]string{"--cluster-enabled", "yes", "--cluster-node-timeout", "60000"}, Durable...)...)
	}
	for i, r := range nodes {
		r.Do("cluster", "addslotsrange", i*16384/n, (i+1)*16384/n-1)
		r.Do("cluster", "set-config-epoch", i+1)
		if i > 0 {
			r.Do("cluster", "meet", "127.0.0.1", nodes[0].Port)
		}
	}
	nodes.Wait()
	return nodes
}

// Wait returns when every node knows all others and all slots are served.
func (c cluster) Wait() {
	for _, r := range c {
		r.t.Helper()
		wait.Until(r.t, "the Cluster serves all slots", func() bool {
			info := fmt.Sprint(r.Do("cluster", "info"))
			all := fmt.Sprintf("cluster_known_nodes:%d", len(c))
			return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, all)
		})
	}
}

// URL returns the URL for package redis.
func (c cluster) URL() string {
	url := "redis+cluster://" + c[0].Addr()
	for i, r := range c[1:] {
		sep := "&"
		if i == 0 {
			sep = "?"
		}
		url += sep + "addr=" + r.Addr()
	}
	return url
}

// Move moves the slot of a key to the next node, key by key with pauses, as
// resharding does.
func (c cluster) Move(key string, pause time.Duration) {
	t := c[0].t
	t.Helper()
	slot := c[0].Do("cluster", "keyslot", key).(int64)
	id := func(r *Redis) string { return r.Do("cluster", "myid").(string) }
	owner := 0
	for _, r := range c {
		for _, shard := range c[0].Do("cluster", "slots").([]any) {
			s := shard.([]any)
			if s[0].(int64) <= slot && slot <= s[1].(int64) && s[2].([]any)[2] == id(r) {
				owner = slices.Index(c, r)
			}
		}
	}
	from, to := c[owner], c[(owner+1)%len(c)]
	to.Do("cluster", "setslot", slot, "importing", id(from))
	from.Do("cluster", "setslot", slot, "migrating", id(to))
	for {
		keys := from.Do("cluster", "getkeysinslot", slot, 8).([]any)
		if len(keys) == 0 {
			break
		}
		from.Do(append([]any{"migrate", "127.0.0.1", to.Port, "", 0, 5000, "replace", "keys"}, keys...)...)
		time.Sleep(pause)
	}
	for _, r := range append(cluster{to, from}, c...) {
		r.Do("cluster", "setslot", slot, "node", id(to))
	}
	// Until all nodes know of the move, another one can make two nodes owners under the same epoch.
	wait.Until(t, "the nodes of the Cluster agree on the owners of slots", c.agree)
}

// agree reports whether all nodes say the same of the epoch and the slots of each.
func (c cluster) agree() bool {
	var said []string
	for _, r := range c {
		var nodes []string
		for line := range strings.Lines(r.Do("cluster", "nodes").(string)) {
			if f := strings.Fields(line); len(f) >= 8 {
				nodes = append(nodes, strings.Join(append([]string{f[0], f[6]}, f[8:]...), " "))
			}
		}
		slices.Sort(nodes)
		said = append(said, strings.Join(nodes, "\n"))
	}
	return len(slices.Compact(said)) == 1
}
