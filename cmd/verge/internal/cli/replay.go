package cli

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/verge-id/verge/cmd/verge/internal/config"
	"github.com/verge-id/verge/cmd/verge/internal/modules"
	"github.com/verge-id/verge/edge/engine"
	"github.com/verge-id/verge/edge/transcript"
)

type replayCmd struct {
	File []string `arg:"" help:"Transcripts, plain or compressed with gzip. \"-\" is standard input."`

	Engine      string `default:"native" enum:"native,wasm" help:"Engine that runs the core: this binary, or a WebAssembly guest."`
	Module      string `placeholder:"FILE" type:"path" help:"Module for --engine wasm. Default: the built-in one."`
	ModuleCache string `placeholder:"DIR" type:"path" help:"Directory for the compiled module. Default: it is compiled each time."`
}

// Help is shown by `verge replay --help`.
func (replayCmd) Help() string {
	return `A transcript contains requests with the time and randomness of each, the calls of
the core to its store and its webhook receivers, their responses, and the responses
of the core. A replay runs the core with the same requests and responses, and
compares its calls and responses byte for byte. It reports the position of the first
difference, with the recorded ("-") and the actual ("+") data, including tokens and
keys.

Exit code 0: no difference; 1: a difference; 2: a file is not a transcript.

Examples:

    verge replay testharness/corpus/testdata/*.gz
    verge replay --engine wasm --module verge.wasm testharness/corpus/testdata/*.gz`
}

func (c *replayCmd) Run(ctx context.Context, p *program) error {
	at := config.Engine{Name: c.Engine, Module: c.Module}
	if err := at.Check(); err != nil {
		return usageError{err}
	}
	// All files are read before the first replay, so that an error in the last file is not printed below
	// pages of output about the first.
	recorded := make([]*transcript.Transcript, len(c.File))
	for n, path := range c.File {
		var err error
		if recorded[n], err = readTranscript(p, path); err != nil {
			return usageError{err}
		}
	}
	engine, closeEngine, err := c.engine(ctx, p, at)
	if err != nil {
		return fmt.Errorf("engine %s: %w", c.Engine, err)
	}
	defer closeEngine()
	var failed error
	var total transcript.Summary
	for n, t := range recorded {
		sum, differs, err := t.Replay(ctx, engine)
		if err != nil {
			return fmt.Errorf("%s: %w", c.File[n], err)
		}
		if differs != nil {
			fmt.Fprintf(p.stdout, "DIFFERS: %s, engine %s, %s\n", c.File[n], engine, differs)
			failed = saidError{}
			continue
		}
		fmt.Fprintf(p.stdout, "OK: %s, engine %s: %s\n", c.File[n], engine, sum)
		total.Add(sum)
	}
	if len(recorded) > 1 && failed == nil {
		fmt.Fprintf(p.stdout, "OK: %d transcripts: %s\n", len(recorded), total)
	}
	return failed
}

// readTranscript reads a file, or standard input. Its errors name the path.
func readTranscript(p *program, path string) (*transcript.Transcript, error) {
	f, err := p.open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() // an error would not affect the data that was read
	t, err := transcript.Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

// engine returns the engine, with its guest compiled if it has one.
func (c *replayCmd) engine(ctx context.Context, p *program, at config.Engine,
) (transcript.Engine, func(), error) {
	if err := at.Load(&p.System); err != nil || c.Engine == engine.Native {
		return transcript.Engine{}, func() {}, err
	}
	cache := modules.OpenCache(c.ModuleCache, p.Now, slog.New(slog.NewTextHandler(p.stderr, nil)))
	m, err := cache.Compile(ctx, at.Loaded)
	if err != nil {
		return transcript.Engine{}, nil, err
	}
	return transcript.Engine{Guest: m}, func() { m.Close() }, nil
}
