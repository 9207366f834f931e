package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// untilSignal ends its context on the first SIGTERM, SIGINT or SIGHUP, so that the command drains. A terminal
// that closes sends SIGHUP. A second signal ends the process immediately: a user who repeats it does not want
// to wait for a slow receiver.
func untilSignal(parent context.Context) (ctx context.Context, release func()) {
	ctx, cancel := context.WithCancel(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	go func() {
		<-signals
		cancel()
		<-signals
		os.Exit(exitFailed)
	}()
	return ctx, func() {
		signal.Stop(signals)
		cancel()
	}
}

// unlessStopped returns the error of a server's start. It returns nil if a signal has ended the start, since
// that is no failure.
func (p *program) unlessStopped(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	fmt.Fprintf(p.stderr, "verge: stopped while starting: %v\n", err)
	return nil
}

// hangUps returns the SIGHUPs that a server receives. For a server, SIGHUP means "read the files again",
// never "stop".
func hangUps() (received <-chan os.Signal, release func()) {
	signal.Ignore(syscall.SIGHUP) // takes it from untilSignal
	c := make(chan os.Signal, 1)  // one represents all that arrive while the server is busy
	signal.Notify(c, syscall.SIGHUP)
	return c, func() {
		signal.Stop(c)
		close(c)
	}
}
