package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/spf13/afero"

	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/method/sandbox"
	"github.com/verge-id/verge/core/token"
	"github.com/verge-id/verge/core/uuid"
)

// seeds are the values that `verge dev` invents once and then keeps in its data directory, so that
// the values that a developer has copied stay valid.
type seeds struct {
	OperatorToken   string `json:"operator_token"`
	PublisherID     string `json:"publisher_id"`
	IntegrationID   string `json:"integration_id"`    // L1, challenge age 25
	IntegrationIDL2 string `json:"integration_id_l2"` // L2, challenge age 18
	SecretKey       string `json:"secret_key"`
	PublicKey       string `json:"public_key"` // of the L1 integration
	WebhookSecret   string `json:"webhook_secret"`
}

// Files in the data directory.
const (
	seedsFile   = "dev.json"
	keyringFile = "keyring.json"
	storeFile   = "verge.db"
	statusFile  = "ready.json"
)

// loadSeeds reads the values in dir, or invents them.
func loadSeeds(fsys afero.Fs, dir string, random io.Reader) (seeds, error) {
	path := filepath.Join(dir, seedsFile)
	var s seeds
	b, err := readPrivate(fsys, path)
	switch {
	case err == nil:
		if err := json.Unmarshal(b, &s); err != nil {
			return s, fmt.Errorf("%s: %w: delete it to get new values", path, err)
		}
		return s, nil
	case !isMissing(err):
		return s, err
	}
	if s, err = newSeeds(random); err != nil {
		return s, err
	}
	if b, err = json.MarshalIndent(s, "", "  "); err != nil {
		return s, err
	}
	return s, writePrivate(fsys, path, append(b, '\n'))
}

func newSeeds(random io.Reader) (s seeds, err error) {
	var raw [64]byte
	if _, err := io.ReadFull(random, raw[:]); err != nil {
		return s, fmt.Errorf("reading randomness: %w", err)
	}
	s.OperatorToken = "op_" + hex.EncodeToString(raw[:24])
	s.WebhookSecret = "whsec_" + hex.EncodeToString(raw[24:56])
	s.PublisherID = integration.PublisherPrefix + "dev_" + hex.EncodeToString(raw[56:])
	for _, id := range []*string{&s.IntegrationID, &s.IntegrationIDL2} {
		if *id, err = uuid.New(random); err != nil {
			return s, err
		}
	}
	if s.SecretKey, err = integration.GenerateKey(integration.SecretPrefix, random); err != nil {
		return s, err
	}
	s.PublicKey, err = integration.GenerateKey(integration.PublicPrefix, random)
	return s, err
}

// loadKeyring reads the ring in dir, or makes one.
func loadKeyring(fsys afero.Fs, dir string, random io.Reader, now time.Time) (token.Keyring, error) {
	path := filepath.Join(dir, keyringFile)
	b, err := readPrivate(fsys, path)
	switch {
	case err == nil:
		ring, err := token.ParseKeyring(b)
		if err != nil {
			err = fmt.Errorf("%s: %w", path, err)
		}
		return ring, err
	case !isMissing(err):
		return token.Keyring{}, err
	}
	ring, err := token.GenerateKeyring(random, now)
	if err != nil {
		return ring, err
	}
	if b, err = ring.Marshal(); err != nil {
		return ring, err
	}
	return ring, writePrivate(fsys, path, b)
}

// site returns the publisher and the two integrations of `verge dev`.
func (s seeds) site(webhookURL, demoOrigin string) integration.Site {
	l1 := integration.SiteIntegration{ID: s.IntegrationID, Name: "Age estimation", Level: "L1", ChallengeAge: 25,
		BrowserOrigins: []string{demoOrigin}}
	l2 := integration.SiteIntegration{
		ID:           s.IntegrationIDL2,
		Name:         "Identity document",
		Level:        "L2",
		ChallengeAge: 18,
	}
	site := integration.Site{
		Publishers:   []integration.Publisher{{ID: s.PublisherID, Name: "Oak & Ember (demo)"}},
		Integrations: []integration.SiteIntegration{l1, l2},
	}
	for n := range site.Integrations {
		i := &site.Integrations[n]
		i.Publisher, i.Method, i.WebhookURL, i.Secret = s.PublisherID, sandbox.Name, webhookURL, s.WebhookSecret
	}
	return site
}

// plant puts the seeds into a directory. A second call changes only the addresses, which may differ
// from run to run.
func (s seeds) plant(ctx context.Context, d *integration.Directory, site integration.Site, now time.Time,
	log *slog.Logger) error {
	if err := d.Put(ctx, site, sideBySide); err != nil {
		return err
	}
	writes := []func() error{
		func() error {
			k := integration.Key{PublisherID: s.PublisherID, Created: now}
			return plantKey(ctx, d, s.SecretKey, integration.SecretPrefix, k, log)
		},
		func() error {
			k := integration.Key{PublisherID: s.PublisherID, IntegrationID: s.IntegrationID, Created: now}
			return plantKey(ctx, d, s.PublicKey, integration.PublicPrefix, k, log)
		},
	}
	for _, i := range site.Integrations {
		// The integration is recorded as ready without a test, since nothing in dev depends on
		// it. The test would put five requests into the receiver's log that nobody asked for,
		// four of them badly signed. `verge integration test` sends them.
		writes = append(writes, func() error {
			kept, err := d.Integration(ctx, i.ID)
			if err != nil {
				return err
			}
			return d.RecordReadiness(ctx, kept, i.Secret, true)
		})
	}
	return sideBySide(writes)
}

// plantKey imports a key that is not there yet. It changes no key that is there, because a revoked
// key must not come back with a restart.
func plantKey(
	ctx context.Context, d *integration.Directory, text, prefix string, k integration.Key, log *slog.Logger,
) error {
	known, err := d.Key(ctx, prefix, text)
	if errors.Is(err, integration.ErrNotFound) {
		return d.ImportKey(ctx, text, k)
	}
	if err == nil && !known.Active(k.Created) {
		log.Warn("a seeded key was revoked and stays so; delete the data directory to start afresh",
			"key", known.ID)
	}
	return err
}
