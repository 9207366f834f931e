package cli

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"github.com/spf13/afero"
)

// bankWith is aBank with other settings than its secret.
func bankWith(settings string) string {
	return strings.Replace(aBank, `client_secret_file = "/secret"`, settings, 1)
}

// methodJWKS runs the command with a key at /key.pem.
func methodJWKS(t *testing.T, p *program, key crypto.Signer, name string) (code int, out, errs string) {
	t.Helper()
	if err := afero.WriteFile(p.FS, "/key.pem", []byte(pemKey(t, key)), 0o600); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr strings.Builder
	p.stdout, p.stderr = &stdout, &stderr
	code = run(t.Context(), []string{"method", "jwks", name, "--config", "/verge.toml"}, p)
	return code, stdout.String(), stderr.String()
}

// TestMethodJWKS has another library read the printed set (contracts 36, 47).
func TestMethodJWKS(t *testing.T) {
	t.Parallel()
	_, onEdwards, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	onP256, ofRSA := newECKey(t), anRSAKey(t)
	socket, named := agentWith(t, onP256)
	const byKey, adviseID = `private_key_file = "/key.pem"` + "\n", `set key_id = "`
	for _, c := range []struct {
		name, settings string
		key            crypto.Signer
		want           string // alg, use and kid of each key, with * for the thumbprint
		says           string // on standard error
	}{
		{"P-256", byKey, onP256, "ES256 sig *", adviseID},
		{"key_id", byKey + `key_id = "k"`, onP256, "ES256 sig k", ""},
		{"RSA", byKey + `key_alg = "RS256"`, ofRSA, "RS256 sig *", adviseID},
		{"Ed25519", byKey + `key_alg = "EdDSA"`, onEdwards, "EdDSA sig *", adviseID},
		{"encrypted ID tokens", byKey + "id_token_encryption = true", onP256,
			"ES256 sig *, ECDH-ES enc *-enc", adviseID},
		{"encrypted userinfo, key_id", byKey + "key_alg = \"PS256\"\nkey_id = \"k\"\nuserinfo = true\n" +
			"userinfo_encryption = true", ofRSA, "PS256 sig k, RSA-OAEP-256 enc k-enc", ""},
		{"a secret, encrypted ID tokens", byKey + "client_secret_file = \"/secret\"\nclient_auth = " +
			"\"client_secret_post\"\nid_token_encryption = true", onP256, "ECDH-ES enc *-enc", ""},
		{"an agent", `private_key_file = "` + named + `"`, onP256, "ES256 sig *", adviseID},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := methodFilesFor(t, bankWith(c.settings), `method = "bank"`)
			useAgent(p, socket)
			code, out, errs := methodJWKS(t, p, c.key, "bank")
			var set jose.JSONWebKeySet
			if err := json.Unmarshal([]byte(out), &set); code != exitOK || err != nil {
				t.Fatalf("exit code %d, %v: %s%s", code, err, out, errs)
			}
			var got []string
			for _, k := range set.Keys {
				public, ok := k.Key.(interface{ Equal(crypto.PublicKey) bool })
				if !ok || !public.Equal(c.key.Public()) {
					t.Errorf("a key is not the method's public key: %s", out)
				}
				sum, err := k.Thumbprint(crypto.SHA256)
				if err != nil {
					t.Fatal(err)
				}
				kid := strings.Replace(k.KeyID, base64.RawURLEncoding.EncodeToString(sum), "*", 1)
				got = append(got, k.Algorithm+" "+k.Use+" "+kid)
			}
			if strings.Join(got, ", ") != c.want {
				t.Errorf("the keys are %q, want %q", got, c.want)
			}
			if !strings.Contains(errs, c.says) || c.says == "" && errs != "" {
				t.Errorf("standard error has %q, want %q", errs, c.says)
			}
			var raw struct{ Keys []map[string]string }
			if err := json.Unmarshal([]byte(out), &raw); err != nil {
				t.Fatal(err)
			}
			public := []string{"alg", "crv", "e", "kid", "kty", "n", "use", "x", "y"}
			for _, jwk := range raw.Keys {
				for member := range jwk {
					if !slices.Contains(public, member) {
						t.Errorf("a key has the member %q", member)
					}
				}
			}
		})
	}
}

// TestMethodJWKS_OtherKinds: the key of a wallet method with a DID has the name in key_id.
func TestMethodJWKS_OtherKinds(t *testing.T) {
	t.Parallel()
	const id = "did:webvh:Qm:a.example#k"
	key := newECKey(t)
	const swiyu = `
[[methods]]
name = "wallet"
kind = "openid4vp"
[methods.openid4vp]
profile = "swiyu"
private_key_file = "/key.pem"
issuer_keys = ["/keys.json"]
vct_values = ["v"]
key_id = "` + id + `"
`
	const yoti = `
[[methods]]
name = "wallet"
kind = "estimator"
[methods.estimator]
profile = "yoti"
sdk_id = "b88ad843-13cc-44ba-a3e0-053f71d89b1f"
private_key_file = "/key.pem"
`
	for _, c := range []struct {
		methods string
		key     crypto.Signer
		code    int
		says    string
	}{
		{swiyu, key, exitOK, `"kid":"` + id + `"`},
		{yoti, anRSAKey(t), exitOK, `"alg":"RS256"`},
		{aBank, key, exitUsage, "bank has no private key: set private_key_file in [methods.oidc]"},
		{bankWith("client_secret_file = \"/secret\"\nprivate_key_file = \"/key.pem\"\n" +
			`client_auth = "client_secret_post"`), key, exitUsage,
			"bank uses its private key neither for client_auth nor for encryption"},
		{aCamera, key, exitUsage, `there is no method "bank"`},
	} {
		p := methodFilesFor(t, c.methods, `method = "bank"`)
		if err := afero.WriteFile(p.FS, "/keys.json", []byte(didKeys(t, &key.PublicKey)), 0o644); err != nil {
			t.Fatal(err)
		}
		name := "bank"
		if strings.Contains(c.methods, `name = "wallet"`) {
			name = "wallet"
		}
		code, out, errs := methodJWKS(t, p, c.key, name)
		if code != c.code || !strings.Contains(out+errs, c.says) || c.code != exitOK && out != "" {
			t.Errorf("exit code %d, want %d with %q: %s%s", code, c.code, c.says, out, errs)
		}
	}
}
