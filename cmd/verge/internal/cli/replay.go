package cli

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/verge-id/verge/cmd/verge/internal/config"
	"github.com/verge-id/verge/edge/engine"
	"github.com/verge-id/verge/edge/modules"
	"github.com/verge-id/verge/edge/transcript"
)

type replayCmd struct {
	File []string `arg:"" help:"Transcripts, packed by gzip or not. \"-\" is standard input."`

	Engine      string `default:"native" enum:"native,wasm" help:"What runs the core: this binary, or a WebAssembly guest."`
	Module      string `placeholder:"FILE" type:"path" help:"The guest to run with --engine wasm. Default: the one built in."`
	ModuleCache string `placeholder:"DIR" type:"path" help:"Keep the compiled guest there, for the next time. Default: it is not kept."`
}

// Help is shown by `verge replay --help`.
func (replayCmd) Help() string {
	return `A transcript has requests with the time and the randomness of each, what the
core asked its store and its webhook receivers for, what they replied, and what
the core answered. A replay gives the core the same requests and replies. It
compares byte for byte what the core asks for and what it answers. At the first
difference it says where that is, and shows what was recorded ("-") and what came
("+"), tokens and keys included.

Exit code 0 says that nothing differs, 1 that something does, 2 that a file is
no transcript.

Examples:

    verge replay testharness/corpus/testdata/*.gz
    verge replay --engine wasm --module verge.wasm testharness/corpus/testdata/*.gz`
}

func (c *replayCmd) Run(ctx context.Context, p *program) error {
	at := config.Engine{Name: c.Engine, Module: c.Module}
	if err := at.Check(); err != nil {
		return usageError{err}
	}
	// All are read before any is replayed. So an error in the last file is not printed below pages of
	// output about the first.
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

// readTranscript reads a file, or standard input for "-". Its errors name the path.
func readTranscript(p *program, path string) (*transcript.Transcript, error) {
	in := p.stdin
	if path != "-" {
		f, err := p.FS.Open(path)
		if err != nil {
			return nil, err
		}
		defer f.Close() // an error would say nothing about what was read
		in = f
	}
	t, err := transcript.Read(in)
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
