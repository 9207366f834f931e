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

// listener is a net.Listener with its handler and its limits: the public one or the admin one.
type listener struct {
	name      string
	s         *Server
	socket    net.Listener
	http      *http.Server
	handle    handler
	timeout   time.Duration // for handle
	routes    web.Table
	pathWords map[string]bool // which the log may hold; nil: by the route
	streams   map[string]Stream
	health    bool // answers health checks itself
	page      func(int, *web.Request) *web.Response
	slots     chan struct{}
	waits     waitLimiter
	conns     *connLimiter
	sampler   logSampler
	tls       *tls.Config // nil: it speaks plain HTTP
}

// For HTTP/2: the number of requests that one connection may have at the same time, and the bytes of their
// bodies that it takes before the server reads them. A connection with several incomplete bodies counts as
// several (limitedConn.count).
const (
	maxStreams       = 100
	connectionBuffer = 128 << 10

	// streamBuffer must not be smaller. A client that does not have the server's settings yet may send 65,535
	// bytes (RFC 9113, 6.9.2), and net/http uses this value for its first request already.
	streamBuffer = 1<<16 - 1

	// frameSize is the smallest limit that HTTP/2 has. The default, 1 MiB, would announce frames that no
	// window has room for.
	frameSize = 16 << 10
)

func (s *Server) newListener(name string, socket net.Listener, handle handler, timeout time.Duration,
	secure *tls.Config) *listener {
	l := &listener{name: name, s: s, socket: socket, handle: handle, timeout: timeout, tls: secure,
		slots: make(chan struct{}, s.cfg.MaxConcurrent)}
	// Their connections are in hand and give way to none, so others must be left.
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
		// The engine refuses "OPTIONS *" like any other unknown path.
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

// wrapHTTP1 wraps a connection over which HTTP/1 comes.
func (l *listener) wrapHTTP1(conn net.Conn, c *limitedConn) net.Conn {
	return &http1Conn{Conn: conn, limited: c, keepHead: l.page != nil, respond: l.refuse,
		onRefuse: func(resp *web.Response) { l.recordRefusal(c, resp) }}
}

// rejectConn answers and closes a connection that there is no room for. It reads nothing.
func (l *listener) rejectConn(c net.Conn, why string) {
	l.recordOverLimit(connRejected, networkOf(peerOf(c)), why)
	if l.tls == nil {
		writeRefusal(c, serviceBusy.json(""))
	}
	c.Close()
}

// handshakeFailed closes a connection whose TLS handshake failed.
func (l *listener) handshakeFailed(c *limitedConn, err error) {
	if isPlainHTTP(err) {
		resp := plainOnTLS.json("")
		writeRefusal(c, resp)
		l.recordRefusal(c, resp)
	} else {
		l.logSampled(slog.LevelWarn, "handshake", "TLS handshake failed", l.s.networkAttrs(c.peer.network,
			slog.String("listener", l.name), slog.String("error", l.s.withoutClient(err.Error())))...)
	}
	c.Close()
}

// recordRefusal counts and logs an answer that stands in for one of net/http's.
func (l *listener) recordRefusal(c *limitedConn, resp *web.Response) {
	l.s.metrics.requests.WithLabelValues(routeNone, strconv.Itoa(resp.Status)).Inc()
	l.logSampled(slog.LevelInfo, "none "+strconv.Itoa(resp.Status), "request",
		l.s.networkAttrs(c.peer.network,
			slog.String("listener", l.name), slog.String("route", routeNone), slog.Int("status", resp.Status),
			slog.String("request_id", resp.Header.Get("X-Request-Id")))...)
}

// What became of a connection that there was no room for.
const (
	connEvicted  = "gave_way" // it was idle and was closed for a new one
	connRejected = "refused"  // it was new, and no other was idle
)

// recordOverLimit counts and logs a connection that gave way or was not let in.
func (l *listener) recordOverLimit(how string, network netip.Prefix, why string) {
	l.s.metrics.overLimit.WithLabelValues(l.name, how, why).Inc()
	l.logSampled(slog.LevelWarn, how+" "+why, "too many connections", l.s.networkAttrs(network,
		slog.String("listener", l.name), slog.String("limit", why), slog.String("connection", how))...)
}

type connKey struct{}

// connContext lets a request find its connection.
func connContext(ctx context.Context, c net.Conn) context.Context {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	return context.WithValue(ctx, connKey{}, c)
}

// stopAccepting closes the listener at a moment at which no connection waits in the
// kernel to be accepted. The kernel would reset such a connection, with the request
// that it may have sent. A connection that comes at the very moment of the close is
// still reset. Only a balancer that has stopped sending rules that out (DrainDelay).
// Under a flood there is no such moment, so it waits no longer than most.
func (l *listener) stopAccepting(most time.Duration) {
	for end := time.Now().Add(most); backlogged(l.socket) && time.Now().Before(end); {
		runtime.Gosched() // to the goroutine that accepts
	}
	l.socket.Close()
}

// backlogMax is how long a draining server waits for a moment without a backlog.
const backlogMax = time.Second
