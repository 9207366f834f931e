package integration

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/verge-id/verge/core/kv"
)

// Versioned is a record with its version, the transaction that wrote it.
type Versioned[T any] struct {
	Value   T
	Version string
}

// Errors of a save, besides ErrNotFound.
var (
	ErrExists   = errors.New("integration: the id already exists")
	ErrStale    = errors.New("integration: changed in the meantime")
	ErrManaged  = errors.New("integration: managed by the configuration file")
	ErrArchived = errors.New("integration: archived")
)

// ReadPublisher returns a publisher as it is now, bypassing the cache.
func (d *Directory) ReadPublisher(ctx context.Context, id string) (Versioned[Publisher], error) {
	return readVersioned[Publisher](ctx, d, publisherItems+id)
}

// ReadIntegration returns an integration as it is now, bypassing the cache.
func (d *Directory) ReadIntegration(ctx context.Context, id string) (Versioned[Integration], error) {
	return readVersioned[Integration](ctx, d, integrationItems+id)
}

func readVersioned[T any](ctx context.Context, d *Directory, name string) (Versioned[T], error) {
	v, version, err := read[T](ctx, d, name)
	if err != nil {
		return Versioned[T]{}, err
	}
	return Versioned[T]{*v, version}, nil
}

// PublisherArchived reports whether a publisher is archived, so that its keys are rejected. The value is at
// most 5 seconds old. A missing publisher counts as not archived.
func (d *Directory) PublisherArchived(ctx context.Context, id string) (bool, error) {
	p, err := d.Publisher(ctx, id)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return err == nil && p.Archived != nil, err
}

// SavePublisher creates a publisher, if version is "", or changes the publisher with this version. It returns
// the new version. The items in extra are written in the same commit. To archive a publisher, set Archived;
// to restore it, clear Archived. Created, Managed and Removed are ignored.
//
// Besides errors of the store, it returns ErrExists if the publisher exists and version is ""; ErrNotFound if
// it does not exist; ErrStale if it has another version; ErrManaged; and ErrArchived if it is archived and
// stays so.
func (d *Directory) SavePublisher(ctx context.Context, p Publisher, version string, extra ...kv.Put) (
	string, error) {
	if err := p.Validate(); err != nil {
		return "", err
	}
	name := publisherItems + p.ID
	old, err := savedBefore[Publisher](ctx, d, name, version)
	if err != nil {
		return "", err
	}
	if err := d.mayChange(old.Managed, old.Archived, p.Archived); err != nil {
		return "", err
	}
	p.Created, p.Archived = d.dates(version, old.Created, p.Archived)
	p.Managed, p.Removed = false, false // a record saved by hand is no matter of the file
	return d.save(ctx, version, extra, record{name, p})
}

// SaveIntegration is SavePublisher for an integration, which the caller has validated. A new one needs a
// publisher that is not archived. An integration stays with its publisher. Sealed and Hidden of its webhooks
// are not for the caller to set.
func (d *Directory) SaveIntegration(ctx context.Context, i Integration, s Secrets, version string,
	extra ...kv.Put) (string, error) {
	if !i.hasValidID() {
		return "", fmt.Errorf("integration %q: id must be a UUID in lower case", i.ID)
	}
	name := integrationItems + i.ID
	old, err := savedBefore[Integration](ctx, d, name, version)
	if err != nil {
		return "", err
	}
	if err := d.mayChange(old.Managed, old.Archived, i.Archived); err != nil {
		return "", err
	}
	if version == "" {
		p, err := d.ReadPublisher(ctx, i.PublisherID)
		if err == nil && p.Value.Archived != nil {
			err = ErrArchived
		}
		if err != nil {
			return "", err
		}
	} else if i.PublisherID != old.PublisherID {
		return "", fmt.Errorf("integration %s: it cannot move to another publisher", i.ID)
	}
	i.Created, i.Archived = d.dates(version, old.Created, i.Archived)
	i.Managed, i.Removed = false, false
	if i, err = d.sealed(i, old, s); err != nil {
		return "", err
	}
	return d.save(ctx, version, append([]kv.Put{indexIntegration(i)}, extra...), record{name, i})
}

// savedBefore returns the stored record of that name and version, or a zero value for version "".
func savedBefore[T any](ctx context.Context, d *Directory, name, version string) (*T, error) {
	if version == "" {
		return new(T), nil
	}
	old, found, err := read[T](ctx, d, name)
	if err == nil && found != version {
		err = ErrStale
	}
	return old, err
}

// mayChange returns an error if a manual save is not allowed.
func (d *Directory) mayChange(managed bool, archived, still *time.Time) error {
	switch {
	case managed:
		return ErrManaged
	case archived != nil && still != nil:
		return ErrArchived
	}
	return nil
}

// dates returns the times that a saved record has.
func (d *Directory) dates(version string, created, archived *time.Time) (*time.Time, *time.Time) {
	if version == "" {
		created = d.timestamp()
	}
	if archived != nil {
		archived = d.timestamp()
	}
	return created, archived
}

// save commits records whose first one has that version.
func (d *Directory) save(ctx context.Context, version string, extra []kv.Put, records ...record) (
	string, error) {
	next, err := d.commit(ctx, &version, extra, records...)
	switch {
	case err == nil:
		return next, nil
	case errors.Is(err, kv.ErrUnknown) || !kv.IsConflict(err):
		return "", err
	case version == "":
		return "", ErrExists
	}
	return "", ErrStale
}

// Promote puts the staged change of an integration into place, after its test has reported Ready, and records
// that: both or nothing (contract 25). v is the integration as it was tested. It returns the new version.
// It returns the errors of SaveIntegration, and an error if nothing is staged.
func (d *Directory) Promote(ctx context.Context, v Versioned[Integration], extra ...kv.Put) (string, error) {
	i, err := savedBefore[Integration](ctx, d, integrationItems+v.Value.ID, v.Version)
	if err != nil {
		return "", err
	}
	if err := d.mayChange(i.Managed, i.Archived, i.Archived); err != nil {
		return "", err
	}
	secret, err := d.StagedSecret(i)
	if err != nil {
		return "", err
	}
	ready, err := d.succeed(ctx, i, secret)
	if err != nil {
		return "", err
	}
	next := *i
	next.Webhook, next.Staged = Webhook{URL: i.Staged.URL}, nil
	if next, err = d.sealed(next, i, Secrets{Set: &secret}); err != nil {
		return "", err
	}
	return d.save(ctx, v.Version, extra, record{integrationItems + i.ID, next},
		record{readinessItems + i.ID, ready})
}
