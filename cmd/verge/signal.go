package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// untilSignal ends its context on the first SIGTERM or SIGINT, so that
// whatever runs drains. The second one ends the process at once: whoever asks
// twice does not want to wait for a slow receiver.
func untilSignal(parent context.Context) (ctx context.Context, release func()) {
	ctx, cancel := context.WithCancel(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
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
