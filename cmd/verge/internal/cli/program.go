package cli

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/afero"

	"github.com/verge-id/verge/cmd/verge/internal/config"
)

// program is the interface of commands to the operating system, except for sockets.
type program struct {
	config.System

	stdin    io.Reader
	stdout   io.Writer
	stderr   io.Writer
	terminal bool   // a person reads stdout
	name     string // the name that called this program, for commands to copy
}

// standardStream as the name of a file stands for standard input, or output. So a vault can keep a key ring.
const standardStream = "-"

// open opens a file, or standard input.
func (p *program) open(path string) (io.ReadCloser, error) {
	if path == standardStream {
		return io.NopCloser(p.stdin), nil
	}
	return p.FS.Open(path)
}

// read returns the content of a file, or of standard input. It rejects more than limit bytes.
func (p *program) read(path string, limit int64) ([]byte, error) {
	f, err := p.open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if path == standardStream {
		path = "standard input"
	}
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, err)
	case int64(len(b)) > limit:
		return nil, fmt.Errorf("%s is larger than %d bytes", path, limit)
	}
	return b, nil
}

// checkNew returns an error if a file to create already exists.
func (p *program) checkNew(path string) error {
	if _, err := p.FS.Stat(path); err == nil {
		return fmt.Errorf("%s already exists and was not changed", path)
	}
	return nil
}

// Main runs the command of this process: it reads the process's arguments, environment and standard streams,
// and returns the exit code. A signal stops the command cleanly.
func Main() int {
	unsetEmpty(os.Environ())
	if os.Getenv("GOGC") == "" {
		// The live heap is a few megabytes, and a request leaves a few kilobytes behind. With the default,
		// the collector would run about fifty times a second under load, and save only twenty megabytes.
		debug.SetGCPercent(400)
	}
	ctx, release := untilSignal(context.Background())
	defer release()
	return run(ctx, os.Args[1:], &program{
		System: config.System{
			FS:        afero.NewOsFs(),
			Getenv:    os.LookupEnv,
			Environ:   os.Environ(),
			Now:       time.Now,
			Random:    rand.Reader,
			Roots:     x509.SystemCertPool,
			Output:    outputOf,
			Variables: knownVariables,
			Module:    builtInModule,
			Version:   thisBuild().Version,
		},
		stdin:    os.Stdin,
		stdout:   os.Stdout,
		stderr:   os.Stderr,
		terminal: isTerminal(os.Stdout),
		name:     calledAs(os.Args[0]),
	})
}

// unsetEmpty unsets each VERGE_… variable that is empty. An empty variable means that it is not set, but the
// parser would use it as a value.
func unsetEmpty(environ []string) {
	for _, v := range environ {
		if name, value, _ := strings.Cut(v, "="); value == "" && strings.HasPrefix(name, "VERGE_") {
			os.Unsetenv(name)
		}
	}
}

// calledAs returns the name of this program for commands to copy: its path, or its name on $PATH.
func calledAs(arg0 string) string {
	if strings.ContainsRune(arg0, os.PathSeparator) {
		return arg0
	}
	return "verge"
}

// isTerminal treats every character device except /dev/null as a terminal. Others are unlikely here.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// Exit codes. A supervisor need not restart a process that ended with exitUsage: it would reject the same
// command line and configuration again.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// run runs the command that args name and returns the exit code.
func run(ctx context.Context, args []string, p *program) int {
	err := execute(ctx, args, p)
	if err == nil {
		return exitOK
	}
	if !errors.Is(err, saidError{}) {
		fmt.Fprintf(p.stderr, "verge: %v\n", err)
	}
	if _, ok := errors.AsType[usageError](err); ok {
		return exitUsage
	}
	return exitFailed
}

// usageError is a mistake in the command line or the configuration.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// misuse returns err as a usageError. It returns nil for nil.
func misuse(err error) error {
	if err == nil {
		return nil
	}
	return usageError{err}
}

// saidError fails a command whose output already has the reason.
type saidError struct{}

func (saidError) Error() string { return "failed" }

// failUnless returns err. If it is nil and the printed result is not good, failUnless returns a saidError.
func failUnless(good bool, err error) error {
	if err == nil && !good {
		return saidError{}
	}
	return err
}
