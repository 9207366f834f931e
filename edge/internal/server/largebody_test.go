package server

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/testharness/wait"
)

func TestLargeBody_SharedMemory(t *testing.T) {
	read := func(size, limit int, large *largeBody) (int, error) {
		body, err := readBody(&http.Request{Body: io.NopCloser(bytes.NewReader(make([]byte, size)))}, limit,
			large)
		return len(body), err
	}
	const limit = 1 << 20
	for _, c := range []struct {
		rule   string
		before int64 // reserved by others
		size   int
		err    error
		takes  bool
	}{
		{"a small body reserves no memory", largeBodyMemory, web.MaxBody, nil, false},
		{"a large body reserves the arrived bytes", 0, limit, nil, true},
		{"a large body finds no memory", largeBodyMemory - limit/2, limit, errNoBodyMemory, true},
		{"a body that is too large is cut, and its reservation as well", 0, 3 * limit, nil, true},
	} {
		t.Run("contract, Load: "+c.rule, func(t *testing.T) {
			all := bodyMemory{limit: largeBodyMemory, used: c.before}
			large := largeBody{memory: &all}
			n, err := read(c.size, limit, &large)
			if !errors.Is(err, c.err) || err == nil && n != min(c.size, limit+1) {
				t.Errorf("%d bytes, %v; want %v", n, err, c.err)
			}
			if (large.reserved > 0) != c.takes || large.reserved > limit+web.MaxBody ||
				all.used != c.before+large.reserved {
				t.Errorf("it reserved %d, and all together %d", large.reserved, all.used)
			}
			if large.release(); all.used != c.before || len(all.arriving) != 0 {
				t.Errorf("%d bytes are still reserved, of %d bodies", all.used-c.before, len(all.arriving))
			}
		})
	}
}

// Contract, Load: if the memory is full, the body that has stalled for longest is evicted. Bodies that are
// still arriving stay, and so do complete ones.
func TestLargeBody_EvictsLongestStalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := bodyMemory{limit: 40}
		var ended []string
		body := func(name string) *largeBody {
			return &largeBody{memory: &all, cancel: func() { ended = append(ended, name) }}
		}
		want := func(what string, got, want bool, gone ...string) {
			t.Helper()
			if got != want || !slices.Equal(ended, gone) {
				t.Errorf("%s: %v, evicted %q; want %v and %q", what, got, ended, want, gone)
			}
		}
		arrived, first, second, third := body("arrived"), body("first"), body("second"), body("third")
		for _, b := range []*largeBody{arrived, first, second, third} {
			want("there is room", b.reserve(10), true)
			time.Sleep(stallTime / 4)
		}
		want("it is whole", arrived.complete(), true)
		newcomer := body("newcomer")
		want("nobody stands still", newcomer.reserve(10), false)

		time.Sleep(stallTime / 4)
		want("the first has stalled", newcomer.reserve(10), true, "first")
		want("it can reserve no more", first.reserve(10), false, "first")
		want("it is not complete", first.complete(), false, "first")
		first.release()

		time.Sleep(stallTime)
		want("it does not evict itself", third.reserve(20), true, "first", "second", "newcomer")
		for _, b := range []*largeBody{arrived, second, third, newcomer} {
			b.release()
		}
		if all.used != 0 || len(all.arriving) != 0 {
			t.Errorf("%d bytes are still reserved, of %d bodies", all.used, len(all.arriving))
		}
	})
}

// Contract, Load: pictures that were sent only in part do not keep out other pictures.
func TestLargeBody_PartialPictures(t *testing.T) {
	const size = 8 * web.MaxBody
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2.0"} {
		t.Run(protocol, func(t *testing.T) {
			config := Config{DrainTimeout: time.Millisecond, IdleGrace: time.Nanosecond,
				ReadTimeout: 5 * time.Minute, // only the other pictures end the halves
				Routes: web.Table{
					{Methods: []string{"POST"}, Pattern: "/photo", Label: "photo", MaxBody: size},
					{Pattern: "{...}", Label: "other"},
				},
				Engine: fake{handle: func(context.Context, *web.Request) *web.Response { return ok("{}") }}}
			client := &http.Client{Transport: &http.Transport{}}
			if protocol == "HTTP/2.0" {
				server, tls := secure(t)
				config.TLS, tls.NextProtos = server, []string{"h2"}
				client.Transport = &http.Transport{TLSClientConfig: tls, ForceAttemptHTTP2: true}
			}
			t.Cleanup(client.CloseIdleConnections)
			s, base, _ := run(t, config)
			if config.TLS != nil {
				base = strings.Replace(base, "http:", "https:", 1)
			}
			const halfCount, fills = 4, size / 2 / web.MaxBody * (web.MaxBody + 1)
			s.largeBodies.mu.Lock()
			s.largeBodies.limit = halfCount * fills
			s.largeBodies.mu.Unlock()

			resp, err := client.Get(base) // gives HTTP/2 its one connection
			if err != nil || resp.Proto != protocol {
				t.Fatalf("%v, %v", resp, err)
			}
			resp.Body.Close()
			halves := make(chan *http.Response, halfCount)
			for range halfCount {
				body, w := io.Pipe()
				go w.Write(make([]byte, size/2+web.MaxBody))
				go func() {
					if resp, err := client.Post(base+"/photo", "image/jpeg", body); err == nil {
						halves <- resp
					}
				}()
			}
			free := func() int64 {
				s.largeBodies.mu.Lock()
				defer s.largeBodies.mu.Unlock()
				return s.largeBodies.limit - s.largeBodies.used
			}
			wait.Until(t, "the halves use all memory", func() bool { return free() <= 0 })
			wait.Until(t, "a picture next to the halves", func() bool {
				time.Sleep(stallTime / 10)
				resp, err := client.Post(base+"/photo", "image/jpeg", bytes.NewReader(make([]byte, size)))
				if err != nil {
					t.Fatal(err)
				}
				resp.Body.Close()
				return resp.StatusCode == 200
			})
			wantRejection(t, wait.For(halves), 503, "UNAVAILABLE")
		})
	}
}
