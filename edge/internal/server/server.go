package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/edge/engine"
	"github.com/verge-id/verge/edge/internal/tracing"
)

// storeHealth reports the state of the store. Its methods are called concurrently and do not block.
type storeHealth interface {
	// Failing returns the reason why the store cannot do all of its work, or nil. It first resets the metric
	// of a failure that no longer counts.
	Failing() error

	// RetryAfter returns the delay in seconds for a rejected caller. Zero: the delay that the engine
	// returned.
	RetryAfter() int
}

// handler handles requests of the admin listener. It checks the operator's credential itself.
type handler func(ctx context.Context, req *web.Request) *web.Response

// Stream handles a request of the admin listener and reads as much of the body as it needs: req.Body is
// nil, and body has no limit. It checks the operator's credential before it reads.
type Stream func(ctx context.Context, req *web.Request, body io.Reader) *web.Response

// Config configures a server. Engine, Routes and Public are required. The zero value of any other field
// means the default in its comment.
type Config struct {
	Engine engine.Engine
	Public net.Listener

	// Routes are the routes of Engine: the labels for log and metrics, and the limits of bodies.
	Routes web.Table

	// ReadyAlone returns the reason why this instance is not ready, regardless of its store. It does not
	// block. Nil: the instance is ready.
	ReadyAlone func(context.Context) error

	// Store, if not nil, is the health of the store for health checks, /metrics and every 503.
	Store storeHealth

	// Admin handles the requests to AdminListener, whose routes are AdminRoutes. All nil: no admin API.
	Admin         handler
	AdminRoutes   web.Table
	AdminListener net.Listener

	// AdminStreams handle requests to the admin listener, by path, instead of Admin. They are for the
	// host's own routes, whose bodies may be larger than the core's. A body may take AdminTimeout to
	// arrive. Nil: no such routes.
	AdminStreams map[string]Stream

	// Ops serves /healthz, /readyz and /metrics in plain HTTP to anyone who can connect, so use an address
	// that is not public. Nil: no such listener.
	Ops net.Listener

	// TLS is for the public listener, and for an admin listener beyond loopback: the certificate is for the
	// service's public name, which does not resolve to a loopback address. Versions below 1.2 are never
	// used. HTTP/2 and HTTP/1.1 come before its NextProtos. A connection that negotiates another protocol
	// ends after its handshake, as needed for an authority's check of a host (RFC 8737). Nil: plain HTTP,
	// for use behind a proxy or for development.
	TLS *tls.Config

	// TrustedProxies are the peers whose report of the client's address is trusted. Nil: none, so the peer
	// is the client.
	TrustedProxies []netip.Prefix

	// ProxyHeader is the header in which the trusted proxies report the client: "X-Forwarded-For" (the
	// default) or "Forwarded" (RFC 7239). Only one is read, because a proxy that writes one of them passes
	// on the other as the client sent it.
	ProxyHeader string

	Log     *slog.Logger // access log at Info, health checks at Debug; nil discards
	Metrics *Metrics     // nil: the server creates its own, and Ops serves them

	// Trace, if not nil, records a span for each request.
	Trace *tracing.Tracer

	// LogClient is the part of a client's address that is logged: "whole" (the default), "cut" or "off".
	LogClient string

	HandleTimeout time.Duration // the engine's deadline for one public request; 0: 15 s

	// AdminTimeout is the engine's deadline for an operator's request. A webhook test sends five requests
	// to a receiver, and each takes its full timeout if the receiver hangs. 0: 75 s.
	AdminTimeout time.Duration

	ReadHeaderTimeout time.Duration // from the first byte to the end of the header; 0: 5 s
	ReadTimeout       time.Duration // from the first byte to the end of the body; 0: 10 s

	// WriteTimeout is the time from the end of the header to the end of the response, without the engine's
	// deadline. 0: 25 s.
	WriteTimeout time.Duration

	// IdleTimeout is how long a connection without a request is kept alive. 0: 75 s, which is more than the
	// usual 60 s of balancers.
	IdleTimeout time.Duration

	MaxHeaderBytes int // request line and header; 0: 48 KiB

	// MaxConcurrent is the maximum number of requests that the engine handles at the same time, for the
	// public and for the admin listener each. Further ones get 503 with Retry-After, because a queue would
	// only delay every response. 0: 1024.
	MaxConcurrent int

	// MaxConns is the maximum number of open connections of the public listener. The admin listener has an
	// additional eighth of it. If a new connection exceeds the limit, one without an active request is
	// closed. 0: three quarters of the files that the process may open, at most 16,384.
	MaxConns int

	// MaxConnsPerIP is the maximum number of them per client address. IPv6 counts by /64. If a new
	// connection exceeds the limit, the address's connection that has been idle for longest is closed. A
	// trusted proxy forwards many clients, so only MaxConns limits it. 0: 512.
	MaxConnsPerIP int

	// Page returns the page that a user sees if the server itself rejects a request on the public listener,
	// with status 408, 414, 500 or 503. It is called if Accept prefers HTML, and never below /api. If it is
	// nil or returns nil, the response is JSON.
	Page func(status int, req *web.Request) *web.Response

	// DrainDelay is how long a draining server still accepts connections, so that balancers can see at
	// /readyz that it is about to stop. 0: it stops accepting immediately.
	DrainDelay time.Duration

	// IdleGrace is how long kept-alive connections stay open for another request after the listeners are
	// closed. From the start of draining, every response has "Connection: close". The client should close
	// first: if the server closes a connection while the client is sending, that request is lost. The wait
	// ends when no connections are left. 0: 1 s.
	IdleGrace time.Duration

	// DrainTimeout limits the rest of the draining, including the requests in flight. 0: 20 s.
	DrainTimeout time.Duration

	after func(time.Duration) <-chan time.Time // timer of long polls; nil: time.After
}

// Server serves one engine. Create it with New.
type Server struct {
	cfg      Config
	metrics  *Metrics
	log      *slog.Logger
	draining atomic.Bool
	stopping chan struct{} // closed when draining becomes true
	ready    readiness
	public   *listener
	admin    *listener
	ops      *http.Server

	largeBodies bodyMemory
}

// New returns a server that does not serve yet. It panics on programming errors: Engine, Routes or Public
// is missing, Admin is set without AdminRoutes or AdminListener, AdminListener is set without Admin, or
// ProxyHeader or LogClient has an unknown value.
func New(c Config) *Server {
	c.check()
	c = c.withDefaults()
	s := &Server{cfg: c, metrics: c.Metrics, log: c.Log, stopping: make(chan struct{}),
		largeBodies: bodyMemory{limit: largeBodyMemory}}
	s.ready = readiness{check: c.Engine.Ready}
	s.public = s.newListener("public", c.Public, c.Engine.Handle, c.HandleTimeout, c.TLS)
	s.public.routes = c.Routes
	c.Metrics.expectFaults(c.Routes)
	s.public.health, s.public.page = true, c.Page
	if c.Admin != nil {
		secure := c.TLS
		if onLoopback(c.AdminListener) {
			secure = nil
		}
		s.admin = s.newListener("admin", c.AdminListener, c.Admin, c.AdminTimeout, secure)
		s.admin.routes, s.admin.streams = c.AdminRoutes, c.AdminStreams
		s.admin.pathWords = pathWords(c.AdminRoutes, c.AdminStreams)
		c.Metrics.expectFaults(c.AdminRoutes)
		s.admin.conns.max = max(c.MaxConns/8, 8)
	}
	s.ops = s.opsServer()
	return s
}

// check panics on programming errors.
func (c Config) check() {
	switch {
	case c.Engine == nil:
		panic("server: Config.Engine is nil")
	case c.Public == nil:
		panic("server: Config.Public is nil; pass a listener")
	case c.Routes == nil:
		panic("server: Config.Routes is nil; pass those of the core")
	case (c.Admin == nil) != (c.AdminListener == nil), c.Admin != nil && c.AdminRoutes == nil:
		panic("server: Config.Admin, Config.AdminRoutes and Config.AdminListener go together")
	}
	switch c.ProxyHeader {
	case "", headerXForwardedFor, headerForwarded:
	default:
		panic("server: Config.ProxyHeader is neither X-Forwarded-For nor Forwarded")
	}
	switch c.LogClient {
	case "", ClientWhole, ClientCut, ClientOff:
	default:
		panic("server: Config.LogClient is none of whole, cut and off")
	}
}

// withDefaults returns c with the default of each field that is zero.
func (c Config) withDefaults() Config {
	c.ProxyHeader = cmp.Or(c.ProxyHeader, headerXForwardedFor)
	c.LogClient = cmp.Or(c.LogClient, ClientWhole)
	c.HandleTimeout = cmp.Or(c.HandleTimeout, 15*time.Second)
	c.AdminTimeout = cmp.Or(c.AdminTimeout, 75*time.Second)
	c.ReadHeaderTimeout = cmp.Or(c.ReadHeaderTimeout, 5*time.Second)
	c.ReadTimeout = cmp.Or(c.ReadTimeout, 10*time.Second)
	c.WriteTimeout = cmp.Or(c.WriteTimeout, 25*time.Second)
	c.IdleTimeout = cmp.Or(c.IdleTimeout, 75*time.Second)
	c.IdleGrace = cmp.Or(c.IdleGrace, time.Second)
	c.DrainTimeout = cmp.Or(c.DrainTimeout, 20*time.Second)
	c.MaxHeaderBytes = cmp.Or(c.MaxHeaderBytes, 48<<10)
	c.MaxConcurrent = cmp.Or(c.MaxConcurrent, 1024)
	c.MaxConnsPerIP = cmp.Or(c.MaxConnsPerIP, 512)
	if c.MaxConns == 0 {
		c.MaxConns = ConnsFor(OpenFiles())
	}
	if c.ReadyAlone == nil {
		c.ReadyAlone = func(context.Context) error { return nil }
	}
	if c.after == nil {
		c.after = time.After
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Metrics == nil {
		c.Metrics = NewMetrics()
	}
	trusted := make([]netip.Prefix, len(c.TrustedProxies))
	for i, p := range c.TrustedProxies {
		trusted[i] = unmapPrefix(p)
	}
	c.TrustedProxies = trusted
	return c
}

// opsServer returns the server of the ops listener.
func (s *Server) opsServer() *http.Server {
	mux := http.NewServeMux()
	for _, path := range []string{AlivePath, ReadyPath} {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			peer, _ := netip.ParseAddrPort(r.RemoteAddr) // a Unix socket has no address
			s.serveHealth(w, r, "ops", peer.Addr(), true)
		})
	}
	mux.HandleFunc("GET /metrics", s.serveMetrics)
	return &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			endDoubtfulFraming(w, r)
			mux.ServeHTTP(w, r)
		}),
		ReadHeaderTimeout: s.cfg.ReadHeaderTimeout,
		ReadTimeout:       s.cfg.ReadTimeout,
		WriteTimeout:      s.cfg.WriteTimeout,
		IdleTimeout:       s.cfg.IdleTimeout,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
	}
}

// AdminTimeoutFor returns the AdminTimeout for a service in which one exchange with a webhook receiver may
// take that long: a webhook test makes five of them.
func AdminTimeoutFor(exchange time.Duration) time.Duration { return 5*exchange + 10*time.Second }

// ConnsFor returns the default of MaxConns for a process that may open this many files. The remaining files
// are for the admin and ops listeners, the store and webhooks.
func ConnsFor(files uint64) int {
	const most = 16384
	if files == 0 || files/4*3 > most {
		return most
	}
	return max(int(files/4*3), 8)
}

// Run serves until ctx is done, and then drains: /readyz returns 503 immediately, the listeners stay open
// for DrainDelay, kept-alive connections stay open for IdleGrace, and requests in flight are completed. Run
// returns nil after a complete drain, and an error if a listener failed or DrainTimeout ran out. When it
// returns, the listeners are closed. It can be called once.
func (s *Server) Run(ctx context.Context) error {
	failed := make(chan error, 3)
	serve := func(name string, run func() error) {
		go func() {
			err := run()
			if s.draining.Load() || errors.Is(err, http.ErrServerClosed) {
				return
			}
			failed <- fmt.Errorf("server: the %s listener failed: %w", name, err)
		}()
	}
	listeners := []*listener{s.public}
	if s.admin != nil {
		listeners = append(listeners, s.admin)
	}
	for _, l := range listeners {
		serve(l.name, l.serve)
	}
	if s.cfg.Ops != nil {
		serve("ops", func() error { return s.ops.Serve(s.cfg.Ops) })
	}

	var cause error
	select {
	case <-ctx.Done():
	case cause = <-failed:
	}
	return errors.Join(cause, s.drain(listeners))
}

func (s *Server) drain(listeners []*listener) error {
	s.draining.Store(true)
	close(s.stopping)
	s.log.Info("draining", "delay", s.cfg.DrainDelay.String())
	defer s.ops.Close()
	time.Sleep(s.cfg.DrainDelay)

	for _, l := range listeners {
		l.stopAccepting(backlogMax)
	}
	connected := func(l *listener) bool { return !l.conns.empty() }
	end := time.Now().Add(s.cfg.IdleGrace)
	for slices.ContainsFunc(listeners, connected) && time.Now().Before(end) {
		time.Sleep(5 * time.Millisecond)
	}

	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.DrainTimeout)
	defer cancel()
	var errs []error
	for _, l := range listeners {
		if err := l.http.Shutdown(ctx); errors.Is(err, context.DeadlineExceeded) {
			errs = append(errs, fmt.Errorf("server: %s listener: requests still running after %v were cut: "+
				"raise DrainTimeout or look for what holds them", l.name, s.cfg.DrainTimeout))
			l.http.Close()
		}
	}
	s.log.Info("drained")
	return errors.Join(errs...)
}
