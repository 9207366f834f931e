package integration

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/verge-id/verge/core/internal/token"
)

// Secrets are new webhook secrets of an integration that is saved. Nil keeps the stored secret. A staged
// change without its own secret keeps the secret of Webhook.
type Secrets struct {
	Set    *string // of Webhook
	Staged *string // of Staged
}

// maxSecret is the longest webhook secret in bytes.
const maxSecret = 1024

// secretClaims binds a secret to its integration: a copy in another integration's record does not open, and a
// staged secret does not open instead of the active one.
//
// The URL is sealed with it, because it may hold a secret of the receiver.
type secretClaims struct {
	Integration string `json:"int"`
	Secret      string `json:"sec"`
	URL         string `json:"url,omitempty"`
	Staged      bool   `json:"stg,omitempty"`
}

// sealed returns i in its stored form: with the secrets in s, or else the secrets of old, sealed with the
// active key. old may be nil. The fields Sealed and AlertSince of i are ignored.
func (d *Directory) sealed(i Integration, old *Integration, s Secrets) (Integration, error) {
	if old == nil {
		old = &Integration{ID: i.ID}
	}
	if s.Staged != nil && i.Staged == nil {
		return i, fmt.Errorf("integration %s: there is a staged secret but no staged webhook", i.ID)
	}
	switch i.AlertSince = nil; {
	case i.AlertURL != "" && old.AlertURL != "":
		i.AlertSince = old.AlertSince
	case i.AlertURL != "":
		i.AlertSince = d.timestamp()
	}
	i, s = d.followed(i, old, s)
	url := i.Webhook.URL
	var secret string
	var err error
	i.Webhook, secret, err = d.seal(i, i.Webhook, old.Webhook, s.Set, "", false)
	if err != nil || i.Staged == nil {
		return i, err
	}
	staged, before := *i.Staged, Webhook{}
	if old.Staged != nil {
		before = *old.Staged
	}
	if staged.URL == "" && !staged.Hidden {
		staged.URL = url
	}
	if staged.URL == "" && !staged.Hidden {
		return i, fmt.Errorf("integration %s: the staged webhook has no URL", i.ID)
	}
	staged, _, err = d.seal(i, staged, before, s.Staged, secret, true)
	i.Staged = &staged
	return i, err
}

// followed returns i and s with the parts of a staged webhook that it has from the active one. A staged
// webhook with another URL has a copy of the secret, and one with another secret has a copy of the URL. The
// copy changes with the original: otherwise the promotion would restore a secret that was replaced because it
// had leaked.
func (d *Directory) followed(i Integration, old *Integration, s Secrets) (Integration, Secrets) {
	if i.Staged == nil || old.Staged == nil {
		return i, s
	}
	if was := old.Webhook.URL; was != "" && i.Staged.URL == was && i.Webhook.URL != "" {
		staged := *i.Staged
		staged.URL, i.Staged = i.Webhook.URL, &staged
	}
	if s.Set == nil || s.Staged != nil {
		return i, s
	}
	active, err := d.WebhookSecret(old)
	staged, stagedErr := d.StagedSecret(old)
	if err == nil && stagedErr == nil && staged == active {
		s.Staged = s.Set
	}
	return i, s
}

// seal returns one webhook of i in its stored form, and its secret. The secret is given, or the secret of
// old, or, if old has none, instead.
//
// A secret of old that no key of the ring opens is lost, but it is not deleted. It stays unchanged if the
// webhook stays unchanged, so that the other settings of the integration can be changed.
func (d *Directory) seal(i Integration, w, old Webhook, given *string, instead string, staged bool) (
	Webhook, string, error) {
	secret := instead
	switch {
	case given != nil:
		secret = *given
	case old.Sealed != "":
		claims, err := d.open(&i, old.Sealed, staged)
		if err != nil && (w.URL == old.URL && w.Hidden == old.Hidden || !w.Sends()) {
			w.Sealed, w.Hidden = old.Sealed, old.Hidden
			return w, "", nil
		}
		if err != nil {
			return w, "", err
		}
		secret = claims.Secret
	}
	if len(secret) > maxSecret {
		return w, "", fmt.Errorf("integration %s: the webhook secret has %d bytes; at most %d are allowed",
			i.ID, len(secret), maxSecret)
	}
	if staged && secret == "" {
		return w, "", fmt.Errorf("integration %s: the staged webhook has no secret", i.ID)
	}
	w.Sealed, w.Hidden = "", false
	claims := secretClaims{Integration: i.ID, Secret: secret, Staged: staged}
	// An earlier release cannot read a sealed URL or a staged webhook.
	if w.URL != "" && (staged || !token.RecordsUnsigned(d.sealer, d.now())) {
		claims.URL, w.URL, w.Hidden = w.URL, "", true
	}
	if secret == "" && !w.Hidden {
		return w, "", nil
	}
	b, err := json.Marshal(claims)
	if err != nil {
		return w, "", fmt.Errorf("integration: %w", err)
	}
	sealed, err := d.sealer.Seal(token.Secret, b)
	if err != nil {
		return w, "", err
	}
	w.Sealed = token.EncodeText("", sealed)
	return w, secret, nil
}

// WebhookSecret opens the integration's signing secret.
func (d *Directory) WebhookSecret(i *Integration) (string, error) {
	return d.secretOf(i, i.Webhook, false)
}

// errNotStaged means that an integration has no staged change of its webhook.
var errNotStaged = errors.New("integration: no change of the webhook is staged")

// StagedSecret opens the secret of the integration's staged change.
func (d *Directory) StagedSecret(i *Integration) (string, error) {
	if i.Staged == nil {
		return "", errNotStaged
	}
	return d.secretOf(i, *i.Staged, true)
}

func (d *Directory) secretOf(i *Integration, w Webhook, staged bool) (string, error) {
	c, err := d.open(i, w.Sealed, staged)
	if err == nil && c.Secret == "" {
		err = fmt.Errorf("integration %s has no webhook secret", i.ID)
	}
	return c.Secret, err
}

// revealURL fills in the URLs that are stored sealed. If one does not open, the integration still makes
// events, which wait until it does.
func (d *Directory) revealURL(i *Integration) {
	for n, w := range []*Webhook{&i.Webhook, i.Staged} {
		if w == nil || !w.Hidden {
			continue
		}
		if c, err := d.open(i, w.Sealed, n == 1); err == nil {
			w.URL, w.Hidden = c.URL, false
		}
	}
}

// open opens the sealed text of i's webhook, or of its staged webhook.
func (d *Directory) open(i *Integration, text string, staged bool) (c secretClaims, err error) {
	sealed, ok := token.DecodeText("", text)
	if !ok || len(sealed) == 0 {
		return c, fmt.Errorf("integration %s has no webhook secret", i.ID)
	}
	c, err = d.unseal(i.ID, text, sealed)
	if err != nil {
		return c, err
	}
	if c.Integration != i.ID {
		return secretClaims{},
			fmt.Errorf("integration %s: the sealed webhook secret is another integration's", i.ID)
	}
	if c.Staged != staged {
		return secretClaims{}, fmt.Errorf("integration %s: a staged webhook secret is in the wrong field",
			i.ID)
	}
	return c, nil
}

// openedSecret is the prefix of the cache key of an opened secret; the sealed text follows.
const openedSecret = "opened "

// unseal opens a sealed text, and caches it as long as a record. Each delivery needs it.
func (d *Directory) unseal(id, text string, sealed []byte) (c secretClaims, err error) {
	now := d.now()
	if kept, ok := d.cache.Get(openedSecret + text); ok && fresh(kept.checked, now) {
		return kept.value.(secretClaims), nil
	}
	b, _, err := d.sealer.Open(token.Secret, sealed)
	if err != nil {
		return c, fmt.Errorf("integration %s: the webhook secret does not open with this key ring; "+
			"set it again: %w", id, err)
	}
	if err := json.Unmarshal(b, &c); err != nil {
		return secretClaims{},
			fmt.Errorf("integration %s: the sealed webhook secret is damaged; set it again", id)
	}
	d.cache.Add(openedSecret+text, cached{value: c, checked: now})
	return c, nil
}
