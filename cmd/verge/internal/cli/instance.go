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

	"github.com/verge-id/verge/cmd/verge/internal/config"
	"github.com/verge-id/verge/cmd/verge/internal/modules"
	"github.com/verge-id/verge/core/admin"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/edge"
	"github.com/verge-id/verge/kvadapters"
	"github.com/verge-id/verge/kvadapters/bolt"
)

// plan is a checked configuration, and the other values that a running service needs.
type plan struct {
	config.Plan

	public, admin, ops net.Listener // nil admin or ops: none

	tracer trace.TracerProvider // nil: no traces

	usageEach time.Duration // between two writes of usage; zero: edge's default

	storeOpen func() error // called before the first log message; nil: nothing to do

	log    *slog.Logger
	now    func() time.Time
	random io.Reader
}

// boltDisk is the disk of a bolt store. Tests replace it with one that fails.
var boltDisk bolt.Disk

// instance is a service and the modules that its engine runs.
type instance struct {
	*edge.Service
	modules *modules.Switch
}

// openStore opens the plan's store. The caller must call the function that closes it.
func (pl *plan) openStore(ctx context.Context) (kv.KV, func() error, error) {
	store, closeStore, err := pl.Store.Open(ctx, kvadapters.OpenConfig{Now: pl.now, Disk: boltDisk})
	if dial, ok := errors.AsType[*net.OpError](err); ok && dial.Op == "dial" {
		err = fmt.Errorf("%w; check that the store runs at the address of kv", err)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("store: %w", err)
	}
	return store, closeStore, nil
}

// assemble opens the store and puts the instance together. The caller must call Run or Close.
func assemble(ctx context.Context, s plan) (*instance, error) {
	store, closeStore, err := s.openStore(ctx)
	if err != nil {
		return nil, err
	}
	if s.storeOpen != nil {
		if err := s.storeOpen(); err != nil {
			return nil, errors.Join(err, closeStore())
		}
	}
	runs := modules.NewSwitch(s.Engine.Config())
	file, _ := store.(*bolt.Store)
	copies := &backups{store: file, at: s.Store, log: s.log, now: s.now}
	if s.Core.ReportKey != "" {
		s.Core.SoftwareVersion, s.Core.SoftwareDigest = thisBuild().name(), softwareDigest()
	}
	service, err := edge.Open(ctx, edge.Config{
		Core:    s.Core,
		Store:   edge.Store{KV: store, Shared: s.Store.Shared(), Close: closeStore},
		Engine:  runs.Open,
		Keyring: s.Keyring, KeyringFile: s.KeyringFile, KeyringEach: s.KeyringEach,
		Egress: s.Egress, Server: s.Server, StoreBudget: s.Budget,
		Sign: s.Signer.Sign, Decrypt: s.Signer.Decrypt, CheckKeys: s.Signer.Check,
		UsageEach: s.usageEach,
		Public:    s.public, Admin: s.admin, Ops: s.ops,
		AdminEndpoints: map[string]edge.AdminEndpoint{modules.Path: runs.AdminEndpoint(),
			admin.BackupPath: copies.adminEndpoint()},
		Log: s.log, Now: s.now, Random: s.random, Tracer: s.tracer,
	})
	if _, few := errors.AsType[*edge.PartitionsError](err); few {
		return nil, usageError{err}
	}
	if err != nil {
		return nil, err
	}
	return &instance{service, runs}, nil
}
