package integration

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/token"
)

// Readiness is the record of the last signed webhook test (contract 29).
type Readiness struct {
	Ready bool      `json:"ready"`
	At    time.Time `json:"at"`
	// Tested is a MAC of the URL and the secret that were tested, so that a reader of the store cannot
	// guess the secret. If either changes, the MAC no longer matches. So a change resets readiness
	// without any further code. Earlier releases kept a plain SHA-256.
	Tested string `json:"tested"`
}

// Ready reports whether i may start sessions as far as its webhook is concerned: it is switched off, or
// it was tested as it is now.
func (d *Directory) Ready(ctx context.Context, i *Integration) (bool, error) {
	if i.Webhook.Off {
		return true, nil
	}
	if i.Webhook.URL == "" {
		return false, nil
	}
	r, err := lookup[Readiness](ctx, d, "c/ready/"+i.ID)
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
	return d.tested(r.Tested, i.Webhook.URL, secret), nil
}

// RecordReadiness stores the result of a test of i with that secret.
func (d *Directory) RecordReadiness(ctx context.Context, i *Integration, secret string, ready bool) error {
	tested, err := d.fingerprint(i.Webhook.URL, secret)
	if err != nil {
		return err
	}
	return d.write(ctx, "c/ready/"+i.ID, Readiness{Ready: ready, At: d.now().UTC(), Tested: tested}, nil)
}

// fingerprint returns what Readiness stores of a URL and a secret.
func (d *Directory) fingerprint(url, secret string) (string, error) {
	if token.RecordsUnsigned(d.sealer, d.now()) {
		return plainFingerprint(url, secret), nil // an earlier release must be able to read it
	}
	mac, err := d.sealer.MAC(token.Secret, testedMessage(url, secret))
	return token.EncodeText("", mac), err
}

// tested reports whether a stored fingerprint is that of the URL and the secret.
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
