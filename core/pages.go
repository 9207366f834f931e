package core

import (
	"github.com/verge-id/verge/core/internal/console/pages"
	"github.com/verge-id/verge/core/internal/hosted"
	"github.com/verge-id/verge/core/web"
)

// ConsolePath begins the path of every page of the console.
const ConsolePath = pages.Root

// ErrorPage returns a page with an error status, in the visitor's language, for a request that did not reach
// the service (contract 22). req may be nil, or lack the parts that could not be read.
//
// The caller asks [web.AsksForPage] whether the request expects a page, and adds headers such as Retry-After.
func ErrorPage(status int, req *web.Request) *web.Response { return hosted.ErrorPage(status, req) }
