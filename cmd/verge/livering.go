package main

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/spf13/afero"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/token"
)

// ringReload is how often a running server looks at its key ring's file.
const ringReload = 5 * time.Second

// liveRing is the key ring of a running server: what its file holds, so that
// a rotation needs no restart.
type liveRing struct {
	host   string // that tokens are bound to
	random io.Reader
	ring   atomic.Pointer[token.Ring]
}

var _ host.Sealer = (*liveRing)(nil)

func newLiveRing(host string, random io.Reader, keyring token.Keyring) (*liveRing, error) {
	l := &liveRing{host: host, random: random}
	return l, l.use(keyring)
}

func (l *liveRing) use(keyring token.Keyring) error {
	ring, err := keyring.Ring(l.host, l.random)
	if err == nil {
		l.ring.Store(ring)
	}
	return err
}

// follow takes over what the file holds whenever that changes, until ctx is
// done, and calls changed afterwards. A file that is missing, open to others
// or damaged is reported and changes nothing: the server goes on with the
// keys it has.
func (l *liveRing) follow(ctx context.Context, fsys afero.Fs, path string, log *slog.Logger, changed func(context.Context) error) {
	last, _ := readPrivate(fsys, path)
	var said string
	tick := time.NewTicker(ringReload)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		b, err := readPrivate(fsys, path)
		if err == nil && bytes.Equal(b, last) {
			continue
		}
		if err == nil {
			var keyring token.Keyring
			if keyring, err = token.ParseKeyring(b); err == nil {
				err = l.use(keyring)
			}
		}
		if err == nil {
			err = changed(ctx)
		}
		switch {
		case err == nil:
			last, said = b, ""
			log.Info("key ring read again", "file", path)
		case err.Error() != said:
			said = err.Error()
			log.Error("key ring cannot be read again; the keys in use stay", "file", path, "error", said)
		}
	}
}

// Seal implements host.Sealer.
func (l *liveRing) Seal(purpose string, claims []byte) ([]byte, error) {
	return l.ring.Load().Seal(purpose, claims)
}

// Open implements host.Sealer.
func (l *liveRing) Open(purpose string, sealed []byte) ([]byte, error) {
	return l.ring.Load().Open(purpose, sealed)
}

// MAC implements host.Sealer.
func (l *liveRing) MAC(purpose string, message []byte) ([]byte, error) {
	return l.ring.Load().MAC(purpose, message)
}

// CheckMAC implements host.Sealer.
func (l *liveRing) CheckMAC(purpose string, message, mac []byte) bool {
	return l.ring.Load().CheckMAC(purpose, message, mac)
}
