package mdoc

import (
	"context"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/verge-id/verge/core/internal/jws"
	"github.com/verge-id/verge/core/internal/signature"
	"github.com/verge-id/verge/core/internal/strict64"
	"github.com/verge-id/verge/core/internal/strictjson"
)

// Limits of the operator's files with keys of issuers.
const (
	maxKeyFile    = 64 << 10
	maxIssuerKeys = 64
	maxKeyID      = 512
)

// IssuerKey is a public key of an issuer that has a DID instead of certificates. The operator has verified
// that it is the DID's key. The zero value is no key.
type IssuerKey struct {
	ID string // the DID URL that tokens have as kid: the DID, "#", and the name of the key

	key         signature.Key
	fingerprint string
}

// DID returns the DID of the issuer.
func (k IssuerKey) DID() string {
	did, _, _ := strings.Cut(k.ID, "#")
	return did
}

// Fingerprint returns the SHA-256 of the key and its ID in hex. A key that replaces another one under the
// same ID has another fingerprint.
func (k IssuerKey) Fingerprint() string { return k.fingerprint }

// ParseIssuerKeys reads a JWK Set whose keys are on P-256, P-384 or P-521 and have a DID URL as kid. The
// error names the key by its place.
func ParseIssuerKeys(b []byte) (keys []IssuerKey, err error) {
	if len(b) > maxKeyFile {
		return nil, fmt.Errorf("the file has %d bytes; at most %d are allowed", len(b), maxKeyFile)
	}
	o, err := strictjson.Read(b)
	list, ok := o.Value("keys").List()
	if err != nil || !ok || len(list) == 0 || len(list) > maxIssuerKeys {
		return nil, fmt.Errorf("it is no JWK Set of 1 to %d keys; make it with `verge method did-keys`",
			maxIssuerKeys)
	}
	for i, v := range list {
		k, err := readIssuerKey(v)
		if err != nil {
			return nil, fmt.Errorf("key %d: %w", i+1, err)
		}
		keys = append(keys, k)
	}
	return keys, nil
}

// Errors of ParseIssuerKeys.
var (
	errKeyID   = errors.New("its kid must be a DID URL, such as did:webvh:…#key-1")
	errKey     = errors.New("it must be a public key on P-256, P-384 or P-521")
	errPrivate = errors.New("it is a private key; write its public part only, and replace the key")
)

func readIssuerKey(v strictjson.Value) (k IssuerKey, err error) {
	o, _ := v.Object()
	if o.Has("d") {
		return k, errPrivate
	}
	if k.ID, _ = o.Value("kid").Text(); !IsKeyID(k.ID) {
		return k, errKeyID
	}
	var ok bool
	if k.key, ok = ECKey(o); !ok {
		return k, errKey
	}
	hash := sha256.New()
	for _, name := range []string{"kid", "crv", "x", "y"} {
		text, _ := o.Value(name).Text()
		hash.Write([]byte(text + "\n")) // none of them has a line break
	}
	k.fingerprint = hex.EncodeToString(hash.Sum(nil))
	return k, nil
}

// IsKeyID reports whether a text is the DID URL of a key: a DID, one "#", and a name.
func IsKeyID(id string) bool {
	did, name, ok := strings.Cut(id, "#")
	method, rest, _ := strings.Cut(strings.TrimPrefix(did, "did:"), ":")
	const letters, digits = "abcdefghijklmnopqrstuvwxyz", "0123456789"
	const marks = letters + "ABCDEFGHIJKLMNOPQRSTUVWXYZ" + digits + ".-_"
	of := func(text, allowed string) bool { return text != "" && strings.Trim(text, allowed) == "" }
	return ok && len(id) <= maxKeyID && strings.HasPrefix(did, "did:") && of(method, letters+digits) &&
		of(rest, marks+":%") && of(name, marks)
}

// ECKey returns the key of a JWK (RFC 7518, 6.2) that verifies signatures.
func ECKey(jwk strictjson.Object) (k signature.Key, ok bool) {
	text := func(name string) string {
		s, _ := jwk.Value(name).Text()
		return s
	}
	x, okX := strict64.Decode(text("x"))
	y, okY := strict64.Decode(text("y"))
	if text("kty") != "EC" || !okX || !okY {
		return k, false
	}
	var curve elliptic.Curve
	switch text("crv") {
	case "P-256":
		curve = elliptic.P256()
	case "P-384":
		curve = elliptic.P384()
	case "P-521":
		curve = elliptic.P521()
	}
	return signature.EC(curve, x, y)
}

// verifyByKey verifies that the issuer's key which a token names by its kid has signed it. The claim iss is
// not used, because it is not bound to the key. The error is a *Rejection, or the host's.
func (a Ask) verifyByKey(ctx context.Context, t jws.Token, bad string) (IssuerKey, error) {
	for _, k := range a.Keys {
		if k.ID == t.KeyID {
			return k, checkJWS(ctx, a.Verify, t, k.key, bad)
		}
	}
	if IsKeyID(t.KeyID) {
		return IssuerKey{}, rejected(untrusted)
	}
	return IssuerKey{}, rejected(badChain)
}
