package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/verge-id/verge/core/web"
)

// door is one listener in front of one handler.
type door struct {
	name    string
	s       *Server
	l       net.Listener
	http    *http.Server
	handle  Handler
	timeout time.Duration // for handle
	routes  web.Listing
	words   map[string]bool // which the log may hold; nil: by the route
	streams map[string]Stream
	health  bool // answers health checks itself
	show    func(int, *web.Request) *web.Response
	slots   chan struct{}
	lobby   lobby
	crowd   *crowd
	alike   alike
	tls     *tls.Config // nil: it speaks plain HTTP
}

// For HTTP/2: how many requests one connection may have under way, and how many
// bytes of their bodies are taken before anybody reads them. Most bodies may have
// 16 KiB. A connection with several bodies that are still coming counts as several
// (member.held).
const (
	maxStreams       = 100
	streamBuffer     = 32 << 10
	connectionBuffer = 128 << 10
)

func (s *Server) newDoor(name string, l net.Listener, handle Handler, timeout time.Duration,
	secure *tls.Config) *door {
	d := &door{name: name, s: s, l: l, handle: handle, timeout: timeout, tls: secure,
		slots: make(chan struct{}, s.cfg.MaxConcurrent)}
	// Their connections are in hand and give way to none, so others must be left.
	d.lobby = lobby{most: min(mostWaiting, max(s.cfg.MaxConns/4, 1)),
		perClient: min(mostWaitingPerClient, max(s.cfg.MaxConnsPerIP/4, 1)), clients: map[netip.Prefix]int{}}
	d.crowd = &crowd{most: s.cfg.MaxConns, perPeer: s.cfg.MaxConnsPerIP, peers: map[netip.Prefix]*peer{},
		exempt:  func(a netip.Addr) bool { return contains(s.cfg.TrustedProxies, a) },
		count:   func(change int) { s.metrics.connections.WithLabelValues(name).Add(float64(change)) },
		yielded: func(m *member, why string) { d.turnedAway(gaveWay, m.peer.network, why) },
	}
	d.http = &http.Server{
		Handler:           d,
		ReadHeaderTimeout: s.cfg.ReadHeaderTimeout,
		ReadTimeout:       s.cfg.ReadTimeout,
		WriteTimeout:      s.cfg.WriteTimeout + timeout,
		IdleTimeout:       s.cfg.IdleTimeout,
		MaxHeaderBytes:    s.cfg.MaxHeaderBytes,
		ErrorLog:          d.complaints(),
		// The engine refuses "OPTIONS *" like any other unknown path.
		DisableGeneralOptionsHandler: true,
		ConnContext:                  connContext,
		ConnState: func(c net.Conn, st http.ConnState) {
			if c, ok := c.(*spoken); ok && st == http.StateIdle {
				c.idle()
			}
		},
	}
	if d.tls != nil {
		t := d.tls.Clone()
		t.MinVersion = max(t.MinVersion, tls.VersionTLS12)
		t.NextProtos = append([]string{"h2", "http/1.1"}, t.NextProtos...)
		d.http.TLSConfig = t
		d.http.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: maxStreams,
			MaxReceiveBufferPerConnection: connectionBuffer, MaxReceiveBufferPerStream: streamBuffer}
	}
	return d
}

func (d *door) serve() error {
	in := &gate{Listener: d.l, crowd: d.crowd, full: d.full}
	in.wrap = func(m *member) net.Conn { return d.speak(m, m) }
	if d.tls == nil {
		return d.http.Serve(in)
	}
	in.wrap = func(m *member) net.Conn { return m }
	return d.http.Serve(newHandshakes(in, d))
}

// speak wraps a connection on which HTTP/1 is spoken.
func (d *door) speak(c net.Conn, m *member) net.Conn {
	return &spoken{Conn: c, m: m, keep: d.show != nil, says: d.refuse,
		told: func(resp *web.Response) { d.account(m, resp) }}
}

// full answers and closes a connection that there is no room for. It reads nothing.
func (d *door) full(c net.Conn, why string) {
	d.turnedAway(refused, networkOf(peerOf(c)), why)
	if d.tls == nil {
		say(c, serviceBusy.json(""))
	}
	c.Close()
}

// shakeFailed closes a connection whose TLS handshake failed.
func (d *door) shakeFailed(m *member, err error) {
	if spokePlain(err) {
		resp := plainOnTLS.json("")
		say(m, resp)
		d.account(m, resp)
	} else {
		d.seldomLog(slog.LevelWarn, "handshake", "TLS handshake failed", d.s.networkAttrs(m.peer.network,
			slog.String("listener", d.name), slog.String("error", d.s.withoutClient(err.Error())))...)
	}
	m.Close()
}

// account counts and logs an answer that stands in for one of net/http's.
func (d *door) account(m *member, resp *web.Response) {
	d.s.metrics.requests.WithLabelValues(routeNone, strconv.Itoa(resp.Status)).Inc()
	d.seldomLog(slog.LevelInfo, "none "+strconv.Itoa(resp.Status), "request", d.s.networkAttrs(m.peer.network,
		slog.String("listener", d.name), slog.String("route", routeNone), slog.Int("status", resp.Status),
		slog.String("request_id", resp.Header.Get("X-Request-Id")))...)
}

// What became of a connection that there was no room for.
const (
	gaveWay = "gave_way" // it was quiet and was closed for a new one
	refused = "refused"  // it was new, and no other was quiet
)

// turnedAway counts and logs a connection that gave way or was not let in.
func (d *door) turnedAway(how string, network netip.Prefix, why string) {
	d.s.metrics.turnedAway.WithLabelValues(d.name, how, why).Inc()
	d.seldomLog(slog.LevelWarn, how+" "+why, "too many connections", d.s.networkAttrs(network,
		slog.String("listener", d.name), slog.String("limit", why), slog.String("connection", how))...)
}

type memberKey struct{}

// connContext lets a request find its connection.
func connContext(ctx context.Context, c net.Conn) context.Context {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	return context.WithValue(ctx, memberKey{}, c)
}

// stopAccepting closes the listener at a moment at which no connection waits in the
// kernel to be accepted. The kernel would reset such a connection, with the request
// that it may have sent. A connection that comes at the very moment of the close is
// still reset. Only a balancer that has stopped sending rules that out (DrainDelay).
// Under a flood there is no such moment, so it waits no longer than most.
func (d *door) stopAccepting(most time.Duration) {
	for end := time.Now().Add(most); backlogged(d.l) && time.Now().Before(end); {
		runtime.Gosched() // to the goroutine that accepts
	}
	d.l.Close()
}

// backlogMax is how long a draining server waits for a moment without a backlog.
const backlogMax = time.Second

// ServeHTTP answers one request, counts it and logs it.
func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var m *member
	switch c := r.Context().Value(memberKey{}).(type) {
	case *spoken: // it ends the request itself, once the answer is written
		m = c.m
		c.handled()
	case *member:
		m = c
		defer m.leave()
	}
	if d.health && (r.URL.Path == AlivePath || r.URL.Path == ReadyPath) {
		m.enter()
		d.s.serveHealth(w, r, d.name, d.client(r), false)
		return
	}
	begin := time.Now()
	metrics := d.s.metrics
	metrics.inFlight.Inc()
	defer metrics.inFlight.Dec()

	client := d.client(r)
	route := d.routes.At(r.Method, pathOf(r.URL))
	ctx, about := withNotes(r.Context())
	ctx, span := d.s.cfg.Trace.Request(ctx, web.Header(r.Header), d.name, logMethod(r.Method), route.Label)
	req := &web.Request{
		Method: r.Method,
		Path:   pathOf(r.URL),
		Query:  r.URL.RawQuery,
		Header: web.Header(r.Header),
		Client: client,
	}
	resp, why := d.answer(ctx, w, r, m, req, &route)
	resp, waited := d.hold(ctx, w, req, &route, resp, begin)
	d.s.putOff(resp)
	d.write(w, r, resp)

	took := time.Since(begin)
	metrics.observe(route.Label, resp.Status, took-waited)
	said := about.read()
	if why != nil {
		said.Code = string(why.code)
	}
	span.End(resp.Status, resp.Header.Get("X-Request-Id"), said)
	d.logAccess(r, &route, client, resp, said, why, took)
}

// pathOf returns the path by which routes know a request: without its escapes. But an escaped slash is a part
// of a segment, and is none that parts two. A path that has one stays as it was sent, so it is not the path
// of another route.
func pathOf(u *url.URL) string {
	if escaped := u.EscapedPath(); strings.Contains(strings.ToLower(escaped), "%2f") {
		return escaped
	}
	return u.Path
}

func (d *door) client(r *http.Request) netip.Addr {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		// The listener has no IP addresses (a Unix socket): there is none to limit
		// by, and none to trust.
		return netip.Addr{}
	}
	return clientAddr(peer.Addr(), d.s.cfg.ProxyHeader, r.Header, d.s.cfg.TrustedProxies)
}

// answer never returns nil, nor a status that net/http would refuse. why is not nil
// if the answer comes from the server alone. Head and body are read before the
// request takes one of the places, so that a slow peer never holds one.
func (d *door) answer(ctx context.Context, w http.ResponseWriter, r *http.Request, m *member,
	req *web.Request, route *web.Route[struct{}]) (resp *web.Response, why *refusal) {
	maxBody := route.BodyLimit()
	if len(r.RequestURI) > web.MaxURL { // as it was sent, with its escapes
		req.Query = ""
		return d.refuse(req, uriTooLong), &uriTooLong
	}
	stream := d.streams[req.Path]
	if stream == nil {
		// An error means that the connection has no deadlines, so there is none to set.
		readUntil := func(t time.Time) { _ = http.NewResponseController(w).SetReadDeadline(t) }
		large := share{of: &d.s.largeBodies, stop: func() { readUntil(time.Now()) }}
		defer large.giveBack()
		if maxBody > web.MaxBody && r.ContentLength > web.MaxBody {
			// A picture takes longer than a form over the uplink of a phone.
			readUntil(time.Now().Add(largeBodyTime))
		}
		if why := d.takeBody(r, m, req, maxBody, &large); why != nil {
			return d.refuse(req, *why), why
		}
	}
	if !m.enter() {
		return d.refuse(req, serviceBusy), &serviceBusy // nobody is there to read it
	}
	if route.Whole {
		ctx = context.WithoutCancel(ctx)
	}
	handle := d.handle
	if stream != nil {
		// An error means that the connection has no deadlines, so there is none to extend.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(d.timeout))
		handle = func(ctx context.Context, req *web.Request) *web.Response { return stream(ctx, req, r.Body) }
	}
	if resp = d.ask(ctx, req, handle); resp == nil {
		return d.refuse(req, serviceBusy), &serviceBusy
	}
	return resp, nil
}

// ask has a request handled in one of the places. It returns nil if none is free.
func (d *door) ask(ctx context.Context, req *web.Request, handle Handler) *web.Response {
	select {
	case d.slots <- struct{}{}:
		defer func() { <-d.slots }()
	default:
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	return d.guard(req, func() *web.Response { return handle(ctx, req) })
}

// takeBody waits for the body. Meanwhile the request counts for its connection only, and a large body for the
// room that it has filled.
func (d *door) takeBody(r *http.Request, m *member, req *web.Request, maxBody int, large *share) *refusal {
	if r.ContentLength == 0 {
		return nil
	}
	if r.ProtoMajor == 2 {
		if !m.await() {
			return &serviceBusy
		}
		defer m.arrived()
	}
	var err error
	req.Body, err = readBody(r, maxBody, large)
	if errors.Is(err, errNoRoom) || err != nil && large.gaveWay() {
		return &serviceBusy
	}
	if ne := net.Error(nil); errors.As(err, &ne) && ne.Timeout() {
		return &bodyTimeout
	}
	if err != nil {
		return &bodyBroken
	}
	return nil
}

// guard turns a panic or an impossible answer into a 500.
func (d *door) guard(req *web.Request, handle func() *web.Response) (resp *web.Response) {
	defer func() {
		if v := recover(); v != nil {
			resp = d.refuse(req, ourFault)
			d.s.log.Error("panic in the engine", "cause", causeOf(v),
				"request_id", resp.Header.Get("X-Request-Id"), "stack", string(debug.Stack()))
		}
	}()
	resp = handle()
	if resp != nil && resp.Status == http.StatusServiceUnavailable && resp.Header == nil {
		return d.refuse(req, cannotJustNow)
	}
	if resp == nil || resp.Header == nil && resp.Status == http.StatusInternalServerError ||
		resp.Status < 200 || resp.Status > 599 {
		resp = d.refuse(req, ourFault)
		d.s.log.Error("the engine gave no valid answer", "request_id", resp.Header.Get("X-Request-Id"))
	}
	return resp
}

// causeOf describes a panic. It shows an error of Go's runtime as it is, and only the
// type of any other value, which may quote a request.
func causeOf(v any) string {
	if err, ok := v.(runtime.Error); ok {
		return err.Error()
	}
	return fmt.Sprintf("%T", v)
}

var bodyBuffers = sync.Pool{New: func() any { b := make([]byte, web.MaxBody+1); return &b }}

// readBody reads at most one byte more than the route takes, so that the core can
// tell that a body is too large. With the pooled buffer, a small body does not cost
// 16 KiB. A larger one costs what has arrived of it.
func readBody(r *http.Request, maxBody int, large *share) (body []byte, err error) {
	buf := bodyBuffers.Get().(*[]byte)
	defer bodyBuffers.Put(buf)
	most := maxBody + 1
	for n := 0; ; {
		m, err := r.Body.Read((*buf)[n:min(len(*buf), most-len(body))])
		n += m
		switch {
		case err == io.EOF, err == nil && len(body)+n == most:
			if !large.arrived() {
				return nil, errNoRoom
			}
			return append(body, (*buf)[:n]...), nil
		case err != nil:
			return nil, err
		case n == len(*buf):
			if !large.take(int64(n)) {
				return nil, errNoRoom
			}
			body, n = append(body, *buf...), 0
		}
	}
}

// hopByHop are headers that belong to the connection, which is the server's.
var hopByHop = map[string]bool{
	"Connection": true, "Keep-Alive": true, "Proxy-Connection": true, "Te": true,
	"Trailer": true, "Transfer-Encoding": true, "Upgrade": true, "Content-Length": true,
}

func (d *door) write(w http.ResponseWriter, r *http.Request, resp *web.Response) {
	h := w.Header()
	for k, v := range resp.Header {
		if !hopByHop[k] {
			h[k] = v
		}
	}
	if d.s.draining.Load() || resp.Header.Get("Connection") == "close" {
		h.Set("Connection", "close")
	}
	if h.Get("Content-Type") == "" {
		h["Content-Type"] = nil // no guessing from the content
	}
	bodyless := resp.Status == http.StatusNoContent || resp.Status == http.StatusNotModified
	// A HEAD answer without a body has a length all the same, only unknown here.
	if !bodyless && (r.Method != http.MethodHead || len(resp.Body) > 0) {
		h.Set("Content-Length", strconv.Itoa(len(resp.Body)))
	}
	w.WriteHeader(resp.Status)
	if !bodyless && len(resp.Body) > 0 {
		w.Write(resp.Body) // an error means that the client has gone
	}
}
