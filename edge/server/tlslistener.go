package server

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"time"
)

// tlsListener is a listener that returns connections once their TLS handshake is
// done. A connection on which HTTP/2 was agreed is returned as it is, because
// net/http looks at its type. Any other is wrapped as it is without TLS.
type tlsListener struct {
	net.Listener // its connections are of the type limitedConn
	config       *tls.Config
	timeout      time.Duration // for one handshake
	wrap         func(net.Conn, *limitedConn) net.Conn
	onFail       func(c *limitedConn, err error) // is told of a handshake that failed, and closes c

	start  func() // run, once
	stop   func() // closes closed, once
	done   chan accepted
	closed chan struct{}
}

type accepted struct {
	conn net.Conn
	err  error
}

func newTLSListener(inner net.Listener, l *listener) *tlsListener {
	tl := &tlsListener{Listener: inner, config: l.http.TLSConfig.Clone(), timeout: l.http.ReadHeaderTimeout,
		wrap: l.wrapHTTP1, onFail: l.handshakeFailed, done: make(chan accepted), closed: make(chan struct{})}
	tl.start = sync.OnceFunc(func() { go tl.run() })
	tl.stop = sync.OnceFunc(func() { close(tl.closed) })
	return tl
}

// Accept waits for a connection whose handshake is done. If the listener below has
// failed, Accept returns that error after the handshakes that are under way.
func (tl *tlsListener) Accept() (net.Conn, error) {
	tl.start()
	select {
	case a := <-tl.done:
		return a.conn, a.err
	case <-tl.closed:
		return nil, net.ErrClosed
	}
}

// Close also ends the handshakes under way.
func (tl *tlsListener) Close() error {
	tl.stop()
	return tl.Listener.Close()
}

func (tl *tlsListener) run() {
	var underWay sync.WaitGroup
	for {
		conn, err := tl.Listener.Accept()
		if err == nil {
			underWay.Go(func() { tl.handshake(conn.(*limitedConn)) })
			continue
		}
		closed := errors.Is(err, net.ErrClosed)
		if closed {
			underWay.Wait()
		}
		tl.deliver(accepted{err: err}) // net/http decides whether to try again, or closes
		if closed {
			return
		}
	}
}

// deliver gives Accept its result. Once the listener is closed, it closes the connection
// instead.
func (tl *tlsListener) deliver(a accepted) {
	select {
	case tl.done <- a:
	case <-tl.closed:
		if a.conn != nil {
			a.conn.Close()
		}
	}
}

func (tl *tlsListener) handshake(c *limitedConn) {
	conn := tls.Server(c, tl.config)
	ctx, cancel := context.WithTimeout(context.Background(), tl.timeout)
	defer cancel()
	if err := conn.HandshakeContext(ctx); err != nil {
		tl.onFail(c, err)
		return
	}
	switch conn.ConnectionState().NegotiatedProtocol {
	case "h2":
		tl.deliver(accepted{conn: conn})
		return
	case "", "http/1.1":
	default:
		conn.Close()
		return
	}
	tl.deliver(accepted{conn: tl.wrap(conn, c)})
}

// isPlainHTTP reports whether a handshake failed because the peer sent HTTP.
func isPlainHTTP(err error) bool {
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
