package cli

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/verge-id/verge/cmd/verge/internal/demo"
	"github.com/verge-id/verge/core/method/sandbox"
)

// welcome prints the addresses. Secrets are printed in full only to a terminal, where a developer can copy
// them. They are valid only on this machine, but a file or a CI log has other readers, and a secret scanner
// would rightly report them. In that case the sample call reads the key from the file of seeds.
func (p *program) welcome(r readyFile, c *devCmd, exposed []string) {
	secret, key := func(s string) string { return s }, r.SecretKey
	seeds := filepath.Join(c.Data, seedsFile)
	if !p.terminal {
		secret = func(s string) string { return "…" + s[len(s)-4:] }
		key = fmt.Sprintf(`$(sed -n 's/.*"secret_key": "\(.*\)".*/\1/p' '%s')`, seeds)
	}
	fmt.Fprintf(p.stdout, `
  Verge is running on this machine. Sandbox, bank, camera and wallet are simulated.

    Open           %s
    Console        %s   sign in with the operator token
%s    Webhooks       %s
    Estimator      %s   choose the result of the next photo
    API            %s
    API reference  %s
    Operators      %s   %s integration list
    Metrics        %s
    Engine         %s on %s
%s
    publisher      %s
    integration    %s   L1, challenge age 25, sandbox
    integration    %s   L2, challenge age 18, sandbox
%s    secret key     %s
    public key     %s
    webhook secret %s

  These values are in %s. Delete it to get new ones.
`, r.DemoURL+"/", r.ConsoleURL, p.oneClick(r, exposed), inboxAddress(r), r.DemoURL+"/estimator/", r.BaseURL,
		r.BaseURL+"/docs", r.AdminURL, p.name, r.OpsURL+"/metrics",
		r.Engine, r.KV, logLine(c.logPath()), r.PublisherID, r.IntegrationID, r.IntegrationIDL2,
		otherIntegrations(r), secret(r.SecretKey), r.PublicKey, secret(r.WebhookSecret), seeds)
	fmt.Fprintf(p.stdout, `
  A first call:

    curl %s/api/v1/verify/start \
      -H "Authorization: Bearer %s" -H 'Content-Type: application/json' \
      -d '{"integration_id":"%s","callback_url":"%s/callback"}'
`, r.BaseURL, key, r.IntegrationID, r.DemoURL)
	if len(c.RedirectURI) > 0 {
		fmt.Fprintf(p.stdout, `
  For your OpenID client, with the integration for L1:

    issuer         %s/oidc
    redirect URI   %s
    ID token       ES256

    export CLIENT_ID=%s
    export CLIENT_SECRET=%s
`, r.BaseURL, strings.Join(c.RedirectURI, "\n                   "), r.IntegrationID, key)
	}
	if len(exposed) > 0 {
		fmt.Fprintf(p.stdout, "\n  Other machines can reach %s, and can act as your publisher.\n",
			strings.Join(exposed, " and "))
	}
	fmt.Fprint(p.stdout, "\n  Ctrl-C stops it.\n\n")
}

// oneClick returns the line with the page that signs in, if only this machine can reach it.
func (p *program) oneClick(r readyFile, exposed []string) string {
	if len(exposed) > 0 {
		return ""
	}
	return fmt.Sprintf("    or open        %s   signs you in, at any time\n", r.DemoURL+demo.ConsolePath)
}

// logLine returns the line with the log file, unless the log is standard error.
func logLine(path string) string {
	if path == "-" {
		return ""
	}
	return "    Log            " + path + "\n"
}

// otherIntegrations has a line for the integration of each method except the sandbox, and one for the
// integration with all methods.
func otherIntegrations(r readyFile) string {
	var lines strings.Builder
	line := func(id, methods string) { fmt.Fprintf(&lines, "    integration    %s   %s\n", id, methods) }
	for _, name := range slices.Sorted(maps.Keys(r.Integrations)) {
		if name != sandbox.Name {
			line(r.Integrations[name], name)
		}
	}
	line(r.IntegrationIDAll, "all methods")
	return lines.String()
}

func inboxAddress(r readyFile) string {
	if r.WebhookURL == r.DemoURL+"/webhooks" {
		return r.DemoURL + "/inbox"
	}
	return r.WebhookURL
}
