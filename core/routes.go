package core

import (
	"context"
	"strings"

	"github.com/verge-id/verge/core/admin"
	"github.com/verge-id/verge/core/api"
	"github.com/verge-id/verge/core/internal/console"
	"github.com/verge-id/verge/core/internal/hosted"
	"github.com/verge-id/verge/core/internal/hosted/pages"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/session"
	"github.com/verge-id/verge/core/web"
)

// handler answers the requests to one route, whose bodies have at most maxBody bytes.
type handler func(s *Service, ctx context.Context, req *web.Request, maxBody int) (
	*web.Response, api.Lines, error)

// consoleOfOperators has the console's routes, for the listener of operators.
var consoleOfOperators = consoleRoutes(ConsoleOperators)

// consoleRoutes has the console's routes. Where the console is on another listener, they answer 404.
func consoleRoutes(on string) web.Table[handler] {
	var table web.Table[handler]
	for _, r := range console.Routes {
		table = append(table, web.Route[handler]{Methods: r.Methods, Pattern: r.Pattern, Label: r.Label,
			MaxBody: r.MaxBody, Only: r.Only, Handle: onConsole(on, r.Handle)})
	}
	return table
}

// onConsole serves a page of the console within the rate of the visitor's address, or 404 if the console is
// not on this listener.
func onConsole(on string, page console.Handler) handler {
	return func(s *Service, ctx context.Context, req *web.Request, maxBody int) (
		*web.Response, api.Lines, error) {
		if s.consoleOn != on {
			return nil, nil, web.ErrNoPath
		}
		return s.api.Serve(ctx, req, maxBody,
			api.Page(func() *web.Response { return page(s.console, ctx, req) }))
	}
}

// public has every route of the public side. Package web says how to add one.
//
// The handler of a call of the API is made by onAPI, that of a hosted page by
// onPage. Both run within the rates. Handlers that cost the store nothing need
// neither. Routes that serve something stand before those that only label.
var public = append(consoleRoutes(ConsolePublic), web.Table[handler]{
	{Methods: post, Pattern: api.StartPath, Label: "start", Handle: onAPI(api.Start)},
	{Methods: options, Pattern: api.StartPath, Label: "start", Handle: onAPI(api.Preflight)},
	{Methods: post, Pattern: api.ValidatePath, Label: "validate", Handle: onAPI(api.Validate)},
	{Methods: get, Pattern: api.SessionsPath + "{session}", Label: "sessions", Handle: onAPI(api.Reconcile)},
	{Methods: get, Pattern: api.TestsPath, Label: "testevents", Waits: true,
		Handle: onAPI(api.TestEvents)},

	{Methods: get, Pattern: api.HostedPath, Label: "verify", Handle: onPage(show)},
	{Methods: post, Pattern: api.HostedPath, Label: "verify", Handle: onPage((*hosted.Hosted).Act)},
	{Methods: post, Pattern: api.FilePath, Label: "file", MaxBody: hosted.MaxFileBody, Whole: true,
		Handle: onPage((*hosted.Hosted).ActFile)},
	{Methods: post, Pattern: api.WalletPath, Label: "wallet", MaxBody: hosted.MaxCredentialBody, Whole: true,
		Handle: onPage((*hosted.Hosted).ActCredential)},
	{Methods: get, Pattern: api.PasskeysPath, Label: "verify",
		Handle: onPage((*hosted.Hosted).ShowPasskeys)},
	{Methods: post, Pattern: api.PasskeysPath, Label: "verify", Handle: onPage((*hosted.Hosted).ActPasskeys)},
	{Methods: getAlone, Pattern: api.ReturnPath + "{method}", Label: "return", Whole: true,
		MaxURL: hosted.MaxReturnURL, Handle: onPage(comeBack)},
	{Methods: get, Pattern: api.PhonePath + "{}", Label: "phone", Handle: onPage(phone)},
	{Methods: post, Pattern: api.BoxPath + "{}", Label: "box", MaxBody: method.MaxCall, Whole: true,
		Handle: answer},
	{Methods: get, Pattern: api.BoxPath + "{}", Label: "box", Handle: question},
	{Methods: get, Pattern: pages.AssetsPath + "{}", Label: "verify", Only: isAsset, Handle: asset},
	{Methods: get, Pattern: pages.Icon().Path, Label: "other", Handle: asset},
	{Methods: get, Pattern: "/", Label: "other", Only: web.AsksForPage, Handle: home},

	{Methods: get, Pattern: securityPath, Label: "other", Handle: securityText},
	{Methods: get, Pattern: api.OpenAPIPath, Label: "other", Handle: document},
	{Methods: get, Pattern: api.DocsPath, Label: "docs", Handle: document},
	{Methods: get, Pattern: api.DocsCSSPath, Label: "docs", Handle: document},
	{Methods: get, Pattern: api.ExamplesPath, Label: "docs", Handle: document},

	// Paths that nothing serves.
	{Pattern: api.SessionsPath + "{session...}", Label: "sessions"},
	{Pattern: api.HostedPath + "/{...}", Label: "verify"},
	{Pattern: api.DocsPath + "/{...}", Label: "docs"},
	{Pattern: "{...}", Label: "other"},
}...)

// Methods of routes, as Allow names them. HEAD returns the header of GET, and the engine leaves out the body.
// It must change nothing, so the one GET that acts is without it (contract 35).
var (
	get      = []string{"GET", "HEAD"}
	getAlone = []string{"GET"}
	post     = []string{"POST"}
	options  = []string{"OPTIONS"}
)

// Routes lists the routes of Service.Handle, for the server in front of an engine.
func Routes() web.Listing { return public.Listing() }

// AdminRoutes lists the routes of Service.Admin.
func AdminRoutes() web.Listing { return append(consoleOfOperators.Listing(), admin.Routes()...) }

// route answers a request of the public side.
func (s *Service) route(ctx context.Context, req *web.Request) (*web.Response, api.Lines, error) {
	route, _, allow := public.Find(req)
	switch {
	case route != nil:
		return route.Handle(s, ctx, req, route.BodyLimit())
	case allow != nil:
		return nil, nil, &web.Error{Code: web.MethodNotAllowed, Allow: allow,
			Message: "This path does not take that method. Allow says which it does."}
	}
	return nil, nil, web.ErrNoPath
}

func onAPI(h api.Handler) handler {
	return func(s *Service, ctx context.Context, req *web.Request, maxBody int) (
		*web.Response, api.Lines, error) {
		return s.api.Serve(ctx, req, maxBody, h)
	}
}

// onPage serves a hosted page within the rate of the visitor's address.
func onPage(page func(*hosted.Hosted, context.Context, *web.Request, int) *web.Response) handler {
	return func(s *Service, ctx context.Context, req *web.Request, maxBody int) (
		*web.Response, api.Lines, error) {
		return s.api.Serve(ctx, req, maxBody, api.Page(func() *web.Response {
			return page(s.hosted, ctx, req, maxBody)
		}))
	}
}

// answer serves an answer to a box. It is no browser's, so it has rates of its own.
func answer(s *Service, ctx context.Context, req *web.Request, maxBody int) (
	*web.Response, api.Lines, error) {
	handle, same := boxOf(req)
	return s.api.Serve(ctx, req, maxBody, api.Box(handle.String(), func() (*web.Response, error) {
		return s.hosted.Receive(ctx, req, handle, same)
	}))
}

// question serves what is asked at a box, within the same rates.
func question(s *Service, ctx context.Context, req *web.Request, maxBody int) (
	*web.Response, api.Lines, error) {
	handle, same := boxOf(req)
	return s.api.Serve(ctx, req, maxBody, api.Box(handle.String(), func() (*web.Response, error) {
		return s.hosted.RequestObject(ctx, handle, same)
	}))
}

// boxOf returns the box whose address a request has. A handle of no box is the zero one.
func boxOf(req *web.Request) (handle session.PendingHandle, same bool) {
	text, same := strings.CutSuffix(strings.TrimPrefix(req.Path, api.BoxPath), method.SameDevice)
	handle, _ = session.ParsePendingHandle(text)
	return handle, same
}

// isBox reports whether a path is one to which programs post. They read no pages.
func isBox(path string) bool { return strings.HasPrefix(path, api.BoxPath) }

func show(h *hosted.Hosted, ctx context.Context, req *web.Request, _ int) *web.Response {
	return h.Show(ctx, req)
}

func phone(h *hosted.Hosted, ctx context.Context, req *web.Request, _ int) *web.Response {
	return h.ShowPhone(ctx, req, strings.TrimPrefix(req.Path, api.PhonePath))
}

func comeBack(h *hosted.Hosted, ctx context.Context, req *web.Request, _ int) *web.Response {
	return h.Return(ctx, req, strings.TrimPrefix(req.Path, api.ReturnPath))
}

func home(_ *Service, _ context.Context, req *web.Request, _ int) (*web.Response, api.Lines, error) {
	return hosted.Home(req), nil, nil
}

func document(s *Service, _ context.Context, req *web.Request, _ int) (*web.Response, api.Lines, error) {
	return s.documents.Answer(req.Path), nil, nil
}

func isAsset(req *web.Request) bool { return hosted.HasAsset(req.Path) }

func asset(_ *Service, _ context.Context, req *web.Request, _ int) (*web.Response, api.Lines, error) {
	return hosted.Asset(req.Path), nil, nil
}
