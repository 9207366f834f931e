package operate

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"github.com/verge-id/verge/core/api"
	"github.com/verge-id/verge/core/audit"
	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/lifecycle"
	"github.com/verge-id/verge/core/member"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/outbox"
	"github.com/verge-id/verge/core/passkey"
	"github.com/verge-id/verge/core/usage"
)

// Desk carries out operations. All fields are needed.
type Desk struct {
	KV     kv.KV
	Sealer host.Sealer
	Now    func() time.Time
	Random io.Reader
	Log    *slog.Logger

	Dev        bool // allows what integration.Integration.Validate allows in dev
	BaseURL    string
	Catalog    method.Catalog
	Partitions []kv.Partition

	Directory *integration.Directory
	People    *member.Registry
	Outbox    *outbox.Outbox
	Lifecycle *lifecycle.Lifecycle
	Counted   *usage.Usage

	UserPasskeys *passkey.Store

	// StartTest starts a session of an integration without a key (api.API.StartTrial).
	StartTest func(ctx context.Context, i *integration.Integration, callback string) (api.Trial, error)
}

// change is one field before and after, for the audit.
type change = audit.Change

// along returns the audit entry of an operation, to be written in the commit that carries it out.
func (d *Desk) along(who Actor, op Operation, publisher, target string, changes ...change) ([]kv.Put, error) {
	return audit.Entry{Actor: audit.Actor{Kind: who.Kind, ID: who.ID, Name: who.Name},
		Publisher: publisher, Operation: string(op), Target: target, Changes: changes}.Puts(d.Sealer, d.Random, d.Now())
}

// told turns an error of the store of publishers and integrations into one of this package.
func told(err error) error {
	switch {
	case errors.Is(err, integration.ErrNotFound):
		return ErrNotFound
	case errors.Is(err, integration.ErrStale):
		return ErrStale
	case errors.Is(err, integration.ErrManaged):
		return ErrManaged
	case errors.Is(err, integration.ErrArchived):
		return ErrArchived
	case errors.Is(err, integration.ErrCursor):
		return badCursor
	}
	return err
}

// limit returns how many items a part of a list has.
func (c Cursor) limit() int {
	if c.Limit <= 0 {
		return DefaultLimit
	}
	return min(c.Limit, MaxLimit)
}

// fresh refuses a version that is not the present one. "" is a caller who takes whatever there is.
func fresh(want, is string) error {
	if want != "" && want != is {
		return ErrStale
	}
	return nil
}
