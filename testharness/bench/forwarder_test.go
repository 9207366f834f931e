package bench

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// forwarder is the floor of deliveries: it posts prepared events to the sink, and
// before each it marks a name with SET NX where the store is Redis. It neither
// signs, retries nor records.
type forwarder struct {
	addr string

	redis         *goredis.Client // nil: the store is another one
	client        *http.Client
	sink          string
	before, after []byte // an event's body around its session
	answer        []byte
	names         atomic.Int64
}

// newForwarder serves a forwarder whose events are like the last one of the sink, and whose responses have as
// many bytes as size.
func newForwarder(b *testing.B, receiver *sink, server *redisServer, size int) *forwarder {
	before, after, err := receiver.around()
	if err != nil {
		b.Fatal(err)
	}
	f := &forwarder{sink: receiver.url, before: before, after: after,
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: connections}},
		answer: bytes.Repeat([]byte("x"), size)}
	b.Cleanup(f.client.CloseIdleConnections)
	if server != nil {
		f.redis = server.client()
		b.Cleanup(func() { f.redis.Close() })
	}
	f.addr = serve(b, f.ServeHTTP)
	return f
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
	return parallel(connections, n, func(_, i int) error {
		if err := f.mark(context.Background()); err != nil {
			return err
		}
		return f.post("backlog" + strconv.Itoa(i))
	})
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
