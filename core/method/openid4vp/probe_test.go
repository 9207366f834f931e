package openid4vp_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/method/openid4vp"
	edge "github.com/verge-id/verge/edge/signing"
)

func TestProbe(t *testing.T) {
	_, other := newCertificate(serviceHost)
	inLink := func(changes settings) method.Config {
		c := config(t, "mdl", changes)
		c.Keys = nil
		return c
	}
	var circuits []settings
	for _, c := range host.Circuits() {
		if c.Elements == 1 {
			circuits = append(circuits, settings{"hash": c.Name, "file": "/circuits/" + c.Name})
		}
	}
	long := settings{"request": "value", "certificate": nil, "browser": []string{"org-iso-mdoc"},
		"zero_knowledge": "accept", "circuits": circuits}
	onDevice := maps.Clone(long)
	onDevice["cross_device"] = false
	for _, c := range []struct {
		what    string
		config  method.Config
		days    int    // after noon
		returns string // "": the service's
		bad     string // "": everything is good
	}{
		{"a request by value", config(t, "eu-av", nil), 0, "", ""},
		{"signed requests", config(t, "mdl", nil), -1, "", ""},
		{"named by the hash", config(t, "pid", settings{"client_id_prefix": "x509_hash"}), -1, "", ""},
		{"an anchor that expires", config(t, "eu-av", nil), 350, "", "expires on"},
		{"an anchor that has expired", config(t, "eu-av", nil), 400, "", "has expired on"},
		{"an anchor that is not valid yet", config(t, "eu-av", nil), -100, "", "is valid only from"},
		{"a certificate for another host", config(t, "mdl", nil), -1,
			"https://elsewhere.example/verify/return/a", "not for the host of base_url"},
		{"a certificate for another key", config(t, "mdl", settings{"certificate": other}), -1, "",
			"is not the key of the first certificate"},
		{"contract 39: a request that is too long for a QR code", inLink(long), 0, "",
			"a QR code holds 2953"},
		{"such a request for this device only", inLink(onDevice), 0, "", ""},
		{"a certificate that expires", config(t, "mdl", nil), 20, "", "expires on 2026-12-22"},
	} {
		t.Run(c.what, func(t *testing.T) {
			if c.returns == "" {
				c.returns = service + "/verify/return/wallet"
			}
			now := noon.AddDate(0, 0, c.days)
			r, err := openid4vp.Probe(t.Context(), c.config,
				method.Host{Now: func() time.Time { return now }, Sign: sign, Verify: edge.Verify},
				c.returns)
			if err != nil || len(r.Facts) < 6 || len(r.Findings) == 0 {
				t.Fatalf("%+v, %v", r, err)
			}
			var bad []string
			for _, f := range r.Findings {
				if !f.Good {
					bad = append(bad, f.Text)
				}
			}
			if c.bad == "" && len(bad) > 0 || c.bad != "" &&
				(len(bad) != 1 || !strings.Contains(bad[0], c.bad)) {
				t.Errorf("it finds %q, want %q", bad, c.bad)
			}
		})
	}
	if r, err := openid4vp.Probe(t.Context(), method.Config{}, method.Host{}, ""); err == nil {
		t.Errorf("settings that are not good: %+v", r)
	}
}
