package integration

import (
	"encoding/json"
	"strconv"
	"strings"
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

// url adds a change of an address, of which only the origin is shown.
func (c *changes) url(field, from, to string) {
	if from != to {
		*c = append(*c, audit.Change{Field: field, From: audit.Origin(from), To: audit.Origin(to)})
	}
}

// secret adds that a secret changed, if there is a new one.
func (c *changes) secret(field string, given *string) {
	if given != nil {
		*c = append(*c, audit.Change{Field: field, From: hidden, To: hidden})
	}
}

// hidden is shown in place of a secret.
const hidden = "(secret)"

// Changes says what p changes of what was there, for the audit. The names of fields are those of the JSON.
func (p Publisher) Changes(was Publisher) []audit.Change {
	var c changes
	c.add("name", was.Name, p.Name)
	c.add("archived", yes(was.Archived != nil), yes(p.Archived != nil))
	c.add("managed", yes(was.Managed), yes(p.Managed))
	c.add("removed_from_file", yes(was.Removed), yes(p.Removed))
	return c
}

// Changes says what i, saved with these secrets, changes of what was there, for the audit. No secret is in
// it, and of a webhook's address only the origin.
func (i Integration) Changes(was Integration, s Secrets) []audit.Change {
	var c changes
	c.add("publisher_id", was.PublisherID, i.PublisherID)
	c.add("name", was.Name, i.Name)
	c.add("level", was.Level, i.Level)
	c.add("challenge_age", number(was.ChallengeAge), number(i.ChallengeAge))
	c.add("minimum_age", number(was.MinimumAge), number(i.MinimumAge))
	c.add("attempts", number(was.Attempts), number(i.Attempts))
	c.add("methods", list(was.Offers()), list(i.Offers()))
	c.add("method_settings", settings(was.MethodSettings), settings(i.MethodSettings))
	c.add("callback_origins", list(was.CallbackOrigins), list(i.CallbackOrigins))
	c.add("browser_origins", list(was.BrowserOrigins), list(i.BrowserOrigins))
	c.add("passkeys", was.Passkeys, i.Passkeys)
	c.add("webhook.off", yes(was.Webhook.Off), yes(i.Webhook.Off))
	c.url("webhook.url", was.Webhook.URL, i.Webhook.URL)
	c.secret("webhook.secret", s.Set)
	before, after := Webhook{}, Webhook{}
	if was.Staged != nil {
		before = *was.Staged
	}
	if i.Staged != nil {
		after = *i.Staged
	}
	c.add("staged", yes(was.Staged != nil), yes(i.Staged != nil))
	c.url("staged.url", before.URL, after.URL)
	c.secret("staged.secret", s.Staged)
	c.add("archived", yes(was.Archived != nil), yes(i.Archived != nil))
	c.add("managed", yes(was.Managed), yes(i.Managed))
	c.add("removed_from_file", yes(was.Removed), yes(i.Removed))
	return c
}

func number(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func list(texts []string) string { return strings.Join(texts, ", ") }

// settings are JSON with the names in order.
func settings(m map[string]json.RawMessage) string {
	if len(m) == 0 {
		return ""
	}
	b, err := json.Marshal(m)
	if err != nil {
		return "not readable"
	}
	return string(b)
}

// instant is now as records have it.
func (d *Directory) instant() *time.Time {
	now := d.now().UTC().Truncate(time.Millisecond)
	return &now
}
