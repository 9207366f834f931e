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
)

func TestLargeBodiesShareARoom(t *testing.T) {
	read := func(size, limit int, large *share) (int, error) {
		body, err := readBody(&http.Request{Body: io.NopCloser(bytes.NewReader(make([]byte, size)))}, limit,
			large)
		return len(body), err
	}
	const limit = 1 << 20
	for _, c := range []struct {
		rule   string
		before int64 // taken by others
		size   int
		err    error
		takes  bool
	}{
		{"a small body needs no room", largeBodyRoom, web.MaxBody, nil, false},
		{"a large body takes what has arrived", 0, limit, nil, true},
		{"a large body finds no room", largeBodyRoom - limit/2, limit, errNoRoom, true},
		{"a body that is too large is cut, and so is what it takes", 0, 3 * limit, nil, true},
	} {
		t.Run("contract, Load: "+c.rule, func(t *testing.T) {
			all := room{size: largeBodyRoom, taken: c.before}
			large := share{of: &all}
			n, err := read(c.size, limit, &large)
			if !errors.Is(err, c.err) || err == nil && n != min(c.size, limit+1) {
				t.Errorf("%d bytes, %v; want %v", n, err, c.err)
			}
			if (large.taken > 0) != c.takes || large.taken > limit+web.MaxBody ||
				all.taken != c.before+large.taken {
				t.Errorf("it took %d, and all have %d", large.taken, all.taken)
			}
			if large.giveBack(); all.taken != c.before || len(all.coming) != 0 {
				t.Errorf("%d bytes are left behind, of %d bodies", all.taken-c.before, len(all.coming))
			}
		})
	}
}

// Contract, Load: in a full room, the body that has stood still for longest gives way. Those that go on stay,
// and so do those that have arrived.
func TestTheStillestBodyGivesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := room{size: 40}
		var ended []string
		body := func(name string) *share {
			return &share{of: &all, stop: func() { ended = append(ended, name) }}
		}
		want := func(what string, got, want bool, gone ...string) {
			t.Helper()
			if got != want || !slices.Equal(ended, gone) {
				t.Errorf("%s: %v, and %q gave way; want %v and %q", what, got, ended, want, gone)
			}
		}
		arrived, first, second, third := body("arrived"), body("first"), body("second"), body("third")
		for _, s := range []*share{arrived, first, second, third} {
			want("there is room", s.take(10), true)
			time.Sleep(stillTime / 4)
		}
		want("it is whole", arrived.arrived(), true)
		newcomer := body("newcomer")
		want("nobody stands still", newcomer.take(10), false)

		time.Sleep(stillTime / 4)
		want("the first stands still", newcomer.take(10), true, "first")
		want("it has no room any more", first.take(10), false, "first")
		want("it is not whole", first.arrived(), false, "first")
		first.giveBack()

		time.Sleep(stillTime)
		want("it does not give way to itself", third.take(20), true, "first", "second", "newcomer")
		for _, s := range []*share{arrived, second, third, newcomer} {
			s.giveBack()
		}
		if all.taken != 0 || len(all.coming) != 0 {
			t.Errorf("%d bytes are left behind, of %d bodies", all.taken, len(all.coming))
		}
	})
}

// Contract, Load: pictures that were sent in part, and never to their end, keep no other picture out.
func TestHalfAPictureKeepsNoneOut(t *testing.T) {
	const size = 8 * web.MaxBody
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2.0"} {
		t.Run(protocol, func(t *testing.T) {
			config := Config{DrainTimeout: time.Millisecond, IdleGrace: time.Nanosecond,
				Routes: web.Listing{
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
			s.largeBodies.size = halfCount * fills
			s.largeBodies.mu.Unlock()

			resp, err := client.Get(base) // so that HTTP/2 has its one connection
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
				return s.largeBodies.size - s.largeBodies.taken
			}
			for end := time.Now().Add(10 * time.Second); free() > 0; time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("the halves leave %d bytes free", free())
				}
			}
			for end := time.Now().Add(5 * stillTime); ; time.Sleep(stillTime / 10) {
				resp, err := client.Post(base+"/photo", "image/jpeg", bytes.NewReader(make([]byte, size)))
				if err != nil {
					t.Fatal(err)
				}
				resp.Body.Close()
				if resp.StatusCode == 200 {
					break
				}
				if time.Now().After(end) {
					t.Fatalf("a picture beside the halves: %s", resp.Status)
				}
			}
			wantRefusal(t, <-halves, 503, "UNAVAILABLE")
		})
	}
}
