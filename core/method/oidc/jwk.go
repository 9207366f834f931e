package oidc

import (
	"context"
	"crypto/elliptic"
	"fmt"
	"slices"
	"time"

	"github.com/verge-id/verge/core/internal/fetchcache"
	"github.com/verge-id/verge/core/internal/jws"
	"github.com/verge-id/verge/core/internal/signature"
	"github.com/verge-id/verge/core/internal/strict64"
	"github.com/verge-id/verge/core/internal/strictjson"
)

// Algorithms that a token may be signed with (contract 36).
var algorithms = []string{"RS256", "PS256", "ES256", "EdDSA", ed25519}

// ed25519 is the name of EdDSA with Ed25519 in RFC 9864, which deprecates the name EdDSA.
const ed25519 = "Ed25519"

// known returns the name of an algorithm in host.VerifyFunc.
func known(algorithm string) string {
	if algorithm == ed25519 {
		return "EdDSA"
	}
	return algorithm
}

// maxKeys is the maximum number of keys in a key set.
const maxKeys = 64

// key is a public key that signatures may be checked with.
type key struct {
	id     string   // "" if it has none
	verify []string // the algorithms that it is for
	public signature.Key
}

type keySet []key

// find returns the key for a token, if the set leaves no choice. So where two keys have the same id and
// algorithm, neither is used.
func (s keySet) find(id, algorithm string) (key, bool) {
	var found []key
	for _, k := range s {
		if slices.Contains(k.verify, algorithm) && (id == "" || k.id == id) {
			found = append(found, k)
		}
	}
	if len(found) != 1 {
		return key{}, false
	}
	return found[0], true
}

// providerKeys returns the provider's keys.
func (c *client) providerKeys(ctx context.Context, meta metadata) keySource {
	return keySource{&c.keys, func() (keySet, error) {
		document, err := c.document(ctx, "key set", meta.jwks)
		if err != nil {
			return nil, err
		}
		return readKeys(document)
	}}
}

// keySource is a key set that can be asked for again.
type keySource struct {
	kept  *fetchcache.Document[keySet]
	fetch func() (keySet, error)
}

// find returns the key for a token. If the kept set has no such key, the provider may have a new one, so the
// set is fetched again, at most once a minute. fresh reports that the set was fetched just now.
func (s keySource) find(now time.Time, t jws.Token) (k key, fresh bool, err error) {
	keys, fresh, err := keptBy(s.kept, now, s.fetch)
	if err != nil {
		return key{}, fresh, err
	}
	k, ok := keys.find(t.KeyID, t.Algorithm)
	switch {
	case ok:
		return k, fresh, nil
	case fresh || !s.kept.MayRenew(now, policy):
		return key{}, fresh, rejected(noKey)
	}
	k, err = s.renew(now, t)
	return k, true, err
}

// renew fetches the set again and returns the key for a token. The caller has asked MayRenew.
func (s keySource) renew(now time.Time, t jws.Token) (key, error) {
	keys, err := s.fetch()
	if err != nil {
		return key{}, err
	}
	s.kept.Put(now, copyOf(keys, now))
	k, ok := keys.find(t.KeyID, t.Algorithm)
	if !ok {
		return key{}, rejected(noKey)
	}
	return k, nil
}

// readKeys reads a JWK set (RFC 7517). Keys that cannot check a signature are left out.
func readKeys(o strictjson.Object) (keySet, error) {
	list, ok := o.Value("keys").List()
	if !ok || len(list) > maxKeys {
		return nil, fmt.Errorf("oidc: the key set: %w", rejected(badKeySet))
	}
	var keys keySet
	for _, v := range list {
		if jwk, ok := v.Object(); ok {
			if k, ok := readKey(jwk); ok {
				keys = append(keys, k)
			}
		}
	}
	return keys, nil
}

// readKey reads one JWK. It is not ok if the key is not for checking signatures, is of another type, or is
// weak or malformed.
func readKey(o strictjson.Object) (k key, ok bool) {
	c := claims{o}
	if use := o.Value("use"); use.Present() && c.text("use") != "sig" {
		return key{}, false
	}
	if ops := o.Value("key_ops"); ops.Present() && !slices.Contains(texts(ops), "verify") {
		return key{}, false
	}
	switch c.text("kty") + " " + c.text("crv") {
	case "RSA ":
		k.verify = []string{"RS256", "PS256"}
		k.public, ok = readRSA(c)
	case "EC P-256":
		k.verify = []string{"ES256"}
		k.public, ok = readP256(c)
	case "OKP " + ed25519:
		k.verify = []string{"EdDSA"}
		k.public, ok = readEd25519(c)
	}
	if !ok {
		return key{}, false
	}
	if alg := o.Value("alg"); alg.Present() {
		by := known(c.text("alg"))
		if !slices.Contains(k.verify, by) {
			return key{}, false
		}
		k.verify = []string{by}
	}
	if id := o.Value("kid"); id.Present() {
		if k.id = c.text("kid"); k.id == "" {
			return key{}, false
		}
	}
	return k, true
}

// bytes returns the bytes of a key's member. Some providers pad its base64url; the bytes are the same.
func (c claims) bytes(name string) ([]byte, bool) { return strict64.DecodePadded(c.text(name)) }

// readRSA allows exponents up to 32 bits, the limit of common libraries.
func readRSA(c claims) (signature.Key, bool) {
	n, okN := c.bytes("n")
	e, okE := c.bytes("e")
	if !okN || !okE {
		return signature.Key{}, false
	}
	return signature.RSA(n, e)
}

// readP256 rejects a point that is not on the curve.
func readP256(c claims) (signature.Key, bool) {
	x, okX := c.bytes("x")
	y, okY := c.bytes("y")
	if !okX || !okY {
		return signature.Key{}, false
	}
	return signature.EC(elliptic.P256(), x, y)
}

func readEd25519(c claims) (signature.Key, bool) {
	x, ok := c.bytes("x")
	if !ok {
		return signature.Key{}, false
	}
	return signature.Ed25519(x)
}
