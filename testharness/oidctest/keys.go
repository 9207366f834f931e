package oidctest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"maps"
	"math/big"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/golang-jwt/jwt/v5"
)

// signer is a key that signs tokens.
type signer struct {
	id      string
	private crypto.Signer
}

func newSigner(algorithm, id string) *signer {
	var private crypto.Signer
	var err error
	switch algorithm {
	case "ES256":
		private, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "RS256", "PS256":
		private, err = rsa.GenerateKey(rand.Reader, 2048)
	case "EdDSA":
		_, private, err = ed25519.GenerateKey(rand.Reader)
	default:
		panic("oidctest: the algorithm " + algorithm + " is not known")
	}
	if err != nil {
		panic("oidctest: " + err.Error()) // the system has no randomness
	}
	return &signer{id, private}
}

// addKey requires the lock, or a provider that is not shared yet.
func (p *Provider) addKey(algorithm string) {
	p.made++
	id := fmt.Sprintf("%s-%d", strings.ToLower(algorithm), p.made)
	p.keys[algorithm] = append(p.keys[algorithm], newSigner(algorithm, id))
}

// Rotate gives every algorithm a new key and forgets the old ones.
func (p *Provider) Rotate() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for algorithm := range p.keys {
		p.keys[algorithm] = nil
		p.addKey(algorithm)
	}
}

func (p *Provider) algorithms() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(maps.Keys(p.keys))
}

func (p *Provider) keySet() map[string]any {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := []any{}
	for algorithm, keys := range p.keys {
		for _, k := range keys {
			jwk := k.jwk()
			jwk["alg"], jwk["use"], jwk["kid"] = algorithm, "sig", k.id
			all = append(all, jwk)
		}
	}
	return map[string]any{"keys": all}
}

// DID names the issuer of credentials. Its document has the keys of the provider.
func (p *Provider) DID() string {
	u, err := url.Parse(p.config.Issuer)
	if err != nil {
		return ""
	}
	return "did:web:" + strings.ReplaceAll(u.Host, ":", "%3A")
}

func (p *Provider) didDocument() map[string]any {
	did := p.DID()
	p.mu.Lock()
	defer p.mu.Unlock()
	methods := []any{}
	for _, keys := range p.keys {
		for _, k := range keys {
			methods = append(methods, map[string]any{
				"type": "JsonWebKey", "id": did + "#" + k.id, "controller": did, "publicKeyJwk": k.jwk(),
			})
		}
	}
	return map[string]any{"id": did, "assertionMethod": methods}
}

// Key returns the key that signs with an algorithm, and its id, so that a test can forge tokens that
// the provider would never sign.
func (p *Provider) Key(algorithm string) (id string, private crypto.Signer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k, ok := p.current(algorithm)
	if !ok {
		return "", nil
	}
	return k.id, k.private
}

// KeySet returns the key set as the provider publishes it.
func (p *Provider) KeySet() map[string]any { return p.keySet() }

// Discovery returns the discovery document as the provider publishes it.
func (p *Provider) Discovery() map[string]any { return p.discovery() }

// SignCredential returns claims as a token that a key of the DID document has signed.
func (p *Provider) SignCredential(algorithm string, claims map[string]any) (string, error) {
	p.mu.Lock()
	k, ok := p.current(algorithm)
	p.mu.Unlock()
	if !ok {
		return "", fmt.Errorf("oidctest: no client uses %s, so there is no key for it", algorithm)
	}
	token := jwt.NewWithClaims(jwt.GetSigningMethod(algorithm), jwt.MapClaims(claims))
	token.Header["kid"] = p.DID() + "#" + k.id
	return token.SignedString(k.private)
}

// current needs the lock.
func (p *Provider) current(algorithm string) (*signer, bool) {
	keys := p.keys[algorithm]
	if len(keys) == 0 {
		return nil, false
	}
	return keys[len(keys)-1], true
}

// sign signs a token after Tamper's function has changed it. Rewrite's function changes the result.
func (p *Provider) sign(algorithm string, claims map[string]any) (string, error) {
	p.mu.Lock()
	k, ok := p.current(algorithm)
	tamper, rewrite := p.tamper, p.rewrite
	p.mu.Unlock()
	if !ok {
		return "", fmt.Errorf("oidctest: there is no key for %s", algorithm)
	}
	token := jwt.NewWithClaims(jwt.GetSigningMethod(algorithm), jwt.MapClaims(claims))
	token.Header["kid"] = k.id
	if tamper != nil {
		tamper(token.Header, claims)
	}
	signed, err := token.SignedString(k.private)
	if err == nil && rewrite != nil {
		signed = rewrite(signed)
	}
	return signed, err
}

func (k *signer) jwk() map[string]any {
	encode := base64.RawURLEncoding.EncodeToString
	switch public := k.private.Public().(type) {
	case *ecdsa.PublicKey:
		point, err := public.Bytes() // 4, x, y
		if err != nil {
			panic("oidctest: " + err.Error()) // it was generated here
		}
		return map[string]any{"kty": "EC", "crv": "P-256", "x": encode(point[1:33]), "y": encode(point[33:])}
	case *rsa.PublicKey:
		return map[string]any{"kty": "RSA", "n": encode(public.N.Bytes()),
			"e": encode(big.NewInt(int64(public.E)).Bytes())}
	case ed25519.PublicKey:
		return map[string]any{"kty": "OKP", "crv": "Ed25519", "x": encode(public)}
	}
	panic("oidctest: a key of an unknown type")
}

// authenticate returns the client of a request, by the one way that it is registered for.
func (p *Provider) authenticate(r *http.Request) (Client, bool) {
	form := r.PostForm
	user, password, basic := r.BasicAuth()
	if basic {
		id, idErr := url.QueryUnescape(user)
		secret, secretErr := url.QueryUnescape(password)
		client, ok := p.client(id)
		return client, ok && idErr == nil && secretErr == nil && client.Auth == "client_secret_basic" &&
			!form.Has("client_secret") && !form.Has("client_assertion") && same(client.Secret, secret)
	}
	client, ok := p.client(form.Get("client_id"))
	switch {
	case !ok:
		return Client{}, false
	case client.Auth == "client_secret_post":
		return client, !form.Has("client_assertion") && same(client.Secret, form.Get("client_secret"))
	case client.Auth == "private_key_jwt":
		return client, !form.Has("client_secret") && p.checkAssertion(client, form)
	}
	return Client{}, false
}

func same(a, b string) bool { return a != "" && subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// checkAssertion checks a client assertion (RFC 7523): signature, issuer, subject, audience, times, and that
// its id is new.
func (p *Provider) checkAssertion(client Client, form url.Values) bool {
	if form.Get("client_assertion_type") != "urn:ietf:params:oauth:client-assertion-type:jwt-bearer" {
		return false
	}
	claims := &jwt.RegisteredClaims{}
	parser := jwt.NewParser(jwt.WithValidMethods([]string{"ES256", "RS256", "PS256", "EdDSA"}),
		jwt.WithIssuer(client.ID), jwt.WithSubject(client.ID),
		jwt.WithAudience(p.config.Issuer, p.config.Issuer+TokenPath),
		jwt.WithExpirationRequired(), jwt.WithIssuedAt(), jwt.WithTimeFunc(p.config.Now))
	_, err := parser.ParseWithClaims(form.Get("client_assertion"), claims, func(*jwt.Token) (any, error) {
		return client.Key, nil
	})
	if err != nil || claims.ID == "" {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.seenJTI[claims.ID] {
		return false
	}
	p.seenJTI[claims.ID] = true
	return true
}

// challenge returns the PKCE challenge of a verifier.
func challenge(verifier string) string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// halfHash is an at_hash.
func halfHash(access, algorithm string) string {
	if algorithm == "EdDSA" {
		sum := sha512.Sum512([]byte(access))
		return base64.RawURLEncoding.EncodeToString(sum[:32])
	}
	sum := sha256.Sum256([]byte(access))
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}
