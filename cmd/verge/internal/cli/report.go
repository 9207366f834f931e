package cli

import (
	"context"
	"encoding/base64"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/spf13/afero"

	"github.com/verge-id/verge/cmd/verge/internal/adminclient"
	"github.com/verge-id/verge/core/operate"
)

type reportCmd struct {
	From      string `placeholder:"DAY" help:"First day, such as 2026-11-01 (UTC). Default: 29 days before the last."`
	To        string `placeholder:"DAY" help:"Last day. Default: today."`
	Publisher string `placeholder:"PUB_ID" help:"Only this publisher. Default: all."`
	Dir       string `default:"report" placeholder:"DIR" help:"Directory for the files. It is created."`
	JSON      bool   `help:"Print the response as JSON, and write no files."`
	serverFlags
}

// Help is shown by `verge report --help`.
func (reportCmd) Help() string {
	return `Writes a report about a period: methods, settings and their changes, outcomes,
failure codes, retention, and the version of the service. It contains no personal
data. The service signs it with the key of [report] in its configuration.

The directory gets report.json, report.html for print, a signature for each, and the
public key. No file is replaced. Verify them with OpenSSL:

    openssl dgst -sha256 -verify report.pub -signature report.json.sig report.json
    openssl dgst -sha256 -verify report.pub -signature report.html.sig report.html

Examples:

    verge report --from 2026-11-01 --to 2026-11-30 --dir report-2026-11
    verge report --publisher pub_example --dir evidence`
}

// reportNames are the names of the files, in the order in which they are written.
var reportNames = []string{"report.json", "report.json.sig", "report.html", "report.html.sig", "report.pub"}

func (c *reportCmd) Run(ctx context.Context, p *program) error {
	for _, name := range reportNames {
		if err := p.checkNew(filepath.Join(c.Dir, name)); err != nil && !c.JSON {
			return fmt.Errorf("%w: choose another directory with --dir", err)
		}
	}
	client, err := c.client(p)
	if err != nil {
		return err
	}
	r, err := adminclient.Do(ctx, client, operate.ReadReport, filled[operate.ReportQuery](p, c))
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(p, r)
	}
	document, err := base64.StdEncoding.DecodeString(r.DocumentSignature)
	if err != nil {
		return fmt.Errorf("signature of the report: %w", err)
	}
	page, err := base64.StdEncoding.DecodeString(r.PageSignature)
	if err != nil {
		return fmt.Errorf("signature of the report: %w", err)
	}
	if err := p.FS.MkdirAll(c.Dir, 0o755); err != nil {
		return err
	}
	content := [][]byte{[]byte(r.Document), document, []byte(r.Page), page, []byte(r.PublicKey)}
	for i, name := range reportNames {
		path := filepath.Join(c.Dir, name)
		if err := afero.WriteFile(p.FS, path, content[i], fs.FileMode(0o644)); err != nil {
			return err
		}
		fmt.Fprintln(p.stdout, path)
	}
	return nil
}
