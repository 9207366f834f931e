package main

import (
	"encoding/json"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/verge-id/verge/core/session"
	"github.com/verge-id/verge/core/token"
)

type keyringGenerateCmd struct {
	File string `arg:"" help:"Where to write the ring. It must not exist yet."`
}

// Help is shown by `verge keyring generate --help`.
func (keyringGenerateCmd) Help() string {
	return `The ring seals every session and token. Whoever reads it can make them all, so
keep it like a TLS private key and back it up: without it no session that is
under way goes on, and every webhook secret has to be set again.

Example:

    verge keyring generate /etc/verge/keyring.json`
}

func (c *keyringGenerateCmd) Run(p *program) error {
	if _, err := p.fs.Stat(c.File); err == nil {
		return fmt.Errorf("%s is there already and is left as it is; `verge keyring rotate %s` puts a fresh key into it", c.File, c.File)
	}
	ring, err := token.GenerateKeyring(p.random, p.now())
	if err != nil {
		return err
	}
	if err := writeKeyring(p, c.File, ring); err != nil {
		return err
	}
	fmt.Fprintf(p.stdout, "Wrote %s with key %s (mode 0600).\n", c.File, ring.Keys[0].ID)
	return nil
}

type keyringRotateCmd struct {
	File string `arg:"" help:"The ring."`
}

// Help is shown by `verge keyring rotate --help`.
func (keyringRotateCmd) Help() string {
	return `A running server takes the ring over within seconds. Sessions and tokens that
the older keys sealed stay good for as long as those keys are in the ring.

Example:

    verge keyring rotate /etc/verge/keyring.json`
}

func (c *keyringRotateCmd) Run(p *program) error {
	ring, err := readKeyring(p, c.File)
	if err != nil {
		return err
	}
	if err := ring.Rotate(p.random, p.now()); err != nil {
		return err
	}
	if err := writeKeyring(p, c.File, ring); err != nil {
		return err
	}
	fmt.Fprintf(p.stdout, "Key %s seals as soon as the server has read it, within seconds; %s still opens what it sealed.\n", ring.Keys[0].ID, ring.Keys[1].ID)
	return nil
}

type keyringRetireCmd struct {
	File  string   `arg:"" help:"The ring."`
	Key   string   `arg:"" help:"Id of the key, as \"verge keyring list\" shows it."`
	Life  lifeSpan `default:"30d" help:"How long outcomes are kept: the server's outcome_life, if it is not the usual 30 days."`
	Force bool     `help:"Retire it all the same. Sessions that it authenticates are lost."`
}

// Help is shown by `verge keyring retire --help`.
func (keyringRetireCmd) Help() string {
	return `Refused while a session that the key authenticates can still be asked for,
which is until outcomes are forgotten after it ceased to seal. Webhook secrets
are sealed anew whenever a server reads a ring that has changed. Every server
that shares the ring must have read the rotated one: see "key ring read again"
in its log.

Example:

    verge keyring retire /etc/verge/keyring.json 9f02ab31`
}

func (c *keyringRetireCmd) Run(p *program) error {
	ring, err := readKeyring(p, c.File)
	if err != nil {
		return err
	}
	if err := ring.Retire(c.Key, p.now(), time.Duration(c.Life)+retireMargin, c.Force); err != nil {
		return err
	}
	if err := writeKeyring(p, c.File, ring); err != nil {
		return err
	}
	fmt.Fprintf(p.stdout, "Key %s is gone from %s; a running server forgets it within seconds.\n", c.Key, c.File)
	return nil
}

// retireMargin is how long after its key was replaced a session's outcome, and
// an event that dies, can begin the 30 days for which they are kept: the
// session's own life, the event's retries, and what a server seals before it
// has read the rotated ring.
const retireMargin = session.Life + 24*time.Hour

type keyringListCmd struct {
	File string `arg:"" help:"The ring."`
	JSON bool   `help:"Print JSON."`
}

// listedKey is what may be shown of a key: everything but the secret.
type listedKey struct {
	ID       string     `json:"id"`
	Created  time.Time  `json:"created"`
	Replaced *time.Time `json:"replaced,omitempty"`
}

func (c *keyringListCmd) Run(p *program) error {
	ring, err := readKeyring(p, c.File)
	if err != nil {
		return err
	}
	keys := []listedKey{}
	for _, k := range ring.Keys {
		listed := listedKey{ID: k.ID, Created: k.Created}
		if !k.Replaced.IsZero() {
			listed.Replaced = &k.Replaced
		}
		keys = append(keys, listed)
	}
	if c.JSON {
		return json.NewEncoder(p.stdout).Encode(keys)
	}
	table := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "KEY\tCREATED\tCEASED TO SEAL")
	for _, k := range keys {
		replaced := "seals"
		if k.Replaced != nil {
			replaced = when(*k.Replaced)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", k.ID, when(k.Created), replaced)
	}
	return table.Flush()
}

func readKeyring(p *program, path string) (token.Keyring, error) {
	b, err := readPrivate(p.fs, path)
	if isMissing(err) {
		return token.Keyring{}, fmt.Errorf("there is no key ring at %s: `verge keyring generate %s` makes one", path, path)
	}
	if err != nil {
		return token.Keyring{}, fmt.Errorf("key ring: %w", err)
	}
	ring, err := token.ParseKeyring(b)
	if err != nil {
		return ring, fmt.Errorf("%s: %w", path, err)
	}
	return ring, nil
}

func writeKeyring(p *program, path string, ring token.Keyring) error {
	b, err := ring.Marshal()
	if err != nil {
		return err
	}
	return writePrivate(p.fs, path, b)
}

// when is how tables show a time.
func when(t time.Time) string { return t.UTC().Format(time.RFC3339) }
