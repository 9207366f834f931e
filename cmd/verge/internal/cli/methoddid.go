package cli

import (
	"context"
	"fmt"

	"github.com/verge-id/verge/cmd/verge/internal/webvh"
	"github.com/verge-id/verge/cmd/verge/internal/words"
	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/edge/egress"
)

type methodDIDKeysCmd struct {
	DID  string `arg:"" name:"did" help:"The DID of an issuer, did:webvh:…"`
	From string `type:"path" placeholder:"FILE" help:"Verify this log (did.jsonl) instead of fetching it."`
}

// Help is shown by `verge method did-keys --help`.
func (methodDIDKeysCmd) Help() string {
	return `Fetches the log of a DID (did:webvh 1.0), verifies each entry, and prints the keys
of its document as a JWK Set, for issuer_keys of a wallet method. Compare the DID
with the DID that the issuer publishes elsewhere: anyone can create a DID.

Run it again when the issuer adds or removes keys, and restart Verge. Documents that
were signed with a removed key are no longer accepted.

Example:

    verge method did-keys did:webvh:Qm…:registry.example:api > new.json &&
        install -m 0644 new.json /etc/verge/issuer.json`
}

func (c *methodDIDKeysCmd) Run(ctx context.Context, p *program) error {
	address, err := webvh.Address(c.DID)
	if err != nil {
		return usagef("%v", err)
	}
	log, err := c.log(ctx, p, address)
	if err != nil {
		return err
	}
	l, err := webvh.Verify(c.DID, log, p.Now())
	if err != nil {
		return fmt.Errorf("the log of the DID is invalid: %w", err)
	}
	if len(l.Keys) == 0 {
		return fmt.Errorf("the DID has no key on P-256, P-384 or P-521 for verifying documents")
	}
	fmt.Fprintf(p.stderr, "verified: %s, the last one of %s; %s, %d others skipped\n",
		words.HowMany(l.Entries, "entry"), words.When(l.Updated), words.HowMany(len(l.Keys), "key"),
		l.Skipped)
	return printJSON(p, map[string]any{"keys": l.Keys})
}

// log reads the log from the file or from its address.
func (c *methodDIDKeysCmd) log(ctx context.Context, p *program, address string) ([]byte, error) {
	if c.From != "" {
		return p.read(c.From, webvh.MaxSize)
	}
	client := egress.New(egress.Config{MaxBody: webvh.MaxSize})
	resp, err := client.Fetch(ctx, host.FetchRequest{Method: "GET", URL: address})
	if err == nil && resp.Status != 200 {
		err = fmt.Errorf("status %d", resp.Status)
	}
	if err != nil {
		return nil, fmt.Errorf("fetching %s: %w", address, err)
	}
	return resp.Body, nil
}
