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
	"runtime"
	"runtime/debug"
	"strconv"
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
	streams map[string]Stream
	health  bool // answers /healthz and /readyz itself
	slots   chan struct{}
}

func (s *Server) newDoor(name string, l net.Listener, handle Handler, timeout time.Duration) *door {
	d := &door{name: name, s: s, l: l, handle: handle, timeout: timeout, slots: make(chan struct{}, s.cfg.MaxConcurrent)}
	d.http = &http.Server{
		Handler:           d,
		ReadHeaderTimeout: s.cfg.ReadHeaderTimeout,
		ReadTimeout:       s.cfg.ReadTimeout,
		WriteTimeout:      s.cfg.WriteTimeout + timeout,
		IdleTimeout:       s.cfg.IdleTimeout,
		MaxHeaderBytes:    s.cfg.MaxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
		// "OPTIONS *" is the engine's to refuse, like any other unknown path.
		DisableGeneralOptionsHandler: true,
		ConnState: func(_ net.Conn, st http.ConnState) {
			switch st {
			case http.StateNew:
				s.conns.Add(1)
			case http.StateClosed, http.StateHijacked:
				s.conns.Add(-1)
			}
		},
	}
	if s.cfg.TLS != nil {
		t := s.cfg.TLS.Clone()
		t.MinVersion = max(t.MinVersion, tls.VersionTLS12)
		d.http.TLSConfig = t
	}
	return d
}

func (d *door) serve() error {
	if d.http.TLSConfig != nil {
		return d.http.ServeTLS(d.l, "", "")
	}
	return d.http.Serve(d.l)
}

// stopAccepting closes the listener in a moment in which the kernel has no
// connection waiting for it: those would be reset, with the request that they
// may have sent. A connection set up in the instant of the close still is; only
// a balancer that has stopped sending (DrainDelay) rules that out.
func (d *door) stopAccepting() {
	for end := time.Now().Add(backlogMax); backlogged(d.l) && time.Now().Before(end); {
		runtime.Gosched() // to the goroutine that accepts
	}
	d.l.Close()
}

// backlogMax bounds the wait for a moment that comes soon or, under a flood, never.
const backlogMax = time.Second

// ServeHTTP answers one request and accounts for it.
func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if d.health {
		switch r.URL.Path {
		case "/healthz":
			serveAlive(w, r)
			return
		case "/readyz":
			d.s.ready.serve(w, r, false)
			return
		}
	}
	begin := time.Now()
	m := d.s.metrics
	m.inFlight.Inc()
	defer m.inFlight.Dec()

	client := d.client(r)
	resp := d.answer(w, r, client)
	d.write(w, r, resp)

	took := time.Since(begin)
	route := routeOf(d.name, r.URL.Path)
	m.observe(route, resp.Status, took)
	d.s.logAccess(r, d.name, route, client, resp, took)
}

func (d *door) client(r *http.Request) netip.Addr {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		// A listener without IP addresses (a Unix socket): there is no
		// address to limit by, and none to trust either.
		return netip.Addr{}
	}
	return clientAddr(peer.Addr(), d.s.cfg.ProxyHeader, r.Header, d.s.cfg.TrustedProxies)
}

// answer never returns nil, nor a status that net/http would refuse.
func (d *door) answer(w http.ResponseWriter, r *http.Request, client netip.Addr) *web.Response {
	if len(r.RequestURI) > web.MaxURL { // as it was sent, escapes and all
		return refuse(r, http.StatusRequestURITooLong, codeInvalidRequest,
			"The URL is longer than "+strconv.Itoa(web.MaxURL)+" bytes.")
	}
	select {
	case d.slots <- struct{}{}:
		defer func() { <-d.slots }()
	default:
		resp := refuse(r, http.StatusServiceUnavailable, codeUnavailable, "The service is busy; try again shortly.")
		resp.Header.Set("Retry-After", "1")
		return resp
	}

	req := &web.Request{
		Method: r.Method,
		Path:   r.URL.Path,
		Query:  r.URL.RawQuery,
		Header: web.Header(r.Header),
		Client: client,
	}
	if stream := d.streams[r.URL.Path]; stream != nil {
		ctx, cancel := context.WithTimeout(r.Context(), d.timeout)
		defer cancel()
		// A connection that knows no deadline has none to put off.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(d.timeout))
		return d.guard(r, func() *web.Response { return stream(ctx, req, r.Body) })
	}
	var err error
	req.Body, err = readBody(r)
	if err != nil {
		status, text := http.StatusBadRequest, "The request body could not be read."
		if ne := net.Error(nil); errors.As(err, &ne) && ne.Timeout() {
			status, text = http.StatusRequestTimeout, "The request body did not arrive in time."
		}
		resp := refuse(r, status, codeInvalidRequest, text)
		resp.Header.Set("Connection", "close")
		return resp
	}
	ctx, cancel := context.WithTimeout(r.Context(), d.timeout)
	defer cancel()
	return d.guard(r, func() *web.Response { return d.handle(ctx, req) })
}

// guard turns a panic or an impossible answer into a 500. The panic's own
// value is logged only where it is the runtime's: any other may quote what
// the engine was working on.
func (d *door) guard(r *http.Request, handle func() *web.Response) (resp *web.Response) {
	defer func() {
		if v := recover(); v != nil {
			cause := fmt.Sprintf("%T", v)
			if re, ok := v.(runtime.Error); ok {
				cause = re.Error()
			}
			resp = refuse(r, http.StatusInternalServerError, codeInternal, "Something went wrong on our side.")
			d.s.log.Error("panic in the engine", "cause", cause,
				"request_id", resp.Header.Get("X-Request-Id"), "stack", string(debug.Stack()))
		}
	}()
	resp = handle()
	if resp != nil && resp.Status == http.StatusServiceUnavailable && resp.Header == nil {
		resp = refuse(r, resp.Status, codeUnavailable, "The service cannot answer just now; try again shortly.")
		resp.Header.Set("Retry-After", "1")
		return resp
	}
	if resp == nil || resp.Header == nil && resp.Status == http.StatusInternalServerError || resp.Status < 200 || resp.Status > 599 {
		resp = refuse(r, http.StatusInternalServerError, codeInternal, "Something went wrong on our side.")
		d.s.log.Error("the engine gave no valid answer", "request_id", resp.Header.Get("X-Request-Id"))
	}
	return resp
}

var bodyBuffers = sync.Pool{New: func() any { b := make([]byte, web.MaxBody+1); return &b }}

// readBody reads at most one byte more than the core accepts. The pooled
// buffer keeps a sender of small bodies from costing 16 KiB each.
func readBody(r *http.Request) ([]byte, error) {
	if r.ContentLength == 0 {
		return nil, nil
	}
	buf := bodyBuffers.Get().(*[]byte)
	defer bodyBuffers.Put(buf)
	for n := 0; ; {
		m, err := r.Body.Read((*buf)[n:])
		n += m
		switch {
		case err == io.EOF, err == nil && n == len(*buf):
			return append([]byte(nil), (*buf)[:n]...), nil
		case err != nil:
			return nil, err
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
		w.Write(resp.Body) // an error here is the client gone; there is nobody left to tell
	}
}
