package main

import (
	"os"
	"strings"
	"testing"
)

// TestTheGuideIsRight: --check takes the configurations that OPERATING.md shows. The first is complete. The
// others are methods, which are put in place of its own.
func TestTheGuideIsRight(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("OPERATING.md")
	if err != nil {
		t.Fatal(err)
	}
	var shown []string
	for _, part := range strings.Split(string(b), "```toml\n")[1:] {
		block, _, closed := strings.Cut(part, "```")
		if !closed {
			t.Fatal("a block does not end")
		}
		shown = append(shown, strings.ReplaceAll(block, "\n   ", "\n")) // one in a list is indented
	}
	if len(shown) < 3 {
		t.Fatalf("the guide shows %d configurations", len(shown))
	}
	complete := shown[0]
	walletKey := newECKey(t)
	from, to := strings.Index(complete, "[[methods]]"), strings.Index(complete, "[[publishers]]")
	if from < 0 || to < from {
		t.Fatalf("the first configuration is not complete: %s", complete)
	}
	for n, block := range shown {
		config, says := complete, "methods: bankid (oidc, L2)"
		if n > 0 {
			config = complete[:from] + block + complete[to:]
			_, name, _ := strings.Cut(block, "name = \"")
			name, _, _ = strings.Cut(name, `"`)
			says = "methods: " + name + " ("
			config = strings.ReplaceAll(strings.ReplaceAll(config, `"bankid"`, `"`+name+`"`), `"L2"`, `"L1"`)
		}
		p := serveFiles(t, map[string]string{
			"/etc/verge/bankid-secret": canary, "/etc/verge/webhook-secret": testSecret,
			"/etc/verge/operator-token": testToken, "/etc/verge/yoti.pem": pemKey(t, anRSAKey(t)),
			"/etc/verge/mitid.pem": pemKey(t, newECKey(t)), "/etc/verge/wallets.pem": pemKey(t, walletKey),
			"/etc/verge/wallets-certificate.pem": certificateOf(t, walletKey, "verify.example.com"),
			"/etc/verge/eu-av-issuers.pem":       anAnchor(), "/etc/verge/mdl-issuers.pem": anAnchor(),
		})
		if err := p.fs.Rename("/ring.json", "/etc/verge/keyring.json"); err != nil {
			t.Fatal(err)
		}
		if err := writePrivate(p.fs, "/verge.toml", []byte(config)); err != nil {
			t.Fatal(err)
		}
		code, said := runFor(t, p, []string{"serve", "--config", "/verge.toml", "--check"})
		if code != exitOK || !strings.Contains(said, says) || strings.Contains(said, "warning") {
			t.Errorf("--check ends with %d: %s\nof %s", code, said, config)
		}
	}
}
