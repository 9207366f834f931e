package cli

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"path/filepath"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/afero"

	"github.com/verge-id/verge/cmd/verge/internal/config"
	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/keyring"
	"github.com/verge-id/verge/core/method/sandbox"
	"github.com/verge-id/verge/testharness/wallettest"
)

// seeds are the values that `verge dev` generates once and keeps in its data directory, so that copied values
// stay valid.
type seeds struct {
	OperatorToken    string `json:"operator_token"`
	PublisherID      string `json:"publisher_id"`
	IntegrationID    string `json:"integration_id"`     // sandbox, L1, challenge age 25
	IntegrationIDL2  string `json:"integration_id_l2"`  // sandbox, L2, challenge age 18
	IntegrationIDAll string `json:"integration_id_all"` // all methods, L1, challenge age 25
	SecretKey        string `json:"secret_key"`
	PublicKey        string `json:"public_key"` // of the first integration
	WebhookSecret    string `json:"webhook_secret"`
}

// seedFile is the content of the data directory's file: the seeds, and values that other programs do not
// need.
type seedFile struct {
	seeds
	Integrations map[string]string `json:"integrations"` // by method, including unconfigured ones
	BankSecret   string            `json:"bank_secret"`  // of the service, at the demo's bank
	CameraToken  string            `json:"camera_token"` // of the service, at the demo's estimator

	issuer *wallettest.Issuer // of the demo's wallet; new at each start
}

// devData is the default data directory.
const devData = ".verge"

// Files in the data directory.
const (
	seedsFile   = "dev.json"
	keyringFile = "keyring.json"
	storeFile   = "verge.db"
	statusFile  = "ready.json"
	logFile     = "dev.log"
	oidcKeyFile = "oidc-provider.pem"
	reportFile  = "report.pem"
)

// loadSeeds reads the values in dir, and generates missing ones: all of them at first, and later those of new
// methods.
func loadSeeds(fsys afero.Fs, dir string, random io.Reader, methods []string) (seedFile, error) {
	path := filepath.Join(dir, seedsFile)
	var s seedFile
	old, err := config.ReadPrivate(fsys, path)
	switch {
	case err == nil:
		if err := json.Unmarshal(old, &s); err != nil {
			return s, fmt.Errorf("%s: %w: delete the file to get new values", path, err)
		}
	case !errors.Is(err, fs.ErrNotExist):
		return s, err
	}
	if err := s.complete(random, methods); err != nil {
		return s, err
	}
	b, err := json.MarshalIndent(s, "", "  ")
	if b = append(b, '\n'); err != nil || bytes.Equal(b, old) {
		return s, err
	}
	return s, config.WritePrivate(fsys, path, b)
}

// complete generates every value that is missing in s.
func (s *seedFile) complete(random io.Reader, methods []string) error {
	var err error
	invent := func(value *string, prefix string, size int) {
		raw := make([]byte, size)
		if *value != "" || err != nil {
			return
		}
		if _, err = io.ReadFull(random, raw); err != nil {
			err = fmt.Errorf("reading randomness: %w", err)
		}
		*value = prefix + hex.EncodeToString(raw)
	}
	invent(&s.OperatorToken, "op_", 24)
	if s.WebhookSecret == "" && err == nil {
		s.WebhookSecret, err = integration.GenerateSecret(random)
	}
	invent(&s.PublisherID, integration.PublisherPrefix+"dev_", 8)
	invent(&s.BankSecret, "", 24)
	invent(&s.CameraToken, "", 24)

	inventID := func(id *string) {
		if *id == "" && err == nil {
			var made uuid.UUID
			made, err = uuid.NewRandomFromReader(random)
			*id = made.String()
		}
	}
	inventID(&s.IntegrationID)
	inventID(&s.IntegrationIDL2)
	inventID(&s.IntegrationIDAll)
	ids := map[string]string{}
	maps.Copy(ids, s.Integrations)
	for _, name := range methods {
		id := ids[name]
		if name == sandbox.Name {
			id = s.IntegrationID
		}
		inventID(&id)
		ids[name] = id
	}
	s.Integrations = ids

	inventKey := func(key *string, prefix string) {
		if *key == "" && err == nil {
			*key, err = integration.GenerateKey(prefix, random)
		}
	}
	inventKey(&s.SecretKey, integration.SecretPrefix)
	inventKey(&s.PublicKey, integration.PublicPrefix)
	return err
}

// addServiceKeys adds the keys of the OpenID provider and of reports in dir, or creates them.
func addServiceKeys(p *program, dir string, pl *plan) error {
	provider, err := addKey(p, filepath.Join(dir, oidcKeyFile), core.ProviderKeyName(1), pl)
	if err != nil {
		return err
	}
	pl.Core.ProviderKeys = []string{provider}
	pl.Core.ReportKey, err = addKey(p, filepath.Join(dir, reportFile), core.ReportKeyName, pl)
	return err
}

// addKey adds the key of a file under a name, and returns its public key. It creates a missing file.
func addKey(p *program, path, name string, pl *plan) (public string, err error) {
	file, err := config.ReadPrivate(p.FS, path)
	if errors.Is(err, fs.ErrNotExist) {
		var private *ecdsa.PrivateKey
		if private, err = ecdsa.GenerateKey(elliptic.P256(), p.Random); err != nil {
			return "", err
		}
		der, err := x509.MarshalPKCS8PrivateKey(private)
		if err != nil {
			return "", err
		}
		file = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
		if err := config.WritePrivate(p.FS, path, file); err != nil {
			return "", err
		}
	} else if err != nil {
		return "", err
	}
	if pl.Signer, err = pl.Signer.With(name, file); err != nil {
		return "", fmt.Errorf("%s: %w: delete the file to get a new one", path, err)
	}
	spki, err := pl.Signer.Public(name)
	return base64.StdEncoding.EncodeToString(spki), err
}

// loadKeyring reads the ring in dir, or creates one.
func loadKeyring(fsys afero.Fs, dir string, random io.Reader, now time.Time) (keyring.File, error) {
	path := filepath.Join(dir, keyringFile)
	b, err := config.ReadPrivate(fsys, path)
	switch {
	case err == nil:
		ring, err := keyring.Parse(b)
		if err != nil {
			err = fmt.Errorf("%s: %w", path, err)
		}
		return ring, err
	case !errors.Is(err, fs.ErrNotExist):
		return keyring.File{}, err
	}
	ring, err := keyring.Generate(random, now)
	if err != nil {
		return ring, err
	}
	if b, err = ring.Marshal(); err != nil {
		return ring, err
	}
	return ring, config.WritePrivate(fsys, path, b)
}

// plant saves the seeds in a directory. A second call changes only the addresses, which may differ between
// runs.
func (s seeds) plant(ctx context.Context, d *integration.Directory, site integration.Site, now time.Time,
	log *slog.Logger) error {
	if err := d.Seed(ctx, site, sideBySide); err != nil {
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
		// The integration is recorded as ready without a test, because dev does not check readiness. The test
		// would send five unexpected requests to the receiver, four of them badly signed. `verge integration
		// test` sends them.
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

// plantKey imports a missing key. It does not change existing keys, because a restart must not restore a
// revoked key.
func plantKey(
	ctx context.Context, d *integration.Directory, text, prefix string, k integration.Key, log *slog.Logger,
) error {
	known, err := d.Key(ctx, prefix, text)
	if errors.Is(err, integration.ErrNotFound) {
		return d.ImportKey(ctx, text, k)
	}
	if err == nil && !known.Active(k.Created) {
		log.Warn("seeded key is revoked; delete the data directory to get new keys",
			"key", known.ID)
	}
	return err
}
