package core

import (
	"context"
	"slices"
	"strings"

	"github.com/verge-id/verge/core/internal/api"
	"github.com/verge-id/verge/core/internal/hosted"
	"github.com/verge-id/verge/core/internal/hosted/pages"
	"github.com/verge-id/verge/core/internal/router"
	"github.com/verge-id/verge/core/internal/session"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/ratelimit"
	"github.com/verge-id/verge/core/web"
)

// publicRoutes returns every route of the public side. Package web describes how to add one.
//
// Handlers that read the store are limited by rates: a hosted page by s.page, a pending response by
// s.pending, a call of the API by package api. Routes without a handler are last.
func (s *Service) publicRoutes() router.Table {
	return slices.Concat(s.consoleRoutes(ConsolePublic), s.openID.Routes(), router.Table{
		{Methods: post, Pattern: web.StartPath, Label: "start", Handle: s.api.Start},
		{Methods: options, Pattern: web.StartPath, Label: "start", Handle: s.api.Preflight},
		{Methods: post, Pattern: web.ValidatePath, Label: "validate", Handle: s.api.Validate},
		{Methods: get, Pattern: web.SessionsPath + "{session}", Label: "sessions", Handle: s.api.Reconcile},
		{Methods: get, Pattern: web.TestsPath, Label: "testevents", Waits: true,
			Handle: s.api.TestEvents},

		{Methods: get, Pattern: web.HostedPath, Label: "verify", Handle: s.page(s.hosted.Show)},
		{Methods: post, Pattern: web.HostedPath, Label: "verify", Handle: s.page(s.hosted.Act)},
		{Methods: post, Pattern: hosted.FilePath, Label: "file", MaxBody: hosted.MaxFileBody, Whole: true,
			Handle: s.page(s.hosted.ActFile)},
		{Methods: post, Pattern: hosted.WalletPath, Label: "wallet", MaxBody: s.maxCall + web.MaxBody,
			Whole: true, Handle: s.page(s.hosted.ActCredential)},
		{Methods: get, Pattern: hosted.PasskeysPath, Label: "verify",
			Handle: s.page(s.hosted.ShowPasskeys)},
		{Methods: post, Pattern: hosted.PasskeysPath, Label: "verify", Handle: s.page(s.hosted.ActPasskeys)},
		{Methods: getAlone, Pattern: web.ReturnPath + "{method}", Label: "return", Whole: true,
			MaxURL: hosted.MaxReturnURL, Handle: s.page(s.hosted.Return)},
		{Methods: get, Pattern: hosted.PhonePath + "{}", Label: "phone", Handle: s.page(s.hosted.ShowPhone)},
		{Methods: post, Pattern: web.PendingPath + "{}", Label: "box", MaxBody: s.maxCall, Whole: true,
			Handle: s.pending(s.hosted.Receive)},
		{
			Methods: get,
			Pattern: web.PendingPath + "{}",
			Label:   "box",
			Handle:  s.pending(s.hosted.RequestObject),
		},
		{Methods: get, Pattern: hosted.LogoPath + "{}", Label: "verify",
			Handle: router.LimitPages(s.limits, s.hosted.Logo)},
		{Methods: get, Pattern: pages.AssetsPath + "{}", Label: "verify", Only: isAsset, Handle: asset},
		{Methods: get, Pattern: pages.Icon().Path, Label: "other", Handle: asset},
		{Methods: get, Pattern: "/", Label: "other", Only: web.AsksForPage,
			Handle: router.Page(s.hosted.Home)},

		{Methods: get, Pattern: securityPath, Label: "other", Handle: s.securityText},
		{Methods: get, Pattern: web.OpenAPIPath, Label: "other", Handle: s.document},
		{Methods: get, Pattern: api.DocsPath, Label: "docs", Handle: s.docs},
		{Methods: get, Pattern: api.DocsCSSPath, Label: "docs", Handle: s.document},
		{Methods: get, Pattern: api.DocsJSPath, Label: "docs", Handle: s.document},
		{Methods: get, Pattern: api.ExamplesPath, Label: "docs", Handle: s.document},

		// Paths that nothing serves.
		{Pattern: web.SessionsPath + "{session...}", Label: "sessions"},
		{Pattern: web.HostedPath + "/{...}", Label: "verify"},
		{Pattern: api.DocsPath + "/{...}", Label: "docs"},
		{Pattern: "{...}", Label: "other"},
	})
}

// consoleRoutes returns the routes of the console. They return 404 if the console is on another listener.
func (s *Service) consoleRoutes(on string) router.Table {
	routes := s.console.Routes()
	for i := range routes {
		page := router.LimitPages(s.limits, routes[i].Handle)
		routes[i].Handle = func(ctx context.Context, c *router.Call) (*web.Response, error) {
			if s.consoleOn != on {
				return nil, web.ErrNoPath
			}
			return page(ctx, c)
		}
	}
	return routes
}

// Methods of routes, as Allow names them. HEAD returns the header of GET, and the engine leaves out the body.
// It must have no effects, so the one GET that acts has no HEAD (contract 35).
var (
	get      = []string{"GET", "HEAD"}
	getAlone = []string{"GET"}
	post     = []string{"POST"}
	options  = []string{"OPTIONS"}
)

// Routes lists the routes of Service.Handle, for the server in front of an engine.
func Routes(c Config) web.Table {
	catalog, _ := c.Catalog()
	return (&Service{maxCall: catalog.MaxCall()}).publicRoutes().Listing()
}

// AdminRoutes lists the routes of Service.Admin.
func AdminRoutes() web.Table {
	s := new(Service)
	return append(s.consoleRoutes(ConsoleOperators), s.admin.Routes()...).Listing()
}

// page serves a page within the rate of pages.
func (s *Service) page(serve func(context.Context, *router.Call) *web.Response) router.Handler {
	return router.LimitPages(s.limits, router.Page(serve))
}

// pending serves a pending response within the rates of the client's address and of the response. Programs
// send it, not browsers.
func (s *Service) pending(serve func(_ context.Context, _ *router.Call, _ session.PendingHandle, same bool) (
	*web.Response, error)) router.Handler {
	return func(ctx context.Context, c *router.Call) (*web.Response, error) {
		text, same := strings.CutSuffix(c.Text, method.SameDevice)
		handle, _ := session.ParsePendingHandle(text)
		rules := []ratelimit.Rule{s.limits.PendingPerIP.ForClient("box-ip", c.Client)}
		if key := handle.String(); key != "" {
			rules = append(rules, ratelimit.Rule{Name: "box", Key: key, Limit: s.limits.PendingPerHandle})
		}
		if err := c.Take(ctx, rules...); err != nil {
			return nil, err
		}
		return serve(ctx, c, handle, same)
	}
}

// errorPage returns the page for an error on the public side, or nil if the client expects JSON.
func (s *Service) errorPage(status int, text string, req *web.Request) *web.Response {
	if !web.AsksForPage(req) {
		return nil
	}
	return hosted.ErrorPage(s.hosted.Service, status, text, req)
}

func (s *Service) document(_ context.Context, c *router.Call) (*web.Response, error) {
	return s.documents.Document(c.Path), nil
}

// docs serves the documentation. For a person who is signed in to the console it reads the store, within the
// rate of pages, and has the values of an integration.
func (s *Service) docs(ctx context.Context, c *router.Call) (*web.Response, error) {
	if s.consoleOn != ConsolePublic || !s.console.HasCookie(c.Request) {
		return s.document(ctx, c)
	}
	return router.LimitPages(s.limits, func(ctx context.Context, c *router.Call) (*web.Response, error) {
		integration, callback := s.console.Sample(ctx, c.Request)
		if integration == "" {
			return s.document(ctx, c)
		}
		return s.documents.PageFor(api.Caller{Integration: integration, Callback: callback}), nil
	})(ctx, c)
}

func isAsset(req *web.Request) bool { return hosted.HasAsset(req.Path) }

func asset(_ context.Context, c *router.Call) (*web.Response, error) {
	return hosted.Asset(c.Path), nil
}
