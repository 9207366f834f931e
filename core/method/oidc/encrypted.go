package oidc

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/verge-id/verge/core/internal/jwe"
)

// isEncrypted reports whether a token has the form of a JWE instead of a JWS.
func isEncrypted(token string) bool { return strings.Count(token, ".") == 4 }

// decrypt returns the plaintext of a token that is encrypted for the method's key. Anyone can encrypt for a
// public key, so the plaintext must be a signed token (RFC 7519, 5.2). An error is a *method.Rejection, or
// the host's, which could not decrypt. The plaintext may be compressed if zip is true.
func (c *client) decrypt(ctx context.Context, token string, zip bool) (string, error) {
	if !isEncrypted(token) {
		return "", rejected(notEncrypted)
	}
	m, err := jwe.Read(token, jwe.Rules{Size: maxDocument, Algorithms: c.encryptions(),
		Encryptions: jwe.Encryptions, Deflate: zip})
	switch {
	case err == jwe.ErrForm, err == jwe.ErrSize:
		return "", rejected(badJWE)
	case err == jwe.ErrAlgorithm:
		return "", fmt.Errorf("oidc: a token is encrypted by %s and %s; let the provider encrypt for this "+
			"client by %s, and by one of %s: %w", named(m.Algorithm), named(m.Encryption),
			strings.Join(c.encryptions(), " or "), strings.Join(jwe.Encryptions, ", "),
			rejected(badEncryption))
	case err == jwe.ErrEphemeral:
		return "", rejected(badEphemeral)
	case err != nil, !slices.Contains([]string{"", "jwt", "application/jwt"}, strings.ToLower(m.Type)):
		return "", rejected(badJWEHeader)
	}
	message := m.Key
	if m.Ephemeral != nil {
		message = m.Ephemeral.Bytes()
	}
	secret, err := c.host.Decrypt(ctx, c.key, decrypts[c.keyAlg], message)
	if err != nil {
		return "", fmt.Errorf("oidc: decrypting a token: %w", err)
	}
	if m.Ephemeral != nil && len(secret) > 0 {
		secret = m.Derive(secret)
	}
	plain, ok := m.Open(secret) // no key is empty
	if ok && m.Deflated {
		plain, err = jwe.Inflate(plain, maxDocument)
	}
	switch {
	case err == jwe.ErrSize:
		return "", rejected(tooLarge)
	case err != nil, !ok:
		return "", rejected(notOpened)
	}
	return string(plain), nil
}
