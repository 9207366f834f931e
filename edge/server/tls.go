package server

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"time"
)

// handshakes is a listener that returns connections once their TLS handshake is
// done. A connection on which HTTP/2 was agreed is returned as it is, because
// net/http looks at its type. Any other is wrapped as it is without TLS.
type handshakes struct {
	net.Listener // its connections are of the type limitedConn
	config       *tls.Config
	timeout      time.Duration // for one handshake
	wrap         func(net.Conn, *limitedConn) net.Conn
	failed       func(c *limitedConn, err error) // is told of a handshake that failed, and closes c

	begin  func() // run, once
	end    func() // closes closed, once
	done   chan accepted
	closed chan struct{}
}

type accepted struct {
	conn net.Conn
	err  error
}

func newHandshakes(inner net.Listener, l *listener) *handshakes {
	h := &handshakes{Listener: inner, config: l.http.TLSConfig.Clone(), timeout: l.http.ReadHeaderTimeout,
		wrap: l.wrapHTTP1, failed: l.handshakeFailed, done: make(chan accepted), closed: make(chan struct{})}
	h.begin = sync.OnceFunc(func() { go h.run() })
	h.end = sync.OnceFunc(func() { close(h.closed) })
	return h
}

// Accept waits for a connection whose handshake is done. If the listener below has
// failed, Accept returns that error after the handshakes that are under way.
func (h *handshakes) Accept() (net.Conn, error) {
	h.begin()
	select {
	case a := <-h.done:
		return a.conn, a.err
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

// Close also ends the handshakes under way.
func (h *handshakes) Close() error {
	h.end()
	return h.Listener.Close()
}

func (h *handshakes) run() {
	var underWay sync.WaitGroup
	for {
		conn, err := h.Listener.Accept()
		if err == nil {
			underWay.Go(func() { h.shake(conn.(*limitedConn)) })
			continue
		}
		closed := errors.Is(err, net.ErrClosed)
		if closed {
			underWay.Wait()
		}
		h.hand(accepted{err: err}) // net/http decides whether to try again, or closes
		if closed {
			return
		}
	}
}

// hand gives Accept its result. Once the listener is closed, it closes the connection
// instead.
func (h *handshakes) hand(a accepted) {
	select {
	case h.done <- a:
	case <-h.closed:
		if a.conn != nil {
			a.conn.Close()
		}
	}
}

func (h *handshakes) shake(c *limitedConn) {
	conn := tls.Server(c, h.config)
	ctx, cancel := context.WithTimeout(context.Background(), h.timeout)
	defer cancel()
	if err := conn.HandshakeContext(ctx); err != nil {
		h.failed(c, err)
		return
	}
	switch conn.ConnectionState().NegotiatedProtocol {
	case "h2":
		h.hand(accepted{conn: conn})
		return
	case "", "http/1.1":
	default:
		conn.Close()
		return
	}
	h.hand(accepted{conn: h.wrap(conn, c)})
}

// spokePlain reports whether a handshake failed because the peer spoke HTTP.
func spokePlain(err error) bool {
	var e tls.RecordHeaderError
	if !errors.As(err, &e) || e.Conn == nil {
		return false
	}
	switch string(e.RecordHeader[:]) {
	case "GET /", "HEAD ", "POST ", "PUT /", "OPTIO":
		return true
	}
	return false
}

// onLoopback reports whether only this machine reaches a listener. What it says then stays on this machine,
// too.
func onLoopback(l net.Listener) bool {
	at, ok := l.Addr().(*net.TCPAddr)
	return ok && at.IP.IsLoopback()
}
