package openid

import (
	"encoding/base64"
	"errors"
	"slices"
	"strconv"

	"github.com/verge-id/verge/core/internal/signature"
)

// maxKeys is the maximum number of keys of a provider. A rotation needs two.
const maxKeys = 8

// key is a public key of the provider.
type key struct {
	id   string // its JWK thumbprint (RFC 7638)
	json string // its JWK, the input of the thumbprint
}

// Keys are the keys of a provider. The first one signs, and all are published.
type Keys []key

// IDs returns the ids of the keys.
func (k Keys) IDs() (ids []string) {
	for _, one := range k {
		ids = append(ids, one.id)
	}
	return ids
}

// KeyName returns the host's name of the private key at that place of the list, from 1.
func KeyName(n int) string { return "oidc-provider_" + strconv.Itoa(n) }

var errKeys = errors.New("it must have at most 8 different keys, each a public key on P-256")

// ParseKeys reads public keys on P-256, each a SubjectPublicKeyInfo in base64.
func ParseKeys(texts []string) (keys Keys, err error) {
	for _, text := range texts {
		spki, err := base64.StdEncoding.DecodeString(text)
		x, y, ok := signature.P256(spki)
		if err != nil || !ok || len(keys) == maxKeys {
			return nil, errKeys
		}
		jwk := `{"crv":"P-256","kty":"EC","x":"` + encode(x) + `","y":"` + encode(y) + `"}`
		k := key{encode(hashOf(jwk)), jwk}
		if slices.Contains(keys, k) {
			return nil, errKeys
		}
		keys = append(keys, k)
	}
	return keys, nil
}
