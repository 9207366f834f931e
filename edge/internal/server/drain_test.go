package server

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/testharness/wait"
)

func read(t *testing.T, conn net.Conn) *http.Response {
	conn.SetReadDeadline(time.Now().Add(5 * time.Minute))
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

// accepting is a listener that records the connections that it has accepted.
type accepting struct {
	*net.TCPListener
	from sync.Map // addresses of clients
}

func (l *accepting) Accept() (net.Conn, error) {
	conn, err := l.TCPListener.Accept()
	if err == nil {
		l.from.Store(conn.RemoteAddr().String(), true)
	}
	return conn, err
}

// accepted reports whether l has accepted the connection over which a client sent. conn is nil if the
// client had no connection.
func (l *accepting) accepted(conn net.Conn) bool {
	if conn == nil {
		return false
	}
	_, ok := l.from.Load(conn.LocalAddr().String())
	return ok
}

// A drain under load loses no request. The requests are POSTs over kept-alive connections, which the client
// does not send twice. A request over a connection that the server has not accepted does not count as lost:
// the listener was already closed, or the connection arrived exactly at the close (stopAccepting). The
// timeouts leave room for a client that the scheduler delays for long.
func TestDrain_UnderLoad(t *testing.T) {
	const clients, enough = 32, 1000
	for round := range 8 {
		var answered, rejected atomic.Int64
		l := &accepting{TCPListener: listen(t).(*net.TCPListener)}
		base, stop := start(t, Config{Public: l, IdleGrace: time.Minute, DrainTimeout: time.Minute,
			ReadHeaderTimeout: time.Minute, ReadTimeout: time.Minute,
			Engine: fake{handle: func(context.Context, *web.Request) *web.Response { return ok("{}") }}})
		client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2 * clients}}
		post := func() (over net.Conn, err error) {
			ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
				GotConn: func(got httptrace.GotConnInfo) { over = got.Conn }})
			req, err := http.NewRequestWithContext(ctx, "POST", base+"/api/v1/verify/validate",
				strings.NewReader(`{"n":1}`))
			if err != nil {
				return nil, err
			}
			resp, err := client.Do(req)
			if err != nil {
				return over, err
			}
			defer resp.Body.Close()
			if resp.StatusCode != 200 {
				return over, errors.New(resp.Status)
			}
			_, err = io.Copy(io.Discard, resp.Body)
			return over, err
		}
		var wg sync.WaitGroup
		for i := range clients {
			wg.Go(func() {
				for {
					over, err := post()
					if err != nil && !l.accepted(over) {
						rejected.Add(1)
						return
					}
					if err != nil {
						t.Errorf("round %d: a request was lost: %v", round, err)
						return
					}
					answered.Add(1)
					if i%4 == 0 {
						time.Sleep(20 * time.Millisecond) // leaves some connections idle
					}
				}
			})
		}
		for answered.Load() < enough && !t.Failed() {
			time.Sleep(time.Millisecond)
		}
		drained := make(chan error, 1)
		go func() { drained <- stop() }()
		wg.Wait()
		client.CloseIdleConnections() // those that were opened and not needed
		if err := wait.For(drained); err != nil {
			t.Error(err)
		}
		if !t.Failed() && rejected.Load() != clients {
			t.Errorf("round %d: %d clients ended without a closed port", round, clients-rejected.Load())
		}
	}
}

// A connection that was idle when draining began may be used for another request.
func TestDrain_IdleConnections(t *testing.T) {
	s, base, stop := run(t, Config{Engine: fake{}, IdleGrace: time.Minute})
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
	wait.Until(t, "the server drains", s.draining.Load)
	io.WriteString(conn, request)
	if resp := read(t, conn); resp.StatusCode != 200 || !resp.Close {
		t.Errorf("got %d, closing: %v", resp.StatusCode, resp.Close)
	}
	conn.Close()
	if err := wait.For(drained); err != nil {
		t.Error(err)
	}
}

func TestDrain_RequestsInFlight(t *testing.T) {
	for _, c := range []struct {
		rule    string
		timeout time.Duration
		wantErr bool
	}{
		{"a request in flight gets its response", 30 * time.Second, false},
		{"DrainTimeout limits it and is an error", 50 * time.Millisecond, true},
	} {
		t.Run(c.rule, func(t *testing.T) {
			entered, release := make(chan struct{}), make(chan struct{})
			base, stop := start(t, Config{IdleGrace: time.Millisecond, DrainTimeout: c.timeout,
				Engine: fake{handle: func(context.Context, *web.Request) *web.Response {
					close(entered)
					wait.For(release)
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
			wait.For(entered)
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
			if err := wait.For(answered); err != nil {
				t.Errorf("the request in flight: %v", err)
			}
			if err := wait.For(drained); err != nil {
				t.Error(err)
			}
		})
	}
}
