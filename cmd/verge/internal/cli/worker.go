package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/verge-id/verge/cmd/verge/internal/workercheck"
)

// workerCommands are the commands of `verge worker`.
type workerCommands struct {
	Check workerCheckCmd `cmd:"" help:"Check a Cloudflare Worker's wrangler.jsonc before you deploy it."`
}

type workerCheckCmd struct {
	File    string `arg:"" type:"path" default:"wrangler.jsonc" help:"The Worker's configuration."`
	Secrets string `placeholder:"FILE" help:"Output of wrangler secret list. Report missing secrets."`
}

// maxWrangler is the maximum size of a file that `verge worker check` reads.
const maxWrangler = 4 << 20

// Help is shown by "verge worker check --help".
func (workerCheckCmd) Help() string {
	return `Reads wrangler.jsonc as the Worker and the platform do, without a connection. It
checks the bindings, migrations and routes, VERGE_CONFIG with its methods, and the
publishers and integrations of VERGE_SITE. It prints each error with its line, its
place in the file and the correction, and then the names of the secrets that the
configuration needs. The values of secrets are not checked: the Worker logs an error
in them, and returns 503.

Exit codes: 0 no errors, 2 errors.

Examples:

    verge worker check edge/workers/wrangler.jsonc
    npx wrangler secret list | verge worker check --secrets -`
}

func (c *workerCheckCmd) Run(_ context.Context, p *program) error {
	text, err := p.read(c.File, maxWrangler)
	if err != nil {
		return usageError{err}
	}
	checked := workercheck.Check(text)
	if c.Secrets != "" {
		there, err := p.secretNames(c.Secrets)
		if err != nil {
			return usageError{fmt.Errorf("--secrets: %w", err)}
		}
		for _, name := range checked.Secrets {
			if !slices.Contains(there, name) {
				checked.Problems = append(checked.Problems, &workercheck.Problem{
					Text: fmt.Sprintf("the secret %s is missing: npx wrangler secret put %s", name, name)})
			}
		}
	}
	for _, problem := range checked.Problems {
		fmt.Fprintf(p.stderr, "%s: %s\n", c.File, problem)
	}
	if n := len(checked.Problems); n > 0 {
		return usagef("%s: errors: %d", c.File, n)
	}
	fmt.Fprintf(p.stdout, "%s is good. Its secrets:\n", c.File)
	for _, name := range checked.Secrets {
		fmt.Fprintln(p.stdout, "  "+name)
	}
	return nil
}

// secretNames reads the list of `wrangler secret list`.
func (p *program) secretNames(path string) (names []string, err error) {
	b, err := p.read(path, maxWrangler)
	if err != nil {
		return nil, err
	}
	var list []struct {
		Name string `json:"name"`
	}
	if err := json.Unmarshal(b, &list); err != nil {
		return nil, fmt.Errorf("not the JSON of `wrangler secret list`: %w", err)
	}
	for _, secret := range list {
		names = append(names, secret.Name)
	}
	return names, nil
}
