package modules

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/verge-id/verge/core/admin"
	"github.com/verge-id/verge/core/operate"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/edge"
)

// Path is the path at which operators read and replace the module. The core does not serve it.
const Path = admin.ModulePath

// sent is the source of a module that an operator has sent.
const sent = "activated by an operator"

var errNativeEngine = errors.New("this server's engine is native: it runs no module " +
	"that could be replaced; a new release requires a restart. " +
	"With engine.name = \"wasm\" modules are replaced while it serves")

var errOtherModule = &web.Error{Code: web.Unavailable, RetryAfter: 5,
	Message: "Another activation is in progress; try again when it is finished."}

// AdminEndpoint shows and replaces the module, at Path. It is for edge.Config.AdminEndpoints.
func (s *Switch) AdminEndpoint() edge.AdminEndpoint {
	return edge.AdminEndpoint{Handle: s.handle, Operations: map[string]operate.Operation{
		"GET": operate.ModuleRead, "POST": operate.ModuleActivate}}
}

func (s *Switch) handle(ctx context.Context, c *edge.Call) (any, *web.Error) {
	if c.Method != "POST" {
		return s.State(), nil
	}
	if s.host == nil {
		return nil, rejection(errNativeEngine)
	}
	next, e := s.receive(c.Request, c.Stream)
	if e == errOtherModule {
		return nil, e
	}
	if e != nil {
		s.rejectModule(next, sent, errors.New(e.Message))
		return nil, e
	}
	// The lock is taken only after the upload, so that a slow upload does not delay a SIGHUP.
	if !s.changing.TryLock() {
		return nil, errOtherModule
	}
	defer s.changing.Unlock()
	var err error
	if next.Version, err = s.forward(next); err != nil {
		s.rejectModule(next, sent, err)
		return nil, rejection(err)
	}
	changed, err := s.activate(ctx, next)
	if err != nil {
		return nil, rejection(err)
	}
	event := "active module sent again"
	if changed {
		event, c.Changed = "module activated by an operator", next.Digest
	}
	s.log.Info(event, "digest", next.Digest, "operator", c.Operator, "request_id", c.ID)
	return admin.ModuleActivated{ModuleInUse: *s.State().Active, Changed: changed}, nil
}

// forward rejects a module that is not trusted, or that is older than the active one. The operator token
// alone cannot reinstall an older module. Only a change of the configuration can.
func (s *Switch) forward(next Module) (version int64, err error) {
	if version, err = s.trust.Check(next); err != nil {
		return 0, err
	}
	if now := s.State().Active; version < now.Version {
		return 0, fmt.Errorf("its signature has %s, and the active module has version %d: "+
			"to go back, configure the older module and send SIGHUP, or restart",
			VersionText(version), now.Version)
	}
	return version, nil
}

// receive reads a module that an operator sends. It does not decide whether the module is trusted,
// because a SIGHUP may change that in the meantime.
func (s *Switch) receive(req *web.Request, body io.Reader) (next Module, e *web.Error) {
	if !s.receiving.TryLock() {
		return next, errOtherModule
	}
	defer s.receiving.Unlock()
	wasm, err := io.ReadAll(io.LimitReader(body, maxSize+1))
	switch {
	case err != nil:
		return next, &web.Error{Code: web.InvalidRequest, Message: "The upload of the module was incomplete."}
	case len(wasm) > maxSize:
		return next, &web.Error{Code: web.PayloadTooLarge,
			Message: fmt.Sprintf("The module is larger than %d bytes.", maxSize)}
	}
	if next, err = New(wasm, sent); err != nil {
		return next, rejection(errors.New("it is not a WebAssembly module"))
	}
	if text := req.Header.Get(admin.ModuleSignatureHeader); text != "" {
		if next.Signature, err = parseSignature(text); err != nil {
			return next, &web.Error{
				Code:    web.InvalidRequest,
				Message: admin.ModuleSignatureHeader + ": " + err.Error(),
			}
		}
	}
	return next, nil
}

func rejection(err error) *web.Error {
	return &web.Error{Code: web.ModuleRejected, Message: err.Error()}
}
