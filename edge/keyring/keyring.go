// Package keyring keeps the key ring of a running server up to date: it follows
// the ring's file and the set of keys that the instances share in the store, so
// that a rotation needs no restart (contract 16).
//
// Open compares the ring with the store before anything is served, and refuses
// one that is not the store's. Run then looks at both every few seconds. The
// rules are those of package core/keyset.
package keyring

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/keyset"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/token"
)

// Each is how often the file and the store are looked at. It is well below
// keyset.Settle, so that every instance knows of a key before it seals.
const Each = 3 * time.Second

// rereadMost is how soon after one look the next one may follow where a token
// names a key that is awaited.
const rereadMost = 500 * time.Millisecond

// Config is what a Live needs.
type Config struct {
	host.Host // KV, Now, Random and Log are needed

	// Name is the host name that tokens are bound to.
	Name string

	// Keyring is the ring to begin with.
	Keyring token.Keyring

	// File reads the ring's file again. Nil: the ring never changes.
	File func() ([]byte, error)

	// Observe is told after each look how many keys the fleet seals with that
	// this instance lacks, and which key seals. Nil: nobody wants to know.
	Observe func(missing int, sealing string)
}

// Live is the key ring of a running server: its Sealer and its KV.
type Live struct {
	*keyset.Ring
	cfg     Config
	awaited chan struct{}
	last    []byte // what the file held when it was taken over
	said    string // the last complaint
}

// Open returns the ring once the store has been asked about it. A ring that is
// not the store's, or that lacks a key which the other instances use, is an
// error that says whose it is.
func Open(ctx context.Context, cfg Config) (*Live, error) {
	l := &Live{cfg: cfg, awaited: make(chan struct{}, 1)}
	var err error
	l.Ring, err = keyset.New(keyset.Config{Host: cfg.Host, Name: cfg.Name, Keyring: cfg.Keyring, Awaited: l.await})
	if err != nil {
		return nil, err
	}
	if cfg.File != nil {
		l.last, _ = cfg.File()
	}
	if err := l.Tend(ctx); err != nil {
		return nil, fmt.Errorf("the key ring cannot be compared with the store's set of keys: %w", err)
	}
	if err := l.Ready(); err != nil {
		return nil, err
	}
	l.observe()
	return l, nil
}

// await asks for a look at the file as soon as may be.
func (l *Live) await() {
	select {
	case l.awaited <- struct{}{}:
	default:
	}
}

// Run follows file and store until ctx is done. A file that is missing, open
// to others or damaged is reported and changes nothing: the server goes on with
// the keys it has.
func (l *Live) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(Each):
		case <-l.awaited:
		}
		l.look(ctx)
		select {
		case <-ctx.Done():
			return
		case <-time.After(rereadMost):
		}
	}
}

func (l *Live) look(ctx context.Context) {
	before, sealed := l.Ready(), l.SealingKey()
	err := l.reread()
	if err != nil {
		err = fmt.Errorf("the key ring cannot be read again; the keys in use stay: %w", err)
	} else if err = l.Tend(ctx); err != nil {
		err = fmt.Errorf("the key ring cannot be compared with the store's set of keys: %w", err)
	} else if err = l.Ready(); err == nil {
		err = l.Lags()
	}
	l.observe()
	switch {
	case ctx.Err() != nil:
	case kv.Failed(err):
		// The store fails, which whoever watches over it says once.
		l.cfg.Log.Debug("key ring", "error", err.Error())
	case err != nil && err.Error() != l.said:
		l.said = err.Error()
		l.cfg.Log.Error("key ring", "error", l.said, "ready", l.Ready() == nil)
	case err == nil && l.said != "":
		l.said = ""
		l.cfg.Log.Info("key ring is as it should be again", "was", before)
	}
	if now := l.SealingKey(); now != sealed {
		l.cfg.Log.Info("another key of the ring seals", "key", now, "before", sealed)
	}
}

// reread takes over what the file holds, if that has changed.
func (l *Live) reread() error {
	if l.cfg.File == nil {
		return nil
	}
	b, err := l.cfg.File()
	if err != nil || bytes.Equal(b, l.last) {
		return err
	}
	ring, err := token.ParseKeyring(b)
	if err != nil {
		return err
	}
	if err := l.Use(ring); err != nil {
		return err
	}
	l.last = b
	l.cfg.Log.Info("key ring read again", "keys", len(ring.Keys))
	return nil
}

func (l *Live) observe() {
	if l.cfg.Observe != nil {
		l.cfg.Observe(l.Standing().Lacking(l.cfg.Now()), l.SealingKey())
	}
}
