package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters/redis"
)

// pool is how many connections to Redis a client may have: the service's and the
// floor's.
const pool = 64

// errNoRedis means that the lines about Redis are left out.
var errNoRedis = errors.New("redis-server is not installed")

// redisServer is a redis-server that the bench starts.
type redisServer struct {
	addr string
	dir  string
	cmd  *exec.Cmd
}

// startRedis runs a server that keeps everything in memory, unless args say
// otherwise, and returns when it answers.
func startRedis(args ...string) (*redisServer, error) {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, errNoRedis
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "verge-bench-")
	if err != nil {
		return nil, err
	}
	s := &redisServer{addr: addr, dir: dir}
	s.cmd = exec.Command(program, append([]string{"--port", port, "--bind", "127.0.0.1", "--dir", dir,
		"--save", "", "--appendonly", "no", "--loglevel", "warning"}, args...)...)
	if err := s.cmd.Start(); err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	c := s.client()
	defer c.Close()
	for range 500 {
		if err = c.Ping(context.Background()).Err(); err == nil {
			return s, nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	s.stop()
	return nil, fmt.Errorf("redis-server at %s does not answer: %w", addr, err)
}

func (s *redisServer) stop() {
	s.cmd.Process.Kill()
	s.cmd.Wait()
	os.RemoveAll(s.dir)
}

// busy is the processor time of the server. It is zero for nil.
func (s *redisServer) busy() time.Duration {
	if s == nil {
		return 0
	}
	// The first number is nanoseconds, of the thread that does all the work.
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", s.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(b), " ")
	ns, _ := strconv.ParseInt(first, 10, 64)
	return time.Duration(ns)
}

// client talks to the server as the adapter's client does.
func (s *redisServer) client() *goredis.Client {
	return goredis.NewClient(&goredis.Options{Addr: s.addr, Protocol: 2, PoolSize: pool, MaxRetries: -1,
		ContextTimeoutEnabled: true, DisableIdentity: true})
}

// store empties the server and opens it as `verge serve` does.
func (s *redisServer) store() (*redis.Store, error) {
	c := s.client()
	defer c.Close()
	if err := c.FlushAll(context.Background()).Err(); err != nil {
		return nil, err
	}
	return redis.Open(context.Background(), "redis://"+s.addr+"?pool_size="+strconv.Itoa(pool),
		redis.Config{})
}

// storage is the server as a storage.
func (s *redisServer) storage() (kv.KV, func() string, error) {
	store, err := s.store()
	if err != nil {
		return nil, nil, err
	}
	return store, func() string { store.Close(); return "" }, nil
}

// floor serves a handler that reads the body, sets a name of its own with SET NX
// and a TTL, and writes n bytes. A single use over Redis cannot do less.
func (s *redisServer) floor(n int) (addr string, stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	client := s.client()
	answer := bytes.Repeat([]byte("x"), n)
	var names atomic.Int64
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		name := "floor:" + strconv.FormatInt(names.Add(1), 10)
		if first, err := client.SetNX(r.Context(), name, "1", 15*time.Minute).Result(); err != nil || !first {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.Write(answer)
	})}
	go server.Serve(l)
	return l.Addr().String(), func() { server.Close(); client.Close() }, nil
}

// idle prints how many commands an instance that has nothing to do makes the
// server carry out: those that it sends, and those that its scripts make.
func (s *redisServer) idle() error {
	const length = 24 * time.Second
	store, closeStore, err := s.storage()
	if err != nil {
		return err
	}
	defer closeStore()
	v, err := newService(store, "https://sink.invalid/")
	if err != nil {
		return err
	}
	defer v.stop()
	// A timer is pending, as is usual.
	v.pause()
	if err := store.Commit(context.Background(), kv.Tx{ID: "idle", Partition: "p0",
		Schedule: []kv.Task{{ID: "timer", Due: time.Now().Add(time.Hour)}}}); err != nil {
		return err
	}
	v.resume()
	time.Sleep(time.Second)
	c := s.client()
	defer c.Close()
	count := func() (all, sent int, err error) {
		stats, err := c.Info(context.Background(), "commandstats").Result()
		for line := range strings.Lines(stats) {
			name, rest, _ := strings.Cut(strings.TrimSpace(line), ":calls=")
			calls, _, _ := strings.Cut(rest, ",")
			n, _ := strconv.Atoi(calls)
			switch name {
			case "cmdstat_info": // ours
			case "cmdstat_evalsha", "cmdstat_eval":
				sent += n
				fallthrough
			default:
				all += n
			}
		}
		return all, sent, err
	}
	allBefore, sentBefore, err := count()
	if err != nil {
		return err
	}
	time.Sleep(length)
	all, sent, err := count()
	if err != nil {
		return err
	}
	fmt.Printf("an idle instance on redis, over %s: %.2f scripts a second sent, "+
		"%.2f commands a second with those they make (goal at most 2)\n\n", length,
		float64(sent-sentBefore)/length.Seconds(), float64(all-allBefore)/length.Seconds())
	return nil
}
