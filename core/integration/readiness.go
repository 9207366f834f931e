package integration

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/internal/token"
	"github.com/verge-id/verge/core/kv"
)

// readiness is the record of the last signed webhook test (contract 29).
type readiness struct {
	Ready bool      `json:"ready"`
	At    time.Time `json:"at"`
	// Tested is a MAC of the URL and the secret that were tested, so that a reader of the store cannot
	// guess the secret. If either changes, the MAC no longer matches. So a change resets readiness
	// without any further code. Earlier releases kept a plain SHA-256.
	Tested string `json:"tested"`
	// Before is the webhook that was ready until a staged change replaced it at At. It counts for a moment
	// longer, for instances that have not read the integration again.
	Before string `json:"before,omitempty"`
}

// Ready reports whether i may start sessions as far as its webhook is concerned: it is switched off, or its
// current state was tested. A staged change has no effect until it is promoted.
func (d *Directory) Ready(ctx context.Context, i *Integration) (bool, error) {
	if i.Webhook.Off {
		return true, nil
	}
	if i.Webhook.URL == "" {
		return false, nil
	}
	name := readinessItems + i.ID
	kept := d.cache.Contains(name)
	ready, err := d.readyBy(ctx, i, name)
	if ready || err != nil || !kept {
		return ready, err
	}
	// Another instance may have put a staged change into place since the readiness was read.
	d.forget(name)
	return d.readyBy(ctx, i, name)
}

func (d *Directory) readyBy(ctx context.Context, i *Integration, name string) (bool, error) {
	r, err := lookup[readiness](ctx, d, name)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if !r.Ready {
		return false, nil
	}
	secret, err := d.WebhookSecret(i)
	if err != nil {
		return false, err
	}
	if d.tested(r.Tested, i.Webhook.URL, secret) {
		return true, nil
	}
	return r.Before != "" && d.now().Before(r.At.Add(beforeLife)) &&
		d.tested(r.Before, i.Webhook.URL, secret), nil
}

// LastTest returns when the webhook of i was tested as it is now. tested is false if it was not.
func (d *Directory) LastTest(ctx context.Context, i *Integration) (at time.Time, tested bool, err error) {
	r, err := lookup[readiness](ctx, d, readinessItems+i.ID)
	if errors.Is(err, ErrNotFound) || err == nil && i.Webhook.Sealed == "" {
		return time.Time{}, false, nil
	}
	if err != nil {
		return time.Time{}, false, err
	}
	secret, err := d.WebhookSecret(i)
	if err != nil || !d.tested(r.Tested, i.Webhook.URL, secret) {
		return time.Time{}, false, err
	}
	return r.At, true, nil
}

// beforeLife is how long the webhook that a staged change replaced still counts as ready: as long as an
// instance may use a read record, plus the difference of the clocks.
const beforeLife = cacheLife + host.ClockMargin

// RecordReadiness stores the result of a test of i with that secret. The items in extra are written in the
// same commit. The error is ErrStale if the webhook has changed; the result is then useless.
func (d *Directory) RecordReadiness(ctx context.Context, i *Integration, secret string, ready bool,
	extra ...kv.Put) error {
	tested, err := d.fingerprint(i.Webhook.URL, secret)
	if err != nil {
		return err
	}
	for range maxRaces {
		now, version, err := read[Integration](ctx, d, integrationItems+i.ID)
		if err != nil {
			return err
		}
		if kept, err := d.WebhookSecret(now); err != nil {
			return err
		} else if now.Webhook.URL != i.Webhook.URL || kept != secret {
			return ErrStale
		}
		err = d.recordIf(ctx, i.ID, version, readiness{Ready: ready, At: d.now().UTC(), Tested: tested},
			extra...)
		if !kv.IsConflict(err) {
			return err
		}
	}
	return d.raced("integration", i.ID)
}

// recordIf writes a readiness if the integration has that version, so that the late result of an old webhook
// does not replace the one of a new webhook.
func (d *Directory) recordIf(ctx context.Context, id, version string, r readiness, extra ...kv.Put) error {
	_, err := d.commitIf(ctx, []kv.Check{{Name: integrationItems + id, Tx: version}}, extra,
		record{readinessItems + id, r})
	return err
}

// succeed returns the readiness of i after its staged webhook, which was tested with that secret, has
// replaced the current one.
func (d *Directory) succeed(ctx context.Context, i *Integration, secret string) (r readiness, err error) {
	r = readiness{Ready: true, At: d.now().UTC()}
	if r.Tested, err = d.fingerprint(i.Staged.URL, secret); err != nil {
		return r, err
	}
	old, err := d.WebhookSecret(i)
	if err != nil {
		return r, nil // nothing could be signed with it, so nothing was ready
	}
	d.forget(readinessItems + i.ID)
	ready, err := d.Ready(ctx, i)
	if err == nil && ready && !i.Webhook.Off {
		r.Before, err = d.fingerprint(i.Webhook.URL, old)
	}
	return r, err
}

// fingerprint returns the form in which readiness stores a URL and a secret.
func (d *Directory) fingerprint(url, secret string) (string, error) {
	if token.RecordsUnsigned(d.sealer, d.now()) {
		return plainFingerprint(url, secret), nil // an earlier release must be able to read it
	}
	mac, err := d.sealer.MAC(token.Secret, testedMessage(url, secret))
	return token.EncodeText("", mac), err
}

// tested reports whether a stored fingerprint matches the URL and the secret.
func (d *Directory) tested(kept, url, secret string) bool {
	if mac, ok := token.DecodeText("", kept); ok && len(mac) == host.MACSize {
		_, err := d.sealer.CheckMAC(token.Secret, testedMessage(url, secret), mac)
		return err == nil
	}
	return kept == plainFingerprint(url, secret)
}

func testedMessage(url, secret string) []byte { return []byte("tested\x00" + url + "\x00" + secret) }

func plainFingerprint(url, secret string) string {
	h := sha256.Sum256([]byte(url + "\x00" + secret))
	return hex.EncodeToString(h[:])
}
