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

// welcome prints one screen: the address to open, and a first call. --verbose adds all other addresses and
// ids. Secrets are printed in full only to a terminal, where a developer can copy them. They are valid only
// on this machine, but a file or a CI log has other readers, and a secret scanner would rightly report them.
// In that case the sample call reads the key from the file of seeds.
func (p *program) welcome(r readyFile, c *devCmd, exposed []string) {
	secret, key := func(s string) string { return s }, r.SecretKey
	seeds := filepath.Join(c.Data, seedsFile)
	if !p.terminal {
		secret = func(s string) string { return "…" + s[len(s)-4:] }
		key = keyInShell(seeds)
	}
	fmt.Fprintf(p.stdout, `
  Verge is running on this machine. Sandbox, bank, camera and wallet are simulated.

    Open           %s
    Console        %s
    Webhooks       %s
    API            %s   reference: %s
%s
    integration    %s   L1, challenge age 25, sandbox
    secret key     %s
    webhook secret %s

`, r.DemoURL+"/", consoleLine(r, exposed), inboxAddress(r), r.BaseURL, r.BaseURL+"/docs", logLine(c.logPath()),
		r.IntegrationID, secret(r.SecretKey), secret(r.WebhookSecret))
	if c.Verbose {
		p.details(r)
	}
	if len(c.RedirectURI) > 0 {
		fmt.Fprintf(p.stdout, `  For your OpenID client:
    issuer         %s/oidc
    redirect URI   %s
    ID token       ES256

    export CLIENT_ID=%s
    export CLIENT_SECRET=%s
`, r.BaseURL, strings.Join(c.RedirectURI, "\n                   "), r.IntegrationID, key)
	} else {
		fmt.Fprintf(p.stdout, `  A first call. Open the redirect_url of its response:
    curl %s/api/v1/verify/start -H 'Content-Type: application/json' \
      -H "Authorization: Bearer %s" \
      -d '{"integration_id":"%s",
           "callback_url":"%s/callback"}'
`, r.BaseURL, key, r.IntegrationID, r.DemoURL)
	}
	if len(exposed) > 0 {
		fmt.Fprintf(p.stdout, "\n  Other machines can reach %s, and can act as your publisher.\n",
			strings.Join(exposed, " and "))
	}
	more := "--verbose prints all addresses and ids. "
	if c.Verbose {
		more = ""
	}
	fmt.Fprintf(p.stdout, `
  All ids and keys are in %s. Delete it to get new ones.
  %sCtrl-C stops it.

`, seeds, more)
}

// keyInShell returns the secret key as a shell reads it from the file of seeds.
func keyInShell(seeds string) string {
	return fmt.Sprintf(`$(sed -n 's/.*"secret_key": "\(.*\)".*/\1/p' '%s')`, seeds)
}

// details prints the addresses and ids that --verbose adds.
func (p *program) details(r readyFile) {
	fmt.Fprintf(p.stdout, `    Operators      %s   sign in at %s
    or             %s integration list
    Metrics        %s
    Estimator      %s   choose the result of the next photo
    Engine         %s on %s
    publisher      %s
    integration    %s   L2, challenge age 18, sandbox
%s    public key     %s

`, r.AdminURL, r.ConsoleURL, p.name, r.OpsURL+"/metrics", r.DemoURL+"/estimator/", r.Engine, r.KV, r.PublisherID,
		r.IntegrationIDL2, otherIntegrations(r), r.PublicKey)
}

// consoleLine returns the page that signs in, if only this machine can reach it.
func consoleLine(r readyFile, exposed []string) string {
	if len(exposed) > 0 {
		return r.ConsoleURL + "   sign in with the operator token"
	}
	return r.DemoURL + demo.ConsolePath + "   signs you in, at any time"
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
