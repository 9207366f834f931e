package modules

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/verge-id/verge/core/admin"
	"github.com/verge-id/verge/core/api"
	"github.com/verge-id/verge/core/web"
)

// Where operators ask for the module and send another one. The core knows
// nothing of it.
const (
	Path            = admin.Prefix + "module"
	SignatureHeader = "Verge-Module-Signature" // Signature.String
)

// CodeRefused is the code of an answer that says why a module is not activated.
const CodeRefused api.Code = "MODULE_REFUSED"

// sent is where a module came from that an operator has sent.
const sent = "activated by an operator"

// InUse is a module that takes requests.
type InUse struct {
	Digest  string    `json:"digest"`            // SHA-256
	Version int64     `json:"version,omitempty"` // that a signature says which was checked
	Source  string    `json:"source"`            // Module.Source, or that an operator has sent it
	Since   time.Time `json:"since"`
}

// Rejected is a module that was refused.
type Rejected struct {
	Digest string    `json:"digest,omitempty"` // "": it could not even be read
	Source string    `json:"source"`
	At     time.Time `json:"at"`
	Reason string    `json:"reason"`
}

// State answers a GET of Path.
type State struct {
	Engine   string    `json:"engine"`           // engine.Native or engine.WASM
	Active   *InUse    `json:"active,omitempty"` // of the engine of guests
	Rejected *Rejected `json:"rejected,omitempty"`
}

// Activated answers a POST to Path.
type Activated struct {
	InUse
	Changed bool `json:"changed"` // it was not active already
}

var errNativeEngine = errors.New("this server's engine is native: it runs no module, " +
	"so there is none to replace; a new release of it takes a restart. " +
	"With engine.name = \"wasm\" modules are replaced while it serves")

var errOtherModule = &api.Error{Code: api.Unavailable, RetryAfter: 5,
	Message: "Another module is being activated; try again when that is over."}

// Answer answers a request for Path. It is a server.Stream, for
// server.Config.AdminStreams.
func (s *Switch) Answer(ctx context.Context, req *web.Request, body io.Reader) *web.Response {
	id := "req_" + rand.Text()
	resp, e := s.answer(ctx, req, body)
	if e != nil {
		resp = api.WriteError(e, id, "")
		if e.Code == CodeRefused {
			resp.Status = 409
		}
	}
	resp.Header.Set("X-Request-Id", id) // the log has it from here
	return resp
}

// answer looks at the credential before it reads the body.
func (s *Switch) answer(ctx context.Context, req *web.Request, body io.Reader) (*web.Response, *api.Error) {
	if !s.authorized(req) {
		return nil, &api.Error{Code: api.Unauthorized,
			Message: "Send the operator token as \"Authorization: Bearer …\"."}
	}
	switch req.Method {
	case "GET":
		return api.Answer(200, s.State()), nil
	case "POST":
	default:
		return nil, &api.Error{Code: api.MethodNotAllowed, Message: "This path does not take that method.",
			Allow: []string{"GET", "POST"}}
	}
	if s.host == nil {
		return nil, refusal(errNativeEngine)
	}
	next, e := s.receive(req, body)
	if e == errOtherModule {
		return nil, e
	}
	if e != nil {
		s.refuse(next, sent, errors.New(e.Message))
		return nil, e
	}
	// It is locked only now: a slow upload keeps no SIGHUP waiting.
	if !s.changing.TryLock() {
		return nil, errOtherModule
	}
	defer s.changing.Unlock()
	var err error
	if next.Version, err = s.forward(next); err != nil {
		s.refuse(next, sent, err)
		return nil, refusal(err)
	}
	changed, err := s.activate(ctx, next)
	if err != nil {
		return nil, refusal(err)
	}
	return api.Answer(200, Activated{*s.State().Active, changed}), nil
}

// forward refuses a module that is not trusted, or is older than the one in
// use. With the operator token alone, modules go forward only; whoever can
// change the configuration can go back.
func (s *Switch) forward(next Module) (version int64, err error) {
	if version, err = s.trust.Check(next); err != nil {
		return 0, err
	}
	if now := s.State().Active; version < now.Version {
		return 0, fmt.Errorf("its signature says %s, and the module in use has version %d: "+
			"to go back, configure the older module and send SIGHUP, or restart",
			VersionText(version), now.Version)
	}
	return version, nil
}

// receive reads a module that an operator sends. Whether it is trusted is
// decided later, since that may change meanwhile.
func (s *Switch) receive(req *web.Request, body io.Reader) (next Module, e *api.Error) {
	if !s.receiving.TryLock() {
		return next, errOtherModule
	}
	defer s.receiving.Unlock()
	wasm, err := io.ReadAll(io.LimitReader(body, maxSize+1))
	switch {
	case err != nil:
		return next, &api.Error{Code: api.InvalidRequest, Message: "The module did not arrive whole."}
	case len(wasm) > maxSize:
		return next, &api.Error{Code: api.PayloadTooLarge,
			Message: fmt.Sprintf("The module is larger than %d bytes.", maxSize)}
	}
	if next, err = New(wasm, sent); err != nil {
		return next, refusal(errors.New("it is no WebAssembly module: it does not begin like one"))
	}
	if text := req.Header.Get(SignatureHeader); text != "" {
		if next.Signature, err = ParseSignature(text); err != nil {
			return next, &api.Error{Code: api.InvalidRequest, Message: SignatureHeader + ": " + err.Error()}
		}
	}
	return next, nil
}

func refusal(err error) *api.Error {
	return &api.Error{Code: CodeRefused, Message: err.Error()}
}

// authorized compares hashes, like the core's own check of the same token.
func (s *Switch) authorized(req *web.Request) bool {
	given, ok := strings.CutPrefix(req.Header.Get("Authorization"), "Bearer ")
	want, got := sha256.Sum256([]byte(s.token)), sha256.Sum256([]byte(given))
	return subtle.ConstantTimeCompare(want[:], got[:]) == 1 && ok && s.token != ""
}

// listed adds Path to the index of the core's operators' API.
func listed(resp *web.Response, req *web.Request) *web.Response {
	if req.Path == "/" && resp.Status == 200 {
		resp.Body = append(slices.Clip(resp.Body), "  GET   "+Path+"\n  POST  "+Path+"\n"...)
	}
	return resp
}
