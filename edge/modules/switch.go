package modules

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/verge-id/verge/core/admin"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/ratelimit"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/edge"
	"github.com/verge-id/verge/edge/engine"
	"github.com/verge-id/verge/edge/server"
	"github.com/verge-id/verge/edge/wasmhost"
	"github.com/verge-id/verge/wasm/settings"
)

// Config says which module runs and which ones may.
type Config struct {
	// Module runs first. It must be one that Trust has checked. Nil: none, the
	// engine is native, and operators are told so.
	Module *Module

	// Trust is what other modules are held to.
	Trust Trust

	// Cache is a directory for compiled modules. Empty: none are kept.
	Cache string

	// Interruptible is that of wasmhost.Config.
	Interruptible bool
}

// Switch is which module an instance runs, and how that is changed while it
// serves: by Reload, to the configured one, and by an operator's request, to one
// that comes with it. Make it with NewSwitch; it serves one edge.Service.
type Switch struct {
	config Config
	host   *wasmhost.Engine  // nil: the engine is native
	tells  wasmhost.Observer // is told of refusals that the host knows nothing of
	cache  *Cache
	token  string // the operator's
	log    *slog.Logger
	now    func() time.Time

	// receiving is held by the one upload that is under way. An upload has
	// megabytes and takes as long as its sender likes.
	receiving sync.Mutex

	changing sync.Mutex // held by the one change that is under way; guards trust
	trust    Trust

	mu       sync.Mutex
	active   admin.ModuleInUse
	origins  map[string]origin // of all that were to be active, by digest
	rejected *admin.ModuleRejected
}

// origin is where a module came from, and the version that its signature says.
type origin struct {
	source  string
	version int64
}

// activationTime bounds compiling and testing a module, which takes seconds.
// A module whose test does not end is given up then.
const activationTime = 3 * time.Minute

// NewSwitch returns a switch that runs nothing until Open.
func NewSwitch(c Config) *Switch {
	return &Switch{config: c, trust: c.Trust, origins: map[string]origin{}}
}

// Open starts the engine that Config describes. It is an edge.Config.Engine, and
// is called once.
func (s *Switch) Open(ctx context.Context, at edge.Setup) (engine.Engine, error) {
	s.token, s.log, s.now = at.Core.OperatorToken, at.Host.Log, at.Host.Now
	if s.config.Module == nil {
		return native{at.Native}, nil
	}
	if err := s.start(ctx, at); err != nil {
		return nil, fmt.Errorf("engine %s: %w", engine.WASM, err)
	}
	return running{s.host, s}, nil
}

func (s *Switch) start(ctx context.Context, at edge.Setup) error {
	guest, err := settings.Pack(at.Core)
	if err != nil {
		return err
	}
	h, first := at.Host, *s.config.Module
	meter, ok := h.KV.(kv.Meter)
	if !ok {
		meter = ratelimit.NewLocal(0).Meter()
	}
	metrics := at.Metrics.Guests()
	s.tells = metrics
	s.cache = OpenCache(s.config.Cache, h.Now, h.Log)
	s.cache.before(first.Digest)
	ctx, cancel := context.WithTimeout(ctx, activationTime)
	defer cancel()
	slow := time.AfterFunc(time.Second, func() {
		h.Log.Info("compiling the module, which takes some seconds the first time")
	})
	s.host, err = wasmhost.New(ctx, wasmhost.Config{
		Module: first.WASM, Guest: guest, KV: h.KV, Meter: meter, Fetch: h.Fetch, Sealer: h.Sealer,
		Log: h.Log, Count: h.Count, Wake: h.Wake, Random: h.Random, Interruptible: s.config.Interruptible,
		Observer: observer{metrics, s}, Cache: s.cache.library(),
	})
	slow.Stop()
	if err != nil {
		return err
	}
	metrics.Watch(func() server.GuestState { return server.GuestState(s.host.Stats()) })
	s.cache.after(first.Digest)
	s.comesFrom(first)
	s.follow()
	return nil
}

// native is the native engine, whose operators are shown Path, too.
type native struct{ engine.Engine }

// Admin implements engine.Engine.
func (e native) Admin(ctx context.Context, req *web.Request) *web.Response {
	return listed(e.Engine.Admin(ctx, req), req)
}

// running is the engine of guests.
type running struct {
	*wasmhost.Engine
	s *Switch
}

// Admin implements engine.Engine.
func (e running) Admin(ctx context.Context, req *web.Request) *web.Response {
	return listed(e.Engine.Admin(ctx, req), req)
}

// Close ends the guests once their requests are over. It waits for a change that
// is under way.
func (e running) Close() error {
	e.s.changing.Lock()
	defer e.s.changing.Unlock()
	return e.Engine.Close()
}

// Reload activates the module that load returns, and trusts what load says from
// then on. It is for SIGHUP, so it reports what became of it to the log. The
// Module that load returns with an error is the one that is said to be refused.
func (s *Switch) Reload(ctx context.Context, load func() (Config, error)) {
	s.changing.Lock()
	defer s.changing.Unlock()
	if ctx.Err() != nil {
		return // the server is about to stop
	}
	ctx, cancel := context.WithTimeout(ctx, activationTime)
	defer cancel()
	if s.host == nil {
		s.log.Info("SIGHUP: there is nothing to read again: the engine is native, " +
			"and a key ring that has changed is read by itself")
		return
	}
	next, err := load()
	if err == nil && next.Module == nil {
		err = fmt.Errorf("the engine is %s now: that takes a restart", engine.Native)
	}
	if err != nil {
		var refused Module
		if next.Module != nil {
			refused = *next.Module
		}
		s.refuse(refused, "the configuration", err)
		return
	}
	if _, err := s.activate(ctx, *next.Module); err == nil {
		s.trust = next.Trust
	}
}

// activate has the module, which is trusted, take the requests from now on. It
// reports whether the module did not before.
func (s *Switch) activate(ctx context.Context, next Module) (changed bool, err error) {
	begin := s.now()
	s.cache.before(next.Digest)
	was := s.comesFrom(next) // first, for the host may go back from it before Activate returns
	err = s.host.Activate(ctx, next.WASM)
	if errors.Is(err, wasmhost.ErrActive) {
		s.log.Info("module is active already", "digest", next.Digest, "source", next.Source)
		if next.Source == sent { // it is still where it came from first
			s.comesFrom(was)
		}
		return false, nil
	}
	if err != nil {
		s.comesFrom(was)
		s.reject(next, next.Source, err)
		return false, err
	}
	s.cache.after(next.Digest)
	s.log.Info("module activated", "digest", next.Digest, "module_version", next.Version,
		"source", next.Source, "took", s.now().Sub(begin))
	s.follow()
	return true, nil
}

// comesFrom notes a module's origin and returns the module with the one before.
func (s *Switch) comesFrom(now Module) (was Module) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.origins[now.Digest]
	was = Module{Digest: now.Digest, Source: before.source, Version: before.version}
	s.origins[now.Digest] = origin{now.Source, now.Version}
	return was
}

// follow notes which module the host runs. It is called after each change.
// Several changes may be told in any order; the host's word counts.
func (s *Switch) follow() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if digest := s.host.Digest(); digest != s.active.Digest {
		s.active = admin.ModuleInUse{Digest: digest, Since: s.seconds()}
	}
}

// refuse notes and counts a refusal that the host knows nothing of.
func (s *Switch) refuse(refused Module, source string, why error) {
	s.tells.ModuleActivated(refused.Digest, why)
	s.reject(refused, source, why)
}

// reject notes a refusal. The log has it too: whoever sent a signal reads it there.
func (s *Switch) reject(refused Module, source string, why error) {
	s.log.Error("module refused; the one in use stays",
		"digest", refused.Digest, "source", source, "error", why.Error())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rejected = &admin.ModuleRejected{
		Digest: refused.Digest,
		Source: source,
		At:     s.seconds(),
		Reason: why.Error(),
	}
}

// observer tells the switch, too, what the host tells.
type observer struct {
	wasmhost.Observer
	s *Switch
}

// ModuleRolledBack is told by the host, which goes back by itself to a module
// before if a guest of the new one fails soon after it was activated.
func (o observer) ModuleRolledBack(from, to, cause string) {
	o.Observer.ModuleRolledBack(from, to, cause)
	s := o.s
	s.follow()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rejected = &admin.ModuleRejected{Digest: from, Source: s.origins[from].source, At: s.seconds(),
		Reason: "a guest of it failed soon after it was activated (" + cause +
			"), and the module before runs again"}
}

func (s *Switch) seconds() time.Time { return s.now().UTC().Truncate(time.Second) }

// State is what operators are told.
func (s *Switch) State() admin.ModuleState {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.host == nil {
		return admin.ModuleState{Engine: engine.Native}
	}
	active := s.active
	from := s.origins[active.Digest]
	active.Source, active.Version = from.source, from.version
	return admin.ModuleState{Engine: engine.WASM, Active: &active, Rejected: s.rejected}
}

// Attr names the engine and the module in use, for a log.
func (s *Switch) Attr() slog.Attr {
	if s.host == nil {
		return slog.String("engine", engine.Native)
	}
	return slog.GroupAttrs("", slog.String("engine", engine.WASM), slog.String("module", s.host.Digest()))
}
