package config

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/method"
)

// certificateUntil returns a certificate that expires then, as a file has it.
func certificateUntil(t *testing.T, expires time.Time) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotBefore:    expires.AddDate(-1, 0, 0),
		NotAfter:     expires,
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func TestExpiries(t *testing.T) {
	now := time.Date(2026, 11, 26, 0, 0, 0, 0, time.UTC)
	day := func(n int) time.Time { return now.AddDate(0, 0, n) }
	for _, c := range []struct {
		rule     string
		settings map[string]any
		want     time.Time // of certificate_file; zero: none
		warns    string
	}{
		{"contract 59: a year", map[string]any{"certificate": certificateUntil(t, day(365))}, day(365), ""},
		{"contract 59: the earliest of a chain", map[string]any{"certificate": certificateUntil(t, day(365)) +
			certificateUntil(t, day(20))}, day(20), ""},
		{"contract 59: soon", map[string]any{"certificate": certificateUntil(t, day(13))}, day(13),
			"methods.w.openid4vp.certificate_file: the certificate expires at 2026-12-09"},
		{"contract 59: expired", map[string]any{"certificate": certificateUntil(t, day(-1))}, day(-1),
			"the certificate expired at 2026-11-25"},
		{"contract 59: of the reader", map[string]any{"reader_certificate": certificateUntil(t, day(1))},
			time.Time{}, "methods.w.openid4vp.reader_certificate_file: the certificate expires"},
		{"contract 59: trust anchors are of others", map[string]any{"trust_anchors": []string{
			certificateUntil(t, day(1))}}, time.Time{}, ""},
		{"contract 39: no valid trust anchor", map[string]any{"trust_anchors": []string{
			certificateUntil(t, day(-1)) + certificateUntil(t, day(-2)), certificateUntil(t, day(400))}},
			time.Time{}, "methods.w.openid4vp.trust_anchors: no certificate is valid now"},
		{"contract 39: one valid trust anchor", map[string]any{"trust_anchors": []string{
			certificateUntil(t, day(-1)), certificateUntil(t, day(1))}}, time.Time{}, ""},
		{"contract 53: next to a trusted list", map[string]any{"trust_anchors": []string{
			certificateUntil(t, day(-1))}, "trust_lists": []any{}}, time.Time{}, ""},
		{"contract 55: not valid yet", map[string]any{"certificate": certificateUntil(t, day(20)) +
			certificateUntil(t, day(367))}, day(20),
			"methods.w.openid4vp.certificate_file: the certificate is not valid before 2026-11-28"},
		{"contract 59: no certificate", map[string]any{"certificate": "hush"}, time.Time{}, ""},
		{"contract 59: another type", map[string]any{"certificate": 1}, time.Time{}, ""},
		{"contract 59: no settings", nil, time.Time{}, ""},
	} {
		b, err := json.Marshal(c.settings)
		if err != nil {
			t.Fatal(err)
		}
		var pl Plan
		pl.methodExpiries("methods.w", method.Config{Kind: "openid4vp", Settings: b})
		warnings := pl.ExpiryWarnings(now)
		if got := pl.Expiries["methods.w.openid4vp.certificate_file"]; !got.Equal(c.want) {
			t.Errorf("%s: %s, want %s", c.rule, got, c.want)
		}
		if (c.warns == "") != (len(warnings) == 0) || c.warns != "" &&
			!slices.ContainsFunc(warnings, func(w string) bool { return strings.Contains(w, c.warns) }) {
			t.Errorf("%s: warnings %q, want %q", c.rule, warnings, c.warns)
		}
	}
}
