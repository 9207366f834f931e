package cli

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"

	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/method/oidc"
)

type methodJWKSCmd struct{ oneMethod }

// Help is shown by `verge method jwks --help`.
func (methodJWKSCmd) Help() string {
	return `Prints the public key of private_key_file as a JWK Set. It contains no private
data. One key is for signatures (use sig), if the method signs with the key. The
other one is for encryption (use enc), if id_token_encryption or userinfo_encryption
is true. Both are the same key. Register the set at the provider. If the provider
reads it from an address, let your proxy serve the file: Verge does not serve it.

The kid of the first key is key_id, or without it the key's thumbprint (RFC 7638).
Client assertions have a kid only if key_id is set.

Examples:

    verge method jwks itsme --config /etc/verge/verge.toml > jwks.json
    verge method jwks itsme --config /etc/verge/verge.toml | jq '.keys[0]'`
}

// privateKey is the name of the key that `verge method jwks` prints. Every other key has a certificate.
const privateKey = "private_key"

func (c *methodJWKSCmd) Run(p *program) error {
	pl, e, err := c.read(p)
	if err != nil {
		return err
	}
	if !slices.Contains(e.Keys, privateKey) {
		return usagef("%s has no private key: set %s_file in [methods.%s] of this method", c.Name, privateKey,
			e.Kind)
	}
	spki, err := pl.Signer.Public(e.KeyName(privateKey))
	if err != nil {
		return err
	}
	jwk, err := jwkOf(spki)
	if err != nil {
		return err
	}
	// Kinds whose provider knows the key by a name have it in key_id.
	var named struct {
		ID string `json:"key_id"`
	}
	if err := json.Unmarshal(e.Settings, &named); err != nil {
		return err
	}
	kid := named.ID
	if kid == "" {
		if kid, err = thumbprint(jwk); err != nil {
			return err
		}
	}
	keys := []map[string]string{}
	add := func(algorithms func(method.Config) map[string]string, use, kid string) {
		if algorithms == nil {
			return
		}
		if algorithm, ok := algorithms(e.Config)[privateKey]; ok {
			key := maps.Clone(jwk)
			key["alg"], key["use"], key["kid"] = algorithm, use, kid
			keys = append(keys, key)
		}
	}
	add(e.Of.Signs, "sig", kid)
	if len(keys) > 0 && named.ID == "" && e.Kind == oidc.Kind.Name {
		fmt.Fprintf(p.stderr, "client assertions of %s have no kid; if the provider needs one, set "+
			"key_id = %q\n", c.Name, kid)
	}
	add(e.Of.Decrypts, "enc", kid+"-enc") // some providers find a key by its kid alone
	if len(keys) == 0 {
		return usagef("%s uses its private key neither for client_auth nor for encryption", c.Name)
	}
	return printJSON(p, map[string]any{"keys": keys})
}

// jwkOf returns the members of a public key's JWK (RFC 7518, 8037) that its thumbprint is made of.
func jwkOf(spki []byte) (map[string]string, error) {
	public, err := x509.ParsePKIXPublicKey(spki)
	if err != nil {
		return nil, err
	}
	encode := base64.RawURLEncoding.EncodeToString
	switch k := public.(type) {
	case *ecdsa.PublicKey: // on P-256, by package signing
		point, err := k.Bytes()
		if err != nil {
			return nil, err
		}
		half := len(point) / 2
		return map[string]string{"kty": "EC", "crv": k.Params().Name, "x": encode(point[1 : 1+half]),
			"y": encode(point[1+half:])}, nil
	case *rsa.PublicKey:
		return map[string]string{"kty": "RSA", "n": encode(k.N.Bytes()),
			"e": encode(big.NewInt(int64(k.E)).Bytes())}, nil
	case ed25519.PublicKey:
		return map[string]string{"kty": "OKP", "crv": "Ed25519", "x": encode(k)}, nil
	}
	return nil, fmt.Errorf("a key of the type %T has no JWK", public)
}

// thumbprint returns the SHA-256 thumbprint of a JWK (RFC 7638). The members are sorted, as it demands.
func thumbprint(jwk map[string]string) (string, error) {
	text, err := json.Marshal(jwk)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return base64.RawURLEncoding.EncodeToString(sum[:]), nil
}
