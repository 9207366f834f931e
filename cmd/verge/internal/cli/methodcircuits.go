package cli

import (
	"context"
	"path/filepath"
	"strconv"

	"github.com/spf13/afero"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/edge"
	"github.com/verge-id/verge/edge/egress"
)

type methodCircuitsCmd struct {
	oneMethod
	Save string `type:"path" placeholder:"DIR" help:"Write the circuits to this folder, to name them by file instead of url."`
	JSON bool   `help:"Print JSON."`
}

// Help is shown by `verge method circuits --help`.
func (methodCircuitsCmd) Help() string {
	return `Fetches or reads the circuits of a method's zero-knowledge proofs as the server
would, and verifies that each file has the circuit with the configured hash.

The exit code is 0 if all circuits are valid, 1 if one is not, and 2 if the
configuration is invalid.

Example:

    verge method circuits wallet --config /etc/verge/verge.toml --save circuits`
}

// checkedCircuit is a circuit as `verge method circuits --json` prints it.
type checkedCircuit struct {
	Hash     string `json:"hash"`
	Version  int    `json:"version"`
	Elements int    `json:"elements"`
	Source   string `json:"source"`
	Bytes    int    `json:"bytes,omitempty"`
	Saved    string `json:"saved,omitempty"`
	Error    string `json:"error,omitempty"`
}

func (c *methodCircuitsCmd) Run(ctx context.Context, p *program) error {
	pl, e, err := c.read(p)
	if err != nil {
		return err
	}
	circuits := e.Circuits()
	if len(circuits) == 0 {
		return usagef(
			"%s accepts no zero-knowledge proofs; see zero_knowledge in `verge serve --example`",
			c.Name,
		)
	}
	all, good := []checkedCircuit{}, true
	for _, circuit := range circuits {
		shown, file := pl.checkCircuit(ctx, p, e, circuit)
		if c.Save != "" && shown.Error == "" {
			shown.Saved = filepath.Join(c.Save, circuit.Hash+".circuit.zst")
			if err := saveCircuit(p, c.Save, shown.Saved, file); err != nil {
				return err
			}
		}
		all, good = append(all, shown), good && shown.Error == ""
	}
	return failUnless(good, show(p, c.JSON, all, func() error { return printCircuits(p, all) }))
}

func saveCircuit(p *program, folder, name string, file []byte) error {
	if err := p.FS.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	return afero.WriteFile(p.FS, name, file, 0o644)
}

// checkCircuit fetches or reads a circuit and opens it.
func (pl *plan) checkCircuit(ctx context.Context, p *program, e method.Entry, c method.Circuit) (
	shown checkedCircuit, file []byte,
) {
	known, _ := host.CircuitOf(c.Hash)
	shown = checkedCircuit{Hash: c.Hash, Version: known.Version, Elements: known.Elements, Source: c.Source()}
	source := edge.CircuitSource{Fetch: egress.New(pl.Egress), ReadFile: p.readFile}
	file, err := source.Read(ctx, e.Name, c)
	if err != nil {
		shown.Error = err.Error() + pl.advice(e.Name, err)
		return shown, nil
	}
	shown.Bytes = len(file)
	return shown, file
}

func printCircuits(p *program, all []checkedCircuit) error {
	for n, c := range all {
		var lines facts
		lines.add("circuit", c.Hash)
		lines.add("version", strconv.Itoa(c.Version))
		lines.add("elements", strconv.Itoa(c.Elements))
		lines.add("source", c.Source)
		lines.add("saved", c.Saved)
		status := "valid"
		if c.Error != "" {
			status = "invalid: " + c.Error
		}
		lines.add("status", status)
		if n > 0 {
			p.stdout.Write([]byte("\n"))
		}
		if err := lines.print(p); err != nil {
			return err
		}
	}
	return nil
}

// checkCircuits adds the circuits of a method to the report of `verge method check`.
func (pl *plan) checkCircuits(ctx context.Context, p *program, r *method.Report, e method.Entry) {
	for _, c := range e.Circuits() {
		shown, _ := pl.checkCircuit(ctx, p, e, c)
		if shown.Error != "" {
			r.Bad("the circuit %s cannot be used: %s", c.Source(), shown.Error)
		} else {
			r.Good("the circuit %s has the configured hash", c.Source())
		}
	}
}
