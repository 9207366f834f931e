package integration

import (
	"cmp"
	"time"

	"github.com/verge-id/verge/core/internal/audit"
)

// changes collects the fields that differ.
type changes []audit.Change

func (c *changes) add(field, from, to string) {
	if from != to {
		*c = append(*c, audit.Change{Field: field, From: from, To: to})
	}
}

// url adds a change of a webhook's address. It shows only the origin.
func (c *changes) url(field string, was, is Webhook) {
	if was.URL != is.URL || was.Hidden != is.Hidden {
		*c = append(*c, audit.Change{Field: field, From: was.origin(), To: is.origin()})
	}
}

func (w Webhook) origin() string {
	if w.Hidden {
		return hidden
	}
	return audit.Origin(w.URL)
}

// secret adds a change of a secret, if there is a new one.
func (c *changes) secret(field string, given *string) {
	if given != nil {
		*c = append(*c, audit.Change{Field: field, From: hidden, To: hidden})
	}
}

// hidden is shown instead of a secret, and of an address that does not open.
const hidden = "(secret)"

// Changes returns the differences between was and p for the audit. Fields have the names of the JSON.
func (p Publisher) Changes(was Publisher) []audit.Change {
	var c changes
	c.add("name", was.Name, p.Name)
	c.brand(was, p)
	c.add("archived", yes(was.Archived != nil), yes(p.Archived != nil))
	c.add("managed", yes(was.Managed), yes(p.Managed))
	c.add("removed_from_file", yes(was.Removed), yes(p.Removed))
	return c
}

// Changes returns the differences between was and i, saved with these secrets, for the audit. They contain no
// secret, and only the origin of a webhook's address and of redirect URIs.
func (i Integration) Changes(was Integration, secrets Secrets) []audit.Change {
	var c changes
	c.add("publisher_id", was.PublisherID, i.PublisherID)
	c.add("name", was.Name, i.Name)
	for _, s := range Settings {
		if cmp.Or(s.Text(&was), s.zero) != cmp.Or(s.Text(&i), s.zero) {
			c = append(c, audit.Change{Field: s.Name, From: s.Audited(&was), To: s.Audited(&i)})
		}
	}
	c.add("webhook.off", yes(was.Webhook.Off), yes(i.Webhook.Off))
	c.url("webhook.url", was.Webhook, i.Webhook)
	c.secret("webhook.secret", secrets.Set)
	before, after := Webhook{}, Webhook{}
	if was.Staged != nil {
		before = *was.Staged
	}
	if i.Staged != nil {
		after = *i.Staged
	}
	c.add("staged", yes(was.Staged != nil), yes(i.Staged != nil))
	c.url("staged.url", before, after)
	c.secret("staged.secret", secrets.Staged)
	c.add("archived", yes(was.Archived != nil), yes(i.Archived != nil))
	c.add("managed", yes(was.Managed), yes(i.Managed))
	c.add("removed_from_file", yes(was.Removed), yes(i.Removed))
	return c
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// timestamp returns the current time in the precision of records.
func (d *Directory) timestamp() *time.Time {
	now := d.now().UTC().Truncate(time.Millisecond)
	return &now
}
