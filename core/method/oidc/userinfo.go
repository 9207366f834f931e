package oidc

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/internal/weburl"
)

// fetchUserinfo returns the claims of the userinfo endpoint about the ID token's subject (OpenID Connect
// Core, 5.3). The response is JSON, or a token that the provider has signed for this client. With
// userinfo_encryption, it is a token that is encrypted. Not all providers sign iss and aud with it. Without
// them, the endpoint, the access token and sub show the client and the user.
func (c *client) fetchUserinfo(
	ctx context.Context, meta metadata, granted tokens, idToken claims,
) (claims, error) {
	if granted.access == "" {
		return claims{}, fmt.Errorf("oidc: response of the token endpoint: %w", rejected(noAccess))
	}
	if !idToken.fitsAccess(granted.access) {
		return claims{}, fmt.Errorf("oidc: response of the token endpoint: %w", rejected(badAccessHash))
	}
	response, err := c.ask(ctx, "userinfo", host.FetchRequest{
		Method: "GET",
		URL:    meta.userinfo,
		Header: map[string]string{
			"Accept":        "application/json, application/jwt",
			"Authorization": "Bearer " + granted.access,
		},
		Timeout: documentTimeout,
	})
	if err != nil {
		return claims{}, err
	}
	if response.Status != 200 {
		return claims{}, fmt.Errorf("oidc: the userinfo endpoint: status %d: %w", response.Status,
			rejected(badStatus))
	}
	var info claims
	switch mediaType(response) {
	case "application/json":
		if c.encryptsUserinfo {
			return claims{}, fmt.Errorf("oidc: response of the userinfo endpoint: %w", rejected(notEncrypted))
		}
		if info.Object, err = readJSON("userinfo", response.Body); err != nil {
			return claims{}, err
		}
	case "application/jwt":
		token := strings.TrimSpace(string(response.Body)) // some servers end it with a line break
		if c.encryptsUserinfo || c.encryptsIDToken && isEncrypted(token) {
			if token, err = c.decrypt(ctx, token, true); err != nil {
				return claims{}, err
			}
		}
		info, err = c.verify(ctx, token, c.providerKeys(ctx, meta), rules{issuer: c.issuer, bare: true})
		if err != nil {
			return claims{}, err
		}
	default:
		return claims{}, fmt.Errorf("oidc: response of the userinfo endpoint: %w", rejected(badMediaType))
	}
	if info.text("sub") != idToken.text("sub") {
		return claims{}, fmt.Errorf("oidc: response of the userinfo endpoint: %w", rejected(otherSubject))
	}
	return info, nil
}

// openCredential returns the claims of the token inside the claims. there is false if the claim is missing or
// no text.
func (c *client) openCredential(ctx context.Context, outer claims) (inner claims, there bool, err error) {
	o := outer.Object
	last := len(c.credential.claim) - 1
	for _, name := range c.credential.claim[:last] {
		o, _ = o.Value(name).Object()
	}
	raw := claims{o}.text(c.credential.claim[last])
	if raw == "" {
		return claims{}, false, nil
	}
	inner, err = c.verify(ctx, raw, c.credentialKeys(ctx), rules{issuer: c.credential.issuer, dated: true})
	if err != nil {
		return claims{}, true, fmt.Errorf("oidc: the credential: %w", err)
	}
	if inner.text("sub") != outer.text("sub") {
		return claims{}, true, fmt.Errorf("oidc: the credential: %w", rejected(badSubject))
	}
	return inner, true, nil
}

// credentialKeys returns the keys of who signs credentials.
func (c *client) credentialKeys(ctx context.Context) keySource {
	address, _ := didDocument(c.credential.did, c.dev)
	return keySource{&c.signers, func() (keySet, error) {
		document, err := c.document(ctx, "DID document", address)
		if err != nil {
			return nil, err
		}
		list, ok := document.Value("assertionMethod").List()
		if !ok || len(list) > maxKeys || (claims{document}).text("id") != c.credential.did {
			return nil, fmt.Errorf("oidc: the DID document: %w", rejected(badKeySet))
		}
		var keys keySet
		for _, v := range list {
			entry, _ := v.Object()
			jwk, _ := entry.Value("publicKeyJwk").Object()
			k, ok := readKey(jwk)
			if !ok || (claims{entry}).text("controller") != c.credential.did {
				continue
			}
			if k.id = (claims{entry}).text("id"); k.id != "" {
				keys = append(keys, k)
			}
		}
		return keys, nil
	}}
}

// didDocument returns where the document of a did:web without a path is. A port is written as %3A, and only
// such a host may be reached by http, in dev.
func didDocument(did string, dev bool) (address string, ok bool) {
	escaped, found := strings.CutPrefix(did, "did:web:")
	host, err := url.PathUnescape(escaped)
	if !found || err != nil || strings.ContainsAny(host, "/?#@") || strings.Count(host, ":") > 1 ||
		strings.Contains(escaped, ":") {
		return "", false
	}
	address = "https://" + host + "/.well-known/did.json"
	if local := "http://" + host + "/.well-known/did.json"; dev && weburl.IsEndpoint(local, true) {
		address = local
	}
	return address, weburl.IsEndpoint(address, dev)
}
