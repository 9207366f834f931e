package wallettest

import (
	"context"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/golang-jwt/jwt/v5"
)

// Request is a request of OpenID4VP as the wallet understands it.
type Request struct {
	ClientID, Nonce, State    string
	ResponseMode, ResponseURI string

	Query     string   // the id of the credential that is asked for
	DocType   string   // of it
	Namespace string   // of the elements
	Elements  []string // that the wallet has, of those that are asked for

	Format   string    // of the credential
	Circuits []Circuit // for a proof, if the format is mso_mdoc_zk

	Types  []string   // of it, if the format is dc+sd-jwt
	Claims [][]string // that the wallet has, in that format

	Signer  *x509.Certificate // of a signed request; nil: its key is of a DID
	Profile string            // of a signed request by a DID: its header profile_version

	VerifierInfo json.RawMessage // of the service, as it was sent; nil: none

	// Of direct_post.jwt and dc_api.jwt.
	KeyID      string
	Key        *ecdh.PublicKey
	Thumbprint []byte
	Encryption string // A128GCM or A256GCM
}

// parameters are the parameters of a request, by any transport.
type parameters struct {
	ResponseType string          `json:"response_type"`
	ResponseMode string          `json:"response_mode"`
	ClientID     string          `json:"client_id"`
	ResponseURI  string          `json:"response_uri"`
	Nonce        string          `json:"nonce"`
	State        string          `json:"state"`
	Query        json.RawMessage `json:"dcql_query"`
	Metadata     json.RawMessage `json:"client_metadata"`
	VerifierInfo json.RawMessage `json:"verifier_info"`
	WalletNonce  string          `json:"wallet_nonce"`
	Origins      []string        `json:"expected_origins"`
	Profile      string          `json:"-"` // the header profile_version
}

// Open reads a link. If it names a request_uri, Open fetches the request from there and verifies its
// signature. The error names the part of the request that the wallet does not accept.
func (w *Wallet) Open(ctx context.Context, link string) (*Request, error) {
	u, err := url.Parse(link)
	if err != nil {
		return nil, fmt.Errorf("wallettest: the link: %w", err)
	}
	q := u.Query()
	for name, values := range q {
		if len(values) > 1 {
			return nil, fmt.Errorf("wallettest: the link has %s twice", name)
		}
	}
	if q.Has("request_uri") {
		return w.openReference(ctx, q)
	}
	p := parameters{
		ResponseType: q.Get("response_type"), ResponseMode: q.Get("response_mode"),
		ClientID: q.Get("client_id"), ResponseURI: q.Get("response_uri"),
		Nonce: q.Get("nonce"), State: q.Get("state"),
		Query: json.RawMessage(q.Get("dcql_query")), Metadata: json.RawMessage(q.Get("client_metadata")),
	}
	// An unsigned request is identified only by its response address.
	if p.ClientID != "redirect_uri:"+p.ResponseURI {
		return nil, fmt.Errorf("wallettest: the client_id of an unsigned request is %q, "+
			"want redirect_uri: and the response_uri %q", p.ClientID, p.ResponseURI)
	}
	return w.read(p, "direct_post")
}

// openReference gets and verifies a request object. A request_uri_method of post is followed, with a
// wallet_nonce, unless the wallet does not support that.
func (w *Wallet) openReference(ctx context.Context, q url.Values) (*Request, error) {
	verb, form, nonce := http.MethodGet, url.Values{}, ""
	if q.Get("request_uri_method") == "post" && !w.OnlyGet {
		verb, nonce = http.MethodPost, randomText(w.Random)
		form = url.Values{"wallet_nonce": {nonce}, "wallet_metadata": {`{"vp_formats_supported":{}}`}}
	}
	get, err := http.NewRequestWithContext(ctx, verb, q.Get("request_uri"), strings.NewReader(form.Encode()))
	if err != nil {
		return nil, fmt.Errorf("wallettest: request_uri: %w", err)
	}
	const mediaType = "application/oauth-authz-req+jwt"
	if nonce != "" {
		get.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	get.Header.Set("Accept", mediaType)
	resp, err := w.client().Do(get)
	if err != nil {
		return nil, fmt.Errorf("wallettest: request_uri: %w", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return nil, fmt.Errorf("wallettest: request_uri: %w", err)
	}
	got, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if resp.StatusCode != http.StatusOK || got != mediaType {
		return nil, fmt.Errorf("wallettest: request_uri answers %d with %q, want 200 with %s",
			resp.StatusCode, got, mediaType)
	}
	p, signer, err := w.verifyObject(string(body), "")
	if err != nil {
		return nil, fmt.Errorf("wallettest: the request object: %w", err)
	}
	if p.WalletNonce != nonce {
		return nil, fmt.Errorf("wallettest: the wallet_nonce is %q, want %q", p.WalletNonce, nonce)
	}
	if p.ClientID != q.Get("client_id") {
		return nil, fmt.Errorf("wallettest: the client_id is %q in the link and %q in the request object",
			q.Get("client_id"), p.ClientID)
	}
	r, err := w.read(p, "direct_post")
	if err == nil {
		r.Signer = signer
	}
	return r, err
}

// verifyObject verifies a signed request (RFC 9101) by the certificate that it brings. origin is the page's,
// "" for a request by link.
func (w *Wallet) verifyObject(compact, origin string) (p parameters, signer *x509.Certificate, err error) {
	var chain []*x509.Certificate
	key := func(t *jwt.Token) (any, error) {
		if t.Header["typ"] != "oauth-authz-req+jwt" {
			return nil, fmt.Errorf("typ is %v", t.Header["typ"])
		}
		if kid, ok := t.Header["kid"].(string); ok && t.Header["x5c"] == nil {
			if public := w.Services[kid]; public != nil {
				return public, nil
			}
			return nil, fmt.Errorf("kid: no service has the key %q", kid)
		}
		list, _ := t.Header["x5c"].([]any)
		for _, v := range list {
			text, _ := v.(string)
			der, err := base64.StdEncoding.DecodeString(text)
			if err != nil {
				return nil, fmt.Errorf("x5c: %w", err)
			}
			c, err := x509.ParseCertificate(der)
			if err != nil {
				return nil, fmt.Errorf("x5c: %w", err)
			}
			chain = append(chain, c)
		}
		if len(chain) == 0 {
			return nil, errors.New("x5c: there is no certificate")
		}
		public, ok := chain[0].PublicKey.(*ecdsa.PublicKey)
		if !ok {
			return nil, errors.New("x5c: the key is not ECDSA")
		}
		return public, nil
	}
	claims := jwt.MapClaims{}
	token, err := jwt.ParseWithClaims(compact, claims, key, jwt.WithValidMethods([]string{"ES256"}),
		jwt.WithAudience("https://self-issued.me/v2"), jwt.WithTimeFunc(w.now))
	if err != nil {
		return p, nil, err
	}
	written, err := json.Marshal(claims)
	if err == nil {
		err = json.Unmarshal(written, &p)
	}
	if err != nil {
		return p, nil, err
	}
	if len(chain) == 0 {
		kid, _ := token.Header["kid"].(string)
		did, _, _ := strings.Cut(kid, "#")
		p.Profile, _ = token.Header["profile_version"].(string)
		if p.ClientID != "decentralized_identifier:"+did {
			return p, nil, fmt.Errorf("client_id is %q, and the key is of %s", p.ClientID, did)
		}
		return p, nil, nil
	}
	service := p.ResponseURI
	if origin != "" {
		service = origin
	}
	return p, chain[0], w.checkClient(p, service, chain)
}

// checkClient checks that the certificate is the client's. service is an address of the client.
func (w *Wallet) checkClient(p parameters, service string, chain []*x509.Certificate) error {
	leaf := chain[0]
	if w.Verifiers != nil {
		between := x509.NewCertPool()
		for _, c := range chain[1:] {
			between.AddCert(c)
		}
		if _, err := leaf.Verify(x509.VerifyOptions{
			Roots: w.Verifiers, Intermediates: between, CurrentTime: w.now(),
			KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
		}); err != nil {
			return err
		}
	}
	prefix, id, _ := strings.Cut(p.ClientID, ":")
	switch prefix {
	case "x509_san_dns":
		u, err := url.Parse(service)
		if err != nil {
			return err
		}
		if !slices.Contains(leaf.DNSNames, id) || u.Hostname() != id {
			return fmt.Errorf("client_id names %q, the certificate %q, the address is of %q",
				id, leaf.DNSNames, u.Hostname())
		}
	case "x509_hash":
		if hash := sha256.Sum256(leaf.Raw); id != encode(hash[:]) {
			return fmt.Errorf("client_id has the hash %q, the certificate %q", id, encode(hash[:]))
		}
	default:
		return fmt.Errorf("client_id is %q, and the wallet knows x509_san_dns and x509_hash", p.ClientID)
	}
	return nil
}

// dcql is a query of the Digital Credentials Query Language, as far as documents need it.
type dcql struct {
	Credentials []struct {
		ID     string
		Format string
		Meta   struct {
			DocType string   `json:"doctype_value"`
			Types   []string `json:"vct_values"`

			Circuits []Circuit `json:"zk_system_type"`
		}
		Claims []struct {
			ID   string
			Path []string
		}
		ClaimSets [][]string `json:"claim_sets"`
	}
	Sets []struct{ Options [][]string } `json:"credential_sets"`
}

// read understands a request, whose response mode is one of these, with .jwt at its end if the response is
// encrypted.
func (w *Wallet) read(p parameters, mode string) (*Request, error) {
	r := &Request{
		ClientID: p.ClientID, Nonce: p.Nonce, State: p.State,
		ResponseMode: p.ResponseMode, ResponseURI: p.ResponseURI, Profile: p.Profile,
		VerifierInfo: p.VerifierInfo,
	}
	if p.ResponseType != "vp_token" || p.Nonce == "" || p.ResponseURI == "" && mode == "direct_post" {
		return nil, fmt.Errorf("wallettest: response_type is %q, nonce %q, response_uri %q",
			p.ResponseType, p.Nonce, p.ResponseURI)
	}
	var query dcql
	if err := json.Unmarshal(p.Query, &query); err != nil {
		return nil, fmt.Errorf("wallettest: dcql_query: %w", err)
	}
	if err := w.choose(query, r); err != nil {
		return nil, err
	}
	switch r.ResponseMode {
	case mode:
		return r, nil
	case mode + ".jwt":
		return r, r.readMetadata(p.Metadata)
	}
	return nil, fmt.Errorf("wallettest: response_mode is %q; the wallet knows %s and %[2]s.jwt here",
		r.ResponseMode, mode)
}

// choose takes the first credential in the wallet's format, and of it the first set of claims that the wallet
// has. Several credentials must be alternatives.
func (w *Wallet) choose(query dcql, r *Request) error {
	if r.Format = w.Format; r.Format == "" {
		r.Format = formatMdoc
		for _, c := range query.Credentials {
			if c.Format == formatZK && w.Prove != nil {
				r.Format = formatZK
			}
		}
	}
	at := 0
	for at < len(query.Credentials) && query.Credentials[at].Format != r.Format {
		at++
	}
	if at == len(query.Credentials) {
		return fmt.Errorf("wallettest: dcql_query asks for %+v, want a credential of format %s",
			query.Credentials, r.Format)
	}
	c := query.Credentials[at]
	isOption := func(ids []string) bool { return len(ids) == 1 && ids[0] == c.ID }
	if len(query.Credentials) > 1 && (len(query.Sets) != 1 ||
		!slices.ContainsFunc(query.Sets[0].Options, isOption)) {
		return fmt.Errorf("wallettest: dcql_query asks for more than %s: %+v", c.ID, query.Sets)
	}
	r.Query, r.DocType, r.Types, r.Circuits = c.ID, c.Meta.DocType, c.Meta.Types, c.Meta.Circuits
	if len(c.ClaimSets) == 0 {
		var all []string
		for i := range c.Claims {
			if c.Claims[i].ID == "" {
				c.Claims[i].ID = fmt.Sprint("claim ", i)
			}
			all = append(all, c.Claims[i].ID)
		}
		c.ClaimSets = [][]string{all}
	}
	for _, set := range c.ClaimSets {
		var names []string
		for _, claim := range c.Claims {
			if !slices.Contains(set, claim.ID) {
				continue
			}
			if r.Format == formatSDJWT {
				if w.hasClaim(claim.Path) {
					names = append(names, claim.ID)
					r.Claims = append(r.Claims, claim.Path)
				}
				continue
			}
			if len(claim.Path) != 2 || r.Namespace != "" && r.Namespace != claim.Path[0] {
				return fmt.Errorf("wallettest: dcql_query has the path %q, want the namespace and an element",
					claim.Path)
			}
			r.Namespace = claim.Path[0]
			if _, ok := w.Elements[claim.Path[1]]; ok {
				names = append(names, claim.Path[1])
			}
		}
		if len(names) == len(set) {
			r.Elements = names
			return nil
		}
	}
	return fmt.Errorf("wallettest: the wallet has none of the sets of claims %q", c.ClaimSets)
}

// readMetadata reads the key to which the response is encrypted.
func (r *Request) readMetadata(raw json.RawMessage) error {
	var metadata struct {
		Keys struct {
			Keys []struct{ Kty, Crv, X, Y, Use, Alg, Kid string }
		} `json:"jwks"`
		Encryptions []string `json:"encrypted_response_enc_values_supported"`
	}
	if err := json.Unmarshal(raw, &metadata); err != nil {
		return fmt.Errorf("wallettest: client_metadata: %w", err)
	}
	for _, k := range metadata.Keys.Keys {
		x, errX := base64.RawURLEncoding.DecodeString(k.X)
		y, errY := base64.RawURLEncoding.DecodeString(k.Y)
		if k.Kty != "EC" || k.Crv != "P-256" || k.Use == "sig" || k.Alg != "ECDH-ES" || errX != nil ||
			errY != nil {
			continue
		}
		public, err := ecdh.P256().NewPublicKey(slices.Concat([]byte{4}, x, y))
		if err != nil {
			return fmt.Errorf("wallettest: client_metadata: %w", err)
		}
		hash := sha256.Sum256(fmt.Appendf(nil, `{"crv":"P-256","kty":"EC","x":"%s","y":"%s"}`, k.X, k.Y))
		r.Key, r.KeyID, r.Thumbprint = public, k.Kid, hash[:]
		break
	}
	if r.Key == nil {
		return errors.New("wallettest: client_metadata has no key on P-256 for ECDH-ES")
	}
	r.Encryption = "A128GCM" // which OpenID4VP makes the default
	for _, e := range metadata.Encryptions {
		if e == "A128GCM" || e == "A256GCM" {
			r.Encryption = e
			break
		}
	}
	return nil
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }
