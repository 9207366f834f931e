package redis_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters/kvtest"
	"github.com/verge-id/verge/kvadapters/redis"
	"github.com/verge-id/verge/testharness"
)

// server is a real redis-server on a loopback port.
type server struct {
	t      testing.TB
	port   int
	dir    string
	config []string
	cmd    *exec.Cmd

	sentinel string // the file of a Sentinel; empty: a server
}

func freePort(t testing.TB) int {
	t.Helper()
	for {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		port := l.Addr().(*net.TCPAddr).Port
		l.Close()
		if port < 50000 { // a Cluster's nodes talk to each other on a port 10,000 higher
			return port
		}
	}
}

// start runs a server; config is what follows its defaults: in memory only.
func start(t testing.TB, config ...string) *server {
	t.Helper()
	s := &server{t: t, port: freePort(t), dir: t.TempDir(), config: config}
	s.run()
	t.Cleanup(s.kill)
	return s
}

// startSentinel runs a Sentinel on a file that it may rewrite.
func startSentinel(t *testing.T, conf string) *server {
	t.Helper()
	s := &server{t: t, port: freePort(t), dir: t.TempDir(), sentinel: conf}
	s.run()
	t.Cleanup(s.kill)
	return s
}

func (s *server) run() {
	s.t.Helper()
	program := testharness.Program(s.t, "redis-server")
	args := []string{"--port", fmt.Sprint(s.port), "--bind", "127.0.0.1", "--dir", s.dir, "--logfile", filepath.Join(s.dir, "log")}
	if s.sentinel != "" {
		args = append([]string{s.sentinel, "--sentinel"}, args...)
	} else {
		args = append(args, "--save", "", "--appendonly", "no", "--repl-diskless-sync-delay", "0")
	}
	args = append(args, s.config...)
	s.cmd = exec.Command(program, args...)
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	c := goredis.NewClient(&goredis.Options{Addr: s.addr()})
	defer c.Close()
	for range 500 {
		err := c.Ping(context.Background()).Err()
		if err == nil || strings.HasPrefix(err.Error(), "NOAUTH") || strings.HasPrefix(err.Error(), "WRONGPASS") {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	log, _ := os.ReadFile(filepath.Join(s.dir, "log"))
	s.t.Fatalf("redis-server does not answer:\n%s", log)
}

// kill is kill -9.
func (s *server) kill() {
	if s.cmd.ProcessState == nil {
		s.cmd.Process.Kill()
		s.cmd.Wait()
	}
}

func (s *server) addr() string { return fmt.Sprintf("127.0.0.1:%d", s.port) }
func (s *server) url() string  { return "redis://" + s.addr() }

// do is a command of an operator.
func (s *server) do(args ...any) any {
	s.t.Helper()
	c := goredis.NewClient(&goredis.Options{Addr: s.addr(), Protocol: 2})
	defer c.Close()
	v, err := c.Do(context.Background(), args...).Result()
	if err != nil && err != goredis.Nil {
		s.t.Fatalf("%v: %v", args, err)
	}
	return v
}

var durable = []string{"--appendonly", "yes", "--appendfsync", "always"}

func TestKVOnRedis(t *testing.T) {
	s := start(t, durable...)
	kvtest.Run(t, func(t *testing.T) kvtest.Harness {
		s.do("flushall")
		return kvtest.Harness{
			KV: open(t, s.url(), redis.Config{}), Now: time.Now, Advance: time.Sleep, ClockRuns: true,
			Reopen: func() kv.KV {
				s.kill()
				s.run()
				return open(t, s.url(), redis.Config{})
			},
		}
	})
}

// cluster starts three primaries that share all slots.
func cluster(t *testing.T) []*server {
	t.Helper()
	nodes := make([]*server, 3)
	for i := range nodes {
		nodes[i] = start(t, append([]string{"--cluster-enabled", "yes", "--cluster-node-timeout", "2000"}, durable...)...)
	}
	for i, n := range nodes {
		n.do("cluster", "addslotsrange", i*16384/3, (i+1)*16384/3-1)
		n.do("cluster", "set-config-epoch", i+1)
		if i > 0 {
			n.do("cluster", "meet", "127.0.0.1", nodes[0].port)
		}
	}
	for _, n := range nodes {
		for range 1000 {
			info := fmt.Sprint(n.do("cluster", "info"))
			if strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_known_nodes:3") {
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	return nodes
}

func TestKVOnACluster(t *testing.T) {
	nodes := cluster(t)
	kvtest.Run(t, func(t *testing.T) kvtest.Harness {
		for _, n := range nodes {
			n.do("flushall")
		}
		url := "redis+cluster://" + nodes[0].addr()
		return kvtest.Harness{
			KV: open(t, url, redis.Config{}), Now: time.Now, Advance: time.Sleep, ClockRuns: true,
			Reopen: func() kv.KV {
				for _, n := range nodes {
					n.kill()
				}
				for _, n := range nodes {
					n.run()
				}
				for _, n := range nodes {
					for range 1000 {
						if strings.Contains(fmt.Sprint(n.do("cluster", "info")), "cluster_state:ok") {
							break
						}
						time.Sleep(20 * time.Millisecond)
					}
				}
				return open(t, url, redis.Config{})
			},
		}
	})
}

func TestPartitionsSpreadOverAClustersNodes(t *testing.T) {
	nodes := cluster(t)
	s := open(t, "redis+cluster://"+nodes[0].addr(), redis.Config{})
	for i := range 64 {
		tx := kv.Tx{ID: "id", Partition: kv.Partition(fmt.Sprint("p", i)), Puts: []kv.Put{{Name: "a"}}, Schedule: []kv.Task{{ID: "t", Due: time.Unix(1, 0)}}}
		if err := s.Commit(t.Context(), tx); err != nil {
			t.Fatal(err)
		}
	}
	total := int64(0)
	for _, n := range nodes {
		size := n.do("dbsize").(int64)
		total += size
		if size < 4*8 {
			t.Errorf("one of three nodes has %d keys of 64 partitions with four each", size)
		}
	}
	if total != 4*64 {
		t.Errorf("%d keys for 64 partitions of an item and a task, want four each", total)
	}
}
