package server

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"time"
)

// tlsListener is a listener that returns connections after their TLS handshake. A connection that
// negotiated HTTP/2 is returned unwrapped, because net/http checks its type. Any other is wrapped like a
// connection without TLS.
type tlsListener struct {
	net.Listener // its connections are of the type limitedConn
	config       *tls.Config
	timeout      time.Duration // for one handshake
	wrap         func(net.Conn, *limitedConn) net.Conn
	onFail       func(c *limitedConn, err error) // closes c after a failed handshake

	start  func() // calls run, once
	stop   func() // closes the channel closed, once
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

// Accept waits for a connection whose handshake is complete. If the inner listener has failed, Accept
// returns that error after the handshakes in progress.
func (tl *tlsListener) Accept() (net.Conn, error) {
	tl.start()
	select {
	case a := <-tl.done:
		return a.conn, a.err
	case <-tl.closed:
		return nil, net.ErrClosed
	}
}

// Close also ends the handshakes in progress.
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

// deliver passes a result to Accept. If the listener is closed, it closes the connection instead.
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

// onLoopback reports whether only this machine can reach a listener. Its traffic then stays on this
// machine.
func onLoopback(l net.Listener) bool {
	at, ok := l.Addr().(*net.TCPAddr)
	return ok && at.IP.IsLoopback()
}
