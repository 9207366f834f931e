package oidc_test

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"github.com/golang-jwt/jwt/v5"

	"github.com/verge-id/verge/core/internal/jwe"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/method/oidc"
	"github.com/verge-id/verge/testharness/oidctest"
)

// encrypting returns a function that encrypts a token by go-jose. key is a public key, or a jose.JSONWebKey.
func encrypting(
	t *testing.T, alg jose.KeyAlgorithm, enc jose.ContentEncryption, key any, o *jose.EncrypterOptions,
) func(token string) string {
	t.Helper()
	encrypter, err := jose.NewEncrypter(enc, jose.Recipient{Algorithm: alg, Key: key}, o)
	if err != nil {
		t.Fatal(err)
	}
	return func(token string) string {
		sealed, err := encrypter.Encrypt([]byte(token))
		if err != nil {
			t.Error(err)
			return ""
		}
		compact, err := sealed.CompactSerialize()
		if err != nil {
			t.Error(err)
		}
		return compact
	}
}

// nested marks the plaintext as a JWT.
func nested() *jose.EncrypterOptions { return (&jose.EncrypterOptions{}).WithContentType("JWT") }

// newEncryptedWalk returns a walk with id_token_encryption for a private key of this key_alg.
func newEncryptedWalk(t *testing.T, c oidctest.Config, keyAlg string, private any, own settings) *walk {
	t.Helper()
	w := newWalk(t, c, nil)
	w.signWith(private)
	all := settings{}
	if err := json.Unmarshal(w.config.Settings, &all); err != nil {
		t.Fatal(err)
	}
	maps.Copy(all, settings{"id_token_encryption": true, "client_auth": "client_secret_basic",
		"key_alg": keyAlg})
	maps.Copy(all, own)
	w.config.Settings, w.config.Keys = encode(t, all), []string{"private_key"}
	w.open()
	return w
}

func newKeys(t *testing.T) (ec *ecdsa.PrivateKey, wide *rsa.PrivateKey) {
	t.Helper()
	ec, err1 := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	wide, err2 := rsa.GenerateKey(rand.Reader, 2048)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	return ec, wide
}

// TestEncryption walks each algorithm, with the claims in the ID token and at the userinfo endpoint.
func TestEncryption(t *testing.T) {
	ec, wide := newKeys(t)
	for _, c := range []struct {
		alg     jose.KeyAlgorithm
		keyAlg  string
		private any
		public  any
	}{
		{jose.ECDH_ES, "ES256", ec, &ec.PublicKey},
		{jose.ECDH_ES_A128KW, "ES256", ec, &ec.PublicKey},
		{jose.ECDH_ES_A192KW, "ES256", ec, &ec.PublicKey},
		{jose.ECDH_ES_A256KW, "ES256", ec, &ec.PublicKey},
		{jose.RSA_OAEP_256, "RS256", wide, &wide.PublicKey},
		{jose.RSA_OAEP_256, "PS256", wide, &wide.PublicKey},
	} {
		for _, enc := range []jose.ContentEncryption{jose.A128GCM, jose.A256GCM, jose.A128CBC_HS256,
			jose.A256CBC_HS512} {
			for _, userinfo := range []bool{false, true} {
				name := "contract 36: " + string(c.alg) + " " + string(enc)
				w := newEncryptedWalk(t, oidctest.Config{SignUserinfo: true}, c.keyAlg, c.private,
					settings{"userinfo": userinfo, "userinfo_encryption": userinfo})
				w.provider.Rewrite(encrypting(t, c.alg, enc, c.public, nested()))
				d, err := w.login()
				wantVerdict(t, name, d, err, method.Approved)
				w.provider.Answer(oidctest.Answer{Claims: oidctest.AgeClaims(17)})
				d, err = w.login()
				wantVerdict(t, name+", a claim that says no", d, err, method.Rejected)
			}
		}
	}
}

// TestEncryption_Tokens has the rows of ID tokens that are encrypted in another way, or not.
func TestEncryption_Tokens(t *testing.T) {
	ec, wide := newKeys(t)
	other, _ := newKeys(t)
	ecJWK := func(id string) jose.JSONWebKey { return jose.JSONWebKey{Key: &ec.PublicKey, KeyID: id} }
	typed := func(cty string) *jose.EncrypterOptions {
		return (&jose.EncrypterOptions{}).WithContentType(jose.ContentType(cty))
	}
	good := encrypting(t, jose.ECDH_ES, jose.A128GCM, &ec.PublicKey, nested())
	wrapped := func(key []byte) func(token string) string {
		encrypt := encrypting(t, jose.ECDH_ES_A128KW, jose.A128GCM, &ec.PublicKey, nested())
		return func(token string) string {
			parts := strings.Split(encrypt(token), ".")
			parts[1] = raw64(key)
			return strings.Join(parts, ".")
		}
	}
	forged := newForger(t)
	plain := func(token string) string { return token }
	for _, c := range []struct {
		rule   string
		key    any
		change func(token string) string
		reason string // "": it is accepted
	}{
		{"the key's id", ec, encrypting(t, jose.ECDH_ES, jose.A128GCM, ecJWK("client-1"), nested()), ""},
		{"no key's id", ec, good, ""},
		{"contract 36: any key's id", ec,
			encrypting(t, jose.ECDH_ES, jose.A128GCM, ecJWK("client-2"), nested()), ""},
		{"no cty", ec, encrypting(t, jose.ECDH_ES, jose.A128GCM, &ec.PublicKey, nil), ""},
		{"cty as a media type", ec,
			encrypting(t, jose.ECDH_ES, jose.A128GCM, &ec.PublicKey, typed("application/jwt")), ""},
		{"another cty", ec, encrypting(t, jose.ECDH_ES, jose.A128GCM, &ec.PublicKey, typed("json")),
			"jwe_header"},

		{"contract 36: not encrypted", ec, plain, "not_encrypted"},
		{"four parts", ec, func(token string) string { return token + ".AA" }, "not_encrypted"},
		{"a token with five parts", ec, func(token string) string { return token + ".AA.AA" },
			"jwe_algorithm"},
		{"contract 36: compressed", ec, encrypting(t, jose.ECDH_ES, jose.A128GCM, &ec.PublicKey,
			&jose.EncrypterOptions{Compression: jose.DEFLATE}), "jwe_header"},
		{"a wrapped key for another key", other,
			encrypting(t, jose.ECDH_ES_A128KW, jose.A128GCM, &ec.PublicKey, nested()), "jwe_not_opened"},
		{"a wrapped key that is altered", ec, wrapped(make([]byte, 24)), "jwe_not_opened"},
		{"a wrapped key that is cut", ec, wrapped(make([]byte, 16)), "jwe_form"},
		{"contract 36: RSA-OAEP with SHA-1", wide,
			encrypting(t, jose.RSA_OAEP, jose.A128GCM, &wide.PublicKey, nested()), "jwe_algorithm"},
		{"contract 36: RSA PKCS #1 1.5", wide,
			encrypting(t, jose.RSA1_5, jose.A128GCM, &wide.PublicKey, nested()), "jwe_algorithm"},
		{"the algorithm of another type of key", wide, good, "jwe_algorithm"},
		{"contract 36: another encryption of the content", ec,
			encrypting(t, jose.ECDH_ES, jose.A192GCM, &ec.PublicKey, nested()), "jwe_algorithm"},
		{"an ephemeral key of another curve", ec, func(token string) string {
			head, rest, _ := strings.Cut(good(token), ".")
			return raw64([]byte(strings.Replace(decoded(t, head), "P-256", "P-384", 1))) + "." + rest
		}, "jwe_ephemeral_key"},

		{"for another key", other, good, "jwe_not_opened"},
		{"an altered header", ec, func(token string) string {
			head, rest, _ := strings.Cut(good(token), ".")
			return raw64([]byte(decoded(t, head)+" ")) + "." + rest
		}, "jwe_not_opened"},
		{"an encrypted key that is cut", wide, func(token string) string {
			parts := strings.Split(encrypting(t, jose.RSA_OAEP_256, jose.A128CBC_HS256, &wide.PublicKey,
				nested())(token), ".")
			parts[1] = parts[1][4:]
			return strings.Join(parts, ".")
		}, "jwe_not_opened"},
		{"a content-encryption key of another size", wide, func(token string) string {
			parts := strings.Split(encrypting(t, jose.RSA_OAEP_256, jose.A128GCM, &wide.PublicKey,
				nested())(token), ".")
			parts[0] = raw64([]byte(strings.Replace(decoded(t, parts[0]), "A128GCM", "A256GCM", 1)))
			return strings.Join(parts, ".")
		}, "jwe_not_opened"},

		{"claims that are not signed inside", ec,
			func(token string) string { return good(decoded(t, payloadOf(token))) }, "jwt_form"},
		{"alg none inside", ec, func(token string) string {
			return good(raw64([]byte(`{"alg":"none"}`)) + "." + payloadOf(token) + ".AA")
		}, "jwt_alg"},
		{"a signature by another provider inside", ec, func(token string) string {
			return good(forged.header(`{"alg":"ES256"}`, jwt.SigningMethodES256, forged.esKey)(token))
		}, "jwt_signature"},
		{"encrypted twice", ec, func(token string) string { return good(good(token)) }, "jwt_form"},
	} {
		keyAlg := "ES256"
		if c.key == any(wide) {
			keyAlg = "RS256"
		}
		w := newEncryptedWalk(t, oidctest.Config{}, keyAlg, c.key, settings{"key_id": "client-1"})
		w.provider.Rewrite(c.change)
		d, err := w.login()
		if c.reason == "" {
			wantVerdict(t, c.rule, d, err, method.Approved)
		} else {
			wantRejection(t, c.rule, d, err, c.reason)
		}
	}
}

// TestEncryption_Log: the log names the algorithms of a rejected token, and the accepted ones (contract 36).
func TestEncryption_Log(t *testing.T) {
	_, wide := newKeys(t)
	w := newEncryptedWalk(t, oidctest.Config{}, "RS256", wide, nil)
	for want, rewrite := range map[string]func(string) string{
		`encrypted by "RSA-OAEP" and "A128GCM"; let the provider encrypt for this client by RSA-OAEP-256, and ` +
			`by one of A128CBC-HS256, A128GCM, A256CBC-HS512, A256GCM`: encrypting(t, jose.RSA_OAEP, jose.A128GCM,
			&wide.PublicKey, nested()),
		`signed by "ES384\n` + strings.Repeat("a", 26) + `"; let`: func(token string) string {
			header := `{"alg":"ES384\n` + strings.Repeat("a", 99) + `"}`
			return encrypting(t, jose.RSA_OAEP_256, jose.A128GCM, &wide.PublicKey, nested())(
				raw64([]byte(header)) + "." + payloadOf(token) + ".AA")
		},
	} {
		w.provider.Rewrite(rewrite)
		if _, err := w.login(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("contract 36: the error is %v, want %s", err, want)
		}
	}
}

// TestEncryption_Setting: a provider encrypts ID tokens, userinfo, or both. Each of them has its setting.
func TestEncryption_Setting(t *testing.T) {
	ec, _ := newKeys(t)
	sealed := encrypting(t, jose.ECDH_ES, jose.A128GCM, &ec.PublicKey, nested())
	plain := func(token string) string { return token }
	packed := encrypting(t, jose.ECDH_ES, jose.A128GCM, &ec.PublicKey,
		&jose.EncrypterOptions{Compression: jose.DEFLATE})
	tooLarge := func(string) string { return packed(strings.Repeat("a", 64<<10+1)) }
	payload := func(token string) string { return sealed(decoded(t, payloadOf(token))) }
	for _, c := range []struct {
		rule              string
		ofToken, ofInfo   bool                      // the settings
		idToken, userinfo func(token string) string // of the provider. A nil userinfo is JSON
		reason            string                    // "": it is accepted
	}{
		{"ID tokens: userinfo is signed", true, false, sealed, plain, ""},
		{"ID tokens: userinfo is JSON", true, false, sealed, nil, ""},
		{"contract 36: ID tokens, and userinfo without its setting", true, false, sealed, sealed, ""},
		{"contract 36: both without a setting", false, false, sealed, sealed, "jwt_form"},
		{"contract 36: userinfo without a setting", false, false, plain, sealed, "jwt_form"},
		{"contract 36: an ID token without its setting", false, false, sealed, plain, "jwt_form"},
		{"userinfo: the ID token is signed", false, true, plain, sealed, ""},
		{"contract 36: userinfo that is compressed", false, true, plain, packed, ""},
		{"contract 36: compressed userinfo of more than 64 KiB", false, true, plain, tooLarge, "too_large"},
		{"contract 36: userinfo alone, and both are encrypted", false, true, sealed, sealed, "jwt_form"},
		{"contract 36: userinfo that is only signed", false, true, plain, plain, "not_encrypted"},
		{"contract 36: userinfo that is JSON", false, true, plain, nil, "not_encrypted"},
		{"contract 36: userinfo that is not signed inside", false, true, plain, payload, "jwt_form"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			w := newEncryptedWalk(t, oidctest.Config{SignUserinfo: c.userinfo != nil}, "ES256", ec,
				settings{"userinfo": true, "id_token_encryption": c.ofToken, "userinfo_encryption": c.ofInfo})
			tokens := 0
			w.provider.Rewrite(func(token string) string {
				if tokens++; tokens == 2 {
					return c.userinfo(token)
				}
				return c.idToken(token)
			})
			d, err := w.login()
			if c.reason == "" {
				wantVerdict(t, c.rule, d, err, method.Approved)
			} else {
				wantRejection(t, c.rule, d, err, c.reason)
			}
		})
	}
}

// If the host cannot decrypt, nothing is decided. A secret of no bytes is no key (contract 36).
func TestEncryption_Host(t *testing.T) {
	ec, _ := newKeys(t)
	w := newEncryptedWalk(t, oidctest.Config{}, "ES256", ec, nil)
	w.provider.Rewrite(encrypting(t, jose.ECDH_ES, jose.A128GCM, &ec.PublicKey, nested()))
	away := errors.New("away")
	var asked []any
	w.host.Decrypt = func(_ context.Context, key, algorithm string, message []byte) ([]byte, error) {
		_, err := ecdh.P256().NewPublicKey(message)
		asked = append(asked, key, algorithm, err)
		return nil, away
	}
	w.open()
	d, err := w.login()
	var rejection *method.Rejection
	if !errors.Is(err, away) || errors.As(err, &rejection) || d.Verdict != 0 || len(asked) != 3 ||
		asked[0] != "bankid_private_key" || asked[1] != "ECDH-ES" || asked[2] != nil {
		t.Errorf("%+v, %v, asked %v", d, err, asked)
	}
	w.host.Decrypt = func(context.Context, string, string, []byte) ([]byte, error) { return nil, nil }
	w.open()
	d, err = w.login()
	wantRejection(t, "an empty secret", d, err, "jwe_not_opened")
	w.host.Decrypt = nil
	if _, err := oidc.Kind.Open(w.config, w.host); err == nil {
		t.Error("a host that cannot decrypt: the method opens")
	}
}

// Anyone can derive the key of an empty secret. The token is rejected if the host returns no secret, as for
// an ephemeral key that is invalid for it.
func TestEncryption_EmptySecret(t *testing.T) {
	ec, _ := newKeys(t)
	w := newEncryptedWalk(t, oidctest.Config{}, "ES256", ec, nil)
	w.host.Decrypt = func(context.Context, string, string, []byte) ([]byte, error) { return nil, nil }
	w.open()
	good := encrypting(t, jose.ECDH_ES, jose.A128GCM, &ec.PublicKey, nested())
	w.provider.Rewrite(func(token string) string {
		sealed := good(token)
		m, err := jwe.Read(sealed, jwe.Rules{Size: 1 << 16, Algorithms: []string{jwe.ECDH},
			Encryptions: []string{"A128GCM"}})
		if err != nil {
			t.Error(err)
		}
		block, _ := aes.NewCipher(m.Derive(nil))
		gcm, _ := cipher.NewGCM(block)
		header, _, _ := strings.Cut(sealed, ".")
		iv := make([]byte, gcm.NonceSize())
		text := gcm.Seal(nil, iv, []byte(token), []byte(header))
		return header + ".." + raw64(iv) + "." + raw64(text[:len(token)]) + "." + raw64(text[len(token):])
	})
	d, err := w.login()
	wantRejection(t, "a key that anyone can derive", d, err, "jwe_not_opened")
}

func decoded(t *testing.T, part string) string {
	t.Helper()
	b, err := base64.RawURLEncoding.DecodeString(part)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
