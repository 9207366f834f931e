package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/verge-id/verge/core/admin"
	"github.com/verge-id/verge/core/reply"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/edge/server"
	"github.com/verge-id/verge/edge/wasmhost"
)

// modules is which module an instance runs, and how that is changed while it
// serves: by SIGHUP, to the configured one, and by an operator's request, to
// one that comes with it. Whichever it is, it has to be trusted, compiled and
// tested before it gets a request; if it is refused, everything stays as it was.
// If a guest of it fails soon afterwards, the host goes back by itself.
type modules struct {
	engine            string
	host              *wasmhost.Engine // nil: the engine is native
	wasmhost.Observer                  // that is told beside this
	cache             *compiledModules
	token             string // the operator's
	log               *slog.Logger
	now               func() time.Time

	receiving sync.Mutex // held by the one upload that is under way: it takes megabytes, and as long as whoever sends it likes
	changing  sync.Mutex // held by the one change that is under way; guards trust
	trust     trust

	mu       sync.Mutex
	active   moduleInUse
	origins  map[string]origin // of all that were to be active, by digest
	rejected *moduleRejected
}

// origin is where a module came from, and the version that its signature says.
type origin struct {
	source  string
	version int64
}

// moduleInUse is a module that takes requests.
type moduleInUse struct {
	Digest  string    `json:"digest"`            // SHA-256
	Version int64     `json:"version,omitempty"` // that a signature says which was checked
	Source  string    `json:"source"`            // a file, built in, or activatedSource
	Since   time.Time `json:"since"`
}

// moduleRejected is a module that was refused.
type moduleRejected struct {
	Digest string    `json:"digest,omitempty"` // "": it could not even be read
	Source string    `json:"source"`
	At     time.Time `json:"at"`
	Reason string    `json:"reason"`
}

// moduleState is what operators are told.
type moduleState struct {
	Engine   string          `json:"engine"`
	Active   *moduleInUse    `json:"active,omitempty"` // of the engine wasm
	Rejected *moduleRejected `json:"rejected,omitempty"`
}

// activationTime bounds compiling and testing a module, which takes seconds.
// One that loops in its test is given up then.
const activationTime = 3 * time.Minute

// activatedSource is where a module came from that an operator has sent.
const activatedSource = "activated by an operator"

var errNativeEngine = errors.New("this server's engine is native: it runs no module, so there is none to replace; " +
	"a new release of it takes a restart. With engine.name = \"wasm\" modules are replaced while it serves")

// reload activates what load returns: the module that is configured now, and
// what is trusted from now on.
func (m *modules) reload(ctx context.Context, load func() (engineAt, error)) {
	m.changing.Lock()
	defer m.changing.Unlock()
	if ctx.Err() != nil {
		return // the server is about to stop
	}
	ctx, cancel := context.WithTimeout(ctx, activationTime)
	defer cancel()
	if m.host == nil {
		m.log.Info("SIGHUP: there is nothing to read again: the engine is native, and a key ring that has changed is read by itself")
		return
	}
	at, err := load()
	if err == nil && at.name != m.engine {
		err = fmt.Errorf("the engine is %s now: that takes a restart", at.name)
	}
	if err != nil {
		m.refuse(at.loaded, "the configuration", err)
		return
	}
	if _, err := m.activate(ctx, at.loaded); err == nil {
		m.trust = at.trust
	}
}

// activate has the module, which is trusted, take the requests from now on. It
// reports whether it did not before.
func (m *modules) activate(ctx context.Context, next module) (changed bool, err error) {
	begin := m.now()
	m.cache.before(next.digest)
	was := m.comesFrom(next) // first, for the host may go back from it before it says that it runs
	err = m.host.Activate(ctx, next.wasm)
	if errors.Is(err, wasmhost.ErrActive) {
		m.log.Info("module is active already", "digest", next.digest, "source", next.source)
		if next.source == activatedSource { // it is still where it came from first
			m.comesFrom(was)
		}
		return false, nil
	}
	if err != nil {
		m.comesFrom(was)
		m.reject(next, next.source, err)
		return false, err
	}
	m.cache.after(next.digest)
	m.log.Info("module activated", "digest", next.digest, "module_version", next.version, "source", next.source, "took", m.now().Sub(begin))
	m.follow()
	return true, nil
}

// comesFrom notes a module's origin and returns the module with the one before.
func (m *modules) comesFrom(now module) (was module) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.origins[now.digest]
	was = module{digest: now.digest, source: before.source, version: before.version}
	m.origins[now.digest] = origin{now.source, now.version}
	return was
}

// follow notes which module the host runs. After each change somebody calls
// it, in whatever order they are told: what counts is the host's word.
func (m *modules) follow() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if digest := m.host.Digest(); digest != m.active.Digest {
		m.active = moduleInUse{Digest: digest, Since: m.seconds()}
	}
}

// refuse notes and counts a refusal that the host knows nothing of.
func (m *modules) refuse(refused module, source string, why error) {
	m.Observer.ModuleActivated(refused.digest, why)
	m.reject(refused, source, why)
}

// reject notes a refusal. The log says it too: whoever sent a signal reads it there.
func (m *modules) reject(refused module, source string, why error) {
	m.log.Error("module refused; the one in use stays", "digest", refused.digest, "source", source, "error", why.Error())
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rejected = &moduleRejected{Digest: refused.digest, Source: source, At: m.seconds(), Reason: why.Error()}
}

// ModuleRolledBack is told by the host, which goes back by itself to a module
// before if a guest of the new one fails soon after it was activated.
func (m *modules) ModuleRolledBack(from, to, cause string) {
	m.Observer.ModuleRolledBack(from, to, cause)
	m.follow()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rejected = &moduleRejected{Digest: from, Source: m.origins[from].source, At: m.seconds(),
		Reason: "a guest of it failed soon after it was activated (" + cause + "), and the module before runs again"}
}

func (m *modules) seconds() time.Time { return m.now().UTC().Truncate(time.Second) }

func (m *modules) state() moduleState {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := moduleState{Engine: m.engine, Rejected: m.rejected}
	if m.host != nil {
		active := m.active
		from := m.origins[active.Digest]
		active.Source, active.Version = from.source, from.version
		s.Active = &active
	}
	return s
}

// close ends the guests once their requests are over.
func (m *modules) close() error {
	if m.host == nil {
		return nil
	}
	m.changing.Lock()
	defer m.changing.Unlock()
	return m.host.Close()
}

// inLog names the engine and the module in use.
func (m *modules) inLog() slog.Attr {
	if m.host == nil {
		return slog.String("engine", m.engine)
	}
	return slog.GroupAttrs("", slog.String("engine", m.engine), slog.String("module", m.host.Digest()))
}

// Where operators ask for the module and send another one. The core knows
// nothing of it.
const (
	modulePath      = admin.Prefix + "module"
	signatureHeader = "Verge-Module-Signature" // base64
)

// codeModuleRefused is the code of an answer that says why a module is not activated.
const codeModuleRefused reply.Code = "MODULE_REFUSED"

// moduleActivated answers an activation.
type moduleActivated struct {
	moduleInUse
	Changed bool `json:"changed"` // it was not active already
}

// answer serves modulePath. The credential comes before the body is read.
func (m *modules) answer(ctx context.Context, req *web.Request, body io.Reader) (*web.Response, *reply.Error) {
	if !m.authorized(req) {
		return nil, &reply.Error{Code: reply.Unauthorized, Message: "Send the operator token as \"Authorization: Bearer …\"."}
	}
	switch req.Method {
	case "GET":
		return reply.JSON(200, m.state()), nil
	case "POST":
	default:
		return nil, &reply.Error{Code: reply.MethodNotAllowed, Message: "This path does not take that method.", Allow: []string{"GET", "POST"}}
	}
	if m.host == nil {
		return nil, refusal(errNativeEngine)
	}
	next, e := m.receive(req, body)
	if e == errOtherModule {
		return nil, e
	}
	if e != nil {
		m.refuse(next, activatedSource, errors.New(e.Message))
		return nil, e
	}
	// Only now: a slow upload keeps no SIGHUP waiting.
	if !m.changing.TryLock() {
		return nil, errOtherModule
	}
	defer m.changing.Unlock()
	var err error
	if next.version, err = m.forward(next); err != nil {
		m.refuse(next, activatedSource, err)
		return nil, refusal(err)
	}
	changed, err := m.activate(ctx, next)
	if err != nil {
		return nil, refusal(err)
	}
	return reply.JSON(200, moduleActivated{*m.state().Active, changed}), nil
}

// forward refuses a module that is not trusted, or is older than the one in
// use: the operator token alone goes forward only, and back is for who can
// change the configuration.
func (m *modules) forward(next module) (version int64, err error) {
	if version, err = m.trust.check(next.digest, next.signature); err != nil {
		return 0, err
	}
	if now := m.state().Active; version < now.Version {
		return 0, fmt.Errorf("its signature says %s, and the module in use has version %d: to go back, configure the older module and send SIGHUP, or restart",
			versionText(version), now.Version)
	}
	return version, nil
}

var errOtherModule = &reply.Error{Code: reply.Unavailable, Message: "Another module is being activated; try again when that is over.", RetryAfter: 5}

// receive reads a module that an operator sends. Whether it is trusted is
// another matter: that may change meanwhile.
func (m *modules) receive(req *web.Request, body io.Reader) (next module, e *reply.Error) {
	if !m.receiving.TryLock() {
		return next, errOtherModule
	}
	defer m.receiving.Unlock()
	wasm, err := io.ReadAll(io.LimitReader(body, maxModule+1))
	switch {
	case err != nil:
		return next, &reply.Error{Code: reply.InvalidRequest, Message: "The module did not arrive whole."}
	case len(wasm) > maxModule:
		return next, &reply.Error{Code: reply.PayloadTooLarge, Message: fmt.Sprintf("The module is larger than %d bytes.", maxModule)}
	}
	if next, err = newModule(wasm, activatedSource); err != nil {
		return next, refusal(errors.New("it is no WebAssembly module: it does not begin like one"))
	}
	if text := req.Header.Get(signatureHeader); text != "" {
		if next.signature, err = parseSignature(text); err != nil {
			return next, &reply.Error{Code: reply.InvalidRequest, Message: signatureHeader + ": " + err.Error()}
		}
	}
	return next, nil
}

func refusal(err error) *reply.Error {
	return &reply.Error{Code: codeModuleRefused, Message: err.Error()}
}

// authorized compares hashes, like the core's own check of the same token.
func (m *modules) authorized(req *web.Request) bool {
	given, ok := strings.CutPrefix(req.Header.Get("Authorization"), "Bearer ")
	want, got := sha256.Sum256([]byte(m.token)), sha256.Sum256([]byte(given))
	return subtle.ConstantTimeCompare(want[:], got[:]) == 1 && ok && m.token != ""
}

// listed is the core's operators' API with this path in its index.
func (m *modules) listed(core server.Handler) server.Handler {
	return func(ctx context.Context, req *web.Request) *web.Response {
		resp := core(ctx, req)
		if req.Path == "/" && resp.Status == 200 {
			resp.Body = append(slices.Clip(resp.Body), "  GET   "+modulePath+"\n  POST  "+modulePath+"\n"...)
		}
		return resp
	}
}

// serve is answer as the server wants it.
func (m *modules) serve(ctx context.Context, req *web.Request, body io.Reader) *web.Response {
	id := "req_" + rand.Text()
	resp, e := m.answer(ctx, req, body)
	if e != nil {
		resp = e.Response(id, "")
		if e.Code == codeModuleRefused {
			resp.Status = 409
		}
	}
	resp.Header.Set("X-Request-Id", id) // the log has it from here
	return resp
}
