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
	"github.com/verge-id/verge/edge"
	"github.com/verge-id/verge/edge/engine"
	"github.com/verge-id/verge/edge/wasmhost"
	"github.com/verge-id/verge/wasm/settings"
)

// Config has the first module, and the trusted ones.
type Config struct {
	// Module runs first. Trust must have checked it. Nil: no module, because the engine is native; operators
	// see that.
	Module *Module

	// Trust decides about all later modules.
	Trust Trust

	// Cache is a directory for compiled modules. Empty: none are kept.
	Cache string

	// Interruptible is wasmhost.Config.Interruptible.
	Interruptible bool
}

// Switch runs a module and replaces it while the instance serves: Reload by the configured module, and
// an operator's request by the module that comes with it. NewSwitch makes one. It serves one
// edge.Service.
type Switch struct {
	config   Config
	host     *wasmhost.Engine  // nil: the engine is native
	observer wasmhost.Observer // receives rejections that the host does not see
	cache    *Cache
	log      *slog.Logger
	now      func() time.Time

	// receiving is held by the active upload. An upload has megabytes, and its sender decides how long it
	// takes.
	receiving sync.Mutex

	changing sync.Mutex // held by the active change; protects trust
	trust    Trust

	mu       sync.Mutex
	active   admin.ModuleInUse
	origins  map[string]origin // of all modules that were to be activated, by digest
	rejected *admin.ModuleRejected
}

// origin is where a module came from, and the version that its signature says.
type origin struct {
	source  string
	version int64
}

// activationTime is the longest time for compiling and testing a module, which usually takes seconds. A
// module whose test takes longer is rejected.
const activationTime = 3 * time.Minute

// NewSwitch returns a switch that runs nothing until Open.
func NewSwitch(c Config) *Switch {
	return &Switch{config: c, trust: c.Trust, origins: map[string]origin{}}
}

// Open starts the engine that Config describes. It is for edge.Config.Engine. It must be called only
// once.
func (s *Switch) Open(ctx context.Context, at edge.Setup) (engine.Engine, error) {
	s.log, s.now = at.Host.Log, at.Host.Now
	if s.config.Module == nil {
		return at.Native, nil
	}
	if err := s.start(ctx, at); err != nil {
		return nil, fmt.Errorf("engine %s: %w", engine.WASM, err)
	}
	return running{s.host, s}, nil
}

func (s *Switch) start(ctx context.Context, at edge.Setup) error {
	h, first := at.Host, *s.config.Module
	meter, ok := h.KV.(kv.Meter)
	if !ok {
		meter = ratelimit.NewLocal(0).Meter()
	}
	metrics := at.Metrics.Guests(wasmhost.Causes())
	s.observer = metrics
	s.cache = OpenCache(s.config.Cache, h.Now, h.Log)
	checked := s.cache.before(first.Digest)
	ctx, cancel := context.WithTimeout(ctx, activationTime)
	defer cancel()
	slow := time.AfterFunc(time.Second, func() {
		h.Log.Info("compiling the module; the first time takes some seconds")
	})
	var err error
	s.host, err = wasmhost.New(ctx, wasmhost.Config{
		Host: h, Module: first.WASM, Guest: settings.Config{Config: at.Core}, Meter: meter,
		Effect:        at.Trace.Effect,
		Interruptible: s.config.Interruptible,
		Guests:        observer{metrics, s}, Cache: s.cache.library(),
	})
	slow.Stop()
	if err != nil {
		return err
	}
	metrics.Watch(func() edge.GuestState { return edge.GuestState(s.host.Stats()) })
	s.cache.after(first.Digest, checked)
	s.comesFrom(first)
	s.follow()
	return nil
}

// running is the engine that runs guests.
type running struct {
	*wasmhost.Engine
	s *Switch
}

// Close ends the guests when their requests are over. It waits for an active change.
func (e running) Close() error {
	e.s.changing.Lock()
	defer e.s.changing.Unlock()
	return e.Engine.Close()
}

// Reload activates the module that load returns, and then uses the Trust of load. It is for SIGHUP, so it
// logs the result. If load returns an error, its Module is logged as rejected.
func (s *Switch) Reload(ctx context.Context, load func() (Config, error)) {
	s.changing.Lock()
	defer s.changing.Unlock()
	if ctx.Err() != nil {
		return // the server is about to stop
	}
	ctx, cancel := context.WithTimeout(ctx, activationTime)
	defer cancel()
	if s.host == nil {
		s.log.Info("SIGHUP: no module to read again: the engine is native, " +
			"and a changed key ring is read automatically")
		return
	}
	next, err := load()
	if err == nil && next.Module == nil {
		err = fmt.Errorf("the engine is now %s: this requires a restart", engine.Native)
	}
	if err != nil {
		var rejected Module
		if next.Module != nil {
			rejected = *next.Module
		}
		s.rejectModule(rejected, "the configuration", err)
		return
	}
	if _, err := s.activate(ctx, *next.Module); err == nil {
		s.trust = next.Trust
	}
}

// activate routes new requests to a trusted module. It reports whether this is a change.
func (s *Switch) activate(ctx context.Context, next Module) (changed bool, err error) {
	begin := s.now()
	checked := s.cache.before(next.Digest)
	was := s.comesFrom(next) // before Activate, because the host may roll back before Activate returns
	err = s.host.Activate(ctx, next.WASM)
	if errors.Is(err, wasmhost.ErrActive) {
		s.log.Info("module already active", "digest", next.Digest, "source", next.Source)
		if next.Source == sent { // it still has the source from which it came first
			s.comesFrom(was)
		}
		return false, nil
	}
	if err != nil {
		s.comesFrom(was)
		s.reject(next, next.Source, err)
		return false, err
	}
	s.cache.after(next.Digest, checked)
	s.log.Info("module activated", "digest", next.Digest, "module_version", next.Version,
		"source", next.Source, "took_ms", s.now().Sub(begin).Milliseconds())
	s.follow()
	return true, nil
}

// comesFrom records a module's origin. It returns the module with the origin that was recorded before.
func (s *Switch) comesFrom(now Module) (was Module) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.origins[now.Digest]
	was = Module{Digest: now.Digest, Source: before.source, Version: before.version}
	s.origins[now.Digest] = origin{now.Source, now.Version}
	return was
}

// follow records which module the host runs. It is called after each change. It asks the host, because
// several changes may be reported in any order.
func (s *Switch) follow() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if digest := s.host.Digest(); digest != s.active.Digest {
		s.active = admin.ModuleInUse{Digest: digest, Since: s.seconds()}
	}
}

// rejectModule records and counts a rejection that the host does not see.
func (s *Switch) rejectModule(rejected Module, source string, why error) {
	s.observer.ModuleActivated(rejected.Digest, why)
	s.reject(rejected, source, why)
}

// reject records and logs a rejection. An operator who has sent a signal sees it only in the log.
func (s *Switch) reject(rejected Module, source string, why error) {
	s.log.Error("module rejected; the active one stays in use",
		"digest", rejected.Digest, "source", source, "error", why.Error())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rejected = &admin.ModuleRejected{
		Digest: rejected.Digest,
		Source: source,
		At:     s.seconds(),
		Reason: why.Error(),
	}
}

// observer passes the host's reports on, and to the switch, too.
type observer struct {
	wasmhost.Observer
	s *Switch
}

// ModuleRolledBack is called by the host when it has gone back to the module before, because a guest of
// the new one failed soon after its activation.
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

// State returns the state for operators.
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

// Attr returns a log attribute that names the engine and the module in use.
func (s *Switch) Attr() slog.Attr {
	if s.host == nil {
		return slog.String("engine", engine.Native)
	}
	return slog.GroupAttrs("", slog.String("engine", engine.WASM), slog.String("module", s.host.Digest()))
}
