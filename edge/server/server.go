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
)

// Engine is the service as the server sees it.
type Engine interface {
	// Handle answers a request of the public API or of a hosted page. It
	// returns soon after ctx is done. A bare status, 503 or 500, without
	// header and body, is put into words by the server.
	Handle(ctx context.Context, req *web.Request) *web.Response

	// Ready reports whether the KV can be reached.
	Ready(ctx context.Context) error
}

// Store is the engine's store as far as health checks and refused callers
// should know. Methods are called concurrently and return at once.
type Store interface {
	// Failing is why the store cannot do all that it is for; nil if it can.
	Failing() error

	// RetryAfter is how many seconds who is refused should wait; zero: no
	// longer than the engine says.
	RetryAfter() int
}

// Handler answers requests of the admin listener. It checks the operator's
// credential itself; the server does not know one.
type Handler func(ctx context.Context, req *web.Request) *web.Response

// Stream answers a request of the admin listener whose body it reads itself,
// as far as it wants to: req.Body is nil, and body has no limit. It checks the
// operator's credential before it reads.
type Stream func(ctx context.Context, req *web.Request, body io.Reader) *web.Response

// Config is what a server needs. Engine and Public are required; any other
// field's zero value works and means what its comment says.
type Config struct {
	Engine Engine
	Public net.Listener

	// Store is asked by health checks and at every 503. Nil: nobody is asked.
	Store Store

	// Admin answers what arrives at AdminListener. Nil, both: no admin API.
	Admin         Handler
	AdminListener net.Listener

	// AdminStreams answer, by path, what the admin listener is asked beside
	// Admin: the host's own business, whose bodies may be larger than the
	// core's. Each may take AdminTimeout to arrive. Nil: none.
	AdminStreams map[string]Stream

	// Ops serves /healthz, /readyz and /metrics in plain HTTP to whoever can
	// reach it, so it belongs on an address that the public cannot. Nil: none.
	Ops net.Listener

	// TLS is for the public and admin listeners. Nil: plain HTTP, for a
	// proxy in front or for development. Versions below 1.2 are never spoken.
	TLS *tls.Config

	// TrustedProxies are the peers whose word on the client's address is
	// taken. Nil: none, the peer is the client.
	TrustedProxies []netip.Prefix

	// ProxyHeader is the one header in which the trusted proxies report the
	// client: "X-Forwarded-For" (also if empty) or "Forwarded" (RFC 7239). It
	// is one and not both because a proxy that writes one passes the other
	// through as the client sent it.
	ProxyHeader string

	Log     *slog.Logger // access log at Info, health checks at Debug; nil discards
	Metrics *Metrics     // nil: an own one, which Ops serves all the same

	HandleTimeout time.Duration // the engine's deadline for one public request; 0: 15 s

	// AdminTimeout is the same for an operator's request. A webhook test asks
	// a receiver five times, and one that hangs takes its whole time each
	// time. 0: 75 s.
	AdminTimeout time.Duration

	ReadHeaderTimeout time.Duration // from the first byte to the end of the header; 0: 5 s
	ReadTimeout       time.Duration // from the first byte to the end of the body; 0: 10 s
	WriteTimeout      time.Duration // beside the engine's deadline, from the end of the header to the end of the answer; 0: 25 s
	IdleTimeout       time.Duration // a kept-alive connection without a request; 0: 75 s, more than the usual balancer's 60
	MaxHeaderBytes    int           // request line and header; 0: 32 KiB

	// MaxConcurrent is how many requests the engine works on at once, over
	// public and admin listener each. One more is answered 503 with
	// Retry-After: a queue here would only make every answer late. 0: 1024.
	MaxConcurrent int

	// MaxConns is how many connections the public listener holds at once; the
	// admin listener holds an eighth of that beside them. Where one more comes,
	// a connection that does nothing gives way. 0: three quarters of the files
	// that the process may open, at most 16,384.
	MaxConns int

	// MaxConnsPerIP is how many of them one client address has, where IPv6
	// counts by /64. For one more, its own idlest gives way. A trusted proxy,
	// which speaks for many, is held to MaxConns alone. 0: 512.
	MaxConnsPerIP int

	// Page is what a person is shown where the server itself refuses a
	// request on the public listener: with status 408, 414, 500 or 503. It is
	// asked where Accept prefers HTML, and never below /api. Nil, or a nil
	// page: JSON.
	Page func(status int, req *web.Request) *web.Response

	// DrainDelay is how long a draining server still accepts connections, so
	// that balancers can read from /readyz that it is about to go. 0: none.
	DrainDelay time.Duration

	// IdleGrace is how long, once no more connections are accepted, those
	// kept alive may stay for one more request. Every answer from the start
	// of draining on says "Connection: close"; a connection that is closed
	// under a client just as it sends loses that request, so it is the client
	// that should go first. The wait ends when no connection is left. 0: 1 s.
	IdleGrace time.Duration

	// DrainTimeout bounds the rest, requests in flight included. 0: 20 s.
	DrainTimeout time.Duration
}

// Server serves one engine. Make it with New.
type Server struct {
	cfg      Config
	metrics  *Metrics
	log      *slog.Logger
	draining atomic.Bool
	ready    readiness
	public   *door
	admin    *door
	ops      *http.Server
}

// New returns a server that does not serve yet. It panics if Engine or Public
// is missing, if Admin and AdminListener are not both there or both absent, or
// if ProxyHeader is no known one: these are mistakes in the program.
func New(c Config) *Server {
	switch {
	case c.Engine == nil:
		panic("server: Config.Engine is nil")
	case c.Public == nil:
		panic("server: Config.Public is nil; pass a listener")
	case (c.Admin == nil) != (c.AdminListener == nil):
		panic("server: Config.Admin and Config.AdminListener go together")
	}
	switch c.ProxyHeader {
	case "":
		c.ProxyHeader = headerXForwardedFor
	case headerXForwardedFor, headerForwarded:
	default:
		panic("server: Config.ProxyHeader is neither X-Forwarded-For nor Forwarded")
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
		c.MaxHeaderBytes = 32 << 10
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

	s := &Server{cfg: c, metrics: c.Metrics, log: c.Log}
	s.ready = readiness{check: c.Engine.Ready}
	s.public = s.newDoor("public", c.Public, c.Engine.Handle, c.HandleTimeout)
	s.public.health, s.public.show = true, c.Page
	if c.Admin != nil {
		s.admin = s.newDoor("admin", c.AdminListener, c.Admin, c.AdminTimeout)
		s.admin.streams = c.AdminStreams
		s.admin.crowd.most = max(c.MaxConns/8, 8)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { s.serveAlive(w, true) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) { s.serveReady(w, r, true) })
	mux.Handle("GET /metrics", s.metrics.handler())
	s.ops = &http.Server{
		Handler:           mux,
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

// ConnsFor is how many connections a process that may open so many files holds
// if Config does not say. The rest is for the admin and ops listeners, the store and webhooks.
func ConnsFor(files uint64) int {
	const most = 16384
	if files == 0 || files/4*3 > most {
		return most
	}
	return max(int(files/4*3), 8)
}

// Handler returns what the public listener serves, for tests that bring their
// own connections.
func (s *Server) Handler() http.Handler { return s.public }

// Run serves until ctx is done, then drains: /readyz turns 503 at once, the
// listeners stay open for DrainDelay, kept-alive connections for IdleGrace,
// and requests in flight are answered. It returns nil after a complete drain,
// and an error if a listener failed or DrainTimeout ran out. The listeners are
// closed when it returns. It can be called once.
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
	doors := []*door{s.public}
	if s.admin != nil {
		doors = append(doors, s.admin)
	}
	for _, d := range doors {
		serve(d.name, d.serve)
	}
	if s.cfg.Ops != nil {
		serve("ops", func() error { return s.ops.Serve(s.cfg.Ops) })
	}

	var cause error
	select {
	case <-ctx.Done():
	case cause = <-failed:
	}
	return errors.Join(cause, s.drain(doors))
}

func (s *Server) drain(doors []*door) error {
	s.draining.Store(true)
	s.log.Info("draining", "delay", s.cfg.DrainDelay)
	defer s.ops.Close()
	time.Sleep(s.cfg.DrainDelay)

	for _, d := range doors {
		d.stopAccepting()
	}
	left := func(d *door) bool { return !d.crowd.empty() }
	for end := time.Now().Add(s.cfg.IdleGrace); slices.ContainsFunc(doors, left) && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}

	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.DrainTimeout)
	defer cancel()
	var errs []error
	for _, d := range doors {
		if err := d.http.Shutdown(ctx); errors.Is(err, context.DeadlineExceeded) {
			errs = append(errs, fmt.Errorf("server: %s listener: requests still running after %v were cut: raise DrainTimeout or look for what holds them", d.name, s.cfg.DrainTimeout))
			d.http.Close()
		}
	}
	s.log.Info("drained")
	return errors.Join(errs...)
}
