package modules

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/verge-id/verge/core/admin"
	"github.com/verge-id/verge/core/reply"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/edge/server"
)

// Path is where operators ask for the module and send another one. The core knows nothing of it.
const Path = admin.ModulePath

// codeRefused is the code of an answer that says why a module is not activated.
const codeRefused reply.Code = "MODULE_REFUSED"

// sent is the source of a module that an operator has sent.
const sent = "activated by an operator"

var errNativeEngine = errors.New("this server's engine is native: it runs no module, " +
	"so there is none to replace; a new release of it takes a restart. " +
	"With engine.name = \"wasm\" modules are replaced while it serves")

var errOtherModule = &reply.Error{Code: reply.Unavailable, RetryAfter: 5,
	Message: "Another module is being activated; try again when that is over."}

// Answer answers a request for Path. It is a server.Stream, for
// server.Config.AdminStreams.
func (s *Switch) Answer(ctx context.Context, req *web.Request, body io.Reader) *web.Response {
	id := "req_" + rand.Text()
	resp, e := s.answer(ctx, req, body)
	if e != nil {
		resp = e.Response(id, "")
		if e.Code == codeRefused {
			resp.Status = 409
		}
	}
	resp.Header.Set("X-Request-Id", id) // the server's log takes it from this header
	return resp
}

// answer checks the credential before it reads the body.
func (s *Switch) answer(ctx context.Context, req *web.Request, body io.Reader) (*web.Response, *reply.Error) {
	if !server.HasToken(req, s.token) {
		return nil, &reply.Error{Code: reply.Unauthorized,
			Message: "Send the operator token as \"Authorization: Bearer …\"."}
	}
	switch req.Method {
	case "GET":
		return reply.JSON(200, s.State()), nil
	case "POST":
	default:
		return nil, &reply.Error{Code: reply.MethodNotAllowed, Message: "This path does not take that method.",
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
	// The lock is taken only after the upload, so that a slow upload does not delay a SIGHUP.
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
	return reply.JSON(200, admin.ModuleActivated{ModuleInUse: *s.State().Active, Changed: changed}), nil
}

// forward refuses a module that is not trusted, or that is older than the one in use. The operator token
// alone cannot bring back an older module. Only a change of the configuration can.
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

// receive reads a module that an operator sends. It does not decide whether the module is trusted,
// because a SIGHUP may change that meanwhile.
func (s *Switch) receive(req *web.Request, body io.Reader) (next Module, e *reply.Error) {
	if !s.receiving.TryLock() {
		return next, errOtherModule
	}
	defer s.receiving.Unlock()
	wasm, err := io.ReadAll(io.LimitReader(body, maxSize+1))
	switch {
	case err != nil:
		return next, &reply.Error{Code: reply.InvalidRequest, Message: "The module did not arrive whole."}
	case len(wasm) > maxSize:
		return next, &reply.Error{Code: reply.PayloadTooLarge,
			Message: fmt.Sprintf("The module is larger than %d bytes.", maxSize)}
	}
	if next, err = New(wasm, sent); err != nil {
		return next, refusal(errors.New("it is no WebAssembly module: it does not begin like one"))
	}
	if text := req.Header.Get(admin.ModuleSignatureHeader); text != "" {
		if next.Signature, err = parseSignature(text); err != nil {
			return next, &reply.Error{
				Code:    reply.InvalidRequest,
				Message: admin.ModuleSignatureHeader + ": " + err.Error(),
			}
		}
	}
	return next, nil
}

func refusal(err error) *reply.Error {
	return &reply.Error{Code: codeRefused, Message: err.Error()}
}

// listed adds Path to the core's index of the operators' API.
func listed(resp *web.Response, req *web.Request) *web.Response {
	if req.Path == "/" && resp.Status == 200 {
		resp.Body = append(slices.Clip(resp.Body), "  GET   "+Path+"\n  POST  "+Path+"\n"...)
	}
	return resp
}
