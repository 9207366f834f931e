package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// untilSignal ends its context on the first SIGTERM, SIGINT or, when a terminal
// closes, SIGHUP, so that whatever runs drains. The second one ends the process at once: whoever asks
// twice does not want to wait for a slow receiver.
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

// hangUps is for a server: to those who send it, SIGHUP means "read your files
// again" and never "stop".
func hangUps() (received <-chan os.Signal, release func()) {
	signal.Ignore(syscall.SIGHUP) // takes it from untilSignal
	c := make(chan os.Signal, 1)  // of several that come meanwhile, one is as good
	signal.Notify(c, syscall.SIGHUP)
	return c, func() {
		signal.Stop(c)
		close(c)
	}
}
