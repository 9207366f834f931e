package main

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/afero"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/token"
)

// TestLiveRing rotates, damages and retires under a running server's eyes (contract 16).
func TestLiveRing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := afero.NewMemMapFs()
		write := func(b []byte) {
			t.Helper()
			if err := afero.WriteFile(fsys, "ring", b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		save := func(kr token.Keyring) {
			t.Helper()
			b, err := kr.Marshal()
			if err != nil {
				t.Fatal(err)
			}
			write(b)
		}
		kr, err := token.GenerateKeyring(rand.Reader, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		save(kr)
		ring, err := newLiveRing("verify.example", rand.Reader, kr)
		if err != nil {
			t.Fatal(err)
		}
		var log strings.Builder
		changes, failing := 0, errors.New("store is away")
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go ring.follow(ctx, fsys, "ring", slog.New(slog.NewTextHandler(&log, nil)), func(context.Context) error {
			changes++
			err := failing
			failing = nil
			return err
		})
		settle := func() { time.Sleep(ringReload + time.Second); synctest.Wait() }
		seal := func() []byte {
			t.Helper()
			b, err := ring.Seal(token.Flow, []byte(`{"a":1}`))
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
		old := seal()
		settle()
		if changes != 0 {
			t.Error("a file that did not change was taken over")
		}

		if err := kr.Rotate(rand.Reader, time.Now()); err != nil {
			t.Fatal(err)
		}
		save(kr)
		settle()
		settle()
		if changes != 2 {
			t.Errorf("what follows a rotation was tried %d times, want again after it failed, and then no more", changes)
		}
		if fresh := seal(); string(fresh[1:5]) == string(old[1:5]) {
			t.Error("contract 16: after a rotation the old key still seals")
		}
		if _, err := ring.Open(token.Flow, old); err != nil {
			t.Errorf("contract 16: a rotation invalidated a live token: %v", err)
		}

		write([]byte(`{"version":1,"keys":[]}`))
		settle()
		settle()
		if _, err := ring.Open(token.Flow, old); err != nil {
			t.Errorf("a damaged file took the keys away: %v", err)
		}
		if n := strings.Count(log.String(), "cannot be read again"); n != 2 {
			t.Errorf("two faults were reported %d times:\n%s", n, log.String())
		}

		if err := kr.Retire(kr.Keys[1].ID, time.Now(), 0, true); err != nil {
			t.Fatal(err)
		}
		save(kr)
		settle()
		if _, err := ring.Open(token.Flow, old); !errors.Is(err, host.ErrNotAuthentic) {
			t.Errorf("a retired key still opens: %v", err)
		}
	})
}
