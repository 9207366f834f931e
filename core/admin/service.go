package admin

import (
	_ "embed"
	"strings"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/operate"
	"github.com/verge-id/verge/core/usage"
	"github.com/verge-id/verge/core/web"
)

// UsageDay is what happened on one day, by outcome.
type UsageDay struct {
	Day    string            `json:"day"` // 2026-11-20, UTC
	Counts map[string]uint64 `json:"counts"`
}

// usage tells what happened to the sessions of an integration, by day, also as CSV with ?format=csv.
func (a *Admin) usage(c *call) (*web.Response, error) {
	integration := c.query.Get("integration_id")
	if integration == "" {
		return nil, &web.Error{Code: web.InvalidRequest, Message: "The request is not valid.",
			Details: []web.FieldError{{Field: "integration_id", Code: "required",
				Message: "Required: the id of an integration."}}}
	}
	days, err := a.Operations.Usage(c.ctx, c.who, integration, c.query.Get("from"), c.query.Get("to"))
	if err != nil {
		return nil, err
	}
	if c.query.Get("format") == "csv" {
		var b strings.Builder
		if err := usage.WriteCSV(&b, integration, days); err != nil {
			return nil, err
		}
		return &web.Response{Status: 200, Body: []byte(b.String()), Header: web.Header{
			"Content-Type":           {"text/csv; charset=utf-8"},
			"Cache-Control":          {"no-store"},
			"X-Content-Type-Options": {"nosniff"},
		}}, nil
	}
	shown := make([]UsageDay, len(days))
	for n, day := range days {
		shown[n] = UsageDay{day.Day.String(), map[string]uint64{}}
		for _, outcome := range host.Outcomes() {
			shown[n].Counts[outcome] = day.Counts.Of(outcome)
		}
	}
	return web.JSON(200, struct {
		Days []UsageDay `json:"days"`
	}{shown}), nil
}

func (a *Admin) audit(c *call) (*web.Response, error) {
	cursor, err := c.cursor()
	if err != nil {
		return nil, err
	}
	page, err := a.Operations.Audit(c.ctx, c.who, c.query.Get("publisher_id"), cursor)
	return list("audit", page, err)
}

func (a *Admin) methods(c *call) (*web.Response, error) {
	methods, err := a.Operations.Methods(c.ctx, c.who)
	return list("methods", operate.Page[operate.Method]{Items: methods}, err)
}

// site puts what a configuration names into the store, or says with ?dry_run=1 what that would change.
func (a *Admin) site(c *call) (*web.Response, error) {
	if _, err := c.body(); err != nil {
		return nil, err
	}
	do := a.Operations.ApplySite
	if c.flag("dry_run") {
		do = a.Operations.PlanSite
	}
	changes, err := do(c.ctx, c.who, c.req.Body)
	if err != nil {
		return nil, err
	}
	if changes == nil {
		changes = []operate.Difference{}
	}
	return web.JSON(200, SiteAnswer{!c.flag("dry_run"), changes}), nil
}

//go:embed openapi.yaml
var openAPI []byte

// OpenAPI returns the description of the API for machines.
func OpenAPI() []byte { return openAPI }

// document describes the API for machines. It tells nothing of the service.
func document() *web.Response {
	return &web.Response{Status: 200, Body: OpenAPI(), Header: web.Header{
		"Content-Type":           {"application/yaml; charset=utf-8"},
		"Cache-Control":          {"no-cache"},
		"X-Content-Type-Options": {"nosniff"},
	}}
}
