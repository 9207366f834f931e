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

// Stream answers a request of the admin listener and reads the body itself, as far
// as it wants to: req.Body is nil, and body has no limit. It checks the operator's
// credential before it reads.
type Stream func(ctx context.Context, req *web.Request, body io.Reader) *web.Response

// Config is what a server needs. Engine, Routes and Public are required. The zero value
// of any other field works, and means what the field's comment says.
type Config struct {
	Engine engine.Engine
	Public net.Listener

	// Routes are the routes of Engine. They give the labels for the log and for
	// metrics, and the limits of bodies.
	Routes web.Table

	// ReadyAlone returns why this instance is not ready, apart from its store. It does not wait. Nil: the
	// instance is ready.
	ReadyAlone func(context.Context) error

	// Store, if not nil, is the health of the store for health checks, /metrics and every 503.
	Store storeHealth

	// Admin answers the requests to AdminListener, and AdminRoutes are its routes.
	// All nil: no admin API.
	Admin         handler
	AdminRoutes   web.Table
	AdminListener net.Listener

	// AdminStreams answer requests to the admin listener, by path, in place of
	// Admin. They are for the host's own routes, whose bodies may be larger than
	// the core's. A body may take AdminTimeout to arrive. Nil: none.
	AdminStreams map[string]Stream

	// Ops serves /healthz, /readyz and /metrics in plain HTTP to whoever can
	// reach it, so it belongs on an address that the public cannot. Nil: none.
	Ops net.Listener

	// TLS is for the public listener, and for an admin listener beyond loopback: the
	// certificate is for the service's public name, under which nobody reaches an
	// address of loopback. Versions below 1.2 are never spoken. HTTP/2 and HTTP/1.1
	// come before its NextProtos. A connection that agrees on another protocol ends
	// with its handshake, as an authority's check of a host does (RFC 8737). Nil:
	// plain HTTP, for use behind a proxy or for development.
	TLS *tls.Config

	// TrustedProxies are the peers that may say what the client's address is.
	// Nil: none, so the peer is the client.
	TrustedProxies []netip.Prefix

	// ProxyHeader is the header in which the trusted proxies report the client:
	// "X-Forwarded-For" (also if empty) or "Forwarded" (RFC 7239). It is only one,
	// because a proxy that writes one of them passes on the other as the client
	// sent it.
	ProxyHeader string

	Log     *slog.Logger // access log at Info, health checks at Debug; nil discards
	Metrics *Metrics     // nil: the server makes its own, and Ops serves them

	// Trace makes a span of each request. Nil: there are none.
	Trace *tracing.Tracer

	// LogClient says how much of a client's address the log has: one of the Client constants. "":
	// ClientWhole.
	LogClient string

	HandleTimeout time.Duration // the engine's deadline for one public request; 0: 15 s

	// AdminTimeout is the engine's deadline for an operator's request. A webhook
	// test sends five requests to a receiver, and each takes its whole time if the
	// receiver hangs. 0: 75 s.
	AdminTimeout time.Duration

	ReadHeaderTimeout time.Duration // from the first byte to the end of the header; 0: 5 s
	ReadTimeout       time.Duration // from the first byte to the end of the body; 0: 10 s

	// WriteTimeout is the time from the end of the header to the end of the answer,
	// without the engine's deadline. 0: 25 s.
	WriteTimeout time.Duration

	// IdleTimeout is how long a connection is kept alive without a request. 0: 75 s,
	// which is more than the usual 60 s of balancers.
	IdleTimeout time.Duration

	MaxHeaderBytes int // request line and header; 0: 48 KiB

	// MaxConcurrent is how many requests the engine works on at once, for the
	// public and for the admin listener each. One more is answered 503 with
	// Retry-After, because a queue would only make every answer late. 0: 1024.
	MaxConcurrent int

	// MaxConns is how many connections the public listener holds at once. The admin
	// listener holds an eighth of that in addition. For one more, a connection
	// without a request in hand is closed. 0: three quarters of the files that the
	// process may open, at most 16,384.
	MaxConns int

	// MaxConnsPerIP is how many of those one client address has. IPv6 counts by
	// /64. For one more, the address's connection that has been idle for longest is
	// closed. A trusted proxy speaks for many clients, so only MaxConns limits it.
	// 0: 512.
	MaxConnsPerIP int

	// Page is what a person is shown if the server itself refuses a request on the
	// public listener, with status 408, 414, 500 or 503. It is called if Accept
	// prefers HTML, and never below /api. If it is nil or returns nil, the answer is
	// JSON.
	Page func(status int, req *web.Request) *web.Response

	// DrainDelay is how long a draining server still accepts connections, so that
	// balancers can see at /readyz that it is about to end. 0: it stops at once.
	DrainDelay time.Duration

	// IdleGrace is how long kept-alive connections stay open for one more request
	// once no new connections are accepted. From the start of draining, every
	// answer says "Connection: close". The client should close first: if the server
	// closes a connection while the client is sending, that request is lost. The
	// wait ends when no connection is left. 0: 1 s.
	IdleGrace time.Duration

	// DrainTimeout bounds the rest of the draining, with the requests in flight.
	// 0: 20 s.
	DrainTimeout time.Duration

	after func(time.Duration) <-chan time.Time // for requests that wait; nil: time.After
}

// Server serves one engine. Make it with New.
type Server struct {
	cfg      Config
	metrics  *Metrics
	log      *slog.Logger
	draining atomic.Bool
	stopping chan struct{} // closed as draining becomes true
	ready    readiness
	public   *listener
	admin    *listener
	ops      *http.Server

	largeBodies bodyMemory
}

// New returns a server that does not serve yet. It panics if Engine, Routes or Public
// is missing, if Admin is there without AdminRoutes or AdminListener, if AdminListener
// is there without Admin, or if ProxyHeader is neither of the two: these are mistakes in
// the program.
func New(c Config) *Server {
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
	case "":
		c.ProxyHeader = headerXForwardedFor
	case headerXForwardedFor, headerForwarded:
	default:
		panic("server: Config.ProxyHeader is neither X-Forwarded-For nor Forwarded")
	}
	switch c.LogClient {
	case "":
		c.LogClient = ClientWhole
	case ClientWhole, ClientCut, ClientOff:
	default:
		panic("server: Config.LogClient is none of whole, cut and off")
	}
	orDuration(&c.HandleTimeout, 15*time.Second)
	orDuration(&c.AdminTimeout, 75*time.Second)
	orDuration(&c.ReadHeaderTimeout, 5*time.Second)
	orDuration(&c.ReadTimeout, 10*time.Second)
	orDuration(&c.WriteTimeout, 25*time.Second)
	orDuration(&c.IdleTimeout, 75*time.Second)
	orDuration(&c.IdleGrace, time.Second)
	orDuration(&c.DrainTimeout, 20*time.Second)
	if c.MaxHeaderBytes == 0 {
		c.MaxHeaderBytes = 48 << 10
	}
	if c.MaxConcurrent == 0 {
		c.MaxConcurrent = 1024
	}
	if c.MaxConns == 0 {
		c.MaxConns = ConnsFor(OpenFiles())
	}
	if c.MaxConnsPerIP == 0 {
		c.MaxConnsPerIP = 512
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
	mux := http.NewServeMux()
	for _, path := range []string{AlivePath, ReadyPath} {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			peer, _ := netip.ParseAddrPort(r.RemoteAddr) // none of a Unix socket
			s.serveHealth(w, r, "ops", peer.Addr(), true)
		})
	}
	mux.HandleFunc("GET /metrics", s.serveMetrics)
	s.ops = &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			endDoubtfulFraming(w, r)
			mux.ServeHTTP(w, r)
		}),
		ReadHeaderTimeout: c.ReadHeaderTimeout,
		WriteTimeout:      c.WriteTimeout,
		ErrorLog:          slog.NewLogLogger(c.Log.Handler(), slog.LevelWarn),
	}
	return s
}

func orDuration(d *time.Duration, def time.Duration) {
	if *d == 0 {
		*d = def
	}
}

// AdminTimeoutFor is the AdminTimeout where one exchange with a webhook's
// receiver may take that long: a webhook test makes five of them.
func AdminTimeoutFor(exchange time.Duration) time.Duration { return 5*exchange + 10*time.Second }

// ConnsFor is how many connections the public listener holds if Config does not say,
// in a process that may open so many files. The other files are for the admin and
// ops listeners, the store and webhooks.
func ConnsFor(files uint64) int {
	const most = 16384
	if files == 0 || files/4*3 > most {
		return most
	}
	return max(int(files/4*3), 8)
}

// Run serves until ctx is done, and then drains: /readyz turns 503 at once, the
// listeners stay open for DrainDelay, kept-alive connections stay open for
// IdleGrace, and requests in flight are answered. Run returns nil after a complete
// drain, and an error if a listener failed or DrainTimeout ran out. When it returns,
// the listeners are closed. It can be called once.
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
