package config

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/afero"

	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/integration"
)

// pemOf returns a private key as a file has it, and its public key as the core has it.
func pemOf(t *testing.T, private crypto.Signer) (file []byte, public string) {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	spki, err := x509.MarshalPKIXPublicKey(private.Public())
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}),
		base64.StdEncoding.EncodeToString(spki)
}

func TestProviderKeys(t *testing.T) {
	sys := testSystem()
	write := func(path string, curve elliptic.Curve) string {
		private, err := ecdsa.GenerateKey(curve, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		file, public := pemOf(t, private)
		if err := afero.WriteFile(sys.FS, path, file, 0o600); err != nil {
			t.Fatal(err)
		}
		return public
	}
	one, two := write("/1.pem", elliptic.P256()), write("/2.pem", elliptic.P256())
	write("/wide.pem", elliptic.P384())
	for _, c := range []struct {
		rule  string
		files []string
		keys  []string
		wrong string
	}{
		{"contract 50: no key", nil, nil, ""},
		{"contract 50: the first one signs", []string{"/2.pem", "/1.pem"}, []string{two, one}, ""},
		{"contract 50: a missing file", []string{"/none.pem"}, nil,
			"oidc_provider.private_key_files, number 1: "},
		{"contract 50: another curve", []string{"/1.pem", "/wide.pem"}, nil, "the curve P-384"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			var f File
			var pl Plan
			var ps problems
			f.OIDCProvider.PrivateKeyFiles = c.files
			f.checkMethods(sys, &pl, &ps)
			text := strings.Join(ps, "\n")
			if c.wrong == "" && text != "" || !strings.Contains(text, c.wrong) {
				t.Errorf("problems: %q, want %q", text, c.wrong)
			}
			if !slices.Equal(pl.Core.ProviderKeys, c.keys) {
				t.Errorf("keys: %q, want %q", pl.Core.ProviderKeys, c.keys)
			}
			if len(c.keys) > 0 {
				if _, err := pl.Signer.Sign(t.Context(), core.ProviderKeyName(1), "ES256", nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestProviderMissing(t *testing.T) {
	client := integration.Site{Integrations: []integration.SiteIntegration{
		{ID: "x", RedirectURIs: []string{"https://shop.example/back"}}}}
	for files, want := range map[string]int{"": 1, "/1.pem": 0} {
		f, pl := File{}, Plan{Site: client}
		if files != "" {
			f.OIDCProvider.PrivateKeyFiles = []string{files}
		}
		if f.warnOfClients(&pl); len(pl.Warnings) != want {
			t.Errorf("contract 50: with the key %q the warnings are %q", files, pl.Warnings)
		}
	}
}

// An alert reports failed webhooks, so it needs a webhook (contract 61).
func TestPlan_AlertWithoutWebhook(t *testing.T) {
	for webhook, want := range map[string]int{"": 1, "https://shop.example/hooks": 0} {
		f, pl := File{Integrations: make([]integrationConfig, 1)}, Plan{}
		f.Integrations[0].AlertURL, f.Integrations[0].WebhookURL = "https://shop.example/alerts", webhook
		if f.checkSite(testSystem(), &pl, new(problems)); len(pl.Warnings) != want {
			t.Errorf("with the webhook %q the warnings are %q", webhook, pl.Warnings)
		}
	}
}
