package cli

import (
	"cmp"
	"fmt"
	"io"
	"time"

	"github.com/verge-id/verge/cmd/verge/internal/config"
	"github.com/verge-id/verge/cmd/verge/internal/words"
	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/keyring"
	"github.com/verge-id/verge/core/keyset"
)

type keyringGenerateCmd struct {
	File string `arg:"" help:"File to create for the ring, which must not exist yet; - for standard output."`
}

// Help is shown by `verge keyring generate --help`.
func (keyringGenerateCmd) Help() string {
	return `The ring encrypts and signs all sessions and tokens. Anyone who has it can forge
them, so protect it like a TLS private key. Back it up: without it, all active
sessions are lost, and every webhook secret must be set again.

Example:

    verge keyring generate /etc/verge/keyring.json`
}

func (c *keyringGenerateCmd) Run(p *program) error {
	if err := p.checkNew(c.File); err != nil && c.File != standardStream {
		return fmt.Errorf("%w; `verge keyring rotate %s` adds a new key to it", err, c.File)
	}
	ring, err := keyring.Generate(p.Random, p.Now())
	if err != nil {
		return err
	}
	if err := writeKeyring(p, c.File, ring); err != nil {
		return err
	}
	if c.File == standardStream {
		fmt.Fprintf(p.stderr, "Created key %s.\n", ring.Keys[0].ID)
		return nil
	}
	fmt.Fprintf(p.stdout, "Wrote %s with key %s (mode 0600).\n", c.File, ring.Keys[0].ID)
	return nil
}

type keyringRotateCmd struct {
	File    string       `arg:"" help:"The ring's file; - for standard input and output."`
	SealsIn config.Delay `default:"60s" help:"Time until the new key becomes active. Every instance must have the file by then."`
}

// Help is shown by `verge keyring rotate --help`.
func (keyringRotateCmd) Help() string {
	return `The new key waits before it becomes active, so that every instance has read it
before the first token uses it. Copy the file to every host within that time.
Running servers read it automatically. Sessions and tokens of older keys stay valid
while those keys are in the ring.

An instance that gets the file too late is not ready until it has it. /readyz, the
log and the metric verge_keyring_missing_keys report this.

Examples:

    verge keyring rotate /etc/verge/keyring.json
    verge keyring rotate --seals-in 15m keyring.json     # time to copy it by hand
    ring=$(vault kv get -field=ring kv/verge) && next=$(echo "$ring" | verge keyring rotate -) &&
        echo "$next" | vault kv put kv/verge ring=-`
}

func (c *keyringRotateCmd) Run(p *program) error {
	ring, err := readKeyring(p, c.File)
	if err != nil {
		return err
	}
	if c.SealsIn > sealsInMost {
		return usagef("--seals-in: %s is too long; it must be at most 30d", c.SealsIn)
	}
	if err := ring.Rotate(p.Random, p.Now(), time.Duration(c.SealsIn)); err != nil {
		return err
	}
	if err := writeKeyring(p, c.File, ring); err != nil {
		return err
	}
	if time.Duration(c.SealsIn) < keyset.Settle {
		fmt.Fprintf(messages(p, c.File),
			"Key %s becomes active %s after the first running server has read %s. Copy the file "+
				"to every instance immediately: one that gets it later is not ready until then. For "+
				"more time, omit --seals-in.\n"+
				"Key %s still opens its own data while it is in the ring.\n",
			ring.Keys[0].ID, keyset.Settle, ringName(c.File), ring.Keys[1].ID)
		return nil
	}
	fmt.Fprintf(messages(p, c.File), "Key %s becomes active at %s. Copy %s to every instance by then; "+
		"running servers read it automatically.\n"+
		"Key %s is active until then, and still opens its own data while it is in the ring.\n",
		ring.Keys[0].ID, words.When(ring.Keys[0].SealsFrom), ringName(c.File), ring.Keys[1].ID)
	return nil
}

// sealsInMost catches a mistyped time, which would postpone a rotation indefinitely.
const sealsInMost = config.Delay(30 * 24 * time.Hour)

type keyringRetireCmd struct {
	File  string          `arg:"" help:"The ring's file; - for standard input and output."`
	Key   string          `arg:"" help:"Id of the key, as \"verge keyring list\" shows it."`
	Life  config.Duration `placeholder:"30d" help:"How long outcomes are kept: the server's outcome_life. Default: the default of that setting."`
	Force bool            `help:"Retire it even if it is needed. Sessions that it authenticates are lost."`
}

// Help is shown by `verge keyring retire --help`.
func (keyringRetireCmd) Help() string {
	return `The command fails while clients can still use a session that the key authenticates,
or resend an event that the key encrypted. This ends when the outcomes of the key's
last sessions and its last failed events have expired. Servers encrypt webhook secrets
again when a new key becomes active. The file keeps the id of a retired key, so that
an instance without that key is not reported as out of date. Copy the file to every
instance.

Example:

    verge keyring retire /etc/verge/keyring.json 9f02ab31`
}

func (c *keyringRetireCmd) Run(p *program) error {
	ring, err := readKeyring(p, c.File)
	if err != nil {
		return err
	}
	kept := max(time.Duration(cmp.Or(c.Life, config.Duration(core.StandardOutcomeLife))), core.DeadEventLife)
	if err := ring.Retire(c.Key, p.Now(), kept+retireMargin, c.Force); err != nil {
		return err
	}
	if err := writeKeyring(p, c.File, ring); err != nil {
		return err
	}
	fmt.Fprintf(messages(p, c.File), "Removed key %s from %s; running servers drop it within seconds.\n",
		c.Key, ringName(c.File))
	return nil
}

// retireMargin is the maximum time between the replacement of a key and its last outcome or dead event. It
// covers the life of a session, the retries of an event, and the time until a server reads the rotated ring.
const retireMargin = core.SessionLife + 24*time.Hour

type keyringListCmd struct {
	File string `arg:"" help:"The ring's file; - for standard input and output."`
	JSON bool   `help:"Print JSON."`
}

const keyringHeads = "KEY|FINGERPRINT|CREATED|SEALS FROM|UNTIL|NOW"

// listedKey has all data of a key except the secret.
type listedKey struct {
	ID          string     `json:"id"`
	Fingerprint string     `json:"fingerprint"`
	Created     time.Time  `json:"created"`
	SealsFrom   time.Time  `json:"seals_from"`
	Replaced    *time.Time `json:"replaced,omitempty"`
	Seals       bool       `json:"seals"` // now
}

func (c *keyringListCmd) Run(p *program) error {
	ring, err := readKeyring(p, c.File)
	if err != nil {
		return err
	}
	keys := []listedKey{}
	for i, k := range ring.Keys {
		listed := listedKey{ID: k.ID, Fingerprint: k.Fingerprint(), Created: k.Created,
			SealsFrom: k.SealsFrom, Seals: i == ring.Sealing(p.Now())}
		if k.SealsFrom.IsZero() { // written by an earlier release
			listed.SealsFrom = k.Created
		}
		if !k.Replaced.IsZero() {
			listed.Replaced = &k.Replaced
		}
		keys = append(keys, listed)
	}
	if c.JSON {
		return printJSON(p, keys)
	}
	var rows [][]string
	for _, k := range keys {
		until, now := "-", "opens"
		if k.Replaced != nil {
			until = words.When(*k.Replaced)
		}
		switch {
		case k.Seals:
			now = "seals"
		case k.SealsFrom.After(p.Now()):
			now = "waits"
		}
		rows = append(rows, []string{k.ID, k.Fingerprint, words.When(k.Created), words.When(k.SealsFrom),
			until, now})
	}
	return printTable(p, keyringHeads, rows)
}

// ringBytes is the maximum size of a ring on standard input.
const ringBytes = 256 << 10

// readKeyring reads the ring of a file, or of standard input.
func readKeyring(p *program, path string) (keyring.File, error) {
	if path != standardStream {
		return config.ReadKeyring(p.FS, path)
	}
	b, err := p.read(path, ringBytes)
	if err != nil {
		return keyring.File{}, err
	}
	ring, err := keyring.Parse(b)
	if err != nil {
		return ring, fmt.Errorf("standard input: %w", err)
	}
	return ring, nil
}

// writeKeyring writes the ring to a file, or to standard output.
func writeKeyring(p *program, path string, ring keyring.File) error {
	b, err := ring.Marshal()
	if err != nil {
		return err
	}
	if path == standardStream {
		_, err = p.stdout.Write(b)
		return err
	}
	return config.WritePrivate(p.FS, path, b)
}

// ringName returns the name of a written ring for messages.
func ringName(path string) string {
	if path == standardStream {
		return "the printed ring"
	}
	return path
}

// messages returns the stream for messages of a command that writes a ring.
func messages(p *program, path string) io.Writer {
	if path == standardStream {
		return p.stderr
	}
	return p.stdout
}
