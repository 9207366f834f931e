package workercheck

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/testharness/wallettest"
)

// Contract 39: the certificate of a wallet method is for the host of base_url.
func TestCheck_CertificateHost(t *testing.T) {
	issuer := wallettest.NewIssuer(wallettest.IssuerConfig{Now: time.Now(), EKU: wallettest.MDLSigner})
	for host, good := range map[string]bool{"verify.example.com": true, "other.example.com": false} {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		of := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{host}}
		der, err := x509.CreateCertificate(rand.Reader, of, of, &key.PublicKey, key)
		if err != nil {
			t.Fatal(err)
		}
		methods, err := json.Marshal([]any{map[string]any{"name": "wallet", "kind": "openid4vp",
			"keys_env": map[string]string{"private_key": "WALLET_KEY"},
			"settings": map[string]any{"profile": "mdl", "trust_anchors": []string{string(issuer.PEM())},
				"certificate": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))}}})
		if err != nil {
			t.Fatal(err)
		}
		text := strings.Replace(wranglerText(t), `"test": true`, `"test": true, "methods": `+string(methods), 1)
		problems := Check([]byte(text)).Problems
		found := false
		for _, p := range problems {
			found = found || p.Path == "vars.VERGE_CONFIG.methods.wallet.openid4vp.certificate_file" &&
				strings.Contains(p.Text, "not for the host of base_url")
		}
		if found == good {
			t.Errorf("%s: %v", host, problems)
		}
	}
}
