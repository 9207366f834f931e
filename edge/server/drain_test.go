package server

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/verge-id/verge/core/web"
)

func read(t *testing.T, conn net.Conn) *http.Response {
	conn.SetReadDeadline(time.Now().Add(30 * time.Second))
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body = io.NopCloser(strings.NewReader(string(body)))
	return resp
}

// A drain under load loses no request. The requests are POSTs over kept-alive
// connections, which the client does not send twice. A connection that is refused is
// not a lost request, because the server has not accepted it.
func TestDrainUnderLoadLosesNothing(t *testing.T) {
	for round := range 8 {
		var answered, lost, refused atomic.Int64
		base, stop := start(t, Config{Engine: fake{handle: func(context.Context, *web.Request) *web.Response {
			return ok("{}")
		}}})
		client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
		var wg sync.WaitGroup
		for i := range 32 {
			wg.Go(func() {
				for {
					body := strings.NewReader(`{"n":1}`)
					resp, err := client.Post(base+"/api/v1/verify/validate", "application/json", body)
					switch {
					case errors.Is(err, syscall.ECONNREFUSED):
						refused.Add(1)
						return
					case err != nil:
						lost.Add(1)
						t.Errorf("round %d: a request was lost: %v", round, err)
						return
					case resp.StatusCode != 200:
						t.Errorf("round %d: status %d", round, resp.StatusCode)
					}
					if _, err := io.Copy(io.Discard, resp.Body); err != nil {
						t.Errorf("round %d: an answer was cut: %v", round, err)
					}
					resp.Body.Close()
					answered.Add(1)
					if i%4 == 0 {
						time.Sleep(20 * time.Millisecond) // so that some connections are idle
					}
				}
			})
		}
		time.Sleep(500 * time.Millisecond)
		if err := stop(); err != nil {
			t.Error(err)
		}
		wg.Wait()
		if answered.Load() < 100 || refused.Load() != 32 {
			t.Errorf("round %d: %d answered, %d lost, %d refused: that is too little load for this test",
				round, answered.Load(), lost.Load(), refused.Load())
		}
	}
}

// A connection that was idle when draining began may be used once more.
func TestDrainGivesIdleConnectionsGrace(t *testing.T) {
	base, stop := start(t, Config{Engine: fake{}, IdleGrace: 10 * time.Second})
	conn, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	const request = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
	io.WriteString(conn, request)
	if resp := read(t, conn); resp.Close {
		t.Error("closed before draining")
	}
	drained := make(chan error)
	go func() { drained <- stop() }()
	time.Sleep(200 * time.Millisecond)
	io.WriteString(conn, request)
	if resp := read(t, conn); resp.StatusCode != 200 || !resp.Close {
		t.Errorf("got %d, closing: %v", resp.StatusCode, resp.Close)
	}
	conn.Close()
	if err := <-drained; err != nil {
		t.Error(err)
	}
}

func TestDrainWaitsForRequestsInFlight(t *testing.T) {
	for _, c := range []struct {
		rule    string
		timeout time.Duration
		wantErr bool
	}{
		{"a request in flight is answered", 30 * time.Second, false},
		{"DrainTimeout bounds it, and says so", 50 * time.Millisecond, true},
	} {
		t.Run(c.rule, func(t *testing.T) {
			entered, release := make(chan struct{}), make(chan struct{})
			base, stop := start(t, Config{IdleGrace: time.Millisecond, DrainTimeout: c.timeout,
				Engine: fake{handle: func(context.Context, *web.Request) *web.Response {
					close(entered)
					<-release
					return ok("{}")
				}}})
			answered := make(chan error, 1)
			go func() {
				resp, err := http.Post(base, "application/json", strings.NewReader("{}"))
				if err == nil && resp.StatusCode != 200 {
					err = errors.New(resp.Status)
				}
				answered <- err
			}()
			<-entered
			if c.wantErr {
				if err := stop(); err == nil {
					t.Error("no error though a request was cut")
				}
				close(release)
				return
			}
			drained := make(chan error, 1)
			go func() { drained <- stop() }()
			time.Sleep(100 * time.Millisecond)
			close(release)
			if err := <-answered; err != nil {
				t.Errorf("the request in flight: %v", err)
			}
			if err := <-drained; err != nil {
				t.Error(err)
			}
		})
	}
}
