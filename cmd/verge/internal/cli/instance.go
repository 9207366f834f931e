package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/admin"
	"github.com/verge-id/verge/core/token"
	"github.com/verge-id/verge/edge"
	"github.com/verge-id/verge/edge/egress"
	"github.com/verge-id/verge/edge/modules"
	"github.com/verge-id/verge/edge/otlp"
	"github.com/verge-id/verge/edge/server"
	"github.com/verge-id/verge/edge/signing"
	"github.com/verge-id/verge/kvadapters"
	"github.com/verge-id/verge/kvadapters/bolt"
)

// settings are what dev and serve have in common: everything that makes a
// running service, read and checked.
type settings struct {
	core    core.Config
	egress  egress.Config
	server  server.Config // limits, TLS and proxies
	store   kvadapters.Address
	engine  engineAt
	keyring token.Keyring
	budget  time.Duration   // of a request with the store; zero: edge's
	signer  *signing.Signer // has the private keys of methods; nil: there are none

	// keyringFile reads the file that keyring is from again. Nil: it never changes.
	keyringFile func() ([]byte, error)

	public, admin, ops net.Listener // nil admin or ops: none

	traces otlp.Config          // an empty endpoint: there are none
	tracer trace.TracerProvider // nil: there is none

	usageEach time.Duration // between two records of usage; zero: edge's

	log    *slog.Logger
	now    func() time.Time
	random io.Reader
}

// instance is a service and the modules that its engine runs.
type instance struct {
	*edge.Service
	modules *modules.Switch
}

// assemble opens the store and puts the instance together. The caller must call Run or Close.
func assemble(ctx context.Context, s settings) (*instance, error) {
	store, closeStore, err := s.store.Open(ctx, kvadapters.OpenConfig{Now: s.now, Disk: boltDisk})
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	runs := modules.NewSwitch(s.engine.config())
	file, _ := store.(*bolt.Store)
	copies := &backups{store: file, at: s.store, log: s.log, now: s.now}
	service, err := edge.Open(ctx, edge.Config{
		Core:    s.core,
		Store:   edge.Store{KV: store, Shared: s.store.Shared(), Close: closeStore},
		Engine:  runs.Open,
		Keyring: s.keyring, KeyringFile: s.keyringFile,
		Egress: s.egress, Server: s.server, StoreBudget: s.budget, Sign: s.signer.Sign,
		UsageEach: s.usageEach,
		Public:    s.public, Admin: s.admin, Ops: s.ops,
		AdminEndpoints: map[string]edge.AdminEndpoint{modules.Path: runs.AdminEndpoint(),
			admin.BackupPath: copies.adminEndpoint()},
		Log: s.log, Now: s.now, Random: s.random, Tracer: s.tracer,
	})
	var few *edge.PartitionsError
	if errors.As(err, &few) {
		return nil, usageError{err}
	}
	if err != nil {
		return nil, err
	}
	return &instance{service, runs}, nil
}
