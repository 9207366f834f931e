package cli

import (
	"bufio"
	"errors"
	"fmt"

	"github.com/verge-id/verge/cmd/verge/internal/words"
	"github.com/verge-id/verge/core"
)

type auditVerifyCmd struct {
	Files []string `arg:"" name:"file" help:"Files with the log, the oldest first; - is standard input."`
}

// Help is shown by `verge audit verify --help`.
func (auditVerifyCmd) Help() string {
	return `Checks the "audit" lines of a log, which has one for each audit entry. The lines of
an instance form a hash chain: a missing, changed or moved line is reported. The end
of a chain cannot be checked: compare the last entries with "verge audit".

Exit code 1: a line is missing, changed or moved, or the log has no audit lines.

Example:

    verge audit verify /var/log/verge/verge.log.1 /var/log/verge/verge.log`
}

func (c *auditVerifyCmd) Run(p *program) error {
	var chain core.AuditChain
	found := 0
	for _, name := range c.Files {
		if err := verifyFile(p, name, &chain, &found); err != nil {
			return err
		}
	}
	switch {
	case chain.Entries == 0:
		return errors.New("audit not verified: the files have no line \"audit\"; " +
			"give files with JSON lines at level INFO")
	case found > 0:
		return fmt.Errorf("audit not verified: %d of %d entries do not continue their chain", found,
			chain.Entries)
	}
	fmt.Fprintf(p.stdout, "%s of %s: no gaps, no changes\n", words.HowMany(chain.Entries, "entry"),
		words.HowMany(chain.Instances, "instance"))
	return nil
}

// maxLogLine is the maximum length of a log line: an entry has at most 32 KiB.
const maxLogLine = 256 << 10

func verifyFile(p *program, name string, chain *core.AuditChain, found *int) error {
	file, err := p.open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, maxLogLine)
	for n := 1; lines.Scan(); n++ {
		if wrong := chain.Add(lines.Bytes()); wrong != "" {
			*found++
			fmt.Fprintf(p.stdout, "%s:%d: %s\n", name, n, wrong)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("reading %s: %w", name, err)
	}
	return nil
}
