package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/verge-id/verge/core/internal/brand"
	"github.com/verge-id/verge/core/internal/token"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/problem"
)

// Site is the publishers and integrations of an operator's configuration. Its JSON has the names that the
// configuration file has.
type Site struct {
	Publishers   []SitePublisher   `json:"publishers"`
	Integrations []SiteIntegration `json:"integrations"`
}

// SitePublisher is a publisher of a configuration.
type SitePublisher struct {
	ID       string `json:"id" toml:"id"`
	Name     string `json:"name" toml:"name"`
	Accent   string `json:"accent,omitempty" toml:"accent"`
	Logo     []byte `json:"logo,omitempty" toml:"-"`            // the file
	Archived bool   `json:"archived,omitempty" toml:"archived"` // its other settings then do not matter
}

// Validate returns an error with all problems of s, one per line.
func (s Site) Validate(methods method.Catalog, dev bool) error {
	var errs []error
	for _, p := range s.Problems(methods, dev, nil) {
		errs = append(errs, errors.New(p.Text))
	}
	return errors.Join(errs...)
}

// Problems returns the problems of s. Their members are paths: publishers.0.id is the id of the first
// publisher. misread are the values of a wrong type that ReadSite has found. They come first, and problems
// that only follow from one of them are left out.
func (s Site) Problems(methods method.Catalog, dev bool, misread problem.List) problem.List {
	wrong := slices.Clone(misread)
	for _, p := range s.problems(methods, dev, misread) {
		if !misread.Has(p.Member) {
			wrong = append(wrong, p)
		}
	}
	return wrong
}

func (s Site) problems(methods method.Catalog, dev bool, misread problem.List) problem.List {
	var wrong problem.List
	publishers, unread := s.checkPublishers(misread, &wrong)
	integrations := map[string]bool{}
	for n, i := range s.Integrations {
		path := func(member string) string { return fmt.Sprintf("integrations.%d.%s", n, member) }
		bad := func(member, format string, args ...any) {
			wrong.Add(path(member), "integration %q: "+format, append([]any{i.ID}, args...)...)
		}
		for _, p := range i.integration().Problems(methods, dev) {
			if p.Member == "methods" && len(i.Methods) == 0 {
				p.Member = "method"
			}
			if p.Member == "id" || !i.Archived {
				bad(p.Member, "%s", p.Text)
			}
		}
		if integrations[i.ID] {
			bad("id", "it occurs twice")
		}
		integrations[i.ID] = true
		if i.Archived {
			continue
		}
		if text := brand.NameProblem(i.Name); text != "" {
			bad("name", "%s", text)
		}
		integration := i.integration()
		for _, s := range Settings {
			if list, _ := s.Value(&integration).([]string); s.Items != "" && len(list) > MaxItems {
				bad(s.Name, "%s has %d %s; at most %d are allowed", s.Name, len(list), s.Items, MaxItems)
			}
		}
		if i.Method != "" && len(i.Methods) > 0 {
			bad("methods", "it has method and methods; choose one")
		}
		if !publishers[i.Publisher] && !unread {
			bad("publisher", "there is no publisher %q", i.Publisher)
		}
		switch {
		case i.WebhookURL == "" && !i.WebhookOff && !misread.Has(path("webhook_off")):
			bad("webhook_url", "it has no webhook_url, so it would never be ready; "+
				"set one, or webhook_off for no events")
		case i.WebhookURL == "" && i.Secret != "":
			bad("webhook_url", "there is a webhook secret but no webhook_url")
		case i.WebhookURL != "":
			if why := SecretProblem(i.Secret, dev, i.Publisher, i.Name); why != "" {
				bad("secret", "its webhook secret: %s", why)
			}
		}
	}
	return wrong
}

// checkPublishers returns the ids of the publishers. An integration may also be of a publisher that was not
// read.
func (s Site) checkPublishers(misread problem.List, wrong *problem.List) (ids map[string]bool, unread bool) {
	ids, unread = map[string]bool{}, misread.Has("publishers")
	for n, p := range s.Publishers {
		member := fmt.Sprintf("publishers.%d.id", n)
		unread = unread || misread.Has(member)
		wrong.AddError(member, Publisher{ID: p.ID}.Validate())
		if ids[p.ID] {
			wrong.Add(member, "publisher %q: it occurs twice", p.ID)
		}
		ids[p.ID] = true
		if p.Archived {
			continue
		}
		if bad := brand.NameProblem(p.Name); bad != "" {
			wrong.Add(fmt.Sprintf("publishers.%d.name", n), "publisher %q: %s", p.ID, bad)
		}
		if bad := AccentProblem(p.Accent); bad != "" {
			wrong.Add(fmt.Sprintf("publishers.%d.accent", n), "publisher %q: %s", p.ID, bad)
		}
		if _, bad := (Publisher{ID: p.ID}).SetLogo(p.Logo); bad != "" {
			wrong.Add(fmt.Sprintf("publishers.%d.logo", n), "publisher %q: logo: %s", p.ID, bad)
		}
	}
	return ids, unread
}

func (i SiteIntegration) integration() Integration {
	if len(i.Methods) == 0 {
		i.Methods = []string{i.Method}
	}
	out := Integration{ID: i.ID, PublisherID: i.Publisher, Name: i.Name,
		Webhook: Webhook{URL: i.WebhookURL, Off: i.WebhookOff}}
	for _, s := range Settings {
		s.set(&out, reflect.ValueOf(s.Of(&i)).Elem().Interface())
	}
	return out
}

// Removal is the treatment of a publisher or integration that an earlier Site named and the present one does
// not.
type Removal bool

// The two ways. A start and SIGHUP keep, so that a block deleted by mistake interrupts no customer.
const (
	KeepRemoved    Removal = false // it is marked as Removed, logged, and works as before
	ArchiveRemoved Removal = true  // it is archived, since its sessions may still be in progress
)

// Put brings the store to a valid Site (contract 46). It creates or changes each publisher and integration of
// the site, which the site manages after that. They are no longer archived, unless the site archives them.
// Publishers and integrations of an earlier site are kept or archived. Everything else stays unchanged. An
// integration with an unchanged webhook keeps its readiness. Each change has an entry in the audit.
//
// run carries out the writes, which do not depend on each other, and returns an
// error if one fails. A host with threads makes them side by side, since they
// then share disk writes. Nil: one write after the other.
func (d *Directory) Put(ctx context.Context, s Site, removed Removal,
	run func(writes []func() error) error) error {
	return d.put(ctx, s, mode{managed: true, removed: removed}, run)
}

// Seed creates or changes the records of a valid Site, as Put does, but anyone with the right may change them
// later. It archives nothing and writes no audit.
func (d *Directory) Seed(ctx context.Context, s Site, run func(writes []func() error) error) error {
	return d.put(ctx, s, mode{}, run)
}

func (d *Directory) put(ctx context.Context, s Site, m mode, run func(writes []func() error) error) error {
	steps, err := d.steps(ctx, s, m)
	if err != nil {
		return err
	}
	var writes []func() error
	for _, step := range steps {
		d.warnOf(step.first.Difference)
		if step.first.settled() {
			continue
		}
		writes = append(writes, func() error { return d.take(ctx, step) })
	}
	if run == nil {
		run = oneByOne
	}
	if err := run(writes); err != nil {
		return err
	}
	return errors.Join(
		d.reseal(ctx, resigned), // also records that the site does not contain
		d.Index(ctx),
	)
}

// warnOf logs a publisher or integration that works although the configuration no longer names it.
func (d *Directory) warnOf(of Difference) {
	if of.Removed && of.Action != actionArchive {
		d.log.Warn("no longer in the configuration, continues to work", "what", of.Kind, "id", of.ID,
			"publisher", of.Publisher, "do", "archive it with verge apply, or restore it")
	}
}

// oneByOne makes one write after the other until one fails.
func oneByOne(writes []func() error) error {
	for _, write := range writes {
		if err := write(); err != nil {
			return err
		}
	}
	return nil
}

// siteMark is the item that identifies the site that was applied last, and the first key at that time. A site
// holds secrets, so the item must not help anyone to guess them.
const siteMark = "c/site"

// siteFormat is the beginning of the mark's input. It changes when a release does more with a site, so that
// the release does it once with the site that an earlier one applied.
const siteFormat = "site that keeps\x00"

// Apply puts a valid Site into the store as Put does, one write after the other. It does nothing if the same
// Site was applied last, with the same first key of the ring. It does not check s: Site.Validate does, and so
// does Apply of an edge.Service.
func (d *Directory) Apply(ctx context.Context, s Site) error {
	b, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("site: %w", err)
	}
	mark, err := d.sealer.MAC(token.Secret, append([]byte(siteFormat), b...))
	if err != nil {
		return err
	}
	item, err := d.kv.Get(ctx, kv.Key{Partition: Partition, Name: siteMark})
	if err != nil && !errors.Is(err, kv.ErrNotFound) {
		return err
	}
	if err == nil && bytes.Equal(item.Value, mark) {
		return nil
	}
	if err := d.Put(ctx, s, KeepRemoved, nil); err != nil {
		return err
	}
	id, err := kv.NewTxID(d.random)
	if err != nil {
		return err
	}
	return kv.CommitSurely(ctx, d.kv, kv.Tx{ID: id, Partition: Partition,
		Puts: []kv.Put{{Name: siteMark, Value: mark}}})
}
