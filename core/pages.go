package core

import (
	"strings"
	"unicode/utf8"

	"github.com/verge-id/verge/core/internal/brand"
	"github.com/verge-id/verge/core/internal/console/pages"
	"github.com/verge-id/verge/core/internal/hosted"
	hostedpages "github.com/verge-id/verge/core/internal/hosted/pages"
	"github.com/verge-id/verge/core/internal/weburl"
	"github.com/verge-id/verge/core/problem"
	"github.com/verge-id/verge/core/web"
)

// ConsolePath begins the path of every page of the console.
const ConsolePath = pages.Root

// ErrorPage returns a page with an error status, in the visitor's language, for a request that did not reach
// the service (contract 22). req may be nil, or lack the parts that could not be read.
//
// The caller asks [web.AsksForPage] whether the request expects a page, and adds headers such as Retry-After.
func (c Config) ErrorPage(status int, req *web.Request) *web.Response {
	return hosted.ErrorPage(c.brand(), status, "", req)
}

// maxServiceName is the maximum number of characters of Config.ServiceName. A longer one would fill a phone's
// screen.
const maxServiceName = 40

func (c Config) validateBrand(wrong *problem.List) {
	name := c.ServiceName
	if utf8.RuneCountInString(name) > maxServiceName || name != strings.TrimSpace(name) ||
		!brand.IsPrintable(name) {
		wrong.Add("ServiceName", "%q must be 1 to %d characters that can be seen, without space at its ends",
			name, maxServiceName)
	}
	for _, l := range [][2]string{{"HelpURL", c.HelpURL}, {"PrivacyURL", c.PrivacyURL}} {
		if l[1] != "" && weburl.CheckWebhook(l[1], c.Dev) != "" {
			wrong.Add(l[0], "%q is no address of a page; use https, such as https://example.com/help", l[1])
		}
	}
}

// brand returns the operator's brand for the hosted pages.
func (c Config) brand() hostedpages.Service {
	return hostedpages.Service{Name: c.ServiceName, HelpURL: c.HelpURL, PrivacyURL: c.PrivacyURL}
}
