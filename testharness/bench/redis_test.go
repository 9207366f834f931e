package bench

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters/redis"
	"github.com/verge-id/verge/testharness/stores"
)

// pool is the maximum number of connections to Redis of the service, and of the floor.
const pool = 64

// redisServer is a Redis of the benchmark's own.
type redisServer struct{ *stores.Redis }

func startRedis(b *testing.B, args ...string) redisServer {
	return redisServer{stores.StartRedis(b, append(args, "--loglevel", "warning")...)}
}

// busy is the processor time of this process and of the server.
func (s redisServer) busy() time.Duration { return busy() + busyOf(s.PID()) }

// client connects to the server as the adapter's client does.
func (s redisServer) client() *goredis.Client {
	return goredis.NewClient(&goredis.Options{Addr: s.Addr(), Protocol: 2, PoolSize: pool, MaxRetries: -1,
		ContextTimeoutEnabled: true, DisableIdentity: true})
}

// open empties the server and opens it as `verge serve` does.
func (s redisServer) open(b *testing.B) kv.KV {
	b.Helper()
	s.Do("flushall")
	store, err := redis.Open(b.Context(), s.URL()+"?pool_size="+strconv.Itoa(pool), redis.Config{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { store.Close() })
	return store
}

// floor serves a handler that reads the body, sets a new name with SET NX and a TTL, and writes n bytes. A
// single use over Redis cannot do less.
func (s redisServer) floor(b *testing.B, n int) (addr string) {
	client := s.client()
	b.Cleanup(func() { client.Close() })
	answer := bytes.Repeat([]byte("x"), n)
	var names atomic.Int64
	return serve(b, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		name := "floor:" + strconv.FormatInt(names.Add(1), 10)
		if first, err := client.SetNX(r.Context(), name, "1", 15*time.Minute).Result(); err != nil || !first {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.Write(answer)
	})
}

// BenchmarkIdleRedis counts the commands that an instance without work has Redis execute: those that it
// sends, and those that its scripts call. The goal is at most 2 a second.
func BenchmarkIdleRedis(b *testing.B) {
	const length = 24 * time.Second
	s := startRedis(b)
	store := s.open(b)
	v := newService(b, store, noSink)
	// A timer is pending, as is usual.
	if err := store.Commit(b.Context(), kv.Tx{ID: "idle", Partition: "p0",
		Schedule: []kv.Task{{ID: "timer", Due: time.Now().Add(time.Hour)}}}); err != nil {
		b.Fatal(err)
	}
	v.resume()
	time.Sleep(time.Second)
	c := s.client()
	defer c.Close()
	count := func() (all, sent int) {
		stats, err := c.Info(context.Background(), "commandstats").Result()
		if err != nil {
			b.Fatal(err)
		}
		for line := range strings.Lines(stats) {
			name, rest, _ := strings.Cut(strings.TrimSpace(line), ":calls=")
			calls, _, _ := strings.Cut(rest, ",")
			n, _ := strconv.Atoi(calls)
			switch name {
			case "cmdstat_info": // the benchmark's own
			case "cmdstat_evalsha", "cmdstat_eval":
				sent += n
				fallthrough
			default:
				all += n
			}
		}
		return all, sent
	}
	allBefore, sentBefore := count()
	time.Sleep(length)
	all, sent := count()
	b.ReportMetric(float64(sent-sentBefore)/length.Seconds(), "scripts/s")
	b.ReportMetric(float64(all-allBefore)/length.Seconds(), "commands/s")
}
