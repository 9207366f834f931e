package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/afero"
)

// program is what commands may touch of the world, sockets aside.
type program struct {
	fs       afero.Fs
	stdin    io.Reader
	stdout   io.Writer
	stderr   io.Writer
	terminal bool // a person reads stdout
	getenv   func(name string) (value string, set bool)
	now      func() time.Time
	random   io.Reader
}

func main() {
	unsetEmpty(os.Environ())
	if os.Getenv("GOGC") == "" {
		// What lives on the heap is a few megabytes, what a request leaves
		// behind a few kilobytes: by the default the collector would run
		// some fifty times a second under load to save twenty megabytes.
		debug.SetGCPercent(400)
	}
	ctx, release := untilSignal(context.Background())
	code := run(ctx, os.Args[1:], &program{
		fs:       afero.NewOsFs(),
		stdin:    os.Stdin,
		stdout:   os.Stdout,
		stderr:   os.Stderr,
		terminal: isTerminal(os.Stdout),
		getenv:   os.LookupEnv,
		now:      time.Now,
		random:   rand.Reader,
	})
	release()
	os.Exit(code)
}

// unsetEmpty makes an empty VERGE_… variable mean what people mean by it: that
// it is not set. The parser would take it for a value.
func unsetEmpty(environ []string) {
	for _, v := range environ {
		if name, value, _ := strings.Cut(v, "="); value == "" && strings.HasPrefix(name, "VERGE_") {
			os.Unsetenv(name)
		}
	}
}

// isTerminal takes any character device for one, which of the likely ones only /dev/null is not.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// Exit codes. A supervisor need not restart what ended with exitUsage: the
// same command line and configuration will be refused again.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// run is the whole command with its exit code.
func run(ctx context.Context, args []string, p *program) int {
	err := execute(ctx, args, p)
	var said saidError
	if err != nil && !errors.As(err, &said) {
		fmt.Fprintf(p.stderr, "verge: %v\n", err)
	}
	var usage usageError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &usage):
		return exitUsage
	}
	return exitFailed
}

// usageError is a mistake in the command line or the configuration.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// saidError fails the command whose own output has said why.
type saidError struct{}

func (saidError) Error() string { return "failed" }
