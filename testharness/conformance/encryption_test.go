package conformance_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/testharness"
	"github.com/verge-id/verge/testharness/oidctest"
)

// TestEncryptedIDTokens: each engine decrypts ID tokens and userinfo with the method's private key (contract
// 36). A token that is not encrypted is a failed attempt.
func TestEncryptedIDTokens(t *testing.T) {
	t.Parallel()
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	wide, err := rsa.GenerateKey(rand.Reader, 2048)
	must(err)
	for _, c := range []struct {
		keyAlg  string
		private crypto.Signer
		alg     jose.KeyAlgorithm
		enc     jose.ContentEncryption
	}{
		{"ES256", ec, jose.ECDH_ES, jose.A256CBC_HS512},
		{"RS256", wide, jose.RSA_OAEP_256, jose.A256GCM},
	} {
		t.Run(c.keyAlg, func(t *testing.T) {
			t.Parallel()
			provider := oidctest.Start(t, oidctest.Config{SignUserinfo: true, Clients: []oidctest.Client{
				{ID: "verge", Auth: "private_key_jwt", Key: c.private.Public()}},
				Now: func() time.Time { return testharness.Epoch }})
			encrypter, err := jose.NewEncrypter(c.enc, jose.Recipient{Algorithm: c.alg,
				Key: c.private.Public(), KeyID: "verge-1"}, (&jose.EncrypterOptions{}).WithContentType("JWT"))
			must(err)
			encrypt := func(token string) string {
				sealed, err := encrypter.Encrypt([]byte(token))
				must(err)
				compact, err := sealed.CompactSerialize()
				must(err)
				return compact
			}
			settings, err := json.Marshal(map[string]any{"issuer": provider.URL, "client_id": "verge",
				"key_alg": c.keyAlg, "key_id": "verge-1", "id_token_encryption": true, "userinfo": true,
				"userinfo_encryption": true, "proof": oidctest.AgeProof(18)})
			must(err)
			der, err := x509.MarshalPKCS8PrivateKey(c.private)
			must(err)
			m := method.Config{Name: "bank", Kind: "oidc", Settings: settings, Keys: []string{"private_key"}}
			h := newHarness(t, &opts{Methods: []method.Config{m}, Keys: map[string][]byte{
				m.KeyName("private_key"): pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})}})
			h.Offer(h.Publisher.L2, "bank")
			for _, walk := range []struct {
				age     int
				rewrite func(string) string
				want    string
			}{{40, encrypt, "COMPLETED"}, {17, encrypt, "FAILED"}, {40, nil, "PENDING"}} {
				provider.Answer(oidctest.Answer{Claims: oidctest.AgeClaims(walk.age)})
				provider.Rewrite(walk.rewrite)
				started := h.Start(testharness.Body{"integration_id": h.Publisher.L2.ID})
				page := h.Open(started.RedirectURL)
				page.Go(page.Submit("begin").ReturnURL())
				if got := h.Reconcile(started.SessionID).Text("status"); got != walk.want {
					t.Errorf("age %d: %s, want %s", walk.age, got, walk.want)
				}
			}
		})
	}
}
