package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/afero"

	"github.com/verge-id/verge/cmd/verge/internal/words"
	"github.com/verge-id/verge/core/method/openid4vp"
	"github.com/verge-id/verge/edge"
	"github.com/verge-id/verge/edge/signing"
)

type methodProofCmd struct {
	File     string    `arg:"" type:"path" help:"The recorded response (JSON with Transcript and ZKDeviceResponseCBOR in base64)."`
	Circuits string    `required:"" type:"path" placeholder:"DIR" help:"Folder with the circuits, one file for each, with or without the extension .circuit.zst."`
	Anchors  string    `required:"" type:"path" placeholder:"FILE" help:"Certificates of the issuers' authorities (PEM)."`
	At       time.Time `placeholder:"TIME" help:"Time at which the certificates must be valid, such as 2026-04-20T00:00:00Z. Default: now."`
	JSON     bool      `help:"Print JSON."`
}

// Help is shown by `verge method proof --help`.
func (methodProofCmd) Help() string {
	return `Verifies a recorded wallet response with a zero-knowledge proof (Longfellow), and
prints the document type, the elements, the issuer, the timestamp and the verdict.
It works offline and starts no session. The timestamp is not compared with a clock:
wallets round it, for example to the end of the day.

The proof shows the values of the elements, and that an issuer with this certificate
signed them. It does not show their namespace.

The exit code is 0 if the proof is accepted, and 1 if it is rejected.

Example:

    verge method proof --circuits circuits --anchors certs.pem response.json`
}

// maxRecorded is the maximum size of a recorded response: 1 MiB of CBOR in base64, and the transcript.
const maxRecorded = 2 << 20

// checkedProof is the JSON of `verge method proof --json`.
type checkedProof struct {
	openid4vp.ProofReport
	Seconds float64 `json:"seconds"`
}

func (c *methodProofCmd) Run(ctx context.Context, p *program) error {
	file, err := p.read(c.File, maxRecorded)
	if err != nil {
		return misuse(err)
	}
	var recorded struct{ Transcript, ZKDeviceResponseCBOR []byte }
	if err := json.Unmarshal(file, &recorded); err != nil {
		return usagef("%s is not a recorded response: %v", c.File, err)
	}
	anchors, err := p.read(c.Anchors, maxRecorded)
	if err != nil {
		return misuse(err)
	}
	if _, err := p.FS.Stat(c.Circuits); err != nil {
		return misuse(err)
	}
	circuits := afero.NewIOFS(afero.NewBasePathFs(p.FS, c.Circuits))
	at := c.At
	if at.IsZero() {
		at = p.Now()
	}
	start := time.Now()
	report, err := openid4vp.CheckProof(ctx, openid4vp.RecordedProof{Response: recorded.ZKDeviceResponseCBOR,
		Transcript: recorded.Transcript, Anchors: anchors, At: at},
		signing.Verify, edge.ProofVerifier(circuits, 1))
	if err != nil {
		return err
	}
	checked := checkedProof{report, time.Since(start).Seconds()}
	return failUnless(report.Accepted, show(p, c.JSON, checked, func() error { return checked.print(p) }))
}

func (c checkedProof) print(p *program) error {
	var all facts
	all.add("document", c.Document)
	all.add("namespace", c.Namespace)
	for _, e := range c.Elements {
		all.add("element", e.Identifier+" = "+e.Value)
	}
	all.add("issuer", c.Issuer)
	all.add("anchor", c.Anchor)
	if c.Timestamp != nil {
		all.add("timestamp", words.When(*c.Timestamp))
	}
	all.add("circuit", c.Circuit)
	if c.Skipped > 0 {
		all.add("anchors skipped", fmt.Sprintf("%d that cannot issue documents", c.Skipped))
	}
	verdict := "accepted"
	if !c.Accepted {
		verdict = "rejected (" + c.Reason + ")"
	}
	all.add("verdict", verdict)
	all.add("took", fmt.Sprintf("%.2f s, including reading the circuit", c.Seconds))
	return all.print(p)
}
