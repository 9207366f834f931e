package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/verge-id/verge/core/audit"
	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/kv"
)

// Kinds of things that a Difference is about.
const (
	KindPublisher   = "publisher"
	KindIntegration = "integration"
)

// Actions of a Difference.
const (
	ActionCreate  = "create"
	ActionChange  = "change" // also what the site names again after it was archived
	ActionArchive = "archive"
)

// Difference is one thing that a Site would change in the store. It holds no secret.
type Difference struct {
	Kind      string         `json:"kind"`
	ID        string         `json:"id"`
	Publisher string         `json:"publisher_id"`
	Action    string         `json:"action"`
	Changes   []audit.Change `json:"changes,omitempty"`
}

// Plan says what Put would change, publishers first, and changes nothing.
func (d *Directory) Plan(ctx context.Context, s Site) ([]Difference, error) {
	steps, err := d.steps(ctx, s, true)
	if err != nil {
		return nil, err
	}
	all := make([]Difference, len(steps))
	for n, step := range steps {
		all[n] = step.first.Difference
	}
	return all, nil
}

// found is what the store holds under a name. The zero value is nothing.
type found[T any] struct {
	value   *T // nil: nothing, or nothing that this service can read
	version string
}

// target is what a thing becomes.
type target struct {
	Difference
	record  record
	replace string // the version that it replaces, "" for a new thing
	index   []kv.Put
}

// step brings one thing to what the site says.
type step struct {
	first *target                                // by the store as it was when this was planned
	again func(context.Context) (*target, error) // by the store as it is; nil: nothing is left to do
	told  bool                                   // it has an entry in the audit
}

// steps returns what differs between the site and the store.
func (d *Directory) steps(ctx context.Context, s Site, managed bool) ([]step, error) {
	publishers, integrations := map[string]Publisher{}, map[string]SiteIntegration{}
	var publisherIDs, integrationIDs []string
	for _, p := range s.Publishers {
		publishers[p.ID], publisherIDs = p, append(publisherIDs, p.ID)
	}
	for _, i := range s.Integrations {
		integrations[i.ID], integrationIDs = i, append(integrationIDs, i.ID)
	}
	first, err := stepsOf(ctx, d, publisherItems, publisherIDs, managed,
		func(id string, f found[Publisher]) (*target, error) {
			p, named := publishers[id]
			return d.publisherTarget(id, p, named, f, managed), nil
		})
	if err != nil {
		return nil, err
	}
	then, err := stepsOf(ctx, d, integrationItems, integrationIDs, managed,
		func(id string, f found[Integration]) (*target, error) {
			i, named := integrations[id]
			return d.integrationTarget(i, named, f, managed)
		})
	return append(first, then...), err
}

// stepsOf returns the steps for one kind of records: those that are named, in this order, and then the
// others. want returns nil for what is as it should be.
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

// findIn reads an item. One that this service did not write, or that is damaged, has a version and no value,
// so that the site can replace it.
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

func (d *Directory) publisherTarget(id string, p Publisher, named bool, f found[Publisher],
	managed bool) *target {
	t := &target{Difference: Difference{Kind: KindPublisher, ID: id, Publisher: id, Action: ActionCreate},
		replace: f.version}
	was := Publisher{}
	switch {
	case f.value != nil:
		was, t.Action = *f.value, ActionChange
	case !named:
		return nil
	}
	next := Publisher{ID: id, Name: p.Name, Created: d.instant(), Managed: managed}
	if f.value != nil {
		next.Created = was.Created
	}
	if !named {
		if !managed || !was.Managed || was.Archived != nil {
			return nil
		}
		next, t.Action = was, ActionArchive
		next.Archived = d.instant()
	}
	if t.Changes = next.Changes(was); f.value != nil && len(t.Changes) == 0 {
		return nil
	}
	t.record = record{publisherItems + id, next}
	return t
}

func (d *Directory) integrationTarget(i SiteIntegration, named bool, f found[Integration], managed bool) (
	*target, error) {
	was, action, secrets := Integration{}, ActionCreate, Secrets{}
	if f.value != nil {
		was, action = *f.value, ActionChange
	}
	next := i.integration()
	if named {
		next.Created, next.Managed = d.instant(), managed
		if i.Secret != "" {
			secrets.Set = &i.Secret
		}
	}
	switch {
	case named && f.value != nil:
		next.Created = was.Created
		if !managed {
			next.Staged = was.Staged
			if i.Passkeys == "" {
				next.Passkeys = was.Passkeys
			}
		}
		if kept, err := d.WebhookSecret(&was); err == nil && kept == i.Secret {
			secrets.Set = nil
		}
	case named:
	case f.value == nil || !managed || !was.Managed || was.Archived != nil:
		return nil, nil
	default:
		next, action = was, ActionArchive
		next.Archived = d.instant()
	}
	differs := next.Changes(was, secrets)
	if f.value != nil && len(differs) == 0 {
		return nil, nil
	}
	t := &target{Difference: Difference{Kind: KindIntegration, ID: next.ID, Publisher: next.PublisherID,
		Action: action, Changes: differs}, replace: f.version, index: []kv.Put{indexIntegration(next)}}
	sealed, err := d.sealed(next, f.value, secrets)
	t.record = record{integrationItems + next.ID, sealed}
	return t, err
}

// take carries out a step. Another instance that starts with the same site may be faster, and then there is
// nothing left to do.
func (d *Directory) take(ctx context.Context, s step) error {
	t := s.first
	for range maxRaces {
		err := d.reach(ctx, t, s.told)
		if kv.IsConflict(err) {
			if t, err = s.again(ctx); err == nil && t != nil {
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

// reach writes what a thing becomes, and the entry of the audit.
func (d *Directory) reach(ctx context.Context, t *target, told bool) error {
	along := t.index
	if told {
		entry, err := audit.Entry{Actor: audit.Actor{Kind: audit.File}, Publisher: t.Publisher,
			Operation: t.Kind + "." + t.Action, Target: t.ID, Changes: t.Changes}.Puts(d.sealer, d.random,
			d.now())
		if err != nil {
			return err
		}
		along = append(entry, along...)
	}
	return d.write(ctx, t.record.name, t.record.value, &t.replace, along...)
}
