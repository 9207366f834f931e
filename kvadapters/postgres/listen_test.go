package postgres

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/testharness/stores"
	"github.com/verge-id/verge/testharness/wait"
)

// A pooler that shares the server's connections accepts LISTEN and forwards no signals. An operator who
// forgot pooler=transaction gets an error.
func TestSignals_SwallowedByPooler(t *testing.T) {
	t.Parallel()
	server := stores.StartPostgres(t)
	url := stores.StartPgBouncer(t, server).URL(server, "verge")
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

	scratch := &Scratch{s} // used by `verge kv check`
	if on, err := scratch.Signals(ctx); !on || err == nil || !strings.Contains(err.Error(), "do not arrive") {
		t.Errorf("on %v, %v, want that signals do not arrive", on, err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if on, err := scratch.Signals(ended); !on || err == nil {
		t.Errorf("a check that has ended: on %v, %v", on, err)
	}
}

// A listening connection is silent for hours. It must not break because of that, and a dead peer must be
// detected.
func TestSignals_ConnectionChecked(t *testing.T) {
	t.Parallel()
	server := stores.StartPostgres(t)
	server.Do("ALTER ROLE verge SET idle_session_timeout = '1s'")
	const look = 1500 * time.Millisecond
	listen := func(timeout time.Duration) (heard chan kv.Partition, ended chan error) {
		s, err := Open(t.Context(), server.URL("verge"), Config{Timeout: timeout})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		s.look = look
		heard, ended = make(chan kv.Partition, 10), make(chan error, 1)
		go func() { ended <- s.Signals(t.Context(), func(p kv.Partition) { heard <- p }) }()
		select {
		case <-heard:
		case err := <-ended:
			t.Fatal(err)
		}
		return heard, ended
	}
	heard, ended := listen(time.Minute)
	time.Sleep(2 * look)
	server.Do("SELECT pg_notify('verge:verge', 'another p0')")
	select {
	case p := <-heard:
		if p != "p0" {
			t.Errorf("heard %q, want p0", p)
		}
	case err := <-ended:
		t.Fatalf("it no longer listens: %v", err)
	case <-time.After(5 * time.Minute):
		t.Fatal("the signal did not arrive")
	}
	_, ended = listen(5 * time.Second)
	time.Sleep(2 * look) // until the other connections have ended
	server.Freeze()
	t.Cleanup(server.Thaw) // before the stores close
	if err := wait.For(ended); err == nil {
		t.Error("it ended without an error")
	}
}
