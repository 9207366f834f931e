package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// forwarder is the floor of deliveries: it posts prepared events to the sink, and
// before each it marks a name with SET NX where the store is Redis. It neither
// signs, retries nor records.
type forwarder struct {
	addr string
	stop func()

	redis         *goredis.Client // nil: the store is another one
	client        *http.Client
	sink          string
	before, after []byte // an event's body around its session
	answer        []byte
	names         atomic.Int64
}

// newForwarder serves a forwarder whose events are like the one that the sink
// got last, and whose answers have as many bytes as size.
func newForwarder(receiver *sink, server *redisServer, size int) (*forwarder, error) {
	before, after, err := receiver.around()
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	f := &forwarder{addr: l.Addr().String(), sink: receiver.url, before: before, after: after,
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: connections}},
		answer: bytes.Repeat([]byte("x"), size)}
	if server != nil {
		f.redis = server.client()
	}
	s := &http.Server{Handler: f}
	f.stop = func() {
		s.Close()
		f.client.CloseIdleConnections()
		if f.redis != nil {
			f.redis.Close()
		}
	}
	go s.Serve(l)
	return f, nil
}

// ServeHTTP answers, and then posts an event of the session that is the body.
func (f *forwarder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	session, err := io.ReadAll(r.Body)
	if err == nil {
		err = f.mark(r.Context())
	}
	if err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	w.Write(f.answer)
	go f.post(string(session))
}

// drain marks and posts n events, many at a time.
func (f *forwarder) drain(n int) error {
	var left, session atomic.Int64
	left.Store(int64(n))
	errs := make(chan error, connections)
	var wg sync.WaitGroup
	for range connections {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				err := f.mark(context.Background())
				if err == nil {
					err = f.post("backlog" + strconv.FormatInt(session.Add(1), 10))
				}
				if err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	select {
	case err := <-errs:
		return err
	default:
		return nil
	}
}

func (f *forwarder) mark(ctx context.Context) error {
	if f.redis == nil {
		return nil
	}
	name := "forwarder:" + strconv.FormatInt(f.names.Add(1), 10)
	return f.redis.SetNX(ctx, name, "1", 15*time.Minute).Err()
}

func (f *forwarder) post(session string) error {
	body := bytes.Join([][]byte{f.before, []byte(session), f.after}, nil)
	resp, err := f.client.Post(f.sink, "application/json", bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusNoContent {
		return fmt.Errorf("the sink answered %s", resp.Status)
	}
	return nil
}

// start has one event posted, as a start has.
func (f *forwarder) start(session string) error {
	resp, err := http.Post("http://"+f.addr, "text/plain", stringReader(session))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the forwarder answered %s", resp.Status)
	}
	return nil
}
