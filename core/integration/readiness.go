package integration

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"
)

// Readiness is the record of the last signed webhook test (contract 29).
type Readiness struct {
	Ready bool      `json:"ready"`
	At    time.Time `json:"at"`
	// Tested is a fingerprint of the URL and the secret that were tested. A
	// change of either makes it differ, which is the whole of "changing the
	// URL or the secret resets readiness": nothing has to remember to reset.
	Tested string `json:"tested"`
}

// Ready reports whether i may start sessions as far as its webhook goes:
// switched off, or tested as it stands now.
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
	return r.Tested == fingerprint(i.Webhook.URL, secret), nil
}

// RecordReadiness keeps the result of a test of i with that secret.
func (d *Directory) RecordReadiness(ctx context.Context, i *Integration, secret string, ready bool) error {
	return d.write(ctx, "c/ready/"+i.ID, Readiness{Ready: ready, At: d.now().UTC(),
		Tested: fingerprint(i.Webhook.URL, secret)}, nil)
}

func fingerprint(url, secret string) string {
	h := sha256.New()
	h.Write([]byte(url))
	h.Write([]byte{0})
	h.Write([]byte(secret))
	return hex.EncodeToString(h.Sum(nil))
}
