package core

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/verge-id/verge/core/operate"
	"github.com/verge-id/verge/core/web"
)

const kib = 1 << 10

var publicLines = []string{
	line("GET HEAD", "/console/assets/{}", "console", 16*kib),
	line("GET HEAD", "/console/logo/{}", "console", 16*kib),
	line("POST", "/console/p/{}/brand", "console", 80*kib),
	line("GET HEAD", "/console/{...}", "console", 16*kib),
	line("POST", "/console/{...}", "console", 64*kib),
	line("GET HEAD", "/oidc/.well-known/openid-configuration", "openid", 16*kib),
	line("GET HEAD", "/oidc/jwks", "openid", 16*kib),
	line("GET POST", "/oidc/authorize", "openid", 16*kib),
	line("POST", "/oidc/token", "openid", 16*kib),
	line("GET HEAD POST", "/oidc/userinfo", "openid", 16*kib),
	line("", "/oidc/{endpoint...}", "openid", 16*kib),
	line("POST", "/api/v1/verify/start", "start", 16*kib),
	line("OPTIONS", "/api/v1/verify/start", "start", 16*kib),
	line("POST", "/api/v1/verify/validate", "validate", 16*kib),
	line("GET HEAD", "/api/v1/verify/sessions/{session}", "sessions", 16*kib),
	line("GET HEAD", "/api/v1/verify/test-events", "testevents", 16*kib),
	line("GET HEAD", "/verify", "verify", 16*kib),
	line("POST", "/verify", "verify", 16*kib),
	line("POST", "/verify/file", "file", 1040*kib),
	line("POST", "/verify/wallet", "wallet", 80*kib),
	line("GET HEAD", "/verify/passkeys", "verify", 16*kib),
	line("POST", "/verify/passkeys", "verify", 16*kib),
	line("GET", "/verify/return/{method}", "return", 16*kib),
	line("GET HEAD", "/verify/phone/{}", "phone", 16*kib),
	line("POST", "/verify/box/{}", "box", 64*kib),
	line("GET HEAD", "/verify/box/{}", "box", 16*kib),
	line("GET HEAD", "/verify/logo/{}", "verify", 16*kib),
	line("GET HEAD", "/verify/assets/{}", "verify", 16*kib),
	line("GET HEAD", "/favicon.ico", "other", 16*kib),
	line("GET HEAD", "/", "other", 16*kib),
	line("GET HEAD", "/.well-known/security.txt", "other", 16*kib),
	line("GET HEAD", "/api/v1/openapi.yaml", "other", 16*kib),
	line("GET HEAD", "/docs", "docs", 16*kib),
	line("GET HEAD", "/docs/docs.css", "docs", 16*kib),
	line("GET HEAD", "/docs/docs.js", "docs", 16*kib),
	line("GET HEAD", "/docs/events.json", "docs", 16*kib),
	line("", "/api/v1/verify/sessions/{session...}", "sessions", 16*kib),
	line("", "/verify/{...}", "verify", 16*kib),
	line("", "/docs/{...}", "docs", 16*kib),
	line("", "{...}", "other", 16*kib),
}

// adminLimits are the body limits of endpoints that differ from 16 KiB.
var adminLimits = map[string]int{"POST /admin/v1/publishers": 16*kib + 87_384,
	"PATCH /admin/v1/publishers/{id}": 16*kib + 87_384, "POST /admin/v1/trust-lists": 1024 * kib,
	"POST /admin/v1/site": 1024 * kib}

// adminLines has the lines of the operators' listener.
func adminLines() []string {
	lines := []string{
		line("GET HEAD", "/console/assets/{}", "console", 16*kib),
		line("GET HEAD", "/console/logo/{}", "console", 16*kib),
		line("POST", "/console/p/{}/brand", "console", 80*kib),
		line("GET HEAD", "/console/{...}", "console", 16*kib),
		line("POST", "/console/{...}", "console", 64*kib),
		line("GET HEAD", "/", "admin", 16*kib),
		line("GET HEAD", "/admin/v1/openapi.yaml", "admin", 16*kib),
	}
	for _, e := range operate.Endpoints() {
		method, path, _ := e.Route()
		limit := cmp.Or(adminLimits[method+" "+path], 16*kib)
		lines = append(lines, line(strings.Replace(method, "GET", "GET HEAD", 1), path, "admin", limit))
	}
	return append(lines, line("", "{...}", "admin", 16*kib))
}

// TestRoutes_Tables lists the name of each route in logs and metrics, and its maximum body size. A changed
// label breaks operators' dashboards.
func TestRoutes_Tables(t *testing.T) {
	for name, c := range map[string]struct {
		routes web.Table
		want   []string
	}{
		"public": {Routes(Config{}), publicLines},
		"admin":  {AdminRoutes(), adminLines()},
	} {
		var got []string
		for _, r := range c.routes {
			got = append(got, line(strings.Join(r.Methods, " "), r.Pattern, r.Label, r.BodyLimit()))
		}
		if got, want := strings.Join(got, "\n"), strings.Join(c.want, "\n"); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
		}
	}
}

func line(methods, pattern, label string, limit int) string {
	return fmt.Sprintf("%-8s %-36s %-8s %d", methods, pattern, label, limit)
}

// A host may hold the requests of one route, and of no other.
func TestRoutes_Waiting(t *testing.T) {
	var waits []string
	for _, routes := range []web.Table{Routes(Config{}), AdminRoutes()} {
		for _, r := range routes {
			if r.Waits {
				waits = append(waits, strings.Join(r.Methods, " ")+" "+r.Pattern)
			}
		}
	}
	if len(waits) != 1 || waits[0] != "GET HEAD /api/v1/verify/test-events" {
		t.Errorf("contract 49: %q wait", waits)
	}
}

// TestRoutes_Served checks the assumptions of the tables' readers.
func TestRoutes_Served(t *testing.T) {
	for _, r := range new(Service).publicRoutes() {
		if (r.Handle == nil) != (len(r.Methods) == 0) {
			t.Errorf("%s serves %v, and its handler is nil: %v", r.Pattern, r.Methods, r.Handle == nil)
		}
	}
	for name, routes := range map[string]web.Table{"public": Routes(Config{}), "admin": AdminRoutes()} {
		served := map[string]bool{}
		for _, r := range routes {
			if !regexp.MustCompile(`^(/[^{}]*(\{(\w*|(\w*\.\.\.))\}[^{}]*)?|\{\.\.\.\})$`).
				MatchString(r.Pattern) {
				t.Errorf("%s: %q is no pattern", name, r.Pattern)
			}
			// The server uses "none" for invalid requests.
			if !regexp.MustCompile(`^[a-z]+$`).MatchString(r.Label) || r.Label == "none" {
				t.Errorf("%s: %s has the label %q", name, r.Pattern, r.Label)
			}
			for _, method := range r.Methods {
				if served[method+r.Pattern] {
					t.Errorf("%s: %s %s is served twice", name, method, r.Pattern)
				}
				served[method+r.Pattern] = true
			}
		}
		if last := routes[len(routes)-1]; last.Pattern != "{...}" {
			t.Errorf("%s: paths that no route has lack a label: the last route is %s", name, last.Pattern)
		}
	}
}
