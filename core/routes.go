package core

import (
	"context"
	"strings"

	"github.com/verge-id/verge/core/api"
	"github.com/verge-id/verge/core/hosted"
	"github.com/verge-id/verge/core/reply"
	"github.com/verge-id/verge/core/web"
)

// route finds what serves a path. This is the whole map of the public side.
func (s *Service) route(ctx context.Context, req *web.Request) (*web.Response, api.Lines, error) {
	switch {
	case req.Path == api.StartPath && req.Method == "OPTIONS":
		return s.api.Serve(ctx, req, api.Preflight)
	case req.Path == api.StartPath:
		return s.call(ctx, req, "POST", api.Start, "OPTIONS")
	case req.Path == api.ValidatePath:
		return s.call(ctx, req, "POST", api.Validate)
	case strings.HasPrefix(req.Path, api.SessionsPath) && !strings.Contains(req.Path[len(api.SessionsPath):], "/") && req.Path != api.SessionsPath:
		return s.call(ctx, req, "GET", api.Reconcile)
	case req.Path == api.HostedPath && req.Method == "POST":
		return s.api.Serve(ctx, req, api.Page(func() *web.Response { return s.hosted.Act(ctx, req) }))
	case req.Path == api.HostedPath && isGet(req):
		return s.api.Serve(ctx, req, api.Page(func() *web.Response { return s.hosted.Show(ctx, req) }))
	case req.Path == api.HostedPath:
		return nil, nil, methodNotAllowed([]string{"GET", "HEAD", "POST"})
	case req.Path == "/" && web.AsksForPage(req):
		return s.get(req, func() *web.Response { return hosted.Home(req) })
	}
	if document := api.Document(req.Path); document != nil {
		return s.get(req, func() *web.Response { return document })
	}
	if asset := hosted.Asset(req.Path); asset != nil {
		return s.get(req, func() *web.Response { return asset })
	}
	return nil, nil, &reply.Error{Code: reply.NotFound, Message: "There is no such path."}
}

func (s *Service) call(ctx context.Context, req *web.Request, method string, h api.Handler, also ...string) (*web.Response, api.Lines, error) {
	if req.Method != method {
		return nil, nil, methodNotAllowed(append([]string{method}, also...))
	}
	return s.api.Serve(ctx, req, h)
}

// get serves what is only shown.
func (s *Service) get(req *web.Request, serve func() *web.Response) (*web.Response, api.Lines, error) {
	if !isGet(req) {
		return nil, nil, methodNotAllowed([]string{"GET", "HEAD"})
	}
	return serve(), nil, nil
}

// isGet: HEAD is GET whose body the engine leaves out.
func isGet(req *web.Request) bool { return req.Method == "GET" || req.Method == "HEAD" }

func methodNotAllowed(allow []string) error {
	return &reply.Error{Code: reply.MethodNotAllowed, Message: "This path does not take that method. Allow says which it does.", Allow: allow}
}
