package server

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"strconv"
	"time"

	"github.com/verge-id/verge/core/web"
)

// listener is a net.Listener with its handler and its limits: the public or the admin listener.
type listener struct {
	name      string
	s         *Server
	socket    net.Listener
	http      *http.Server
	handle    handler
	timeout   time.Duration // for handle
	routes    web.Table
	pathWords map[string]bool // loggable words of paths; nil: log by the route's pattern
	streams   map[string]Stream
	health    bool // responds to health checks itself
	page      func(int, *web.Request) *web.Response
	slots     chan struct{}
	waits     waitLimiter
	conns     *connLimiter
	sampler   logSampler
	tls       *tls.Config // nil: plain HTTP
}

// HTTP/2 limits: the number of concurrent requests per connection, and the bytes of their bodies that the
// connection accepts before the server reads them. A connection with several incomplete bodies counts as
// several (limitedConn.count).
const (
	maxStreams       = 100
	connectionBuffer = 128 << 10

	// streamBuffer must not be smaller. A client that has not received the server's settings yet may send
	// 65,535 bytes (RFC 9113, 6.9.2), and net/http applies this value to its first request already.
	streamBuffer = 1<<16 - 1

	// frameSize is the smallest limit that HTTP/2 allows. The default, 1 MiB, would announce frames that no
	// window has room for.
	frameSize = 16 << 10
)

func (s *Server) newListener(name string, socket net.Listener, handle handler, timeout time.Duration,
	secure *tls.Config) *listener {
	l := &listener{name: name, s: s, socket: socket, handle: handle, timeout: timeout, tls: secure,
		slots: make(chan struct{}, s.cfg.MaxConcurrent)}
	// Connections of long polls are active and cannot be evicted, so enough others must be left.
	l.waits = waitLimiter{max: min(maxWaiting, max(s.cfg.MaxConns/4, 1)),
		maxPerClient: min(maxWaitingPerClient, max(s.cfg.MaxConnsPerIP/4, 1)),
		clients:      map[netip.Prefix]int{}}
	l.conns = &connLimiter{max: s.cfg.MaxConns, maxPerPeer: s.cfg.MaxConnsPerIP,
		peers:   map[netip.Prefix]*peer{},
		exempt:  func(a netip.Addr) bool { return contains(s.cfg.TrustedProxies, a) },
		onCount: func(change int) { s.metrics.connections.WithLabelValues(name).Add(float64(change)) },
		onEvict: func(c *limitedConn, why string) { l.recordOverLimit(connEvicted, c.peer.network, why) },
	}
	l.http = &http.Server{
		Handler:           l,
		ReadHeaderTimeout: s.cfg.ReadHeaderTimeout,
		ReadTimeout:       s.cfg.ReadTimeout,
		WriteTimeout:      s.cfg.WriteTimeout + timeout,
		IdleTimeout:       s.cfg.IdleTimeout,
		MaxHeaderBytes:    s.cfg.MaxHeaderBytes,
		ErrorLog:          l.errorLog(),
		// The engine rejects "OPTIONS *" like any other unknown path.
		DisableGeneralOptionsHandler: true,
		ConnContext:                  connContext,
		ConnState: func(c net.Conn, st http.ConnState) {
			if c, ok := c.(*http1Conn); ok && st == http.StateIdle {
				c.handlerEnds()
			}
		},
	}
	if l.tls != nil {
		t := l.tls.Clone()
		t.MinVersion = max(t.MinVersion, tls.VersionTLS12)
		t.NextProtos = append([]string{"h2", "http/1.1"}, t.NextProtos...)
		l.http.TLSConfig = t
		l.http.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: maxStreams, MaxReadFrameSize: frameSize,
			MaxReceiveBufferPerConnection: connectionBuffer, MaxReceiveBufferPerStream: streamBuffer}
	}
	return l
}

func (l *listener) serve() error {
	in := &limitListener{Listener: l.socket, limiter: l.conns, reject: l.rejectConn}
	in.wrap = func(c *limitedConn) net.Conn { return l.wrapHTTP1(c, c) }
	if l.tls == nil {
		return l.http.Serve(in)
	}
	in.wrap = func(c *limitedConn) net.Conn { return c }
	return l.http.Serve(newTLSListener(in, l))
}

// wrapHTTP1 wraps an HTTP/1 connection.
func (l *listener) wrapHTTP1(conn net.Conn, c *limitedConn) net.Conn {
	return &http1Conn{
		emptyLineConn: newEmptyLineConn(conn),
		limited:       c,
		keepHead:      l.page != nil,
		respond:       l.reject,
		onReject:      func(resp *web.Response) { l.recordRejection(c, resp) },
	}
}

// rejectConn responds to a connection for which there is no room, and closes it unread.
func (l *listener) rejectConn(c net.Conn, why string) {
	l.recordOverLimit(connRejected, networkOf(peerOf(c)), why)
	if l.tls == nil {
		writeRejection(c, serviceBusy.json(""))
	}
	c.Close()
}

// handshakeFailed closes a connection whose TLS handshake failed.
func (l *listener) handshakeFailed(c *limitedConn, err error) {
	if isPlainHTTP(err) {
		resp := plainOnTLS.json("")
		writeRejection(c, resp)
		l.recordRejection(c, resp)
	} else {
		l.logSampled(slog.LevelWarn, "handshake", "TLS handshake failed", l.s.networkAttrs(c.peer.network,
			slog.String("listener", l.name), slog.String("error", l.s.withoutClient(err.Error())))...)
	}
	c.Close()
}

// recordRejection counts and logs a response that replaced net/http's.
func (l *listener) recordRejection(c *limitedConn, resp *web.Response) {
	l.s.metrics.requests.WithLabelValues(routeNone, strconv.Itoa(resp.Status)).Inc()
	l.logSampled(slog.LevelInfo, "none "+strconv.Itoa(resp.Status), "request",
		l.s.networkAttrs(c.peer.network,
			slog.String("listener", l.name), slog.String("route", routeNone), slog.Int("status", resp.Status),
			slog.String("request_id", resp.Header.Get("X-Request-Id")))...)
}

// Outcomes of a connection for which there was no room.
const (
	connEvicted  = "gave_way" // it was idle and was closed for a new one
	connRejected = "refused"  // it was new, and no other was idle
)

// recordOverLimit counts and logs a connection that was evicted or rejected.
func (l *listener) recordOverLimit(how string, network netip.Prefix, why string) {
	l.s.metrics.overLimit.WithLabelValues(l.name, how, why).Inc()
	l.logSampled(slog.LevelWarn, how+" "+why, "too many connections", l.s.networkAttrs(network,
		slog.String("listener", l.name), slog.String("limit", why), slog.String("connection", how))...)
}

type connKey struct{}

// connContext stores a connection in the context of its requests.
func connContext(ctx context.Context, c net.Conn) context.Context {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	return context.WithValue(ctx, connKey{}, c)
}

// stopAccepting closes the listener at a moment when no connection waits in the kernel to be accepted. The
// kernel would reset such a connection, with the request that it may have sent. A connection that arrives
// exactly at the close is still reset. Only a balancer that has stopped sending rules that out
// (DrainDelay). Under a flood there is no such moment, so it waits at most for the duration most.
func (l *listener) stopAccepting(most time.Duration) {
	for end := time.Now().Add(most); backlogged(l.socket) && time.Now().Before(end); {
		runtime.Gosched() // lets the accepting goroutine run
	}
	l.socket.Close()
}

// backlogMax is the maximum time that a draining server waits for an empty backlog.
const backlogMax = time.Second
