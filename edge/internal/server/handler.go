package server

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/edge/internal/deadline"
)

// ServeHTTP responds to one request, counts it and logs it.
func (l *listener) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	endDoubtfulFraming(w, r)
	var c *limitedConn
	switch from := r.Context().Value(connKey{}).(type) {
	case *http1Conn: // handlerEnds ends the request after the response is written
		c = from.limited
		from.handlerBegins(r.ContentLength)
	case *limitedConn:
		c = from
		defer c.endRequest()
	}
	if l.health && (r.URL.Path == AlivePath || r.URL.Path == ReadyPath) {
		c.beginRequest()
		l.s.serveHealth(w, r, l.name, l.client(r), false)
		return
	}
	begin := time.Now()
	metrics := l.s.metrics
	metrics.inFlight.Inc()
	defer metrics.inFlight.Dec()

	client := l.client(r)
	path := pathOf(r.URL)
	route := l.routes.At(r.Method, path)
	ctx, recorder := withAboutRecorder(r.Context())
	ctx, span := l.s.cfg.Trace.Request(ctx, web.Header(r.Header), l.name, logMethod(r.Method), route.Label)
	req := &web.Request{
		Method: r.Method,
		Path:   path,
		Query:  r.URL.RawQuery,
		Header: web.Header(r.Header),
		Client: client,
	}
	resp, why := l.response(ctx, w, r, c, req, &route)
	resp, waited := l.longPoll(ctx, w, req, &route, resp, begin)
	l.s.raiseRetryAfter(resp)
	closeSlowly(w, r, req.Body)
	l.write(w, r, resp)

	took := time.Since(begin)
	metrics.observe(route.Label, resp.Status, took-waited)
	about := recorder.read()
	if why != nil {
		about.Code = string(why.code)
	}
	span.End(resp.Status, resp.Header.Get("X-Request-Id"), about)
	l.logAccess(req, &route, resp, about, why, took)
}

// endDoubtfulFraming closes the connection after the response if a proxy in front of the server may have
// seen the end of this request elsewhere: a request with a transfer coding may also have had a
// Content-Length, and HTTP/1.0 has no transfer codings (RFC 9112, 6.1). net/http removes either header
// before a handler sees it.
func endDoubtfulFraming(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 1 && (r.ProtoMinor == 0 || len(r.TransferEncoding) > 0) {
		w.Header().Set("Connection", "close")
	}
}

// pathOf returns the path that routes match: the unescaped one. But an escaped slash belongs to a segment
// and does not separate two. A path that contains one is returned escaped, so it does not match another
// route.
func pathOf(u *url.URL) string {
	if u.RawPath == "" { // the usual escapes of the path, among which is no slash
		return u.Path
	}
	if escaped := u.EscapedPath(); strings.Contains(strings.ToLower(escaped), "%2f") {
		return escaped
	}
	return u.Path
}

func (l *listener) client(r *http.Request) netip.Addr {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		// The listener has no IP addresses (a Unix socket): there is no address to limit by or to trust.
		return netip.Addr{}
	}
	return clientAddr(peer.Addr(), l.s.cfg.ProxyHeader, r.Header, l.s.cfg.TrustedProxies)
}

// response never returns nil or a status that net/http would reject. why is not nil if the server itself
// rejected the request. The request takes a place only after its head and body are read, so a slow peer
// never occupies one.
func (l *listener) response(ctx context.Context, w http.ResponseWriter, r *http.Request, c *limitedConn,
	req *web.Request, route *web.Route) (resp *web.Response, why *rejection) {
	maxBody := route.BodyLimit()
	if limit := route.URLLimit(); len(r.RequestURI) > limit { // in its escaped form
		req.Query = ""
		why := uriTooLong(limit)
		return l.reject(req, why), &why
	}
	stream := l.streams[req.Path]
	if stream == nil && r.ContentLength > int64(maxBody) && r.Header.Get("Expect") != "" {
		return l.reject(req, bodyTooLarge), &bodyTooLarge // without "100 Continue", which reading would send
	}
	if stream == nil {
		var large *largeBody // nil: the route accepts no large body
		if maxBody > web.MaxBody {
			// An error means that the connection has no deadlines, so there is no deadline to set.
			readUntil := func(t time.Time) { _ = http.NewResponseController(w).SetReadDeadline(t) }
			large = &largeBody{memory: &l.s.largeBodies, cancel: func() { readUntil(time.Now()) }}
			defer large.release()
			if r.ContentLength > web.MaxBody {
				// A picture takes longer than a form over a phone's uplink.
				readUntil(time.Now().Add(largeBodyTimeout))
			}
		}
		if why := l.takeBody(r, c, req, maxBody, large); why != nil {
			return l.reject(req, *why), why
		}
	}
	if !c.beginRequest() {
		return l.reject(req, serviceBusy), &serviceBusy // the connection is closed, so no one reads this
	}
	if route.Whole {
		ctx = context.WithoutCancel(ctx)
	}
	handle := l.handle
	if stream != nil {
		// An error means that the connection has no deadlines, so there is no deadline to extend.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(l.timeout))
		handle = func(ctx context.Context, req *web.Request) *web.Response { return stream(ctx, req, r.Body) }
	}
	if resp = l.callHandler(ctx, req, handle); resp == nil {
		return l.reject(req, serviceBusy), &serviceBusy
	}
	return resp, nil
}

// callHandler handles a request in one of the places. It returns nil if no place is free.
func (l *listener) callHandler(ctx context.Context, req *web.Request, handle handler) *web.Response {
	select {
	case l.slots <- struct{}{}:
		defer func() { <-l.slots }()
	default:
		return nil
	}
	within := deadline.New(ctx, time.Now().Add(l.timeout), nil)
	defer within.Stop()
	return l.guard(req, func() *web.Response { return handle(within, req) })
}

// guard turns a panic or an invalid response into a 500.
func (l *listener) guard(req *web.Request, handle func() *web.Response) (resp *web.Response) {
	defer func() {
		if v := recover(); v != nil {
			resp = l.reject(req, internalError)
			l.s.log.Error("panic in the engine", "cause", causeOf(v),
				"request_id", resp.Header.Get("X-Request-Id"), "stack", string(debug.Stack()))
		}
	}()
	resp = handle()
	if resp != nil && resp.Status == http.StatusServiceUnavailable && resp.Header == nil {
		return l.reject(req, engineUnavailable)
	}
	if resp == nil || resp.Header == nil && resp.Status == http.StatusInternalServerError ||
		resp.Status < 200 || resp.Status > 599 {
		resp = l.reject(req, internalError)
		l.s.log.Error("invalid response from the engine", "request_id", resp.Header.Get("X-Request-Id"))
	}
	return resp
}

// causeOf describes a panic. It returns the text of a Go runtime error, and only the type of any other
// value, whose text may quote a request.
func causeOf(v any) string {
	if err, ok := v.(runtime.Error); ok {
		return err.Error()
	}
	return fmt.Sprintf("%T", v)
}

// hopByHop lists the headers of the connection, which the server sets itself.
var hopByHop = map[string]bool{
	"Connection": true, "Keep-Alive": true, "Proxy-Connection": true, "Te": true,
	"Trailer": true, "Transfer-Encoding": true, "Upgrade": true, "Content-Length": true,
}

func (l *listener) write(w http.ResponseWriter, r *http.Request, resp *web.Response) {
	h := w.Header()
	for k, v := range resp.Header {
		if !hopByHop[k] {
			h[k] = v
		}
	}
	if l.s.draining.Load() || resp.Header.Get("Connection") == "close" {
		h.Set("Connection", "close")
	}
	if h.Get("Content-Type") == "" {
		h["Content-Type"] = nil // no guessing from the content
	}
	bodyless := resp.Status == http.StatusNoContent || resp.Status == http.StatusNotModified
	// A response to HEAD without a body has a length, but it is unknown here.
	if !bodyless && (r.Method != http.MethodHead || len(resp.Body) > 0) {
		h.Set("Content-Length", strconv.Itoa(len(resp.Body)))
	}
	w.WriteHeader(resp.Status)
	if !bodyless && len(resp.Body) > 0 {
		w.Write(resp.Body) // an error means that the client has gone
	}
}
