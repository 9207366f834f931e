package edge

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/operate"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/edge/internal/server"
	"github.com/verge-id/verge/edge/internal/storehealth"
)

// AdminEndpoint is a path of the operators' API that this process serves itself, because the core has no such
// operation. Callers are authorized by the core's rules (contract 30, 42): package edge asks the engine, so
// wrong tokens count together with wrong tokens on every other path.
type AdminEndpoint struct {
	// Operations has the path's HTTP methods, and the operation of each.
	Operations map[string]operate.Operation

	// Handle runs the operation of the request's method, for an authorized caller. It returns the content of
	// the JSON response, or the API error. If it sets Changed of the call, the operation is entered into the
	// audit.
	Handle func(ctx context.Context, c *Call) (any, *web.Error)
}

// Call is a request for an AdminEndpoint.
type Call struct {
	*web.Request           // without its body
	Stream       io.Reader // the body, of any length, not read yet
	ID           string    // of the request, for the log
	Operator     string    // the id of the token that asks (operate.Actor)
	Changed      string    // Handle stores the created or activated object here; "": none
}

// stream responds to the requests for an endpoint.
func (s *Service) stream(endpoint AdminEndpoint) server.Stream {
	return func(ctx context.Context, req *web.Request, body io.Reader) *web.Response {
		method := req.Method
		if method == "HEAD" { // the server leaves out the body
			method = "GET"
		}
		op, known := endpoint.Operations[method]
		who, rejection := s.authorize(ctx, req, op)
		if rejection != nil {
			return rejection
		}
		c := &Call{Request: req, Stream: body, ID: "req_" + rand.Text(), Operator: who.ID}
		v, e := any(nil), notThatMethod(endpoint)
		switch {
		case known && req.IsEncoded():
			e = web.ErrEncoded
		case known:
			v, e = endpoint.Handle(ctx, c)
		}
		if c.Changed != "" {
			// It has happened even if the caller is gone. The core of this process enters it, and not the
			// engine: that may be a module of an earlier release, or one that fails and was just replaced.
			s.native.TellDone(storehealth.WithBudget(context.WithoutCancel(ctx), s.config.StoreBudget), who,
				op, c.Changed)
		}
		if e != nil {
			return reject(ctx, req, c.ID, e)
		}
		return withIDs(web.JSON(200, v), req, c.ID)
	}
}

// authorize returns the holder of the request's operator token if they may do op; "" is no operation.
// Otherwise it returns the rejection. The engine judges every token, because it counts the wrong ones. The
// token of the configuration is accepted with every response of the engine, except if too many wrong tokens
// came from the address: an operator must be able to replace a module that does not respond.
func (s *Service) authorize(
	ctx context.Context, req *web.Request, op operate.Operation,
) (operate.Actor, *web.Response) {
	configured := hasToken(req, s.config.Core.OperatorToken)
	resp := s.askWho(ctx, req, op, configured)
	if configured && (resp == nil || resp.Status != 429) {
		return operate.Actor{Kind: operate.KindOperator, ID: operate.Configured, Name: operate.Configured,
			Role: operate.RoleOperator}, nil
	}
	var nobody operate.Actor
	switch {
	case resp == nil || resp.Status > 200 && resp.Status < 400:
		return nobody, reject(ctx, req, "req_"+rand.Text(), noResponse)
	case resp.Status == 404: // a wrong token gets 401
		return nobody, reject(ctx, req, "req_"+rand.Text(), oldModule)
	case resp.Status != 200:
		return nobody, resp
	}
	var holder operate.OperatorToken
	if err := json.Unmarshal(resp.Body, &holder); err != nil || holder.ID == "" {
		return nobody, reject(ctx, req, "req_"+rand.Text(), noResponse)
	}
	return operate.Actor{Kind: operate.KindOperator, ID: holder.ID, Name: holder.Name,
		Role: holder.Role}, nil
}

// engineTime is how long an engine may take to judge the token of the configuration.
const engineTime = 2 * time.Second

// askWho asks the engine for the owner of the request's token, and whether it may perform op. The response is
// nil if the engine gave none.
func (s *Service) askWho(
	ctx context.Context, req *web.Request, op operate.Operation, briefly bool,
) *web.Response {
	ask := &web.Request{Method: "GET", Path: operate.ReadSelf.Path, Client: req.Client, Header: web.Header{}}
	if op != "" {
		ask.Query = url.Values{"may": {string(op)}}.Encode()
	}
	for _, name := range []string{"Authorization", "X-Correlation-Id"} {
		if req.Header.Has(name) {
			ask.Header.Set(name, req.Header.Get(name))
		}
	}
	if briefly {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, engineTime)
		defer cancel()
	}
	return s.engine.Admin(ctx, ask)
}

// The errors for a caller whose token the engine could not check.
var (
	noResponse = &web.Error{Code: web.Unavailable, RetryAfter: 1,
		Message: "The token cannot be checked at the moment; no changes were made. Try again."}
	oldModule = &web.Error{Code: web.Forbidden,
		Message: "The active module is of an earlier release, which cannot check the rights of this " +
			"token. Use the operator token of the configuration."}
)

func notThatMethod(endpoint AdminEndpoint) *web.Error {
	allow := slices.Collect(maps.Keys(endpoint.Operations))
	if slices.Contains(allow, "GET") {
		allow = append(allow, "HEAD")
	}
	slices.Sort(allow)
	return &web.Error{Code: web.MethodNotAllowed, Allow: allow,
		Message: "This path does not take that method."}
}

// reject returns the rejection, and adds its code to the request's line in the log (contract 48).
func reject(ctx context.Context, req *web.Request, id string, e *web.Error) *web.Response {
	server.About(ctx, host.RequestInfo{Code: string(e.Code)})
	return withIDs(e.Response(id, web.CorrelationID(req.Header)), req, id)
}

// withIDs adds the ids of contract 4 to a response.
func withIDs(resp *web.Response, req *web.Request, id string) *web.Response {
	resp.Header.Set("X-Request-Id", id)
	if correlation := web.CorrelationID(req.Header); correlation != "" {
		resp.Header.Set("X-Correlation-Id", correlation)
	}
	return resp
}

// hasToken reports whether a request has the operator token of the configuration. It compares hashes, as the
// core does in its own check of the same token. If the configuration has no token, no request has it.
func hasToken(req *web.Request, token string) bool {
	given, _ := req.Header.Bearer()
	want, got := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(given))
	return subtle.ConstantTimeCompare(want[:], got[:]) == 1 && token != ""
}

// listed adds the endpoints to the core's index of the operators' API.
func listed(resp *web.Response, req *web.Request, endpoints map[string]AdminEndpoint) *web.Response {
	if req.Path != "/" || resp == nil || resp.Status != 200 {
		return resp
	}
	text := slices.Clip(resp.Body) // the core may keep it
	for _, path := range slices.Sorted(maps.Keys(endpoints)) {
		for _, method := range slices.Sorted(maps.Keys(endpoints[path].Operations)) {
			text = fmt.Appendf(text, "  %-5s %s\n", method, path)
		}
	}
	resp.Body = text
	return resp
}
