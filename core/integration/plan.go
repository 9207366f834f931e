package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/internal/audit"
	"github.com/verge-id/verge/core/kv"
)

// Kinds of things that a Difference is about.
const (
	kindPublisher   = "publisher"
	kindIntegration = "integration"
)

// Actions of a Difference.
const (
	actionCreate  = "create"
	actionChange  = "change" // including an archived record that the site contains again
	actionArchive = "archive"
)

// Difference is one thing that a Site would change in the store. It holds no secret.
type Difference struct {
	Kind      string         `json:"kind"`
	ID        string         `json:"id"`
	Publisher string         `json:"publisher_id"`
	Action    string         `json:"action"`
	Changes   []audit.Change `json:"changes,omitempty"`

	// Removed means that an earlier Site named it and this one does not. If it is kept and is marked
	// already, there are no Changes.
	Removed bool `json:"-"`
}

// Plan returns the changes that Put would make, publishers first. It only reads.
func (d *Directory) Plan(ctx context.Context, s Site, removed Removal) ([]Difference, error) {
	steps, err := d.steps(ctx, s, mode{managed: true, removed: removed})
	if err != nil {
		return nil, err
	}
	all := make([]Difference, len(steps))
	for n, step := range steps {
		all[n] = step.first.Difference
	}
	return all, nil
}

// found is the record that the store has under a name. The zero value is a missing record.
type found[T any] struct {
	value   *T // nil: nothing, or nothing that this service can read
	version string
}

// target is the new state of a record.
type target struct {
	Difference
	record  record
	replace string // the version that it replaces, "" for a new thing
	index   []kv.Put
}

// settled reports whether there is nothing to write.
func (t *target) settled() bool { return t.Removed && len(t.Changes) == 0 }

// mode is how a site is put into the store.
type mode struct {
	managed bool // the site manages its records
	removed Removal
}

// recordStatus is the relation of a record to the configuration.
type recordStatus struct {
	archived         *time.Time
	managed, removed bool
}

// removedStatus returns the status of a record that the site does not name, and false if the site never
// managed it.
func (d *Directory) removedStatus(was recordStatus, m mode) (recordStatus, bool) {
	if !m.managed || was.archived != nil || !was.managed && !was.removed {
		return was, false
	}
	if m.removed == ArchiveRemoved {
		return recordStatus{archived: d.timestamp(), managed: true}, true
	}
	return recordStatus{removed: true}, true
}

// archivedStatus returns the status of a record that the site names as archived.
func (d *Directory) archivedStatus(was recordStatus, m mode) recordStatus {
	next := recordStatus{was.archived, m.managed, false}
	if next.archived == nil {
		next.archived = d.timestamp()
	}
	return next
}

// step changes one record to match the site.
type step struct {
	first   *target                                // by the store's state at planning
	again   func(context.Context) (*target, error) // by the store's current state; nil: done
	audited bool                                   // it has an entry in the audit
}

// steps returns the differences between the site and the store.
func (d *Directory) steps(ctx context.Context, s Site, m mode) ([]step, error) {
	publishers, integrations := map[string]*SitePublisher{}, map[string]*SiteIntegration{}
	var publisherIDs, integrationIDs []string
	for _, p := range s.Publishers {
		publishers[p.ID], publisherIDs = &p, append(publisherIDs, p.ID)
	}
	for _, i := range s.Integrations {
		integrations[i.ID], integrationIDs = &i, append(integrationIDs, i.ID)
	}
	first, err := stepsOf(ctx, d, publisherItems, publisherIDs, m.managed,
		func(id string, f found[Publisher]) (*target, error) {
			return d.publisherTarget(ctx, id, publishers[id], f, m)
		})
	if err != nil {
		return nil, err
	}
	then, err := stepsOf(ctx, d, integrationItems, integrationIDs, m.managed,
		func(id string, f found[Integration]) (*target, error) {
			return d.integrationTarget(integrations[id], f, m)
		})
	return append(first, then...), err
}

// stepsOf returns the steps for one kind of records: the named ones, in this order, and then the others. want
// returns nil for records that need no change.
func stepsOf[T any](ctx context.Context, d *Directory, prefix string, named []string, managed bool,
	want func(id string, f found[T]) (*target, error)) ([]step, error) {
	there := map[string]found[T]{}
	ids := slices.Clone(named)
	known := map[string]bool{}
	for _, id := range named {
		known[id] = true
	}
	err := d.each(ctx, prefix, func(it kv.Item) error {
		f, err := findIn[T](d, it)
		id := strings.TrimPrefix(it.Key.Name, prefix)
		there[id] = f
		if !known[id] {
			ids = append(ids, id)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	var steps []step
	for _, id := range ids {
		first, err := want(id, there[id])
		if err != nil {
			return nil, err
		}
		if first == nil {
			continue
		}
		steps = append(steps, step{first, func(ctx context.Context) (*target, error) {
			item, err := d.kv.Get(ctx, itemKey(prefix+id))
			if errors.Is(err, kv.ErrNotFound) {
				return want(id, found[T]{})
			}
			if err != nil {
				return nil, err
			}
			f, err := findIn[T](d, item)
			if err != nil {
				return nil, err
			}
			return want(id, f)
		}, managed})
	}
	return steps, nil
}

// findIn reads an item. A forged or damaged item has a version and no value, so that the site can replace it.
func findIn[T any](d *Directory, it kv.Item) (found[T], error) {
	v, err := decode[T](d, it)
	if errors.Is(err, host.ErrKeyAwaited) {
		return found[T]{}, err
	}
	if err != nil {
		v = nil
	}
	return found[T]{v, it.Tx}, nil
}

// publisherTarget returns the publisher after the change. p is nil if the site does not name it. The result
// is nil if the publisher is as it should be.
func (d *Directory) publisherTarget(ctx context.Context, id string, p *SitePublisher, f found[Publisher],
	m mode) (*target, error) {
	t := &target{Difference: Difference{Kind: kindPublisher, ID: id, Publisher: id, Action: actionCreate},
		replace: f.version}
	was := Publisher{}
	if f.value != nil {
		was, t.Action = *f.value, actionChange
	}
	next, status := was, recordStatus{was.Archived, was.Managed, was.Removed}
	switch {
	case p != nil && !p.Archived:
		next.ID, next.Name, status = id, p.Name, recordStatus{managed: m.managed}
		if m.managed || was.Accent == "" && was.Logo == nil {
			next.Accent = p.Accent
			next, _ = next.SetLogo(p.Logo) // the site is valid
		}
		if f.value == nil {
			next.Created = d.timestamp()
		}
	case f.value == nil:
		return nil, nil
	case p != nil:
		status = d.archivedStatus(status, m)
	default:
		if status, t.Removed = d.removedStatus(status, m); !t.Removed {
			return nil, nil
		}
	}
	next.Archived, next.Managed, next.Removed = status.archived, status.managed, status.removed
	if p != nil && !p.Archived {
		var err error
		if t.index, err = d.PutLogo(ctx, was.Logo, next, p.Logo); err != nil {
			return nil, err
		}
	}
	return t.to(record{publisherItems + id, next}, next.Changes(was), was.Archived, next.Archived), nil
}

// integrationTarget is publisherTarget for an integration.
func (d *Directory) integrationTarget(i *SiteIntegration, f found[Integration], m mode) (*target, error) {
	t := &target{Difference: Difference{Kind: kindIntegration, Action: actionCreate}, replace: f.version}
	was, secrets := Integration{}, Secrets{}
	if f.value != nil {
		was, t.Action = *f.value, actionChange
	}
	next, status := was, recordStatus{was.Archived, was.Managed, was.Removed}
	switch {
	case i != nil && !i.Archived:
		next, secrets = d.named(*i, f.value, m)
		status = recordStatus{managed: m.managed}
	case f.value == nil:
		return nil, nil
	case i != nil:
		status = d.archivedStatus(status, m)
	default:
		if status, t.Removed = d.removedStatus(status, m); !t.Removed {
			return nil, nil
		}
	}
	next.Archived, next.Managed, next.Removed = status.archived, status.managed, status.removed
	t.ID, t.Publisher, t.index = next.ID, next.PublisherID, []kv.Put{indexIntegration(next)}
	differs := next.Changes(was, secrets)
	sealed, err := d.sealed(next, f.value, secrets)
	return t.to(record{integrationItems + next.ID, sealed}, differs, was.Archived, next.Archived), err
}

// to completes a target. It returns nil if nothing differs, unless the record has left the file.
func (t *target) to(r record, differs []audit.Change, wasArchived, archived *time.Time) *target {
	t.record, t.Changes = r, differs
	if archived != nil && wasArchived == nil {
		t.Action = actionArchive
	}
	if t.Action != actionCreate && len(differs) == 0 && !t.Removed {
		return nil
	}
	return t
}

// named returns an integration as the site has it. was is nil for a new one.
func (d *Directory) named(i SiteIntegration, was *Integration, m mode) (Integration, Secrets) {
	next, secrets := i.integration(), Secrets{}
	if i.Secret != "" {
		secrets.Set = &i.Secret
	}
	if was == nil {
		next.Created = d.timestamp()
		return next, secrets
	}
	next.Created = was.Created
	if !m.managed {
		next.Staged = was.Staged
		for _, s := range Settings {
			if s.seedKeeps && s.Text(&next) == "" {
				s.set(&next, s.Value(was))
			}
		}
	}
	if kept, err := d.WebhookSecret(was); err == nil && kept == i.Secret {
		secrets.Set = nil
	}
	return next, secrets
}

// take carries out a step. Another instance that starts with the same site may be faster, and then there is
// nothing left to do.
func (d *Directory) take(ctx context.Context, s step) error {
	t := s.first
	for range maxRaces {
		err := d.reach(ctx, t, s.audited)
		if kv.IsConflict(err) {
			if t, err = s.again(ctx); err == nil && t != nil && !t.settled() {
				continue
			}
		}
		if err != nil {
			return fmt.Errorf("%s %s: %w", s.first.Kind, s.first.ID, err)
		}
		return nil
	}
	return d.raced(s.first.Kind, s.first.ID)
}

// reach writes the new state of a record, and the audit entry.
func (d *Directory) reach(ctx context.Context, t *target, audited bool) error {
	extra := t.index
	if audited {
		entry, err := audit.Entry{Actor: audit.Actor{Kind: audit.File}, Publisher: t.Publisher,
			Operation: t.Kind + "." + t.Action, Target: t.ID, Changes: t.Changes}.Puts(d.sealer, d.random,
			d.now())
		if err != nil {
			return err
		}
		extra = append(entry, extra...)
	}
	return d.write(ctx, t.record.name, t.record.value, &t.replace, extra...)
}
