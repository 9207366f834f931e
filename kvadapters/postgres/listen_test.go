package postgres

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/testharness/stores"
)

// A pooler that shares the server's connections takes LISTEN and passes no signals on. An operator who has
// not said pooler=transaction is told.
func TestAPoolerThatSwallowsSignalsIsNoticed(t *testing.T) {
	t.Parallel()
	server := stores.StartPostgres(t)
	pooler := stores.StartPgBouncer(t, server)
	url := strings.Replace(server.URL("verge"), server.Addr(), pooler, 1) + "&pooler=transaction"
	s, err := Open(t.Context(), url, Config{Timeout: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.signals = true
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	err = s.Signals(ctx, func(p kv.Partition) { t.Errorf("heard %q", p) })
	if err == nil || !strings.Contains(err.Error(), "signals do not arrive") {
		t.Errorf("%v, want that signals do not arrive", err)
	}

	scratch := &Scratch{s} // what `verge kv check` asks
	if on, err := scratch.Signals(ctx); !on || err == nil || !strings.Contains(err.Error(), "do not arrive") {
		t.Errorf("on %v, %v, want that signals do not arrive", on, err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if on, err := scratch.Signals(ended); !on || err == nil {
		t.Errorf("a check that has ended: on %v, %v", on, err)
	}
}

// A connection that listens is silent for hours. It must not break by that, and it must be noticed if nobody
// is at its other end any more.
func TestAConnectionThatListensIsLookedAfter(t *testing.T) {
	t.Parallel()
	server := stores.StartPostgres(t)
	server.Do("ALTER ROLE verge SET idle_session_timeout = '1s'")
	s, err := Open(t.Context(), server.URL("verge"), Config{Timeout: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.look = 1500 * time.Millisecond
	heard, ended := make(chan kv.Partition, 10), make(chan error, 1)
	go func() { ended <- s.Signals(t.Context(), func(p kv.Partition) { heard <- p }) }()
	select {
	case <-heard:
	case err := <-ended:
		t.Fatal(err)
	}
	time.Sleep(2 * s.look)
	server.Do("SELECT pg_notify('verge:verge', 'another p0')")
	select {
	case p := <-heard:
		if p != "p0" {
			t.Errorf("heard %q, want p0", p)
		}
	case err := <-ended:
		t.Fatalf("it listens no more: %v", err)
	case <-time.After(20 * time.Second):
		t.Fatal("20 s later the signal is not heard")
	}
	time.Sleep(2 * s.look) // until the other connections have ended
	server.Freeze()
	defer server.Thaw()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("it ended without an error")
		}
	case <-time.After(20 * time.Second):
		t.Error("20 s later nobody has noticed that the server does not answer")
	}
}
